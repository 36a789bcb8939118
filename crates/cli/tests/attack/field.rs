//! A run with hostile works beside healthy ones, and the judgement of it.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_origin_sim::hostile::redirect_without_end;
use docstokg_origin_sim::{Origin, Reply};

use crate::measured::{Ended, measure};
use crate::snapshot::{Snapshot, leaks};
use crate::world::{World, pdf};

/// The healthy works of every run, and their host. Their rate makes them take a while: what holds
/// them up shows.
const HEALTHY: usize = 30;
const HEALTHY_HOST: &str = "healthy.example";
/// The host of attacks that do not speak of their whole host.
pub(crate) const HOST: &str = "a.example";
/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(60);
/// What other works may lose: a fifth of their time, and what a busy machine takes of anybody. That
/// is judged of what people run; a debug build decodes and parses ten times as long, beside other
/// tests.
const FACTOR: f64 = if cfg!(debug_assertions) { 2.0 } else { 1.2 };
const SLACK: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_500 } else { 500 });

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

/// A field of works.
pub(crate) struct Field {
    replies: HashMap<(String, String), Reply>,
    robots: HashMap<String, Reply>,
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

    /// Adds a work whose file is answered so. Answers that speak of their whole host get one of
    /// their own.
    pub(crate) fn file(&mut self, reply: Reply) {
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

    /// Adds a work whose page is this.
    pub(crate) fn page(&mut self, html: impl Into<Vec<u8>>) {
        let path = format!("/page/{}", self.lines.len());
        let reply = Reply::ok(html.into())
            .header("content-type", "text/html")
            .header("set-cookie", "session=PLANTED-in-cookie");
        self.lines.push(format!("http://{HOST}{path}"));
        self.replies.insert((HOST.to_owned(), path), reply);
    }

    /// Adds a work whose page leads to this paper, which is looked into.
    pub(crate) fn paper(&mut self, paper: Vec<u8>) {
        let path = format!("/paper/{}.pdf", self.lines.len());
        let about = "<meta name=citation_title content=\"A title of a paper\"><meta name=citation_doi content=10.5555/other>";
        self.page(format!(
            "<html><head>{about}<meta name=citation_pdf_url content={path}></head></html>"
        ));
        self.replies.insert(
            (HOST.to_owned(), path),
            Reply::ok(paper).header("content-type", "application/pdf"),
        );
    }

    /// Adds a work that a service is asked for, and answers so.
    pub(crate) fn record(&mut self, reply: Reply) {
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

    /// Adds a work of a host whose robots.txt is answered so.
    pub(crate) fn robots(&mut self, reply: Reply) {
        let host = self.own_host();
        self.lines.push(format!("http://{host}/file/x.pdf"));
        self.robots.insert(host, reply);
    }

    fn own_host(&mut self) -> String {
        let host = format!("w{}.attack.example", self.lines.len());
        self.hosts.push(host.clone());
        host
    }

    /// Runs the healthy works by themselves, then all together, and returns the second run with
    /// what was wrong.
    pub(crate) fn run(self) -> Judged {
        let Self {
            replies,
            robots,
            lines,
            hosts,
            environment,
            arguments,
        } = self;
        let origins = hosts
            .iter()
            .map(|host| origin(host, &replies, robots.get(host)))
            .collect();
        let world = World::start(origins, hosts, &config());
        let healthy: Vec<String> = (0..HEALTHY)
            .map(|number| format!("http://{HEALTHY_HOST}/{number}.pdf"))
            .collect();
        std::fs::write(world.path("healthy.txt"), healthy.join("\n")).expect("a file");
        std::fs::write(
            world.path("list.txt"),
            interleaved(&healthy, &lines).join("\n"),
        )
        .expect("a file");
        for name in ["canary", "canary/deep", "home", "streams"] {
            std::fs::create_dir(world.path(name)).expect("a directory");
        }
        for name in ["canary/overwritten.pdf", "canary/deep/kept.txt"] {
            std::fs::write(world.path(name), "as it was").expect("a file");
        }
        let command = |list: &str, out: &str| {
            let (list, out) = (
                world.path(list).display().to_string(),
                world.path(out).display().to_string(),
            );
            let mut command = world.command(&[
                &list,
                "--out",
                &out,
                "--max-wait",
                "0",
                "--item-deadline",
                "4",
                "--max-attempts",
                "4",
            ]);
            command
                .envs(environment.iter().map(|(name, value)| (name, value)))
                .args(&arguments);
            command
                .env("HOME", world.path("home"))
                .env("TMPDIR", world.path("home"))
                .env("XDG_STATE_HOME", world.path("home"));
            command
        };
        let usual = measured(
            &world,
            command("healthy.txt", "usual").env("DOCSTOKG_STATE_DIR", world.path("usual-state")),
        );
        let (canary, home) = (
            Snapshot::of(&world.path("canary")),
            Snapshot::of(&world.path("home")),
        );
        let ended = measured(&world, &mut command("list.txt", "out"));
        let mut problems = ended.0.problems();
        if usual.0.code != Some(0) || ended.0.code == Some(2) {
            problems.push(format!(
                "it does not run at all: {}{}",
                usual.0.err, ended.0.err
            ));
        }
        problems.extend(canary.changes(&world.path("canary")));
        problems.extend(home.changes(&world.path("home")));
        problems.extend(leaks(
            &["out", "state", "streams"].map(|name| world.path(name)),
        ));
        let asked: HashSet<(String, String)> = world
            .web
            .ledger()
            .arrivals()
            .into_iter()
            .map(|arrival| (arrival.host, path_of(&arrival.path)))
            .collect();
        let wanted = replies.keys().cloned().chain(
            robots
                .keys()
                .map(|host| (host.clone(), "/robots.txt".to_owned())),
        );
        problems.extend(
            wanted
                .filter(|place| !asked.contains(place))
                .map(|(host, path)| format!("{host}{path} was never asked for")),
        );
        let allowed = usual.1.mul_f64(FACTOR) + SLACK;
        if usual.2 != HEALTHY {
            problems.push(format!("only {} healthy works came by themselves", usual.2));
        }
        if ended.2 != HEALTHY {
            problems.push(format!("only {} of {HEALTHY} healthy works came", ended.2));
        }
        if ended.1 > allowed {
            problems.push(format!(
                "the healthy works took {:?}, {:?} by themselves",
                ended.1, usual.1
            ));
        }
        Judged {
            usual: usual.1,
            healthy: ended.1,
            ended: ended.0,
            problems,
        }
    }
}

/// What came of a run.
pub(crate) struct Judged {
    /// How long the healthy works took by themselves, and beside the others.
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

/// Runs it; returns how long the healthy works took from its start on, and how many came.
fn measured(world: &World, command: &mut Command) -> (Ended, Duration, usize) {
    let before = world.web.ledger().len();
    let ended = measure(command, &world.path("streams"), LIMIT);
    let arrivals = world.web.ledger().arrivals();
    let files = arrivals[before..]
        .iter()
        .filter(|arrival| arrival.host == HEALTHY_HOST && arrival.path != "/robots.txt");
    let ends: Vec<BootInstant> = files.filter_map(|arrival| arrival.ended).collect();
    let took = ends
        .iter()
        .max()
        .map_or(LIMIT, |last| last.since(ended.began));
    (ended, took, ends.len())
}

fn origin(
    host: &str,
    replies: &HashMap<(String, String), Reply>,
    robots: Option<&Reply>,
) -> Origin {
    let (robots, healthy) = (robots.cloned(), host == HEALTHY_HOST);
    let own: HashMap<String, Reply> = replies
        .iter()
        .filter(|((known, _), _)| known == host)
        .map(|((_, path), reply)| (path.clone(), reply.clone()))
        .collect();
    Origin::new(host).handler(move |arrival, _| match path_of(&arrival.path).as_str() {
        "/robots.txt" => robots.clone().unwrap_or_else(|| Reply::status(404)),
        path if healthy => pdf(path),
        path if path.starts_with("/redirect") => redirect_without_end(path),
        path => own.get(path).cloned().unwrap_or_else(|| Reply::status(404)),
    })
}

fn path_of(target: &str) -> String {
    target.split('?').next().unwrap_or_default().to_owned()
}

/// Puts the healthy works between the others.
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

/// The configuration of every run: short patience, breakers that stay closed, so that every attack
/// is met, and no service whose name would have to be looked up.
pub(crate) fn config() -> String {
    let services = [
        "openalex",
        "openalex_content",
        "crossref",
        "datacite",
        "arxiv",
        "pmc_id_converter",
        "pmc_bucket",
        "europe_pmc",
    ];
    let services = services
        .iter()
        .chain(&["europe_pmc_articles", "doi", "wayback", "unpaywall"]);
    let endpoints = services
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
transport: {{ connect_timeout_s: 2, header_timeout_s: 1, idle_timeout_s: 1, throughput_window_s: 1, deadline_s: 3, max_file_bytes: 8388608 }}
"
    )
}
