//! Command lines in a form that a shell understands.

use std::path::PathBuf;

use clap::{Arg, Command};
use docstokg_hub::redact_text;
use parking_lot::Mutex;

use crate::arguments::GlobalArguments;
use crate::{program, state};

/// The flags that every printed command needs to find what this process has worked on, with their
/// values: configuration and state directory, where they are not the default.
static CONTEXT_FLAGS: Mutex<Vec<(&str, PathBuf)>> = Mutex::new(Vec::new());

/// Lets commands that are printed from now on name the configuration and the state of this process.
pub(crate) fn remember_context(global: &GlobalArguments) {
    let named = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
    let config = named(global.config.clone());
    let state = named(state::named_directory(global));
    let flags = [("--config", config), ("--state-dir", state)];
    let flags = flags
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)));
    *CONTEXT_FLAGS.lock() = flags.collect();
}

/// Returns a command of this program, as the user can paste it into a shell.
pub(crate) fn command(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    pasteable(&in_context(words, &CONTEXT_FLAGS.lock()))
}

/// Adds the flags that a command needs and does not have, before inputs that follow `--`.
fn in_context(mut words: Vec<String>, flags: &[(&str, PathBuf)]) -> Vec<String> {
    for (flag, value) in flags {
        let has_value = |word: &String| {
            word.strip_prefix(flag)
                .is_some_and(|it| it.starts_with('='))
        };
        let end = words
            .iter()
            .position(|word| word == "--")
            .unwrap_or(words.len());
        if !words[..end]
            .iter()
            .any(|word| word == flag || has_value(word))
        {
            let added = [(*flag).to_owned(), value.display().to_string()];
            words.splice(end..end, added);
        }
    }
    words
}

/// Joins the program and words so that a shell reads them as they are.
fn pasteable(words: &[String]) -> String {
    format!("{} {}", program::running().name, joined(words))
}

/// Returns the arguments of this process, without the name of the program.
pub(crate) fn arguments() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Returns the command line of this process; `None` if an argument is a credential.
pub(crate) fn same() -> Option<String> {
    shown(&arguments())
}

/// Returns the command line with these arguments; `None` if an argument is a credential.
pub(crate) fn shown(words: &[String]) -> Option<String> {
    let is_shown = |word: &String| redact_text(word) == *word;
    let words = in_context(words.to_vec(), &CONTEXT_FLAGS.lock());
    words.iter().all(is_shown).then(|| pasteable(&words))
}

/// Returns the positions of the words that are neither options nor values of options: the
/// subcommand and its positional arguments.
pub(crate) fn positionals(command: &Command, words: &[String]) -> Vec<usize> {
    let mut options: Vec<&Arg> = command.get_arguments().collect();
    let mut places = Vec::new();
    let mut ends_options = false;
    let mut place = 0;
    while let Some(word) = words.get(place) {
        match word.strip_prefix('-') {
            Some("-") if !ends_options => ends_options = true,
            Some(flags) if !ends_options && !flags.is_empty() => {
                place += usize::from(is_value_next(&options, flags));
            }
            _ => {
                if places.is_empty()
                    && let Some(subcommand) = command.find_subcommand(word)
                {
                    options.extend(subcommand.get_arguments());
                }
                places.push(place);
            }
        }
        place += 1;
    }
    places
}

/// Tells whether the word after `-{flags}` is the value of one of these options.
fn is_value_next(options: &[&Arg], flags: &str) -> bool {
    let takes_value =
        |option: &&Arg| option.get_action().takes_values() && !option.is_require_equals_set();
    if let Some(name) = flags.strip_prefix('-') {
        let is_named = |option: &&&Arg| {
            option.get_long() == Some(name)
                || (option.get_all_aliases()).is_some_and(|aliases| aliases.contains(&name))
        };
        return options.iter().find(is_named).is_some_and(takes_value);
    }
    let of_flag = |flag: char| {
        let mut options = options.iter();
        options.find(|option| option.get_short() == Some(flag))
    };
    // The rest of the word after the first option with a value is that value.
    let with_value = flags.find(|flag| of_flag(flag).is_some_and(takes_value));
    with_value.is_some_and(|at| flags[at..].chars().count() == 1)
}

/// Joins words so that a shell reads them as they are.
fn joined(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| for_shell(word)).collect();
    words.join(" ")
}

/// Writes a word so that a shell reads it as one.
pub(crate) fn for_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_one() {
        let words = ["pull", "--spec", "my list.yaml", "it's"].map(str::to_owned);
        assert_eq!(joined(&words), r"pull --spec 'my list.yaml' 'it'\''s'");
    }

    #[test]
    fn a_command_names_the_state_that_it_needs() {
        let flags = [
            ("--config", "c.yaml".into()),
            ("--state-dir", "a state".into()),
        ];
        let of = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            joined(&in_context(words, &flags))
        };
        assert_eq!(
            of("summary papers"),
            "summary papers --config c.yaml --state-dir 'a state'"
        );
        assert_eq!(
            of("--state-dir=s download --config d -- -x"),
            "--state-dir=s download --config d -- -x"
        );
        assert_eq!(
            of("download --config d -- --state-dir"),
            "download --config d --state-dir 'a state' -- --state-dir"
        );
    }

    #[test]
    fn a_command_with_a_credential_is_not_repeated() {
        let of = |word: &str| shown(&["pull".to_owned(), word.to_owned()]);
        assert!(of("https://a.example/x.owl").is_some());
        assert_eq!(of("https://a.example/x.owl?token=s3cret"), None);
        assert_eq!(of("--url=https://me:s3cret@a.example/x.owl"), None);
    }
}
