//! Publishers' pages, read for links to the file.

use std::io;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use url::Url;

use super::arxiv;
use super::join::join_all;
use super::reply::{Unanswered, doi_path, sort};
use super::settings::Settings;
use super::spec::{Cost, Early, Endpoint, Need, ResolverSpec};
use super::{Outcome, RequestFailure, Resolver, ResolverId};
use crate::bot_challenge::{self, BotChallenge};
use crate::charset;
use crate::identifier::Identifier;
use crate::landing_page::{self, Page};
use crate::location::{Location, Offers, distinct, joined};
use crate::reason::Reason;
use crate::sniff::{Payload, classify};
use crate::web::{Answer, Ask, BoxFuture, Web};
use crate::work::{Learned, Work};
use docstokg_bulk::blocking::run_blocking;

/// Its name.
pub const ID: ResolverId = ResolverId::new("landing_page");

static DOI: Endpoint = Endpoint {
    key: "doi",
    address: "https://doi.org/",
    about: "The resolver of DOIs",
};

/// Describes it.
pub static SPEC: ResolverSpec = ResolverSpec {
    aliases: &["landing"],
    endpoints: &[&DOI],
    needs: &[Need::Url, Need::Doi],
    cost: Cost::Page,
    rank: 90,
    early: Some(Early {
        rank: 90,
        when: |work| matches!(work.identifiers.strongest(), Some(Identifier::Url(_))),
        why: "a URL is all that is known",
    }),
    why: "the page of the work may name its file",
    vouches: false,
    ..ResolverSpec::base(ID, "the publisher's page", |settings| {
        Arc::new(LandingPage::new(Arc::clone(settings)))
    })
};

/// What is said where there is no page.
pub(crate) const NO_PAGE: &str = "no page to read";

/// What is said of a DOI that leads nowhere.
pub(crate) const NO_DOI: &str = "doi.org does not know this DOI";

/// The largest page read, in bytes.
pub(crate) const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// How much of a page waits in memory until it is read. Most pages are shorter.
const KEPT_IN_MEMORY: usize = 256 << 10;

/// Reads the page that a work's URL or DOI leads to.
#[derive(Debug)]
pub struct LandingPage {
    settings: Arc<Settings>,
}

/// What is behind a URL.
enum Behind {
    Page(Box<Page>, Url),
    File(Location),
}

impl LandingPage {
    /// Sets it up.
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Returns the page of a work: the one that the user wrote, else where its DOI leads.
    fn page_of(&self, work: &Work) -> Option<Url> {
        let ids = &work.identifiers;
        ids.url.clone().or_else(|| {
            ids.doi
                .as_ref()
                .map(|doi| joined(self.settings.endpoints.of(&DOI), &doi_path(doi)))
        })
    }

    /// Reads one page, such as a location that another resolver found and that offers no more than
    /// a page.
    pub async fn read(&self, start: Url, work: Option<&Work>, web: &dyn Web) -> Outcome {
        let (mut page, mut at) = match self.visit(start, work, web).await {
            Ok(Behind::File(location)) => {
                return Outcome::of(vec![location], Learned::default(), "");
            }
            Ok(Behind::Page(page, at)) => (page, at),
            Err(Unanswered::Missing(_)) => return Outcome::not_found(NO_DOI),
            Err(Unanswered::Failed(failure)) => return Outcome::Failed(failure),
        };
        // Stubs that only send browsers on are followed once; a page with links of its own is read
        // as it is.
        if page.candidates.is_empty()
            && let Some(next) = page.next.clone()
        {
            match self.visit(next, work, web).await {
                Ok(Behind::File(location)) => {
                    return Outcome::of(vec![location.referer(at)], page.learned, "");
                }
                Ok(Behind::Page(further, there)) => (page, at) = (further, there),
                Err(Unanswered::Missing(_)) => return Outcome::not_found(NO_DOI),
                Err(Unanswered::Failed(failure)) => return Outcome::Failed(failure),
            }
        }
        let is_cut = page.is_cut;
        let locations = Page::places(
            page.candidates,
            &at,
            self.settings.endpoints.of(&arxiv::API),
        );
        let nothing = if is_cut {
            "the page is too costly to read to its end, and what was read names no file"
        } else {
            "the page names no file"
        };
        Outcome::of(distinct(locations), page.learned, nothing)
    }

