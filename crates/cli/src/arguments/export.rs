//! The arguments of `export`.

use std::path::PathBuf;

use clap::Args;
use docstokg_content::export::ExportFormat;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Directory of the download
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Format: bibtex, ris, csl, csv, jsonld or ro-crate
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub to: ExportFormat,
    /// Write to FILE instead of stdout; ro-crate has a file in DIR
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Include works without a file; csv always does
    #[arg(long)]
    pub all: bool,
}

fn format(text: &str) -> Result<ExportFormat, String> {
    let found = ExportFormat::ALL
        .into_iter()
        .find(|format| format.as_str() == text);
    found.ok_or_else(|| {
        let known = ExportFormat::ALL.map(ExportFormat::as_str);
        format!("known are {}", known.join(", "))
    })
}
