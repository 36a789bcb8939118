//! Every reader of what others wrote, with real answers changed at random: it ends soon, never
//! panics, and offers nothing but links. `cargo xtask attack` runs these with many more cases.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use docstokg_content::input::{InputReader, ListFormat};
use docstokg_content::landing_page::extract;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::{
    Arxiv, BatchStep, Crossref, EuropePmc, LookupOutcome, OpenAlex, Pmc, Resolver, ResolverId,
    ResolverSpec, Unpaywall, Wayback, WorkLookupStep, resolve,
};
use docstokg_content::sniff::{classify, pdf_tail};
use docstokg_content::work::Work;
use docstokg_content::{bot_challenge, titles};
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_lookup::driver::{BoxFuture, RequestSender};
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_origin_sim::hostile::{mutated, paper};
use docstokg_policy::robots::Robots;
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use url::Url;

use crate::resolvers::mutations::{check, repositories};
use crate::scripted_web::{Script, fixture, settings, work};

/// The longest that one reading may take, in a debug build on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);

/// As many cases as the environment says, or a few.
fn cases(few: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        usual
    } else {
        ProptestConfig {
            cases: few,
            ..usual
        }
    }
}

/// Does something, and checks that it did not take long.
fn soon<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = SystemClock.boot();
    let value = work();
    let took = SystemClock.boot().since(begun);
    assert!(took < LONGEST, "{what} took {took:?}");
    value
}

const LISTS: [(ListFormat, &str); 6] = [
    (
        ListFormat::Lines,
        "10.1000/182\nhttps://doi.org/10.5555/12345678\narXiv:2101.00001v2\nPMC3531190\npmid:12345678\nW2741809807\n# comment\n",
    ),
    (
        ListFormat::Csv,
        "doi,title,year,url\n10.1000/182,\"A \"\"quoted\"\" title\",2001,http://a.example/1\n10.5555/1,\"two\nlines\",x,\n",
    ),
    (
        ListFormat::Jsonl,
        "{\"doi\":\"10.1000/182\",\"title\":\"A\"}\n{\"id\":\"https://openalex.org/W1\",\"locations\":[{\"pdf_url\":null}]}\n",
    ),
    (
        ListFormat::Bibtex,
        "@article{key, title = {A {Nested} title}, doi = \"10.1000/182\", year = 2001}\n@string{x = \"y\"}\n@book(o, doi = x # \"z\")\n",
    ),
    (
        ListFormat::Ris,
        "TY  - JOUR\nTI  - A title\nDO  - 10.1000/182\nPY  - 2001/01/01\nUR  - http://a.example/\nER  - \n",
    ),
    (
        ListFormat::CslJson,
        "[{\"id\":\"a\",\"DOI\":\"10.1000/182\",\"issued\":{\"date-parts\":[[2001,1,1]]}},{\"id\":1,\"URL\":\"http://a.example/\"}]",
    ),
];

