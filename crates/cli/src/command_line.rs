//! Command lines in a form that a shell understands.

use clap::{Arg, Command};
use docstokg_hub::redact_text;

use crate::program;

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
    let name = program::running().name;
    (words.iter().all(is_shown)).then(|| format!("{name} {}", joined(words)))
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
    let takes_value = |option: &&Arg| option.get_action().takes_values();
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
fn for_shell(word: &str) -> String {
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
    fn a_command_with_a_credential_is_not_repeated() {
        let of = |word: &str| shown(&["pull".to_owned(), word.to_owned()]);
        assert!(of("https://a.example/x.owl").is_some());
        assert_eq!(of("https://a.example/x.owl?token=s3cret"), None);
        assert_eq!(of("--url=https://me:s3cret@a.example/x.owl"), None);
    }
}
