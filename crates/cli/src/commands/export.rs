//! `docstokg export`: the works of a directory in the formats of other programs.

use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use docstokg_bulk::directory::Directory;
use docstokg_bulk::queue::CommitMode;
use docstokg_content::export::{ExportFormat, ExportOptions, ExportOutput, export};
use docstokg_content::run;
use docstokg_hub::clock::{Clock, TokioRuntime};
use docstokg_hub::files::beside;

use crate::arguments::{ExportArguments, GlobalArguments};
use crate::exit::CommandFailure;
use crate::output;
use crate::session::{self, TaskThreads};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &ExportArguments,
) -> Result<ExitCode, CommandFailure> {
    let directory = &arguments.directory;
    if !Directory::was_used(directory) {
        let message = format!("{} has no earlier run to export", directory.display());
        return Err(CommandFailure::Usage(message));
    }
    let format = arguments.to;
    let own = format.file_name().map(|name| directory.join(name));
    let file = arguments.output.clone().or(own);
    let path_prefix = match &file {
        Some(file) => way_to(directory, file)?,
        None => String::new(),
    };
    if format == ExportFormat::RoCrate && !path_prefix.is_empty() {
        let message = "the metadata of an RO-Crate lies beside its files: leave out --output";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let options = ExportOptions {
        format,
        path_prefix,
        with_missing: arguments.all,
        now: TokioRuntime::default().wall(),
    };
    match &file {
        None => write(directory, &options, Box::new(StdoutWriter))?,
        Some(file) => {
            let part = beside(file);
            let out = std::fs::File::create(&part)
                .with_context(|| format!("{} cannot be written", file.display()))?;
            let out = Box::new(BufWriter::new(out));
            let written = write(directory, &options, out).and_then(|()| {
                std::fs::rename(&part, file)
                    .with_context(|| format!("{} cannot be written", file.display()))
            });
            written.inspect_err(|_| {
                // Half of a file does not stay.
                let _ = std::fs::remove_file(&part);
            })?;
            if !global.quiet {
                output::print_note(&format!("written: {}", file.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the export from a copy of the queue: a run may work on the directory, and an earlier version
/// may have made it.
fn write(directory: &Path, options: &ExportOptions, out: ExportOutput) -> anyhow::Result<()> {
    let copy = tempfile::tempdir().context("no temporary directory can be made")?;
    Directory::copy_queue(directory, copy.path())?;
    let opened = run::open_directory(copy.path(), CommitMode::Inline)?;
    let runtime = session::start_runtime(TaskThreads::Two)
        .map_err(|failure| anyhow::anyhow!(failure.message()))?;
    runtime.block_on(export(&opened.queue, options, out))?;
    Ok(())
}

/// Stdout, with the rules of this program for output that cannot be written.
struct StdoutWriter;

impl Write for StdoutWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        output::data(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the way from the place of a file to a directory, with a slash at its end; nothing if the
/// file is in the directory.
fn way_to(directory: &Path, file: &Path) -> anyhow::Result<String> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let real = |path: &Path| {
        path.canonicalize()
            .with_context(|| format!("{} cannot be read", path.display()))
    };
    Ok(relative_way(&real(parent)?, &real(directory)?))
}

fn relative_way(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.iter().skip(common).copied()).collect();
    let way = way.display().to_string();
    if way.is_empty() {
        way
    } else {
        format!("{way}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_up_and_down() {
        let way = |from: &str, to: &str| relative_way(Path::new(from), Path::new(to));
        assert_eq!(way("/a/b", "/a/b"), "");
        assert_eq!(way("/a", "/a/b/c"), "b/c/");
        assert_eq!(way("/a/x/y", "/a/b"), "../../b/");
    }
}
