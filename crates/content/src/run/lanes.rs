//! Which lane the next step of a work stands in, and what the limits say about it.

use docstokg_bulk::bounds::Bounds;
use docstokg_bulk::job::Next;
use docstokg_bulk::lane::LaneKey;
use docstokg_hub::stores::SiteKey;
use docstokg_hub::{Host, Role};
use url::Url;

use super::works::{ActiveWork, Works};
use crate::resolver::{ResolverId, landing, spec};
use crate::work_state::{Step, WorkState};

impl Works {
    /// Returns the lane of a step.
    pub(super) fn lane_of(&self, state: &WorkState, step: Step) -> LaneKey {
        let of_candidate = |candidate: usize, role| {
            let location = state.candidate(candidate);
            location.map_or(LaneKey::Start, |location| {
                self.lane_of_url(&location.url, role)
            })
        };
        match step {
            Step::Fetch(candidate) => of_candidate(candidate, self.options.role),
            Step::Read(candidate) => of_candidate(candidate, Role::Landing),
            Step::Resolve(landing::ID) => {
                match (&state.work.identifiers.url, &state.work.identifiers.doi) {
                    (Some(url), _) => self.lane_of_url(url, Role::Landing),
                    // The registrant of a DOI is nearly always its publisher: the page is not known
                    // before doi.org has been asked.
                    (None, Some(doi)) => LaneKey::Landing(doi.prefix().into()),
                    (None, None) => LaneKey::Start,
                }
            }
            Step::Resolve(id) => LaneKey::Source(id.as_str().into()),
        }
    }

    fn lane_of_url(&self, url: &Url, role: Role) -> LaneKey {
        Host::of(url).map_or(LaneKey::Start, |host| LaneKey::Site {
            site: self.context.hub.config().site_key(&host),
            role,
        })
    }

    /// Returns how much a lane may have active at once.
    pub(super) fn bounds_of(&self, lane: &LaneKey) -> Bounds {
        match lane {
            LaneKey::Start | LaneKey::MissingInput => Bounds::steps(64),
            LaneKey::Source(name) => {
                let batch = self.lookups.batch_of(ResolverId::stored(name));
                Bounds {
                    steps: if batch > 1 { 4 } else { 32 },
                    batch,
                }
            }
            LaneKey::Landing(_) => Bounds::steps(8),
            LaneKey::Site { site, role } => Bounds::of_site(self.context.hub.config(), site, *role),
        }
    }

    /// Returns the site and role that a lane's requests go to, where one is known for all of them.
    pub(super) fn site_of(&self, lane: &LaneKey) -> Option<(SiteKey, Role)> {
        let LaneKey::Source(name) = lane else {
            return lane.site();
        };
        let host = Host::parse(&self.host_of_resolver(ResolverId::stored(name))).ok()?;
        Some((self.context.hub.config().site_key(&host), Role::Metadata))
    }

    /// Returns the host that a resolver asks.
    pub(super) fn host_of_resolver(&self, resolver: ResolverId) -> String {
        let url = spec(resolver)
            .and_then(|spec| spec.source.endpoints.first())
            .map(|endpoint| self.lookups.settings.endpoints.of(endpoint));
        url.and_then(|url| Host::of(&url).ok())
            .map_or_else(|| resolver.to_string(), |host| host.to_string())
    }

    /// Returns the host that the next step of a work goes to.
    pub(super) fn host_of(&self, item: &ActiveWork) -> Option<String> {
        let Next::Run(step) = item.next else {
            return None;
        };
        match step {
            Step::Fetch(candidate) | Step::Read(candidate) => {
                let location = item.state.candidate(candidate)?;
                location.url.host_str().map(str::to_owned)
            }
            Step::Resolve(landing::ID) if item.state.work.identifiers.url.is_some() => {
                let url = item.state.work.identifiers.url.as_ref()?;
                url.host_str().map(str::to_owned)
            }
            Step::Resolve(id) => Some(self.host_of_resolver(id)),
        }
    }
}
