//! Tests of the properties of the simulated web.

use std::collections::{BTreeMap, HashSet};

use docstokg_policy::time::{BootInstant, Timestamp};

use super::*;
use crate::origin::SimulatedWeb;

mod services;

fn plan() -> LibraryPlan {
    LibraryPlan {
        works: 200,
        scale: 1000,
        file_bytes: 2000..4000,
        ..LibraryPlan::default()
    }
}

/// Sends requests a second apart, so that no limit matters.
struct Visitor {
    web: SimulatedWeb,
    seconds: std::cell::Cell<u64>,
}

impl Visitor {
    fn new(library: &WorkLibrary) -> Self {
        Self {
            web: SimulatedWeb::new(library.origins(), BootInstant::ZERO),
            seconds: std::cell::Cell::new(100),
        }
    }

    fn get(&self, url: &str) -> ScriptedReply {
        let (host, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        self.seconds.set(self.seconds.get() + 1);
        let at = BootInstant::ZERO + Duration::from_secs(self.seconds.get());
        self.web
            .ask(
                Arrival::get(host, &format!("/{path}"), at),
                Timestamp::from_micros(0),
            )
            .unwrap()
    }

    /// Repeats a request until a response is final: through redirects, preparations, failures and
    /// cuts.
    fn fetch(&self, url: &str) -> (u16, Vec<u8>) {
        let mut url = url.to_owned();
        for _ in 0..5 {
            let reply = self.get(&url);
            if let Some((_, to)) = reply.headers.iter().find(|(name, _)| name == "location") {
                url.clone_from(to);
            } else if !(reply.breaks_off() || matches!(reply.status, 202 | 500)) {
                return (reply.status, body(&reply));
            }
        }
        (0, Vec::new())
    }
}

fn body(reply: &ScriptedReply) -> Vec<u8> {
    let bytes = |piece: &crate::Piece| {
        if let crate::Piece::Bytes(bytes) = piece {
            bytes.to_vec()
        } else {
            Vec::new()
        }
    };
    reply.pieces.iter().flat_map(bytes).collect()
}

fn json(visitor: &Visitor, url: &str) -> serde_json::Value {
    serde_json::from_slice(&visitor.fetch(url).1).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let (one, same) = (
        WorkLibrary::generate(&plan()),
        WorkLibrary::generate(&plan()),
    );
    assert_eq!((one.truth(), one.input()), (same.truth(), same.input()));
    let other = WorkLibrary::generate(&LibraryPlan { seed: 2, ..plan() });
    assert_ne!(one.truth(), other.truth());
}

#[test]
fn about_four_of_five_works_can_be_had_and_each_has_its_own_name() {
    let library = WorkLibrary::generate(&LibraryPlan {
        works: 300,
        ..plan()
    });
    let obtainable = library
        .truth()
        .iter()
        .filter(|truth| truth.has_pdf())
        .count();
    assert!((230..=260).contains(&obtainable), "{obtainable} of 300");
    let ids: HashSet<&str> = library
        .truth()
        .iter()
        .map(|truth| truth.id.as_str())
        .collect();
    assert_eq!(ids.len(), 300);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for truth in library.truth() {
        assert_eq!(truth.has_pdf(), truth.because.is_none(), "{}", truth.id);
        *reasons.entry(format!("{:?}", truth.because)).or_default() += 1;
    }
    assert_eq!(reasons.len(), 8, "{reasons:?}");
    let kind = |names: fn(&LineNames) -> bool| {
        library
            .input()
            .iter()
            .filter(|line| names(&line.names))
            .count()
    };
    assert_eq!(
        (
            kind(|names| matches!(names, LineNames::Again(_))),
            kind(|names| *names == LineNames::Nothing)
        ),
        (10, 5)
    );
}

#[test]
fn library_without_faults_serves_every_file() {
    let library = WorkLibrary::generate(&LibraryPlan {
        faults: Faults::None,
        ..plan()
    });
    let visitor = Visitor::new(&library);
    for truth in library.truth() {
        assert!(truth.has_pdf(), "{}", truth.id);
        for copy in truth.of_kind(TruthFileKind::Pdf) {
            assert_eq!(
                file::sha256(&visitor.fetch(&copy.url).1),
                copy.sha256,
                "{}",
                copy.url
            );
        }
    }
    assert!(
        library
            .input()
            .iter()
            .all(|line| line.names != LineNames::Nothing)
    );
}

#[test]
fn every_copy_of_the_truth_has_the_bytes_that_the_truth_says() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    for copy in library.truth().iter().flat_map(|truth| &truth.copies) {
        let (status, bytes) = visitor.fetch(&copy.url);
        assert_eq!(
            (status, file::sha256(&bytes), bytes.len()),
            (200, copy.sha256.clone(), copy.bytes),
            "{}",
            copy.url
        );
        assert!(!copy.found_by.is_empty(), "{}", copy.url);
    }
}

