//! The landing pages of publishers, read for links to the file.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use http::header::CONTENT_TYPE;
use url::Url;

use super::arxiv;
use super::reply::{ReplyFailure, doi_path, sort, unreadable};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverCost, ResolverSpec};
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::bot_challenge::{self, BotChallenge};
use crate::charset;
use crate::identifier::Identifier;
use crate::landing_page::{self, PageContents};
use crate::location::{CandidateLocation, LocationOffer, distinct};
use crate::reason::Reason;
use crate::sniff::{Payload, classify};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of publishers' pages.
pub const ID: ResolverId = ResolverId::new("landing_page");

static DOI: SourceEndpoint = SourceEndpoint {
    key: "doi",
    address: "https://doi.org/",
    about: "The resolver of DOIs",
};

/// The [`ResolverSpec`] of publishers' pages.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        aliases: &["landing"],
        endpoints: &[&DOI],
        about: "the page of the work may name its file",
        ..SourceSpec::new(ID.as_str(), "the publisher's page")
    },
    needs: &[IdentifierNeed::Url, IdentifierNeed::Doi],
    cost: ResolverCost::Page,
    rank: 90,
    early: Some(EarlyPosition {
        rank: 90,
        when: |work| matches!(work.identifiers.strongest(), Some(Identifier::Url(_))),
        why: "a URL is all that is known",
    }),
    vouches: false,
    ..ResolverSpec::base(ID, |settings| {
        Arc::new(LandingPage::new(Arc::clone(settings)))
    })
};

/// The message for a work without a page.
pub(crate) const NO_PAGE: &str = "no page to read";

/// The message for a DOI that leads nowhere.
pub(crate) const NO_DOI: &str = "doi.org does not know this DOI";

/// Maximum size of a page that is read, in bytes.
pub(crate) const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// The number of bytes of a page that are kept in memory until the page is read. Most pages are
/// shorter.
const KEPT_IN_MEMORY: usize = 256 << 10;

/// The [`Resolver`] that reads the page of a work's URL or DOI.
#[derive(Debug)]
pub struct LandingPage {
    settings: Arc<Settings>,
}

/// The readable page, or the file, at a URL.
enum LandingResult {
    Page(Box<PageContents>, Url),
    File(CandidateLocation),
}

/// The unread page, or the file, that a visit to a URL returned.
enum VisitOutcome {
    Page(LookupResponse),
    File(CandidateLocation),
}

impl LandingPage {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Returns the page of a [`Work`]: the URL from the user, or else the target of the DOI.
    fn page_of(&self, work: &Work) -> Option<Url> {
        let ids = &work.identifiers;
        ids.url.clone().or_else(|| {
            ids.doi
                .as_ref()
                .map(|doi| self.settings.url(&DOI, &doi_path(doi)))
        })
    }

    /// Reads one page, for example a location of another resolver that promises no more than a
    /// page.
    pub fn read<'a>(&'a self, start: Url, work: Option<&'a Work>) -> WorkLookupStep<'a> {
        self.visit(start, work).then(move |behind| match behind {
            Ok(LandingResult::File(location)) => Step::Done(LookupOutcome::of(
                vec![location],
                LearnedMetadata::default(),
                "",
            )),
            Ok(LandingResult::Page(page, at)) => self.follow(page, at, work),
            Err(unanswered) => Step::Done(unvisited(unanswered)),
        })
    }

