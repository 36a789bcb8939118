//! The servers of the limiters: installed, configured and started.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::{Limiter, LimiterProgram};
use crate::process::{Running, run_command, say, wait_for};

const NODE_SERVERS: &str = include_str!("../../limiters/servers.mjs");
const PYTHON_SERVERS: &str = include_str!("../../limiters/servers.py");

/// Packages of npm with the servers and limiters of `servers.mjs`.
const NPM_PACKAGES: [&str; 12] = [
    "express@5",
    "express-rate-limit@8",
    "fastify@5",
    "@fastify/rate-limit@11",
    "@hapi/hapi@21",
    "hapi-rate-limit@8",
    "hono@4",
    "@hono/node-server",
    "hono-rate-limiter",
    "koa@3",
    "koa-ratelimit@6",
    "rate-limiter-flexible@11",
];

/// Packages of `PyPI` with the servers and limiters of `servers.py`.
const PIP_PACKAGES: [&str; 7] = [
    "django",
    "django-ratelimit",
    "flask",
    "flask-limiter",
    "slowapi",
    "starlette",
    "uvicorn",
];

/// Installs missing packages, and writes the servers beside them.
pub(super) fn install(packages: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(packages)?;
    std::fs::write(packages.join("servers.mjs"), NODE_SERVERS)?;
    std::fs::write(packages.join("servers.py"), PYTHON_SERVERS)?;
    let installed = packages.join("installed");
    let asked = [&NPM_PACKAGES[..], &PIP_PACKAGES[..]].concat().join(" ");
    if std::fs::read_to_string(&installed).is_ok_and(|has| has == asked) {
        return Ok(());
    }
    say("xtask: installing limiters from npm and PyPI");
    std::fs::write(packages.join("package.json"), "{ \"private\": true }\n")?;
    let in_packages = |program: &OsStr, arguments: &[&str]| {
        let mut command = Command::new(program);
        run_command(command.args(arguments).current_dir(packages))
    };
    let npm = ["install", "--no-audit", "--no-fund", "--silent"];
    in_packages(OsStr::new("npm"), &[&npm[..], &NPM_PACKAGES].concat())?;
    in_packages(OsStr::new("python3"), &["-m", "venv", "python"])?;
    let pip = ["-m", "pip", "install", "--quiet"];
    in_packages(
        python(packages).as_os_str(),
        &[&pip[..], &PIP_PACKAGES].concat(),
    )?;
    std::fs::write(installed, asked)?;
    Ok(())
}

fn python(packages: &Path) -> PathBuf {
    packages.join("python/bin/python")
}

/// Starts the servers of the limiters on their ports, and waits until they listen.
pub(super) fn start(
    ported: &[(&Limiter, u16)],
    packages: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<Running>> {
    let arguments = |program: LimiterProgram| -> Vec<String> {
        let own = ported
            .iter()
            .filter(|(limiter, _)| limiter.program == program);
        own.map(|(limiter, port)| {
            let Limiter {
                name,
                limit,
                seconds,
                ..
            } = limiter;
            format!("{name}:{port}:{limit}:{seconds}")
        })
        .collect()
    };
    let mut node = Command::new("node");
    node.arg("servers.mjs")
        .args(arguments(LimiterProgram::Node));
    let mut python = Command::new(python(packages));
    python
        .arg("servers.py")
        .args(arguments(LimiterProgram::Python));
    std::fs::write(
        directory.join("nginx.conf"),
        nginx_configuration(ported, directory),
    )?;
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(directory);
    nginx.arg("-c").arg(directory.join("nginx.conf"));
    std::fs::write(directory.join("haproxy.cfg"), haproxy_configuration(ported))?;
    let mut haproxy = Command::new("haproxy");
    haproxy.arg("-f").arg(directory.join("haproxy.cfg"));

    let mut running = Vec::new();
    for (name, mut command) in [
        ("node", node),
        ("python", python),
        ("nginx", nginx),
        ("haproxy", haproxy),
    ] {
        if (ported.iter()).any(|(limiter, _)| limiter.program.name() == name) {
            let child = command
                .current_dir(packages)
                .stdin(Stdio::null())
                .stdout(File::create(directory.join(format!("{name}.ledger")))?)
                .stderr(File::create(directory.join(format!("{name}.errors")))?)
                .spawn()
                .with_context(|| format!("{name} cannot be started"))?;
            running.push(Running(child));
        }
    }
    for (_, port) in ported {
        wait_for(*port)?;
    }
    Ok(running)
}

/// Returns a configuration that checks the limits before a file is generated.
fn nginx_configuration(ported: &[(&Limiter, u16)], directory: &Path) -> String {
    let place = directory.display();
    let mut zones = String::new();
    let mut servers = String::new();
    for (limiter, port) in ported {
        let LimiterProgram::Nginx(parameters) = limiter.program else {
            continue;
        };
        let (name, rate) = (limiter.name, limiter.limit);
        zones += &format!("limit_req_zone $binary_remote_addr zone={name}:1m rate={rate}r/s;\n");
        servers += &format!(
            "server {{ listen 127.0.0.1:{port}; server_name {name}; limit_req zone={name}{parameters};
               location /item/ {{ try_files /none @file; }}
               location @file {{ return 200 \"$request_uri {name}\\n\"; }}
               location / {{ try_files /none =404; }} }}\n"
        );
    }
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid {place}/nginx.pid; error_log stderr crit;
         events {{ worker_connections 1024; }}
         http {{ {temporary} default_type text/plain;
           log_format ledger '$server_name $msec $status $request_uri';
           access_log {place}/nginx.requests.ledger ledger;
           {zones} {servers} }}\n"
    )
}

/// Returns a configuration with a stick table per limiter.
fn haproxy_configuration(ported: &[(&Limiter, u16)]) -> String {
    let mut text = String::from(
        "global\n  log stdout format raw local0\ndefaults\n  mode http\n  log global
  timeout client 30s\n  timeout connect 5s\n  timeout server 30s\n",
    );
    let own = |(limiter, _): &&(&Limiter, u16)| limiter.program == LimiterProgram::HaProxy;
    for (limiter, port) in ported.iter().filter(own) {
        let Limiter {
            name,
            limit,
            seconds,
            ..
        } = limiter;
        text += &format!(
            "frontend {name}
  bind 127.0.0.1:{port}
  log-format \"{name} %[date(0,ms)] %ST %HP\"
  stick-table type ip size 1k expire 60s store http_req_rate({seconds}s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {limit} }}
  http-request return status 404 unless {{ path_beg /item/ }}
  http-request return status 200 content-type text/plain lf-string \"{name} %[path]\"\n"
        );
    }
    text
}