    async fn one(&self, work: &Work, web: &dyn Web) -> Outcome {
        match self.page_of(work) {
            Some(page) => self.read(page, Some(work), web).await,
            None => Outcome::not_found(NO_PAGE),
        }
    }

    async fn visit(
        &self,
        url: Url,
        work: Option<&Work>,
        web: &dyn Web,
    ) -> Result<Behind, Unanswered> {
        let answer = web
            .ask(
                Ask::landing(url.clone(), ID)
                    .max_body(MAX_PAGE_BYTES)
                    .keep_in_memory(KEPT_IN_MEMORY),
            )
            .await;
        if let Ok(answer) = &answer
            && classify(&answer.body) != Payload::Pdf
            && let Some(challenge) = bot_challenge::detect(answer.status, &answer.body)
        {
            return Err(Unanswered::Failed(challenged(
                &self.settings,
                answer,
                challenge,
            )));
        }
        if let Ok(answer) = &answer
            && matches!(answer.status.as_u16(), 404 | 410)
            && answer.url.host() == self.settings.endpoints.of(&DOI).host()
        {
            return Err(Unanswered::Missing(answer.status.as_u16()));
        }
        if matches!(&answer, Err(error) if error.reason == Reason::PayloadTooLarge) {
            // No page is that large: it is a file, most likely the PDF, and its bytes decide.
            return Ok(Behind::File(Location::new(url, Offers::Pdf, ID)));
        }
        let answer = sort(&self.settings, answer, &[])?;
        match classify(&answer.body) {
            Payload::Pdf => Ok(Behind::File(Location::new(answer.url, Offers::Pdf, ID))),
            Payload::Jats | Payload::Xml if !says_html(&answer) => {
                Ok(Behind::File(Location::new(answer.url, Offers::Xml, ID)))
            }
            Payload::Zip | Payload::Gzip | Payload::Tar => {
                Ok(Behind::File(Location::new(answer.url, Offers::Archive, ID)))
            }
            Payload::Empty => Err(Unanswered::Failed(super::reply::unreadable(
                &self.settings,
                &answer,
                Reason::HttpStatus,
                "page",
            ))),
            _ => self.read_page(answer, work).await,
        }
    }

    /// Reads a page when it has its turn.
    async fn read_page(&self, answer: Answer, work: Option<&Work>) -> Result<Behind, Unanswered> {
        let (unread, work) = (answer.clone(), work.cloned());
        let read = run_blocking(move || {
            let body = unread.read(landing_page::MAX_BYTES)?;
            io::Result::Ok(landing_page::extract(
                &charset::page(&body, content_type(&unread.headers)),
                &unread.url,
                &unread.headers,
                work.as_ref(),
            ))
        });
        match read.await.unwrap_or_else(|| Ok(Page::default())) {
            Ok(page) => Ok(Behind::Page(Box::new(page), answer.url)),
            Err(_) => Err(Unanswered::Failed(super::reply::unreadable(
                &self.settings,
                &answer,
                Reason::RequestException,
                "page",
            ))),
        }
    }
}

/// Returns what a header says about the kind of an answer.
pub(crate) fn content_type(headers: &http::HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE)?.to_str().ok()
}

fn says_html(answer: &Answer) -> bool {
    answer
        .header(&CONTENT_TYPE)
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("html"))
}

/// Names the bot challenge or interstitial page. The status is kept: what it means is known by
/// then.
fn challenged(settings: &Settings, answer: &Answer, challenge: BotChallenge) -> RequestFailure {
    let host = answer.url.host_str().unwrap_or_default();
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    let detail = settings.redact(&challenge.sentence(host));
    RequestFailure::new(reason, detail, Some(answer.status.as_u16()))
}

impl Resolver for LandingPage {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn resolve<'a>(&'a self, works: &'a [Work], web: &'a dyn Web) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(join_all(works.iter().map(
            move |work| -> BoxFuture<'a, Outcome> { Box::pin(self.one(work, web)) },
        )))
    }
}
