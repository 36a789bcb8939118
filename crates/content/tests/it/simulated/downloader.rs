use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use docstokg_content::location::{CandidateLocation, LocationChecksum, LocationOffer};
use docstokg_content::resolver::order::{ResolverChoice, ResolverPlan, order};
use docstokg_content::resolver::{self, LandingPage, LookupOutcome, Resolver, ResolverId};
use docstokg_content::sniff::{
    BodyJudgement, ExpectedContent, MIN_PDF_BYTES, Payload, ReceivedBody, classify, judge,
};
use docstokg_content::work::Work;
use docstokg_policy::robots::Robots;
use md5::{Digest, Md5};
use url::Url;

use super::web::Simulated;
use crate::scripted_web::{finish, look_up};

/// Asks one resolver after the other until a PDF is there.
pub(super) struct Downloader<'a> {
    web: &'a Simulated,
    resolvers: Vec<Arc<dyn Resolver>>,
    pages: LandingPage,
}

impl<'a> Downloader<'a> {
    pub(super) fn new(web: &'a Simulated) -> Self {
        let settings = web.settings();
        Self {
            web,
            resolvers: resolver::all(&settings),
            pages: LandingPage::new(settings),
        }
    }

    pub(super) fn download(&self, mut work: Work) -> Option<Bytes> {
        let mut asked: HashSet<ResolverId> = HashSet::new();
        let mut tried: HashSet<Url> = HashSet::new();
        loop {
            let planned = order(&work, &ResolverChoice::default(), &self.resolvers);
            let next = planned.iter().find(|planned| {
                planned.plan == ResolverPlan::Ask && !asked.contains(&planned.resolver)
            })?;
            asked.insert(next.resolver);
            let resolver = self
                .resolvers
                .iter()
                .find(|resolver| resolver.id() == next.resolver)?;
            let outcome = look_up(&**resolver, std::slice::from_ref(&work), self.web).remove(0);
            outcome
                .learned()
                .into_iter()
                .for_each(|learned| work.learn(learned));
            if let LookupOutcome::Found(found) = outcome
                && let Some(body) = self.first(found.locations, &mut work, &mut tried)
            {
                return Some(body);
            }
        }
    }

    /// Tries places in order; pages lead to further ones.
    fn first(
        &self,
        locations: Vec<CandidateLocation>,
        work: &mut Work,
        tried: &mut HashSet<Url>,
    ) -> Option<Bytes> {
        for location in locations {
            if location.offers == LocationOffer::Xml
                || !tried.insert(location.url.clone())
                || !self.may(&location.url)
            {
                continue;
            }
            if location.offers == LocationOffer::Landing {
                if let LookupOutcome::Found(found) =
                    finish(self.pages.read(location.url, Some(work)), self.web)
                    && let Some(body) = self.first(found.locations, work, tried)
                {
                    return Some(body);
                }
                continue;
            }
            let Ok(answer) = self.web.get(location.url.clone()) else {
                continue;
            };
            match answer.status.as_u16() {
                404 | 410 => work.failed_urls.push(location.url),
                200 if classify(&answer.body) == Payload::Html => {
                    let page = CandidateLocation {
                        offers: LocationOffer::Landing,
                        ..location
                    };
                    tried.remove(&page.url);
                    if let Some(body) = self.first(vec![page], work, tried) {
                        return Some(body);
                    }
                }
                200 if is_good(&answer.body, &location) => return Some(answer.body),
                _ => {}
            }
        }
        None
    }

    /// Asks the site whether robots may go there.
    fn may(&self, url: &Url) -> bool {
        let robots = self.web.once(&url.join("/robots.txt").unwrap());
        let Some(reply) = robots.filter(|reply| reply.dead.is_none()) else {
            return false;
        };
        let rules = reply.pieces.iter().filter_map(|piece| {
            if let docstokg_origin_sim::Piece::Bytes(bytes) = piece {
                Some(bytes)
            } else {
                None
            }
        });
        reply.status != 200
            || rules
                .into_iter()
                .all(|rules| Robots::parse(rules).allows("docstokg", url.path()))
    }
}

fn is_good(body: &[u8], location: &CandidateLocation) -> bool {
    let length = body.len() as u64;
    let received = ReceivedBody {
        head: body,
        tail: body,
        length,
        declared_length: Some(length),
        expected: ExpectedContent::Pdf,
    };
    let right = match &location.checksum {
        Some(LocationChecksum::Md5(hex)) => *hex == format!("{:x}", Md5::digest(body)),
        _ => true,
    };
    right && judge(&received, MIN_PDF_BYTES) == BodyJudgement::Accepted(Payload::Pdf)
}
