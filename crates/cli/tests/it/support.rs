use std::path::Path;
use std::process::{Command, Output};

use docstokg_origin_sim::{OriginScript, ScriptedReply};

/// Origins on loopback, reached with `--connect-to`.
pub(crate) use docstokg_origin_sim::ServedWeb as Served;

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

/// The program, without the variables of this environment that it would read.
pub(crate) fn program() -> Command {
    without_variables(env!("CARGO_BIN_EXE_docstokg"))
}

/// The same for `ontofetch`.
pub(crate) fn ontofetch() -> Command {
    without_variables(env!("CARGO_BIN_EXE_ontofetch"))
}

fn without_variables(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy().to_ascii_uppercase();
        if name_text.starts_with("DOCSTOKG")
            || name_text.starts_with("ONTOFETCH")
            || name_text.ends_with("_API_KEY")
            || name_text.ends_with("_PROXY")
        {
            command.env_remove(name);
        }
    }
    // Each process has its own state, so that tests do not share a budget unless they ask for it.
    // The program creates the directory, private: other users can read one that cargo creates, and
    // the first process to see that would warn.
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

/// Runs the program to its end, with state that processes share.
pub(crate) fn run_sharing(state: &Path, arguments: &[&str]) -> Ran {
    sharing(state)
        .args(arguments)
        .output()
        .expect("the program")
        .into()
}

/// Runs `fetch` on the served host, with state that processes share.
pub(crate) fn fetch_sharing(state: &Path, served: &Served, more: &[&str]) -> Ran {
    let mapping = format!("a.example:80={}", served.address);
    run_sharing(
        state,
        &[
            &["fetch", "http://a.example/", "--connect-to", &mapping],
            more,
        ]
        .concat(),
    )
}

/// An origin that answers every request.
pub(crate) fn fine() -> Served {
    Served::start(OriginScript::new("a.example").route("/", [ScriptedReply::ok("fine")]))
}
