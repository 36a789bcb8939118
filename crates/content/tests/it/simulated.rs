//! The resolvers against the simulated scholarly web, of which the truth is known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use docstokg_content::identifier::Identifier;
use docstokg_content::input::{InputReader, ListFormat};
use docstokg_content::location::{CandidateLocation, LocationOffer};
use docstokg_content::resolver::{
    self, Applicability, LandingPage, LookupOutcome, Resolver, ResolverId,
};
use docstokg_content::work::{LearnedMetadata, Work};
use docstokg_origin_sim::scholarly::{
    AbsenceCause, Faults, LibraryPlan, LineNames, TruthFileKind, WorkLibrary, WorkTruth,
};

use crate::scripted_web::{finish, look_up};

// An obedient downloader in miniature: asks in order, keeps to robots.txt, judges bytes.
mod downloader;
// The simulated web behind the seam that resolvers ask through.
mod web;

use downloader::Downloader;
use web::{Simulated, sha256};

fn library() -> WorkLibrary {
    WorkLibrary::generate(&LibraryPlan {
        works: 300,
        scale: 1000,
        deposits: 42,
        file_bytes: 4000..8000,
        ..LibraryPlan::default()
    })
}

fn work(truth: &WorkTruth) -> Work {
    let mut work = Work::new(Identifier::parse(&truth.id).unwrap());
    work.failed_urls = truth.gone.iter().map(|url| url.parse().unwrap()).collect();
    work
}

/// Learns what the catalogue knows about works, in batches.
fn learn(works: &mut [Work], resolver: &dyn Resolver, web: &Simulated) {
    for chunk in works.chunks_mut(resolver.batch()) {
        let outcomes = look_up(resolver, chunk, web);
        chunk.iter_mut().zip(outcomes).for_each(|(work, outcome)| {
            outcome
                .learned()
                .into_iter()
                .for_each(|learned| work.learn(learned));
        });
    }
}

fn locations(outcome: &LookupOutcome) -> &[CandidateLocation] {
    if let LookupOutcome::Found(found) = outcome {
        &found.locations
    } else {
        &[]
    }
}

/// Fetches everything that a resolver named, through pages where it named pages, and returns the
/// checksums of what was there.
fn everything(outcome: &LookupOutcome, pages: &LandingPage, web: &Simulated) -> HashSet<String> {
    let mut sums = HashSet::new();
    for location in locations(outcome) {
        assert!(
            web.knows(&location.url),
            "{} leads out of the simulated web",
            location.url
        );
        let behind = match location.offers {
            LocationOffer::Landing | LocationOffer::Unknown | LocationOffer::Html => {
                finish(pages.read(location.url.clone(), None), web)
            }
            _ => LookupOutcome::Found(resolver::FoundLocations {
                locations: vec![location.clone()],
                learned: LearnedMetadata::default(),
            }),
        };
        sums.extend(
            locations(&behind)
                .iter()
                .filter_map(|file| web.fetch(&file.url))
                .map(|answer| sha256(&answer.body)),
        );
    }
    sums
}

