//! Settings of the process that are made at its start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to its maximum: every connection and every active download is
/// one, and the default of shells is enough for a few hundred hosts only.
pub(crate) fn raise_open_files_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum)) {
        // Without it fewer requests run at once; those over the limit fail with a local error.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// Prints no panic of threads of this name: a PDF that makes its parser panic is a file without
/// evidence.
pub(crate) fn silence_panics_of(thread: &'static str) {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(thread) {
            default_hook(panic);
        }
    }));
}
