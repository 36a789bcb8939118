//! The command that continues a download, as one line for a shell.

use std::path::Path;

use clap::CommandFactory as _;

use crate::arguments::DocstokgArguments;
use crate::command_line;

/// Returns the command that continues this download in a directory; `None` if an argument is a
/// credential. The inputs are left out if they were read to their end.
pub(super) fn command(are_inputs_read: bool, out: &Path) -> Option<String> {
    command_line::shown(&continuation(
        &command_line::arguments(),
        are_inputs_read,
        out,
    ))
}

/// Returns the arguments with `--resume`. The inputs are left out if they were read to their end.
fn continuation(words: &[String], are_inputs_read: bool, out: &Path) -> Vec<String> {
    let places = command_line::positionals(&DocstokgArguments::command(), words);
    let Some(command) = places.first().filter(|place| words[**place] == "download") else {
        // Another command created the run.
        let mut words = ["download", "--resume", "--out"]
            .map(str::to_owned)
            .to_vec();
        words.push(out.display().to_string());
        return words;
    };
    let is_kept = |place: usize, word: &str| {
        word != "--resume"
            && (place <= *command || !are_inputs_read || !(places.contains(&place) || word == "--"))
    };
    let mut kept = Vec::new();
    for (place, word) in words.iter().enumerate() {
        if is_kept(place, word) {
            kept.push(word.clone());
        }
        if place == *command {
            kept.push("--resume".to_owned());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, are_inputs_read: bool) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let words = continuation(&words, are_inputs_read, Path::new("a dir"));
        command_line::shown(&words)
    }

    fn of(line: &str, are_inputs_read: bool) -> String {
        shown(line, are_inputs_read).unwrap()
    }

    #[test]
    fn resume_command_contains_no_credential() {
        let line = "download --out p https://a.example/x.pdf?token=s3cret";
        assert_eq!(shown(line, false), None);
        assert_eq!(of(line, true), "docstokg download --resume --out p");
        let line = "--rate-dsn redis://:s3cret@a.example/0 download --out p 10.1/x";
        assert_eq!(shown(line, true), None);
    }

    #[test]
    fn resume_command_repeats_all_flags_but_no_inputs() {
        for (line, again) in [
            (
                "--state-dir s download 10.1/x list.txt --out papers",
                "--state-dir s download --resume --out papers",
            ),
            (
                "download --resume --out=p --kinds pdf",
                "download --resume --out=p --kinds pdf",
            ),
            (
                "download -qo papers papers --max-park 5 -- -",
                "download --resume -qo papers --max-park 5",
            ),
            ("demo", "download --resume --out 'a dir'"),
            ("demo --out download", "download --resume --out 'a dir'"),
        ] {
            assert_eq!(of(line, true), format!("docstokg {again}"), "{line}");
        }
        assert_eq!(
            of("download 10.1/x --resume --out p", false),
            "docstokg download --resume 10.1/x --out p"
        );
    }

    #[test]
    fn the_word_download_may_also_be_a_value_or_an_input() {
        assert_eq!(
            of(
                "--state-dir download download download --out download",
                true
            ),
            "docstokg --state-dir download download --resume --out download"
        );
    }
}
