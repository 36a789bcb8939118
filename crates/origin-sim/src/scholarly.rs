//! A simulated scholarly web: services under their real names, and invented publishers and
//! repositories.
//!
//! A [`WorkLibrary`] is generated from a [`LibraryPlan`]: the same plan gives the same works, bytes
//! and faults. Its [`origins`](WorkLibrary::origins) respond over plain http in the form of the
//! real services, with their limits and faults. The results that a client should get are known
//! beforehand: see [`truth`](WorkLibrary::truth).
//!
//! Identifiers in responses are spelt as the services spell them, for example with
//! `https://doi.org/`. Every URL of a file or page is http, at one of the
//! [`hosts`](WorkLibrary::hosts).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::Arrival;
use crate::origin::{OriginScript, Throttle};
use crate::reply::ScriptedReply;

mod arxiv;
mod central;
mod client;
mod decoded_request;
mod deposits;
mod file;
mod hosts;
mod input;
mod openalex;
mod paper;
mod publisher;
mod registries;
mod truth;
mod unpaywall;
mod wayback;
mod world;

pub use input::{InputLine, LineNames};
pub use truth::{AbsenceCause, ObtainableFile, TruthFileKind, WorkTruth};

use deposits::services;
use hosts::Behaviour;
use world::ScholarlyWorld;

/// The faults of a simulated scholarly web.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// No faults: every work is available. Rate limits still apply.
    None,
    /// The usual faults: bot challenges, outages, stubs, broken and truncated files, wrong
    /// checksums, closed works.
    #[default]
    Usual,
}

/// The parameters of a [`WorkLibrary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryPlan {
    /// The seed of all works, bytes and faults.
    pub seed: u64,
    /// Number of works that catalogues list.
    pub works: usize,
    /// Factor by which every rate limit is multiplied, so that a demonstration does not take hours.
    pub scale: u32,
    /// The [`Faults`] of the web.
    pub faults: Faults,
    /// Number of further works, which no catalogue lists and only a repository has.
    pub deposits: usize,
    /// The range of the sizes of files, in bytes.
    pub file_bytes: Range<usize>,
}

impl Default for LibraryPlan {
    fn default() -> Self {
        Self {
            seed: 1,
            works: 300,
            scale: 1,
            faults: Faults::Usual,
            deposits: 0,
            file_bytes: 20 << 10..200 << 10,
        }
    }
}

/// A generated library of works, with the hosts that serve it and the expected results.
#[derive(Clone, Debug)]
pub struct WorkLibrary {
    world: Arc<ScholarlyWorld>,
    input: Vec<InputLine>,
    truth: Vec<WorkTruth>,
}

/// The beginning and end of Unpaywall's outage, as times after the start.
const UNPAYWALL_OUTAGE: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(4);
/// The time before the slow publisher begins a response.
const SLOW_RESPONSE_DELAY: Duration = Duration::from_millis(200);

impl WorkLibrary {
    /// Creates the world of a [`LibraryPlan`].
    #[must_use]
    pub fn generate(plan: &LibraryPlan) -> Self {
        let world = ScholarlyWorld::generate(plan);
        let truth = world
            .papers
            .iter()
            .map(|paper| truth::of(&world, paper))
            .chain(world.deposits.iter().map(|deposit| deposit.truth(&world)))
            .collect();
        Self {
            input: input::lines(&world)
                .into_iter()
                .chain(deposits::lines(&world))
                .collect(),
            truth,
            world: Arc::new(world),
        }
    }

