//! Downloads from rate limiters that other people wrote: packages of npm and PyPI, nginx and
//! `HAProxy`, on loopback only. Their own ledgers say how often they refuse, and how long the files
//! of each take beside the least time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::process::{Running, cargo, free_port, need, need_as, root, run_command, say, wait_for};

const NODE_SERVERS: &str = include_str!("../limiters/servers.mjs");
const PYTHON_SERVERS: &str = include_str!("../limiters/servers.py");

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

/// Packages of PyPI with the servers and limiters of `servers.py`.
const PIP_PACKAGES: [&str; 7] = [
    "django",
    "django-ratelimit",
    "flask",
    "flask-limiter",
    "slowapi",
    "starlette",
    "uvicorn",
];

/// Maximum time of one download, in tenths of a second. The slowest limiter needs a minute, and the
/// default rate of 2 per second some four.
const MAX_RUN_TENTHS: u32 = 4_500;

/// Maximum time of a searching run, in least times of the limiter.
const MAX_TIME_RATIO: f64 = 1.3;

/// Maximum refusals of a run, per limiter and on average.
const MAX_MEAN_REFUSALS: usize = 2;

/// The process that a limiter is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Node,
    Python,
    /// nginx with these parameters of `limit_req` after its zone.
    Nginx(&'static str),
    HaProxy,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Nginx(_) => "nginx",
            Self::HaProxy => "haproxy",
        }
    }
}

/// How a limiter counts, which decides the least time of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// `limit` requests in a window that begins with a request, or in any span of its length.
    Window,
    /// As [`Self::Window`], and this limit (requests, seconds) besides.
    TwoWindows(usize, u32),
    /// `limit` requests per window at an even rate after so many at once: leaky buckets, and
    /// counters that weigh the window before.
    Bucket(usize),
}

/// One limiter, and the number of files behind it.
struct Limiter {
    name: &'static str,
    program: Program,
    limit: usize,
    seconds: u32,
    counts: Counts,
    files: usize,
}

/// The limiters. Windows end half full, so that neither an even pace nor bursts are favoured much.
#[rustfmt::skip]
const LIMITERS: [Limiter; 24] = {
    use Counts::{Bucket, TwoWindows, Window};
    use Program::{HaProxy, Nginx, Node, Python};
    const fn of(name: &'static str, program: Program, limit: usize, seconds: u32, counts: Counts, files: usize) -> Limiter {
        Limiter { name, program, limit, seconds, counts, files }
    }
    [
        of("express-draft-8", Node, 10, 1, Window, 255),
        of("express-draft-7", Node, 100, 10, Window, 250),
        of("express-legacy-5", Node, 5, 1, Window, 128),
        of("express-legacy-60", Node, 60, 60, Window, 90),
        of("express-silent", Node, 20, 5, Window, 110),
        of("fastify", Node, 20, 1, Window, 410),
        of("koa", Node, 100, 20, Window, 250),
        of("flask-moving", Python, 2, 1, Window, 50),
        of("flask-fixed", Python, 30, 60, Window, 45),
        of("flask-counter", Python, 5, 1, Bucket(5), 130),
        of("flask-two", Python, 3, 1, TwoWindows(40, 60), 60),
        of("slowapi", Python, 1, 1, Window, 26),
        of("nginx", Nginx("; limit_req_status 429"), 1, 1, Bucket(1), 26),
        of("nginx-burst", Nginx(" burst=10 nodelay; limit_req_status 429"), 5, 1, Bucket(11), 141),
        of("haproxy", HaProxy, 20, 5, Bucket(20), 120),
        // Those below were not looked at while the search was written.
        of("flexible", Node, 8, 2, Window, 100),
        of("hapi", Node, 30, 6, Window, 135),
        of("hono", Node, 15, 3, Window, 127),
        of("django", Python, 4, 1, Window, 90),
        of("flask-moving-silent", Python, 2, 1, Window, 50),
        of("flask-fixed-silent", Python, 12, 10, Window, 30),
        of("slowapi-3", Python, 3, 1, Window, 75),
        of("nginx-503", Nginx(""), 1, 1, Bucket(1), 26),
        of("nginx-burst-503", Nginx(" burst=20 nodelay"), 10, 1, Bucket(21), 271),
    ]
};

impl Limiter {
    fn host(&self) -> String {
        format!("{}.test", self.name)
    }

    /// Returns the limits as requests and seconds.
    fn windows(&self) -> Vec<(usize, u32)> {
        let mut windows = vec![(self.limit, self.seconds)];
        if let Counts::TwoWindows(limit, seconds) = self.counts {
            windows.push((limit, seconds));
        }
        windows
    }

    /// Returns the least seconds from the first request to the last.
    ///
    /// A bucket needs `(files - burst) * seconds / limit`. With windows, each request goes as soon as
    /// every limit admits it, which is `seconds * (ceil(files / limit) - 1)` where there is one.
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    fn least_seconds(&self) -> f64 {
        if let Counts::Bucket(burst) = self.counts {
            return (self.files - burst) as f64 * f64::from(self.seconds) / self.limit as f64;
        }
        let mut sent: Vec<u32> = Vec::new();
        for index in 0..self.files {
            let free = self.windows().into_iter().map(|(limit, seconds)| {
                let before = index.checked_sub(limit);
                before.map_or(0, |before| sent[before] + seconds)
            });
            sent.push(free.max().unwrap_or_default());
        }
        f64::from(*sent.last().unwrap_or(&0))
    }

