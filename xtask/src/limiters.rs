//! Downloads from rate limiters of other projects: packages of npm and `PyPI`, nginx and `HAProxy`.
//!
//! All run on loopback. Their own ledgers show the number of refusals, and the time for the files
//! of each compared with the least time.

mod ledger;
mod servers;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::process::{Running, cargo, free_port, need, need_as, root};
use ledger::LimiterLedger;

/// Maximum time of one download, in tenths of a second. The slowest limiter needs a minute; the
/// default rate of 2 per second needs some four.
const MAX_RUN_TENTHS: u32 = 4_500;

/// The process that a limiter is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimiterProgram {
    Node,
    Python,
    /// nginx with these parameters of `limit_req` after its zone.
    Nginx(&'static str),
    HaProxy,
}

impl LimiterProgram {
    const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Nginx(_) => "nginx",
            Self::HaProxy => "haproxy",
        }
    }
}

/// The counting rule of a [`Limiter`], which decides the least time of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountingRule {
    /// `limit` requests in a window that begins with a request, or in any span of its length.
    Window,
    /// Like [`Self::Window`], with this further limit (requests, seconds).
    TwoWindows(usize, u32),
    /// `limit` requests per window at an even rate, after so many at once. Leaky buckets count like
    /// this, and so do counters that include the window before.
    Bucket(usize),
}

/// A limiter, and the number of files behind it.
struct Limiter {
    name: &'static str,
    program: LimiterProgram,
    limit: usize,
    seconds: u32,
    counts: CountingRule,
    files: usize,
}

/// The limiters. Windows end half full, so that neither an even pace nor bursts are favoured much.
#[rustfmt::skip]
const LIMITERS: [Limiter; 24] = {
    use CountingRule::{Bucket, TwoWindows, Window};
    use LimiterProgram::{HaProxy, Nginx, Node, Python};
    const fn of(name: &'static str, program: LimiterProgram, limit: usize, seconds: u32, counts: CountingRule, files: usize) -> Limiter {
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
        // The search was written without knowledge of the limiters below.
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
        if let CountingRule::TwoWindows(limit, seconds) = self.counts {
            windows.push((limit, seconds));
        }
        windows
    }

    /// Returns the least seconds from the first request to the last.
    ///
    /// A bucket needs `(files - burst) * seconds / limit`. With windows, each request is sent as
    /// soon as every limit admits it. For a single window that is `seconds * (ceil(files / limit) -
    /// 1)`.
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    fn least_seconds(&self) -> f64 {
        if let CountingRule::Bucket(burst) = self.counts {
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

    /// Returns the lines of a configuration that declare the limits.
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

/// The knowledge of a run about the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitKnowledge {
    /// No knowledge: the run searches, up to 50 per second.
    Nothing,
    /// No knowledge, with the configuration as shipped.
    Shipped,
    /// The run knows all limits.
    Told,
}

impl LimitKnowledge {
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
        [] => vec![LimitKnowledge::Nothing, LimitKnowledge::Shipped],
        ["--told"] => vec![LimitKnowledge::Told],
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
    servers::install(&packages)?;
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

/// Downloads from all limiters at once. Returns the demands that are missed.
fn measure(
    known: LimitKnowledge,
    limiters: &[&Limiter],
    packages: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<String>> {
    let ported: Vec<(&Limiter, u16)> = limiters
        .iter()
        .map(|limiter| Ok((*limiter, free_port()?)))
        .collect::<anyhow::Result<_>>()?;
    let servers = servers::start(&ported, packages, directory)?;
    let is_done = download(known, &ported, directory)?;
    drop(servers);
    let ledger = LimiterLedger::read(directory)?;
    let mut missed = ledger.report(known, limiters);
    if !is_done {
        missed.push(format!("{known:?}: the download did not end with success"));
    }
    Ok(missed)
}

/// Downloads the files of all limiters alternately. Returns true if the download ended with
/// success.
#[expect(
    clippy::disallowed_methods,
    reason = "a real process is waited for in real time"
)]
fn download(
    known: LimitKnowledge,
    ported: &[(&Limiter, u16)],
    directory: &Path,
) -> anyhow::Result<bool> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_follows_from_what_a_limiter_counts() {
        let least = |name: &str| {
            let found = LIMITERS.iter().find(|limiter| limiter.name == name);
            found.expect("a limiter").least_seconds()
        };
        assert!((least("express-draft-8") - 25.0).abs() < 1e-9);
        assert!((least("flask-fixed") - 60.0).abs() < 1e-9);
        // The 41st request waits for a minute, and 20 requests take 7 windows of a second.
        assert!((least("flask-two") - 66.0).abs() < 1e-9);
        assert!((least("nginx-burst") - 26.0).abs() < 1e-9);
    }
}
