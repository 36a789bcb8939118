//! The command that continues a download, in one line that a shell understands.

use std::path::Path;

use crate::command_line;

/// Returns the command that continues the download of this process, which has these inputs and this
/// output directory.
pub(super) fn command(inputs: &[String], out: &Path) -> String {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    continuation(arguments.skip(1), inputs, out)
}

/// Returns the command with the arguments of the one that was interrupted: its inputs are known, and
/// everything else is said again.
fn continuation(arguments: impl Iterator<Item = String>, inputs: &[String], out: &Path) -> String {
    let mut kept: Vec<String> = arguments
        .filter(|argument| !inputs.contains(argument) && argument != "--resume")
        .collect();
    match kept.iter().position(|argument| argument == "download") {
        Some(place) => kept.insert(place + 1, "--resume".to_owned()),
        // Another command has made the run.
        None => kept = ["download", "--resume", "--out"].map(str::to_owned).into(),
    }
    if kept.last().is_some_and(|last| last == "--out") {
        kept.push(out.display().to_string());
    }
    format!("docstokg {}", command_line::joined(&kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str], inputs: &[&str]) -> String {
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        let arguments = line.iter().map(|word| (*word).to_owned());
        continuation(arguments, &inputs, Path::new("a dir"))
    }

    #[test]
    fn everything_but_the_inputs_is_said_again() {
        let line = [
            "--state-dir",
            "s",
            "download",
            "10.1/x",
            "list.txt",
            "--out",
            "my papers",
        ];
        assert_eq!(
            of(&line, &["10.1/x", "list.txt"]),
            "docstokg --state-dir s download --resume --out 'my papers'"
        );
        assert_eq!(
            of(&["download", "--resume", "--out=p", "--kinds", "pdf"], &[]),
            "docstokg download --resume --out=p --kinds pdf"
        );
        assert_eq!(
            of(&["demo"], &[]),
            "docstokg download --resume --out 'a dir'"
        );
    }
}
