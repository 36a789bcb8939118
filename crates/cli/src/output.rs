//! Output: data goes to stdout, and messages go to stderr. A closed pipe ends the output, not the
//! program.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use clap::builder::StyledStr;
use rustix::io::Errno;
use serde_json::Value;

use crate::exit::EXIT_REFUSED;
use crate::{program, stdout_at_start};

/// The time after which a full, non-blocking stdout is written again.
const READER_PATIENCE: Duration = Duration::from_millis(5);

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
    if bytes.is_empty() || LOST_OUTPUT.get().is_some() {
        return;
    }
    if stdout_at_start::was_closed() {
        let _ = LOST_OUTPUT.set("stdout is closed".to_owned());
        return;
    }
    // Not `Stdout`: that takes a descriptor which is not open for writing for one that discards.
    // The lock keeps the writes of two threads apart.
    let stdout = std::io::stdout().lock();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&stdout, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // Another program set it to be non-blocking, and its reader is slow.
            Err(Errno::AGAIN) => std::thread::park_timeout(READER_PATIENCE),
            // The reader of a closed pipe needs no more output.
            Err(Errno::PIPE) => return,
            Err(Errno::BADF) => {
                let _ = LOST_OUTPUT.set("stdout is not open for writing".to_owned());
                return;
            }
            Err(error) => {
                let _ = LOST_OUTPUT.set(std::io::Error::from(error).to_string());
                return;
            }
        }
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
    if code == ExitCode::SUCCESS || code == ExitCode::from(EXIT_REFUSED) {
        ExitCode::FAILURE
    } else {
        code
    }
}

/// Writes the help of the command line to stdout, with styles on a terminal.
pub(crate) fn help(text: &StyledStr) {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty())
        || std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb")
        || !std::io::stdout().is_terminal();
    if is_plain {
        data(text.to_string().as_bytes());
    } else {
        data(text.ansi().to_string().as_bytes());
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