    /// Returns the lines of a configuration that state the limits.
    fn told(&self) -> (String, String) {
        let rate = |(limit, seconds): (usize, u32)| format!("\"{limit}/{seconds}SECOND\"");
        let rates: Vec<String> = self.windows().into_iter().map(rate).collect();
        let (host, rates) = (self.host(), rates.join(", "));
        let role = format!("{{ rates: [{rates}], max_concurrent: 64 }}");
        (
            format!("    {host}: {{ artifact: {role}, landing: {role} }}\n"),
            format!(
                "  {}: {{ hosts: [{host}], common: {{ rates: [{rates}] }} }}\n",
                self.name
            ),
        )
    }
}

/// What a run knows of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing: it searches, up to 50 per second.
    Nothing,
    /// Nothing, and it has the configuration as shipped.
    Shipped,
    /// All of them.
    Told,
}

impl Known {
    fn configuration(self, limiters: &[&Limiter]) -> String {
        match self {
            Self::Nothing => "version: 1\nlimits: { learn: { up_to: 50/SECOND } }\n".into(),
            Self::Shipped => "version: 1\n".into(),
            Self::Told => {
                let (hosts, sites): (String, String) =
                    limiters.iter().map(|limiter| limiter.told()).unzip();
                format!("version: 1\nlimits:\n  hosts:\n{hosts}sites:\n{sites}")
            }
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Nothing => "not told, searching up to 50 per second",
            Self::Shipped => "the default configuration",
            Self::Told => "told every limit",
        }
    }
}

/// Measures the limiters whose names begin with one of the words, or all.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let runs = match options.as_slice() {
        [] => vec![Known::Nothing, Known::Shipped],
        ["--told"] => vec![Known::Told],
        _ => bail!("only --told is an option here"),
    };
    let is_named = |limiter: &&Limiter| {
        names.is_empty() || names.iter().any(|name| limiter.name.starts_with(name))
    };
    let limiters: Vec<&Limiter> = LIMITERS.iter().filter(is_named).collect();
    ensure!(!limiters.is_empty(), "no limiter has such a name");

    need("node", "nodejs")?;
    need("npm", "npm")?;
    need("python3", "python3-venv")?;
    need_as("nginx", "-v", "nginx")?;
    need_as("haproxy", "-v", "haproxy")?;
    cargo(&["build", "--release", "--package", "docstokg-cli"])?;
    let packages = root()?.join("target/limiters");
    install(&packages)?;
    let work = std::env::temp_dir().join(format!("docstokg-limiters-{}", std::process::id()));
    let mut missed = Vec::new();
    for known in runs {
        let directory = work.join(format!("{known:?}"));
        std::fs::create_dir_all(&directory)?;
        missed.extend(measure(known, &limiters, &packages, &directory)?);
    }
    if missed.is_empty() {
        std::fs::remove_dir_all(&work)?;
        return Ok(());
    }
    bail!("{}; ledgers: {}", missed.join("; "), work.display())
}

