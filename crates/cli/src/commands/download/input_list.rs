//! The inputs of a run as they are stored, so that a later run can read them to their end.

use std::path::{Path, PathBuf};

use docstokg_content::run::inputs::UserInput;
use docstokg_hub::redact_text;
use serde::{Deserialize, Serialize};

use crate::arguments::DownloadArguments;

/// The inputs of a run, so that a later one can read them to their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct InputList {
    /// Absolute paths, and works of the command line.
    pub(super) texts: Vec<String>,
    /// The format, as its flag says.
    pub(super) format: String,
    /// Set if the inputs were given as untrusted.
    pub(super) is_untrusted: bool,
    /// Set if the list is complete. Stdin cannot be read again, and credentials are not stored.
    pub(super) is_whole: bool,
}

impl Default for InputList {
    fn default() -> Self {
        Self {
            texts: Vec::new(),
            format: "auto".to_owned(),
            is_untrusted: false,
            is_whole: true,
        }
    }
}

/// Returns the name by which a list is known again; `None` for a work.
pub(super) fn list_name(input: &str) -> Option<String> {
    match input {
        "-" => Some("-".to_owned()),
        _ if Path::new(input).exists() => Some(absolute(input)),
        _ => None,
    }
}

fn absolute(path: &str) -> String {
    let found = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    found.display().to_string()
}

impl InputList {
    /// Returns the inputs of a command.
    pub(super) fn of(arguments: &DownloadArguments) -> Self {
        let read_again = |input: &String| match input.as_str() {
            "-" => None,
            path if Path::new(path).is_file() => Some(absolute(path)),
            path if Path::new(path).exists() => None,
            work => (redact_text(work) == work).then(|| work.to_owned()),
        };
        let texts: Vec<String> = arguments.inputs.iter().filter_map(read_again).collect();
        Self {
            is_whole: texts.len() == arguments.inputs.len(),
            texts,
            format: arguments.list_format().to_owned(),
            is_untrusted: arguments.untrusted_input,
        }
    }

    /// Opens the inputs again.
    ///
    /// # Errors
    /// One of them is gone; the message names it.
    pub(super) fn reopen(&self) -> Result<Vec<UserInput>, String> {
        self.texts
            .iter()
            .map(|text| UserInput::parse(text))
            .collect()
    }
}
