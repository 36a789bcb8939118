//! Answers that mean harm: addresses, bombs, endless and odd ones, pages.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use docstokg_origin_sim::ScriptedReply;
use docstokg_origin_sim::hostile::{
    Attack, addresses, bombs, loopback, odd_headers, pages, paper, papers, without_end,
};

use crate::header_fields::Field;
use crate::measured::{PATIENCE, measure};
use crate::response_forms::{alone, conclude, few, is_full};
use crate::support::program;

/// A port that no request may reach, and how many did.
struct Canary {
    port: u16,
    arrived: Arc<AtomicUsize>,
}

impl Canary {
    fn listen() -> Self {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let canary = Self {
            port: first.local_addr().expect("an address").port(),
            arrived: Arc::default(),
        };
        // Not every machine has IPv6.
        let others = ["127.0.0.2", "::1"]
            .iter()
            .filter_map(|host| TcpListener::bind((*host, canary.port)).ok());
        for listener in others.chain([first]) {
            let arrived = Arc::clone(&canary.arrived);
            std::thread::spawn(move || {
                for _ in listener.incoming() {
                    arrived.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        canary
    }

    fn problems(&self) -> Vec<String> {
        let arrived = self.arrived.load(Ordering::SeqCst);
        if arrived == 0 {
            Vec::new()
        } else {
            vec![format!(
                "{arrived} connections were made to where none may be"
            )]
        }
    }
}

/// Leads to each target by a redirect, a page and a record of a service.
fn lead_to(field: &mut Field, targets: &[String]) {
    for target in targets {
        field.file(ScriptedReply::redirect(302, target));
        field.page(format!(
            "<html><head><meta name=citation_title content=T>\
             <meta name=citation_pdf_url content=\"{target}\"></head></html>"
        ));
        let record = format!(
            "{{\"doi\":\"10.5555/x\",\"best_oa_location\":{{\"url_for_pdf\":\"{target}\",\
             \"url\":\"{target}?token=PLANTED-in-json\"}}}}"
        );
        field.record(ScriptedReply::ok(record).header("content-type", "application/json"));
    }
}

/// Sends what would be dialled to a proxy that is the canary: should the guard fail, nothing leaves
/// this machine.
fn behind_a_proxy(field: &mut Field, canary: &Canary) {
    let proxy = format!("http://user:PLANTED-proxy@127.0.0.1:{}", canary.port);
    field.environment = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"]
        .map(|name| (name.to_owned(), proxy.clone()))
        .to_vec();
    // The proxy is asked for what the user names: if it were not, this would show nothing.
    let before = canary.arrived.load(Ordering::SeqCst);
    let streams = tempfile::tempdir().expect("a directory");
    let mut control = program();
    control
        .args(["fetch", "http://127.0.0.2:1/", "--deadline", "2"])
        .env("http_proxy", &proxy);
    measure(&mut control, streams.path(), PATIENCE);
    assert!(
        canary.arrived.swap(before, Ordering::SeqCst) > before,
        "the proxy is not asked"
    );
}

fn run(class: &str, canary: Option<&Canary>, field: Field) {
    let cases = field.cases();
    let judged = field.run();
    let problems = [
        judged.problems.clone(),
        canary.map(Canary::problems).unwrap_or_default(),
    ]
    .concat();
    conclude(class, cases, &judged.figures(), &problems);
}

/// Takes all cases, or so many of them.
fn taken<T>(all: bool, cases: Vec<T>, short: usize) -> Vec<T> {
    if all { cases } else { few(cases, short) }
}

fn files(field: &mut Field, attacks: Vec<Attack>) {
    for attack in attacks {
        field.file(attack.reply);
    }
}

/// Adds attacks of one kind: all of them, or some.
type Add = fn(&mut Field, bool);

fn add_bombs(field: &mut Field, all: bool) {
    let size = if all { 512 << 20 } else { 32 << 20 };
    files(
        field,
        taken(all, bombs(size, "application/pdf", "%PDF-1.4\n"), 16),
    );
    if all {
        files(
            field,
            taken(
                all,
                bombs(
                    size,
                    "text/html",
                    "<html><head><meta name=citation_pdf_url content=/x.pdf></head>",
                ),
                0,
            ),
        );
    }
    for attack in taken(
        all,
        bombs(
            16 << 20,
            "application/json",
            "{\"doi\":\"10.5555/x\",\"title\":\"",
        ),
        6,
    ) {
        field.record(attack.reply);
    }
    for attack in taken(
        all,
        bombs(16 << 20, "text/plain", "User-agent: *\nDisallow: /x\n"),
        4,
    ) {
        field.robots(attack.reply);
    }
}

fn add_endless(field: &mut Field, all: bool) {
    for path in ["/same", "/longer", "/other"] {
        field.redirects(path);
    }
    files(field, taken(all, without_end(), 8));
    for attack in taken(all, without_end(), 4) {
        field.record(attack.reply);
    }
    for attack in taken(all, without_end(), 4) {
        field.robots(attack.reply);
    }
}

fn add_headers(field: &mut Field, all: bool) {
    files(field, taken(all, odd_headers(), 50));
    // Those that speak of their whole host would keep the others from being asked.
    let of_one_answer = odd_headers()
        .into_iter()
        .filter(|attack| !matches!(attack.reply.status, 429 | 503))
        .collect();
    for attack in taken(all, of_one_answer, 10) {
        field.record(attack.reply);
    }
}

fn add_pages(field: &mut Field, all: bool) {
    for (_, body) in taken(all, pages(2 << 20), 4) {
        field.page(format!(
            "<html><head><meta name=citation_title content=T></head><body>{body}"
        ));
    }
}

fn add_papers(field: &mut Field, all: bool) {
    field.paper(paper("A title of a paper", "doi:10.5555/other"));
    for (_, paper) in taken(all, papers(), 8) {
        field.paper(paper);
    }
}

/// The short form: some of everything in one run.
#[test]
fn run_ends_with_every_hostile_origin_at_once() {
    let _turn = alone();
    let (canary, mut field) = (Canary::listen(), Field::new());
    behind_a_proxy(&mut field, &canary);
    lead_to(&mut field, &addresses());
    for add in [add_bombs, add_endless, add_headers, add_pages, add_papers] {
        add(&mut field, false);
    }
    run("all at once", Some(&canary), field);
}

#[test]
fn no_answer_leads_to_this_machine() {
    let _turn = alone();
    let (canary, mut field) = (Canary::listen(), Field::new());
    lead_to(&mut field, &loopback(canary.port));
    run("addresses of this machine", Some(&canary), field);
}

#[test]
#[ignore = "for cargo xtask attack: the short form has some of it"]
fn no_answer_leads_into_the_private_network() {
    let _turn = alone();
    let (canary, mut field) = (Canary::listen(), Field::new());
    behind_a_proxy(&mut field, &canary);
    lead_to(&mut field, &addresses());
    run("private addresses", Some(&canary), field);
}

#[test]
#[ignore = "for cargo xtask attack: the short form has some of it"]
fn run_ends_with_each_hostile_origin_alone() {
    let _turn = alone();
    let kinds: [(&str, Add); 5] = [
        ("bombs", add_bombs),
        ("answers without end", add_endless),
        ("headers of nonsense", add_headers),
        ("pages that cost", add_pages),
        ("papers", add_papers),
    ];
    for (class, add) in kinds {
        let mut field = Field::new();
        add(&mut field, is_full());
        run(class, None, field);
    }
}