    /// Returns an [`OriginScript`] for every host, with its limits and faults, in the state before
    /// the first request.
    #[must_use]
    pub fn origins(&self) -> Vec<OriginScript> {
        let faults = self.world.has_faults();
        let service = |host, answer| self.service(host, answer);
        let mut unpaywall = service(hosts::UNPAYWALL, unpaywall::answer);
        if faults {
            let sorry = ScriptedReply::status(503)
                .header("retry-after", "2")
                .body("<html><title>503 Service Unavailable</title></html>");
            unpaywall = unpaywall.outage(UNPAYWALL_OUTAGE, sorry);
        }
        let mut origins = vec![
            service(hosts::OPENALEX, openalex::answer),
            unpaywall,
            service(hosts::CROSSREF, registries::crossref).throttle(Throttle::Date),
            service(hosts::DATACITE, registries::datacite),
            service(hosts::ARXIV, arxiv::answer).throttle(Throttle::Silent),
            service(hosts::ARXIV_PAGES, arxiv::answer).throttle(Throttle::Silent),
            service(hosts::PMC, central::converter),
            service(hosts::PMC_BUCKET, central::bucket),
            service(hosts::EBI, central::europe_search),
            self.origin(hosts::EUROPE_PMC, central::europe_articles),
            service(hosts::DOI, registries::doi_org),
            service(hosts::WAYBACK, wayback::answer),
            self.origin(hosts::CDN, publisher::cdn),
        ];
        for publisher in hosts::publishers() {
            let origin = self.origin(publisher.host, move |world, arrival, nth| {
                publisher::answer(world, publisher, arrival, nth)
            });
            origins.push(if publisher.behaviour == Behaviour::Slow && faults {
                origin.latency(SLOW_RESPONSE_DELAY)
            } else {
                origin
            });
        }
        origins.extend(self.repositories());
        origins
    }

    /// Returns the [`OriginScript`]s of repositories and of the directory of open journals.
    fn repositories(&self) -> [OriginScript; 10] {
        [
            self.service(hosts::ZENODO, services::zenodo),
            self.service(hosts::FIGSHARE, services::figshare),
            self.origin(hosts::FIGSHARE_FILES, services::figshare_files),
            self.service(hosts::OSF_API, services::osf_api),
            self.service(hosts::OSF, services::osf),
            self.service(hosts::OSF_FILES, services::osf),
            self.service(hosts::HAL_API, services::hal_api),
            self.service(hosts::HAL, services::hal),
            self.service(hosts::DOAJ, services::doaj),
            self.service(hosts::OPEN_JOURNAL, services::open_journal),
        ]
    }

    /// Creates the script of a service without robots.txt.
    fn service(
        &self,
        host: &str,
        answer: fn(&ScholarlyWorld, &Arrival) -> ScriptedReply,
    ) -> OriginScript {
        self.origin(host, move |world, arrival, _| {
            if arrival.path == "/robots.txt" {
                ScriptedReply::status(404)
            } else {
                answer(world, arrival)
            }
        })
    }

    /// Creates the script of a host with its limits.
    fn origin(
        &self,
        host: &str,
        answer: impl Fn(&ScholarlyWorld, &Arrival, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> OriginScript {
        let world = Arc::clone(&self.world);
        let origin =
            OriginScript::new(host).handler(move |arrival, nth| answer(&world, arrival, nth));
        let own = hosts::limits()
            .into_iter()
            .filter(|limit| limit.host == host);
        own.fold(origin, |origin, limit| {
            origin.limit_under(limit.prefix, &limit.rate(self.world.plan.scale))
        })
    }

    /// Returns the names of all hosts, so that tests can connect these names to a loopback
    /// listener.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let mut names: Vec<String> = hosts::limits()
            .iter()
            .map(|limit| limit.host.to_owned())
            .collect();
        names.dedup();
        names
    }

    /// Returns the list of a user, with the work that each line names.
    #[must_use]
    pub fn input(&self) -> &[InputLine] {
        &self.input
    }

    /// Returns the list of a user as texts, see [`input`](Self::input).
    #[must_use]
    pub fn input_lines(&self) -> Vec<String> {
        self.input.iter().map(|line| line.text.clone()).collect()
    }

    /// Returns the expected result for each work.
    #[must_use]
    pub fn truth(&self) -> &[WorkTruth] {
        &self.truth
    }

    /// Returns the rate limits of the hosts: the host, the requests that the limit is for, and the
    /// rate. The requests are `all`, a role (`metadata`, `artifact`), or the kind `list`.
    #[must_use]
    pub fn limits(&self) -> Vec<(String, String, String)> {
        let limits = hosts::limits();
        limits
            .iter()
            .map(|limit| {
                (
                    limit.host.to_owned(),
                    limit.role.to_owned(),
                    limit.rate(self.world.plan.scale),
                )
            })
            .collect()
    }

    /// Returns the base URL of a service, by its name in the configuration of sources: `openalex`,
    /// `pmc_bucket` and so on. Returns `None` for a service that is not simulated.
    #[must_use]
    pub fn endpoint(&self, service: &str) -> Option<String> {
        hosts::endpoint(service)
    }
}

#[cfg(test)]
mod tests;
