//! Output: data goes to stdout, and messages go to stderr. A closed pipe ends the output, not the
//! program.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde_json::Value;

use crate::program;

/// Escapes control characters, except new lines and tabs, so that a text is safe for a terminal.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_unsafe = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unsafe(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Writes text to stdout: tables and lists that may contain text of other parties.
pub(crate) fn text(text: &str) {
    data(plain(text).as_bytes());
}

/// Writes data to stdout, unchanged.
pub(crate) fn data(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush())
        // The reader of a closed pipe needs no more output.
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST_OUTPUT.set(error.to_string());
    }
}

/// The error of writing to stdout, if any.
static LOST_OUTPUT: OnceLock<String> = OnceLock::new();

/// Returns the exit code of a program: lost output is a failure.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    let Some(why) = LOST_OUTPUT.get() else {
        return code;
    };
    complain(&format!("the output cannot be written: {why}"));
    hint("make room for it, or write it elsewhere");
    if code == ExitCode::SUCCESS {
        ExitCode::FAILURE
    } else {
        code
    }
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) {
    data(format!("{}\n", plain(text)).as_bytes());
}

/// Writes JSON to stdout, one object.
pub(crate) fn json(value: &Value) {
    data(
        format!(
            "{}\n",
            docstokg_hub::json::escape_controls(format!("{value:#}"))
        )
        .as_bytes(),
    );
}

/// Writes a message to stderr.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(text));
}

/// Writes a message to stderr, after the name of the program.
pub(crate) fn print_note(text: &str) {
    tell(&format!("{}: {text}", program::running().name));
}

/// Writes an error message.
pub(crate) fn complain(message: &str) {
    print_note(message);
}

/// Writes advice about an error.
pub(crate) fn hint(message: &str) {
    tell(&format!("hint: {message}"));
}
