//! A run with hostile works beside healthy ones, and the judgement of it.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::Duration;

use docstokg_content::resolver::endpoints;
use docstokg_hub::clock::BootInstant;
use docstokg_origin_sim::hostile::redirect_without_end;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::download_world::{DownloadWorld, pdf};
use crate::measured::{Ended, PATIENCE, measure};
use crate::response_forms::is_full;
use crate::snapshot::{Snapshot, leaks};

/// The healthy works of every run, and their host. Their rate makes them take seconds, so that a
/// delay shows.
const HEALTHY: usize = 30;
const HEALTHY_HOST: &str = "healthy.example";
/// The host of attacks that do not concern their whole host.
pub(crate) const HOST: &str = "a.example";
/// How much longer healthy works may take, judged in the full form only: a fifth of their time, and
/// what a busy machine adds.
const FACTOR: f64 = 1.2;
const SLACK: Duration = Duration::from_millis(500);

/// Names of parameters that carry credentials, in the spellings of services.
const SECRET_NAMES: [&str; 12] = [
    "api_key",
    "sessionToken",
    "X-Amz-Signature",
    "auth%54oken",
    "access-token",
    "jwt",
    "insttoken",
    "user[password]",
    "hdnea",
    "Key-Pair-Id",
    "ticket",
    "client_secret",
];

/// The works of a run.
pub(crate) struct Field {
    replies: HashMap<(String, String), ScriptedReply>,
    robots: HashMap<String, ScriptedReply>,
    lines: Vec<String>,
    hosts: Vec<String>,
    /// Variables of the environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Further arguments.
    pub(crate) arguments: Vec<String>,
}

