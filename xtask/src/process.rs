//! Starts other programs, and installs missing ones.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

/// A process that is killed when this value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks that a Redis or Valkey server can be started. If not, installs one from the system's
/// packages.
pub(crate) fn need_redis() -> anyhow::Result<()> {
    let is_installed = || {
        ["redis-server", "valkey-server"]
            .iter()
            .any(|program| runs(program, &["--version"]))
    };
    if is_installed() {
        return Ok(());
    }
    say("xtask: installing redis-server from the system's packages");
    let package_managers: [&[&[&str]]; 5] = [
        &[
            &["apt-get", "update"],
            &[
                "apt-get",
                "install",
                "--yes",
                "--no-install-recommends",
                "redis-server",
            ],
        ],
        &[&["dnf", "install", "--assumeyes", "valkey"]],
        &[&["apk", "add", "redis"]],
        &[&["pacman", "--sync", "--noconfirm", "valkey"]],
        &[&["brew", "install", "redis"]],
    ];
    for commands in package_managers {
        // An update that fails for one source may still have found the package in another, so only
        // the result of the installation counts.
        let done: Vec<bool> = commands
            .iter()
            .map(|command| runs(command[0], &command[1..]))
            .collect();
        if done.last() == Some(&true) && is_installed() {
            return Ok(());
        }
    }
    bail!(
        "the tests need redis-server (or valkey-server), and it could not be installed: \
         install it as root, and run this again"
    )
}

/// Checks that a program is installed. If not, installs it from Debian's packages.
pub(crate) fn need(program: &str, package: &str) -> anyhow::Result<()> {
    need_as(program, "--version", package)
}

/// Installs missing modules of the system's Python.
pub(crate) fn need_python(modules: &[&str]) -> anyhow::Result<()> {
    need("/usr/bin/python3", "python3")?;
    for module in modules {
        let import = format!("import {module}");
        let has = || runs("/usr/bin/python3", &["-c", &import]);
        install_unless(has, module, &format!("python3-{module}"))?;
    }
    Ok(())
}

/// Installs a package if its program is missing. `version` is the argument that prints the
/// program's version.
pub(crate) fn need_as(program: &str, version: &str, package: &str) -> anyhow::Result<()> {
    install_unless(|| runs(program, &[version]), program, package)
}

/// Installs a package like [`need_as`], for a program that cannot print its version.
pub(crate) fn need_on_path(program: &str, package: &str) -> anyhow::Result<()> {
    let find = format!("command -v {program}");
    install_unless(|| runs("sh", &["-c", &find]), program, package)
}

fn install_unless(is_there: impl Fn() -> bool, program: &str, package: &str) -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    say(&format!(
        "xtask: installing {package} from the system's packages for {program}"
    ));
    let _ = runs("apt-get", &["update"]);
    let arguments = ["install", "--yes", "--no-install-recommends", package];
    if runs("apt-get", &arguments) && is_there() {
        return Ok(());
    }
    bail!("{program} is not installed, and {package} could not be installed")
}

/// Returns true if a program runs with success.
pub(crate) fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns whether a program reports this version.
pub(crate) fn runs_version(program: &Path, version: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == version)
}

/// Runs cargo in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    cargo_with(arguments, &[])
}

/// Runs cargo in the workspace, with further variables.
pub(crate) fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<()> {
    let status = cargo_command(arguments)?
        .envs(variables.iter().copied())
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

/// Runs cargo in the workspace, and returns its output.
pub(crate) fn cargo_output(arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    cargo_output_with(arguments, &[])
}

/// Runs cargo like [`cargo_output`], with further variables.
pub(crate) fn cargo_output_with(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> anyhow::Result<Vec<u8>> {
    let output = cargo_command(arguments)?
        .envs(variables.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(output.stdout)
}

fn cargo_command(arguments: &[&str]) -> anyhow::Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Returns the directory of the workspace.
pub(crate) fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the workspace")
}

/// Runs a command, and fails if the command fails.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} cannot be started"))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until a server of this machine accepts connections.
#[allow(
    clippy::disallowed_methods,
    reason = "a real server takes real time to start"
)]
pub(crate) fn wait_for(port: u16) -> anyhow::Result<()> {
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("nothing listens on port {port} after ten seconds")
}

/// Prints a message.
#[expect(clippy::print_stderr, reason = "a chore prints what it does")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