    /// Reads a page. A stub that only redirects browsers is followed once; a page with its own
    /// links is read itself.
    fn follow<'a>(
        &'a self,
        mut page: Box<PageContents>,
        at: Url,
        work: Option<&'a Work>,
    ) -> WorkLookupStep<'a> {
        let next = page.next.take().filter(|_| page.candidates.is_empty());
        let Some(next) = next else {
            return Step::Done(self.outcome(*page, &at));
        };
        self.visit(next, work).then(move |behind| {
            Step::Done(match behind {
                Ok(LandingResult::File(location)) => {
                    LookupOutcome::of(vec![location.referer(at)], page.learned, "")
                }
                Ok(LandingResult::Page(further, there)) => self.outcome(*further, &there),
                Err(unanswered) => unvisited(unanswered),
            })
        })
    }

    fn outcome(&self, page: PageContents, at: &Url) -> LookupOutcome {
        let is_cut = page.is_cut;
        let arxiv = self.settings.endpoints.of(&arxiv::API);
        let locations = PageContents::places(page.candidates, at, &arxiv);
        let nothing = if is_cut {
            "the page is too costly to read to its end, and what was read names no file"
        } else {
            "the page names no file"
        };
        LookupOutcome::of(distinct(locations), page.learned, nothing)
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkLookupStep<'a> {
        match self.page_of(work) {
            Some(page) => self.read(page, Some(work)),
            None => Step::Done(LookupOutcome::not_found(NO_PAGE)),
        }
    }

    fn visit<'a>(
        &'a self,
        url: Url,
        work: Option<&'a Work>,
    ) -> Step<'a, Result<LandingResult, ReplyFailure>> {
        let request = LookupRequest::landing(url.clone(), ID.as_str())
            .max_body(MAX_PAGE_BYTES)
            .keep_in_memory(KEPT_IN_MEMORY);
        Step::request(request, move |result| match self.judge(url, result) {
            Ok(VisitOutcome::Page(response)) => self.read_page(response, work),
            Ok(VisitOutcome::File(location)) => Step::Done(Ok(LandingResult::File(location))),
            Err(unanswered) => Step::Done(Err(unanswered)),
        })
    }

    /// Distinguishes a page from a file and from a refusal.
    fn judge(
        &self,
        url: Url,
        result: Result<LookupResponse, RequestFailure>,
    ) -> Result<VisitOutcome, ReplyFailure> {
        if let Ok(response) = &result
            && classify(&response.body) != Payload::Pdf
            && let Some(challenge) = bot_challenge::detect(response.status, &response.body)
        {
            let challenged = challenged(&self.settings, response, challenge);
            return Err(ReplyFailure::Failed(challenged));
        }
        if let Ok(response) = &result
            && matches!(response.status.as_u16(), 404 | 410)
            && response.url.host() == self.settings.endpoints.of(&DOI).host()
        {
            return Err(ReplyFailure::Missing(response.status.as_u16()));
        }
        if matches!(&result, Err(failure) if failure.reason == Reason::PayloadTooLarge) {
            // No page is that large: this is a file, most likely the PDF, and its bytes decide.
            return Ok(VisitOutcome::File(CandidateLocation::new(
                url,
                LocationOffer::Pdf,
                ID,
            )));
        }
        let response = sort(&self.settings, result, &[])?;
        let offers = match classify(&response.body) {
            Payload::Pdf => LocationOffer::Pdf,
            Payload::Jats | Payload::Xml if !says_html(&response) => LocationOffer::Xml,
            Payload::Zip | Payload::Gzip | Payload::Tar => LocationOffer::Archive,
            Payload::Empty => {
                let (reason, settings) = (Reason::HttpStatus, &self.settings);
                let failure = unreadable(settings, &response, reason, "page");
                return Err(ReplyFailure::Failed(failure));
            }
            _ => return Ok(VisitOutcome::Page(response)),
        };
        Ok(VisitOutcome::File(CandidateLocation::new(
            response.url,
            offers,
            ID,
        )))
    }

    /// Reads a page, when [`run_blocking`](docstokg_bulk::blocking::run_blocking) has a free
    /// permit.
    fn read_page(
        &self,
        response: LookupResponse,
        work: Option<&Work>,
    ) -> Step<'_, Result<LandingResult, ReplyFailure>> {
        let (url, headers) = (response.url.clone(), response.headers.clone());
        let work = work.cloned();
        let extract = move |body: io::Result<Bytes>| {
            let body = body?;
            let html = charset::page(&body, content_type(&headers));
            let page = landing_page::extract(&html, &url, &headers, work.as_ref());
            io::Result::Ok(page)
        };
        let unread = response.clone();
        Step::parse(unread, landing_page::MAX_BYTES, extract, move |page| {
            let page = page.unwrap_or_else(|| Ok(PageContents::default()));
            Step::Done(if let Ok(page) = page {
                Ok(LandingResult::Page(Box::new(page), response.url))
            } else {
                let (reason, settings) = (Reason::RequestException, &self.settings);
                let failure = unreadable(settings, &response, reason, "page");
                Err(ReplyFailure::Failed(failure))
            })
        })
    }
}

/// Converts a failed visit into a [`LookupOutcome`].
fn unvisited(unanswered: ReplyFailure) -> LookupOutcome {
    match unanswered {
        ReplyFailure::Missing(_) => LookupOutcome::not_found(NO_DOI),
        ReplyFailure::Failed(failure) => LookupOutcome::Failed(failure),
    }
}

/// Returns the media type of a response, as its header declares it.
pub(crate) fn content_type(headers: &http::HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE)?.to_str().ok()
}

fn says_html(response: &LookupResponse) -> bool {
    response
        .header(&CONTENT_TYPE)
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("html"))
}

/// Describes the bot challenge or interstitial page. The status is kept for the record, although
/// the challenge explains it.
fn challenged(
    settings: &Settings,
    response: &LookupResponse,
    challenge: BotChallenge,
) -> RequestFailure {
    let host = response.url.host_str().unwrap_or_default();
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    let detail = settings.redact(&challenge.sentence(host));
    RequestFailure::new(reason, detail, Some(response.status.as_u16()))
}

impl Resolver for LandingPage {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| self.one(work))
    }
}