/// Installs the packages where they are missing, and writes the servers beside them.
fn install(packages: &Path) -> anyhow::Result<()> {
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

/// Downloads from all limiters at once; returns the demands that are missed.
fn measure(
    known: Known,
    limiters: &[&Limiter],
    packages: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<String>> {
    let ported: Vec<(&Limiter, u16)> = limiters
        .iter()
        .map(|limiter| Ok((*limiter, free_port()?)))
        .collect::<anyhow::Result<_>>()?;
    let servers = start(&ported, packages, directory)?;
    let is_done = download(known, &ported, directory)?;
    drop(servers);
    let ledger = Ledger::read(directory)?;
    let mut missed = ledger.report(known, limiters);
    if !is_done {
        missed.push(format!("{known:?}: the download did not end with success"));
    }
    Ok(missed)
}

/// Starts the servers of the limiters on their ports, and waits until they listen.
fn start(
    ported: &[(&Limiter, u16)],
    packages: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<Running>> {
    let arguments = |program: Program| -> Vec<String> {
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
    node.arg("servers.mjs").args(arguments(Program::Node));
    let mut python = Command::new(python(packages));
    python.arg("servers.py").args(arguments(Program::Python));
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

/// Returns a configuration in which the limits are checked before a file is made up.
fn nginx_configuration(ported: &[(&Limiter, u16)], directory: &Path) -> String {
    let place = directory.display();
    let mut zones = String::new();
    let mut servers = String::new();
    for (limiter, port) in ported {
        let Program::Nginx(parameters) = limiter.program else {
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
    let own = |(limiter, _): &&(&Limiter, u16)| limiter.program == Program::HaProxy;
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

/// Downloads the files of all limiters in turns; returns whether it ended with success.
#[expect(
    clippy::disallowed_methods,
    reason = "a real process is waited for in real time"
)]
fn download(known: Known, ported: &[(&Limiter, u16)], directory: &Path) -> anyhow::Result<bool> {
    let limiters: Vec<&Limiter> = ported.iter().map(|(limiter, _)| *limiter).collect();
    let most = limiters.iter().map(|limiter| limiter.files).max();
    let mut list = String::new();
    for number in 0..most.unwrap_or_default() {
        for limiter in limiters.iter().filter(|limiter| number < limiter.files) {
            list += &format!("http://{}/item/{number}\n", limiter.host());
        }
    }
    let at = |name: &str| directory.join(name);
    std::fs::write(at("list.txt"), list)?;
    std::fs::write(at("config.yaml"), known.configuration(&limiters))?;
    let mut command = Command::new(root()?.join("target/release/docstokg"));
    command.arg("--config").arg(at("config.yaml"));
    command.arg("--state-dir").arg(at("state"));
    for (limiter, port) in ported {
        let to = format!("{}:80=127.0.0.1:{port}", limiter.host());
        command.args(["--connect-to", &to]);
    }
    command.args(["download", "--quiet", "--disable", "wayback"]);
    command.args(["--min-pdf-bytes", "1", "--kinds", "pdf,xml,html", "--out"]);
    command.arg(at("out")).arg(at("list.txt"));
    let child = command
        .stdin(Stdio::null())
        .stdout(File::create(at("output.txt"))?)
        .stderr(File::create(at("errors.txt"))?)
        .spawn()
        .context("docstokg cannot be started")?;
    let mut running = Running(child);
    for _ in 0..MAX_RUN_TENTHS {
        if let Some(status) = running.0.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(false)
}

/// One request, as its server noted it.
struct Request {
    /// Seconds since 1970.
    at: f64,
    status: u16,
    path: String,
}

/// The requests of all servers, by limiter.
struct Ledger(BTreeMap<String, Vec<Request>>);

impl Ledger {
    /// Reads every ledger of a directory.
    fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut requests: BTreeMap<String, Vec<Request>> = BTreeMap::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("ledger")) {
                for line in std::fs::read_to_string(&path)?.lines() {
                    let (name, request) =
                        read_line(line).with_context(|| format!("a ledger has '{line}'"))?;
                    requests.entry(name.to_owned()).or_default().push(request);
                }
            }
        }
        Ok(Self(requests))
    }

    /// Prints the table of a run; returns the demands that are missed.
    fn report(&self, known: Known, limiters: &[&Limiter]) -> Vec<String> {
        let instants = self.0.values().flatten().map(|request| request.at);
        let start = instants.fold(f64::INFINITY, f64::min);
        say(&format!(
            "\n{}\n{:<20} {:>18} {:>9} {:>8} {:>7} {:>7} {:>6}",
            known.title(),
            "limiter",
            "limit",
            "files",
            "refusals",
            "least s",
            "took s",
            "ratio"
        ));
        let mut missed = Vec::new();
        let mut refusals = 0;
        for limiter in limiters {
            let own = self.0.get(limiter.name).map_or(&[][..], Vec::as_slice);
            let served =
                |request: &&Request| request.status == 200 && request.path.starts_with("/item/");
            let files: BTreeSet<&str> = own
                .iter()
                .filter(served)
                .map(|request| request.path.as_str())
                .collect();
            let is_refusal = |request: &&Request| matches!(request.status, 429 | 503);
            let refused = own.iter().filter(is_refusal).count();
            let last = own.iter().filter(served).map(|request| request.at);
            let took = last.fold(start, f64::max) - start;
            let least = limiter.least_seconds();
            let limits: Vec<String> = limiter
                .windows()
                .iter()
                .map(|(limit, seconds)| format!("{limit} per {seconds} s"))
                .collect();
            say(&format!(
                "{:<20} {:>18} {:>9} {refused:>8} {least:>7.1} {took:>7.1} {:>6.2}",
                limiter.name,
                limits.join(", "),
                format!("{}/{}", files.len(), limiter.files),
                took / least
            ));
            refusals += refused;
            if files.len() < limiter.files {
                missed.push(format!("{known:?}: {} lacks files", limiter.name));
            }
            if known != Known::Shipped && took > least * MAX_TIME_RATIO {
                missed.push(format!("{known:?}: {} takes long", limiter.name));
            }
        }
        say(&format!("{refusals} refusals together"));
        if refusals > limiters.len() * MAX_MEAN_REFUSALS {
            missed.push(format!("{known:?}: {refusals} refusals"));
        }
        missed
    }
}

/// Reads `NAME ARRIVAL STATUS PATH`.
fn read_line(line: &str) -> Option<(&str, Request)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let at = words.next()?;
    // HAProxy writes milliseconds.
    let unit = if at.contains('.') { 1.0 } else { 1_000.0 };
    let request = Request {
        at: at.parse::<f64>().ok()? / unit,
        status: words.next()?.parse().ok()?,
        path: words.next()?.to_owned(),
    };
    Some((name, request))
}