impl Field {
    pub(crate) fn new() -> Self {
        Self {
            replies: HashMap::new(),
            robots: HashMap::new(),
            lines: Vec::new(),
            hosts: vec![HEALTHY_HOST.to_owned(), HOST.to_owned()],
            environment: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Returns how many hostile works there are.
    pub(crate) fn cases(&self) -> usize {
        self.lines.len()
    }

    /// Adds a work with this answer for its file. Answers that concern their whole host get their
    /// own host.
    pub(crate) fn file(&mut self, reply: ScriptedReply) {
        let number = self.lines.len();
        let host = if matches!(reply.status, 429 | 503) {
            self.own_host()
        } else {
            HOST.to_owned()
        };
        let path = format!("/file/{number}.pdf");
        self.lines.push(format!(
            "http://{host}{path}?{}=PLANTED{number}",
            SECRET_NAMES[number % SECRET_NAMES.len()]
        ));
        self.replies.insert((host, path), reply);
    }

    /// Adds a work that leads from one redirect to the next.
    pub(crate) fn redirects(&mut self, path: &str) {
        self.lines.push(format!("http://{HOST}/redirect{path}"));
    }

    /// Adds a work with this page.
    pub(crate) fn page(&mut self, html: impl Into<Vec<u8>>) {
        let path = format!("/page/{}", self.lines.len());
        let reply = ScriptedReply::ok(html.into())
            .header("content-type", "text/html")
            .header("set-cookie", "session=PLANTED-in-cookie");
        self.lines.push(format!("http://{HOST}{path}"));
        self.replies.insert((HOST.to_owned(), path), reply);
    }

    /// Adds a work whose page leads to this paper, which is parsed.
    pub(crate) fn paper(&mut self, paper: Vec<u8>) {
        let path = format!("/paper/{}.pdf", self.lines.len());
        let about = "<meta name=citation_title content=\"A title of a paper\">\
                     <meta name=citation_doi content=10.5555/other>";
        self.page(format!(
            "<html><head>{about}<meta name=citation_pdf_url content={path}></head></html>"
        ));
        self.replies.insert(
            (HOST.to_owned(), path),
            ScriptedReply::ok(paper).header("content-type", "application/pdf"),
        );
    }

    /// Adds a work with this answer of a service.
    pub(crate) fn record(&mut self, reply: ScriptedReply) {
        let number = self.lines.len();
        self.lines.push(format!("10.5555/attack.{number}"));
        self.replies.insert(
            (
                HOST.to_owned(),
                format!("/unpaywall/10.5555/attack.{number}"),
            ),
            reply,
        );
    }

    /// Adds a work of a host with this answer for its robots.txt.
    pub(crate) fn robots(&mut self, reply: ScriptedReply) {
        let host = self.own_host();
        self.lines.push(format!("http://{host}/file/x.pdf"));
        self.robots.insert(host, reply);
    }

    fn own_host(&mut self) -> String {
        let host = format!("w{}.attack.example", self.lines.len());
        self.hosts.push(host.clone());
        host
    }

    /// Runs the healthy works alone, then all together, and returns the second run with what was
    /// wrong.
    pub(crate) fn run(self) -> Judged {
        let origins = self
            .hosts
            .iter()
            .map(|host| origin(host, &self.replies, self.robots.get(host)))
            .collect();
        let world = DownloadWorld::start(origins, self.hosts.clone(), &config());
        self.write_files(&world);
        let alone = measured(
            &world,
            self.command(&world, "healthy.txt", "usual")
                .env("DOCSTOKG_STATE_DIR", world.path("usual-state")),
        );
        let (canary, home) = (
            Snapshot::of(&world.path("canary")),
            Snapshot::of(&world.path("home")),
        );
        let together = measured(&world, &mut self.command(&world, "list.txt", "out"));
        let mut problems = together.ended.problems();
        if alone.ended.code != Some(0) || together.ended.code == Some(2) {
            problems.push(format!(
                "it does not run at all: {}{}",
                alone.ended.err, together.ended.err
            ));
        }
        problems.extend(canary.changes(&world.path("canary")));
        problems.extend(home.changes(&world.path("home")));
        problems.extend(leaks(
            &["out", "state", "streams"].map(|name| world.path(name)),
        ));
        problems.extend(self.never_requested(&world));
        problems.extend(delays(&alone, &together));
        Judged {
            usual: alone.healthy_took,
            healthy: together.healthy_took,
            ended: together.ended,
            problems,
        }
    }

    /// Writes the lists, and the files and directories that must stay as they are.
    fn write_files(&self, world: &DownloadWorld) {
        let healthy: Vec<String> = (0..HEALTHY)
            .map(|number| format!("http://{HEALTHY_HOST}/{number}.pdf"))
            .collect();
        let all = interleaved(&healthy, &self.lines);
        std::fs::write(world.path("healthy.txt"), healthy.join("\n")).expect("a file");
        std::fs::write(world.path("list.txt"), all.join("\n")).expect("a file");
        for name in ["canary", "canary/deep", "home", "streams"] {
            std::fs::create_dir(world.path(name)).expect("a directory");
        }
        for name in ["canary/overwritten.pdf", "canary/deep/kept.txt"] {
            std::fs::write(world.path(name), "as it was").expect("a file");
        }
    }

    fn command(&self, world: &DownloadWorld, list: &str, out: &str) -> Command {
        let path = |name: &str| world.path(name).display().to_string();
        let mut command = world.command(&[
            &path(list),
            "--out",
            &path(out),
            "--max-wait",
            "0",
            "--item-deadline",
            // Beside other tests every work has its turn, however late.
            if is_full() { "4" } else { "120" },
            "--max-attempts",
            "4",
        ]);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(&self.arguments)
            .env("HOME", world.path("home"))
            .env("TMPDIR", world.path("home"))
            .env("XDG_STATE_HOME", world.path("home"));
        command
    }

    /// Returns the answers that no request received: an attack that was not tried proves nothing.
    fn never_requested(&self, world: &DownloadWorld) -> Vec<String> {
        let arrivals = world.web.ledger().arrivals().into_iter();
        let requested: HashSet<(String, String)> = arrivals
            .map(|arrival| (arrival.host, path_of(&arrival.path)))
            .collect();
        let robots = self.robots.keys();
        let robots = robots.map(|host| (host.clone(), "/robots.txt".to_owned()));
        let wanted = self.replies.keys().cloned().chain(robots);
        wanted
            .filter(|target| !requested.contains(target))
            .map(|(host, path)| format!("{host}{path} was never requested"))
            .collect()
    }
}

/// Returns what hostile works did to healthy ones.
fn delays(alone: &Measured, together: &Measured) -> Vec<String> {
    let mut problems = Vec::new();
    if alone.healthy != HEALTHY {
        problems.push(format!(
            "only {} healthy works arrived alone",
            alone.healthy
        ));
    }
    if together.healthy != HEALTHY {
        problems.push(format!(
            "only {} of {HEALTHY} healthy works arrived",
            together.healthy
        ));
    }
    if is_full() && together.healthy_took > alone.healthy_took.mul_f64(FACTOR) + SLACK {
        problems.push(format!(
            "the healthy works took {:?}, {:?} alone",
            together.healthy_took, alone.healthy_took
        ));
    }
    problems
}

/// A run, how long its healthy works took from its start, and how many arrived.
struct Measured {
    ended: Ended,
    healthy_took: Duration,
    healthy: usize,
}

/// The result of a run.
pub(crate) struct Judged {
    /// How long the healthy works took alone, and beside the others.
    pub(crate) usual: Duration,
    pub(crate) healthy: Duration,
    pub(crate) ended: Ended,
    pub(crate) problems: Vec<String>,
}

impl Judged {
    /// Writes the figures of the run.
    pub(crate) fn figures(&self) -> String {
        format!(
            "{} MiB, {:.1} s of processor, {:.1} s in all; healthy works {:.2} s, usually {:.2} s",
            self.ended.peak >> 20,
            self.ended.cpu.as_secs_f64(),
            self.ended.took.as_secs_f64(),
            self.healthy.as_secs_f64(),
            self.usual.as_secs_f64()
        )
    }
}

fn measured(world: &DownloadWorld, command: &mut Command) -> Measured {
    let before = world.web.ledger().len();
    let ended = measure(command, &world.path("streams"), PATIENCE);
    let arrivals = world.web.ledger().arrivals();
    let files = arrivals[before..]
        .iter()
        .filter(|arrival| arrival.host == HEALTHY_HOST && arrival.path != "/robots.txt");
    // One that takes too long on a busy machine is asked for again.
    let ends: HashMap<&str, BootInstant> = files
        .filter_map(|arrival| Some((arrival.path.as_str(), arrival.ended?)))
        .collect();
    let healthy_took = ends
        .values()
        .max()
        .map_or(PATIENCE, |last| last.since(ended.began));
    Measured {
        ended,
        healthy_took,
        healthy: ends.len(),
    }
}

fn origin(
    host: &str,
    replies: &HashMap<(String, String), ScriptedReply>,
    robots: Option<&ScriptedReply>,
) -> OriginScript {
    let (robots, healthy) = (robots.cloned(), host == HEALTHY_HOST);
    let own: HashMap<String, ScriptedReply> = replies
        .iter()
        .filter(|((known, _), _)| known == host)
        .map(|((_, path), reply)| (path.clone(), reply.clone()))
        .collect();
    OriginScript::new(host).handler(move |arrival, _| match path_of(&arrival.path).as_str() {
        "/robots.txt" => robots.clone().unwrap_or_else(|| ScriptedReply::status(404)),
        path if healthy => pdf(path),
        path if path.starts_with("/redirect") => redirect_without_end(path),
        path => own
            .get(path)
            .cloned()
            .unwrap_or_else(|| ScriptedReply::status(404)),
    })
}

fn path_of(target: &str) -> String {
    target.split('?').next().unwrap_or_default().to_owned()
}

/// Distributes the healthy works among the others.
fn interleaved(healthy: &[String], lines: &[String]) -> Vec<String> {
    let step = (lines.len() / healthy.len()).max(1);
    let mut chunks = lines.chunks(step);
    let mut all: Vec<String> = healthy
        .iter()
        .flat_map(|line| {
            chunks
                .next()
                .unwrap_or_default()
                .iter()
                .cloned()
                .chain([line.clone()])
        })
        .collect();
    all.extend(chunks.flatten().cloned());
    all
}

/// The configuration of every run: short timeouts, breakers that stay closed, so that every attack
/// is tried, and no service whose name would have to be resolved.
pub(crate) fn config() -> String {
    let endpoints = endpoints()
        .map(|endpoint| endpoint.key)
        .map(|service| format!("    {service}: \"http://{HOST}/{service}/\""))
        .collect::<Vec<_>>()
        .join("\n");
    let free = "{ rates: [], max_concurrent: 400 }";
    format!(
        "version: 1
identity: {{ mailto: reader@simulated-library.org }}
resolvers:
  preset: fast
  openalex_api_key: PLANTED-openalex
  crossref_plus_token: PLANTED-crossref
  endpoints:
{endpoints}
limits:
  defaults: {{ artifact: {free}, landing: {free}, metadata: {free} }}
  hosts: {{ {HEALTHY_HOST}: {{ artifact: {{ rates: [\"15/SECOND\"], max_concurrent: 8 }} }} }}
breakers: {{ defaults: {{ fail_max: 100000 }} }}
retry: {{ attempts: 2 }}
transport:
  connect_timeout_s: 2
  header_timeout_s: 1
  idle_timeout_s: 1
  throughput_window_s: 1
  deadline_s: 3
  max_file_bytes: 8388608
"
    )
}
