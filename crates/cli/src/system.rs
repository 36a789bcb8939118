//! Settings of the process at its start.

use std::panic::PanicHookInfo;

use docstokg_bulk::panic_containment::is_contained;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::output;

/// Raises the limit of open files to its maximum. Every connection and every active download needs
/// a file, and the default of shells suffices for a few hundred hosts only.
pub(crate) fn raise_open_files_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum)) {
        // If the call fails, fewer requests run at once. Requests over the limit fail with a local
        // error.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// Reports panics as sentences. The panic of a contained reader is not reported, because its caller
/// reports the data as unreadable. With `RUST_BACKTRACE` every panic is printed unchanged.
pub(crate) fn report_panics_in_words() {
    if std::env::var_os("RUST_BACKTRACE").is_some() {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        if let Some(sentence) = sentence_of(panic) {
            output::complain(&sentence);
        }
    }));
}

/// Returns the message about a panic; `None` for that of a contained reader.
fn sentence_of(panic: &PanicHookInfo<'_>) -> Option<String> {
    if is_contained() {
        return None;
    }
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic
        .location()
        .map(|at| format!(" ({}:{})", at.file(), at.line()));
    Some(format!(
        "this is a fault of the program: {}{}; please report it",
        text.unwrap_or("it does not say which"),
        place.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use docstokg_bulk::panic_containment::contained;

    use super::*;

    #[test]
    fn a_panic_is_a_sentence_and_that_of_a_contained_reader_is_not_shown() {
        let (shown, earlier) = (Arc::new(Mutex::new(Vec::new())), std::panic::take_hook());
        let sink = Arc::clone(&shown);
        std::panic::set_hook(Box::new(move |panic| {
            sink.lock().expect("a list").push(sentence_of(panic));
        }));
        let fault = || panic!("a fault in {}", "parsing");
        assert!(std::thread::spawn(move || contained(fault)).join().is_ok());
        assert!(std::thread::spawn(fault).join().is_err());
        std::panic::set_hook(earlier);
        let shown = shown.lock().expect("a list");
        let [None, Some(sentence)] = &shown[..] else {
            panic!("{shown:?}");
        };
        assert!(
            sentence.starts_with("this is a fault of the program: a fault in parsing (")
                && sentence.contains("system.rs:")
                && sentence.ends_with("; please report it"),
            "{sentence}"
        );
    }
}