const PAGES: [&str; 10] = [
    "landing_page/article.html",
    "landing_page/refresh.html",
    "landing_page/redirect_form.html",
    "landing_page/pages/cdn.html",
    "landing_page/pages/chemistry.html",
    "landing_page/pages/embedded_json.html",
    "landing_page/pages/form.html",
    "landing_page/pages/issue.html",
    "landing_page/pages/journal.html",
    "landing_page/pages/ojs.html",
];

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn lists_end_and_bad_lines_are_fit_to_be_shown(which in 0..LISTS.len(), seed in any::<u64>(), auto in any::<bool>()) {
        let (format, list) = LISTS[which];
        let bytes = mutated(seed, list.repeat(3).as_bytes());
        let most = bytes.len() + 1;
        let format = if auto { ListFormat::Auto } else { format };
        let lines = soon("a list", || InputReader::new(Cursor::new(bytes), format).take(most + 1).collect::<Vec<_>>());
        prop_assert!(lines.len() <= most, "it does not end");
        for bad in lines.iter().filter_map(|line| line.as_ref().err()) {
            prop_assert!(!bad.to_string().contains(char::is_control), "{bad:?}");
        }
    }

    #[test]
    fn answers_of_services_are_read_or_refused(which in 0..20_usize, seed in any::<u64>()) {
        let any = |body: Vec<u8>| Script::new().with("https://", 200, body, &[], "https://service.example/");
        let (one, two) = ([work("10.1000/a")], [work("10.1000/a"), work("10.1000/b")]);
        let mut gone = work("10.1000/a");
        gone.failed_urls = vec![Url::parse("https://gone.example/a.pdf").unwrap()];
        let settings = settings();
        let run = |resolver: &dyn Resolver, works: &[Work], path: &str| check(resolver, works, [mutated(seed, &fixture(path))], any);
        soon("an answer", || match which {
            0 => run(&OpenAlex::new(settings), &one, "openalex/work.json"),
            1 => run(&OpenAlex::new(settings), &two, "openalex/list.json"),
            2 => run(&Unpaywall::new(settings), &one, "unpaywall/record.json"),
            3 => run(&Crossref::new(settings), &one, "crossref/work.json"),
            4 => run(&Crossref::new(settings), &two, "crossref/list.json"),
            5 => run(&Crossref::new(settings), &one, "crossref/datacite.json"),
            6 => run(&EuropePmc::new(settings), &one, "europe_pmc/search.json"),
            7 => run(&Pmc::new(settings), &two, "pmc/converted.json"),
            8 => run(&Pmc::new(settings), &[work("PMC123.2")], "pmc/metadata.json"),
            9 => run(&Pmc::new(settings), &[work("PMC500")], "pmc/listing.xml"),
            10 => run(&Arxiv::new(settings), &[work("2002.00741")], "arxiv/feed.xml"),
            11 => run(&Wayback::new(settings), &[gone], "wayback/cdx.json"),
            _ => {
                let (resolver, id, path) = &repositories()[which - 12];
                run(&**resolver, &[work(id)], path);
            }
        });
    }

    #[test]
    fn pages_and_their_headers_offer_links_only(which in 0..PAGES.len(), seed in any::<u64>(), link in proptest::collection::vec(any::<u8>(), 0..80)) {
        let html = String::from_utf8_lossy(&mutated(seed, &fixture(PAGES[which]))).into_owned();
        let page = Url::parse("https://journal.example/article/10.1000/a").unwrap();
        let mut headers = HeaderMap::new();
        let honest = mutated(seed, b"<https://a.example/x.pdf>; rel=\"item\"; type=\"application/pdf\", </y>; rel=alternate");
        for bytes in [honest, link] {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.append("link", value);
            }
        }
        let read = soon("a page", || extract(&html, &page, &headers, Some(&work("10.1000/a"))));
        for candidate in &read.candidates {
            prop_assert!(matches!(candidate.url.scheme(), "http" | "https") && candidate.url.has_host(), "{}", candidate.url);
        }
        let _ = bot_challenge::detect(StatusCode::OK, html.as_bytes());
    }

    #[test]
    fn rules_bytes_and_titles_are_read_soon(seed in any::<u64>(), other in ".{0,60}") {
        let rules = mutated(seed, b"User-agent: *\nDisallow: /a*b$\nAllow: /%7Euser\nCrawl-delay: 2\nSitemap: http://a.example/\n\nUser-agent: docstokg\nDisallow:\n");
        soon("robots.txt", || {
            let robots = Robots::parse(&rules);
            (robots.allows("docstokg", &other), robots.allows("x", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), robots.crawl_delay("x"))
        });
        let file = mutated(seed, &paper("A title", "text"));
        soon("a file's ends", || (classify(&file), pdf_tail(&file)));
        let text = String::from_utf8_lossy(&rules).into_owned();
        soon("titles", || (titles::clean(&text), titles::compare(&text, &other), titles::find_in(&other, &text)));
    }
}

/// Panics at one work, and finds nothing for the others.
struct Panicking;

static PANICKING: ResolverSpec =
    ResolverSpec::base(ResolverId::new("panicking"), |_| Arc::new(Panicking));

impl Resolver for Panicking {
    fn spec(&self) -> &'static ResolverSpec {
        &PANICKING
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        let read = |work: &'a Work| {
            assert!(!work.work_id().contains("poison"), "a fault of a reader");
            WorkLookupStep::Done(LookupOutcome::NotFound {
                detail: "read".to_owned(),
                learned: docstokg_content::work::LearnedMetadata::default(),
            })
        };
        BatchStep::Done(works.iter().map(read).collect())
    }
}

/// Responds to nothing.
struct NoNetwork;

impl RequestSender for NoNetwork {
    type Failure = RequestFailure;

    fn send(
        &self,
        request: LookupRequest,
    ) -> BoxFuture<'_, Result<LookupResponse, RequestFailure>> {
        panic!("{request:?} is sent");
    }
}

#[test]
fn a_reader_that_panics_fails_one_work_of_a_batch() {
    let works = ["10.1000/a", "10.1000/poison", "10.1000/b"].map(work);
    let runtime = docstokg_origin_sim::Simulation::exact();
    let outcomes = runtime.block_on(async move { resolve(&Panicking, &works, &NoNetwork).await });
    let said: Vec<&str> = outcomes
        .iter()
        .map(|outcome| {
            if let LookupOutcome::Failed(failure) = outcome {
                &failure.detail
            } else {
                "read"
            }
        })
        .collect();
    assert_eq!(
        said,
        [
            "read",
            "the answer of panicking could not be read; this is a fault of the program",
            "read"
        ]
    );
}
