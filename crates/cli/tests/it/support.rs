use std::path::Path;
use std::process::{Command, Output};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::{Listener, Origin, Security, Web};

/// An origin on loopback, in a runtime of its own.
pub(crate) struct Served {
    pub(crate) web: Web,
    pub(crate) address: String,
    _listener: Listener,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    /// Serves one host, reached with `--connect-to`.
    pub(crate) fn start(origin: Origin) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let web = Web::new([origin], SystemClock.boot());
        let listener = runtime
            .block_on(Listener::start(&web, Security::Plain))
            .expect("a port");
        Self {
            web,
            address: listener.address.to_string(),
            _listener: listener,
            _runtime: runtime,
        }
    }
}

/// A run of the program.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// The program, without anything of this machine's environment that it would read.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docstokg"));
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy().to_ascii_uppercase();
        if name_text.starts_with("DOCSTOKG") || name_text.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    // Each process by itself, so that tests do not share a budget; those that want to say so. The
    // program makes the directory, private: one that cargo made is open to others, and the first
    // process to see it would warn.
    command.env("DOCSTOKG_RLIMIT_BACKEND", "memory").env(
        "DOCSTOKG_STATE_DIR",
        concat!(env!("CARGO_TARGET_TMPDIR"), "/state"),
    );
    command
}

/// The program with state that processes share, in a directory of the test.
pub(crate) fn sharing(state: &Path) -> Command {
    let mut command = program();
    command
        .env_remove("DOCSTOKG_RLIMIT_BACKEND")
        .env("DOCSTOKG_STATE_DIR", state);
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    program()
        .args(arguments)
        .output()
        .expect("the program")
        .into()
}

/// Runs `fetch` on a path of the served host `a.example`.
pub(crate) fn fetch(served: &Served, path: &str, arguments: &[&str]) -> Ran {
    let mapping = format!("a.example:80={}", served.address);
    let url = format!("http://a.example{path}");
    run(&[&["fetch", &url, "--connect-to", &mapping], arguments].concat())
}