#[test]
fn every_resolver_leads_to_every_copy_that_it_knows_of() {
    let library = library();
    let web = Simulated::new(&library);
    let settings = web.settings();
    let resolvers = resolver::all(&settings);
    let pages = LandingPage::new(Arc::clone(&settings));
    let mut works: Vec<Work> = library.truth().iter().map(work).collect();
    learn(&mut works, &*resolvers[0], &web);
    let mut led: BTreeMap<ResolverId, usize> = BTreeMap::new();
    for resolver in &resolvers {
        let known = |truth: &WorkTruth| {
            truth
                .copies
                .iter()
                .any(|copy| copy.found_by.contains(&resolver.id().as_str()))
        };
        let (truths, asked): (Vec<&WorkTruth>, Vec<Work>) = library
            .truth()
            .iter()
            .zip(&works)
            .filter(|(truth, _)| known(truth))
            .map(|(truth, work)| (truth, work.clone()))
            .unzip();
        let outcomes = asked
            .chunks(resolver.batch())
            .flat_map(|chunk| look_up(&**resolver, chunk, &web));
        for ((truth, work), outcome) in truths.iter().zip(&asked).zip(outcomes) {
            assert_eq!(
                resolver.applies(work),
                Applicability::Yes,
                "{} and {}",
                resolver.id(),
                truth.id
            );
            let sums = everything(&outcome, &pages, &web);
            for copy in truth
                .copies
                .iter()
                .filter(|copy| copy.found_by.contains(&resolver.id().as_str()))
            {
                assert!(
                    sums.contains(&copy.sha256),
                    "{} does not lead from {} to {}: {outcome:?}",
                    resolver.id(),
                    truth.id,
                    copy.url
                );
                *led.entry(resolver.id()).or_default() += 1;
            }
        }
    }
    // The search for titles names works, and leads to no copy by itself.
    let leading = resolvers
        .iter()
        .filter(|resolver| resolver.id() != resolver::title_search::ID);
    assert_eq!(led.len(), leading.count(), "{led:?}");
    assert!(led.values().all(|count| *count > 5), "{led:?}");
}

/// Downloads everything, checks it against the truth, and counts what could not be had by its
/// reason.
fn download_all(library: &WorkLibrary) -> HashMap<AbsenceCause, usize> {
    let web = Simulated::new(library);
    let downloader = Downloader::new(&web);
    let mut refused: HashMap<AbsenceCause, usize> = HashMap::new();
    for truth in library.truth() {
        let brought = downloader.download(Work::new(Identifier::parse(&truth.id).unwrap()));
        match (&brought, truth.because) {
            (Some(body), None) => {
                let sum = sha256(body);
                assert!(
                    truth
                        .of_kind(TruthFileKind::Pdf)
                        .any(|copy| copy.sha256 == sum),
                    "{}: a file that is not among the copies",
                    truth.id
                );
            }
            (None, Some(because)) => *refused.entry(because).or_default() += 1,
            (None, None) => panic!("{} can be had, and was not: {:?}", truth.id, truth.copies),
            (Some(_), Some(because)) => panic!("{} cannot be had ({because:?}), and was", truth.id),
        }
    }
    refused
}

#[test]
fn an_obedient_downloader_gets_what_can_be_had_and_nothing_else() {
    assert_eq!(download_all(&library()).len(), 7);
    for seed in 2..5 {
        download_all(&WorkLibrary::generate(&LibraryPlan {
            seed,
            works: 80,
            scale: 1000,
            file_bytes: 4000..8000,
            deposits: 14,
            faults: Faults::Usual,
        }));
    }
    let calm = WorkLibrary::generate(&LibraryPlan {
        works: 120,
        scale: 1000,
        file_bytes: 4000..8000,
        faults: Faults::None,
        seed: 9,
        deposits: 5,
    });
    assert_eq!(download_all(&calm), HashMap::new());
}

#[test]
fn the_list_that_a_user_types_names_the_works_that_it_says() {
    let library = library();
    let text = library.input_lines().join("\n");
    let read: Vec<_> = InputReader::new(text.as_bytes(), ListFormat::Auto).collect();
    assert_eq!(read.len(), library.input().len());
    for (read, line) in read.iter().zip(library.input()) {
        match (read, line.names) {
            (Ok(read), LineNames::Work(at)) => {
                assert_eq!(read.work.work_id(), library.truth()[at].id, "{}", line.text);
            }
            (Ok(read), LineNames::Again(at)) => assert_eq!(
                read.work.work_key(),
                work(&library.truth()[at]).work_key(),
                "{}",
                line.text
            ),
            (Err(_), LineNames::Nothing) => {}
            (read, names) => panic!("{} should be {names:?}, and is {read:?}", line.text),
        }
    }
}
