//! The table of learned limits: the controller and models of other clients against simulated
//! servers.

use anyhow::{Context, bail};

use crate::process::cargo_with;

/// Servers of each class, unless the command line has another number.
const DEFAULT_SERVERS: u64 = 200;

/// Runs every client against the servers of every class, optimised, and prints the table.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let servers = match arguments {
        [] => DEFAULT_SERVERS,
        ["--servers", number] => (number.parse::<u64>().ok())
            .filter(|number| *number > 0)
            .with_context(|| format!("--servers: '{number}' is not a number above zero"))?,
        _ => bail!("only --servers N is an option here"),
    };
    let arguments = [
        "test",
        "--quiet",
        "--release",
        "--package",
        "docstokg-policy",
        "--test",
        "learning",
        "--",
        "table_of_simulated_servers",
        "--include-ignored",
        "--nocapture",
    ];
    cargo_with(
        &arguments,
        &[("DOCSTOKG_LIMITS_SERVERS", &servers.to_string())],
    )
}
