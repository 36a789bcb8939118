//! What the process asks of the system before it begins.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks for as many open files as the system grants: every connection and every file under way is
/// one, and what shells give by default is used up by a few hundred hosts.
pub(crate) fn open_as_many_files_as_granted() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum)) {
        // Without it fewer requests run at once; those that find no place fail on our side, and say
        // so.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// Shows no panic of threads of this name: a PDF that its parser cannot cope with is one file
/// without evidence.
pub(crate) fn keep_quiet_about(thread: &'static str) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(thread) {
            usual(panic);
        }
    }));
}
