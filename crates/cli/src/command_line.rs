//! Command lines in a form that a shell understands.

use docstokg_hub::redact_text;

use crate::program;

/// Returns the command line of this process; `None` if a part of it is a credential.
pub(crate) fn same() -> Option<String> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    without_credentials(arguments.skip(1).collect())
        .map(|words| format!("{} {}", program::running().name, joined(&words)))
}

fn without_credentials(words: Vec<String>) -> Option<Vec<String>> {
    let is_shown = |word: &String| redact_text(word) == *word;
    words.iter().all(is_shown).then_some(words)
}

/// Joins words so that a shell reads them as they are.
pub(crate) fn joined(words: &[String]) -> String {
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
        let of = |word: &str| without_credentials(vec!["pull".to_owned(), word.to_owned()]);
        assert!(of("https://a.example/x.owl").is_some());
        assert_eq!(of("https://a.example/x.owl?token=s3cret"), None);
        assert_eq!(of("--url=https://me:s3cret@a.example/x.owl"), None);
    }
}