#[test]
fn copies_that_are_kept_back_are_kept_back() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    for paper in &library.world.papers {
        for copy in paper
            .copies
            .iter()
            .filter(|copy| !copy.is_obtainable(Faults::Usual))
        {
            let reply = visitor.get(&copy.url());
            let whole = file::sha256(&body(&reply))
                == file::sha256(&library.world.pdf(paper, copy.version));
            match copy.publisher.behaviour {
                Behaviour::BotChallenge => assert!(
                    reply.status == 403
                        && String::from_utf8_lossy(&body(&reply)).contains("Just a moment...")
                ),
                Behaviour::Down => assert!(reply.dead.is_some()),
                Behaviour::Gone => assert!(matches!(reply.status, 404 | 410)),
                Behaviour::Stub => assert!(
                    reply
                        .headers
                        .contains(&("content-type".to_owned(), "application/pdf".to_owned()))
                        && !whole
                ),
                Behaviour::Disallows => {
                    let robots = visitor.get(&format!("http://{}/robots.txt", copy.publisher.host));
                    assert!(
                        String::from_utf8_lossy(&body(&robots)).contains("Disallow: /pdf/")
                            && copy.path.starts_with("/pdf/")
                    );
                }
                _ => assert!(!whole, "{}", copy.url()),
            }
        }
    }
}

#[test]
fn library_contains_every_usual_fault() {
    let library = WorkLibrary::generate(&LibraryPlan {
        file_bytes: 2000..4000,
        ..LibraryPlan::default()
    });
    let papers = &library.world.papers;
    for publisher in hosts::publishers() {
        assert!(
            papers
                .iter()
                .any(|paper| paper.copy_at(publisher).is_some()),
            "{} has nothing",
            publisher.host
        );
    }
    let copies = || papers.iter().flat_map(|paper| &paper.copies);
    assert!(
        copies().any(|copy| copy.trouble == paper::Trouble::Spoilt)
            && copies().any(|copy| copy.archived.is_some())
    );
    let central = || papers.iter().filter_map(|paper| paper.central);
    assert!(
        central().any(|central| central.stumbles)
            && central().any(|central| central.wrong_checksum)
            && central().any(|central| !central.pdf)
    );
}

#[test]
fn a_transfer_that_broke_off_can_be_continued() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    let cut = library
        .world
        .papers
        .iter()
        .flat_map(|paper| paper.copies.iter().map(move |copy| (paper, copy)));
    let serves_itself =
        |copy: &paper::Copy| !matches!(copy.publisher.behaviour, Behaviour::SendsOn(_));
    let mut count = 0;
    for (paper, copy) in
        cut.filter(|(_, copy)| copy.trouble == paper::Trouble::CutOnce && serves_itself(copy))
    {
        let first = visitor.get(&copy.url());
        let mut bytes = body(&first);
        assert!(first.breaks_off() && first.content_length() > Some(bytes.len() as u64));
        let etag = first
            .headers
            .iter()
            .find(|(name, _)| name == "etag")
            .map(|(_, value)| value.clone())
            .unwrap();
        let at = BootInstant::ZERO + Duration::from_secs(1_000_000);
        let rest = Arrival::get(copy.publisher.host, &copy.path, at)
            .with("range", &format!("bytes={}-", bytes.len()))
            .with("if-range", &etag);
        let rest = visitor.web.ask(rest, Timestamp::from_micros(0)).unwrap();
        assert_eq!(rest.status, 206);
        bytes.extend(body(&rest));
        assert_eq!(
            file::sha256(&bytes),
            file::sha256(&library.world.pdf(paper, copy.version))
        );
        count += 1;
    }
    assert!(count > 1, "{count}");
}
