//! The work lane of a work's next step, and its bounds from the limits.

use docstokg_bulk::bounds::LaneBounds;
use docstokg_bulk::job::NextStep;
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_hub::stores::SiteKey;
use docstokg_hub::{Host, Role};
use url::Url;

use super::works::{ActiveWork, WorksJob};
use crate::resolver::{ResolverId, landing, spec};
use crate::work_state::{WorkState, WorkStep};

impl WorksJob {
    /// Returns the [`WorkLaneKey`] of a step.
    pub(super) fn lane_of(&self, state: &WorkState, step: WorkStep) -> WorkLaneKey {
        let of_candidate = |candidate: usize, role| {
            let location = state.candidate(candidate);
            location.map_or(WorkLaneKey::Start, |location| {
                self.lane_of_url(&location.url, role)
            })
        };
        match step {
            WorkStep::Fetch(candidate) => of_candidate(candidate, self.options.role),
            WorkStep::Read(candidate) => of_candidate(candidate, Role::Landing),
            WorkStep::Resolve(landing::ID) => {
                match (&state.work.identifiers.url, &state.work.identifiers.doi) {
                    (Some(url), _) => self.lane_of_url(url, Role::Landing),
                    // The registrant of a DOI is nearly always its publisher. The host of the page
                    // is not known before doi.org has responded.
                    (None, Some(doi)) => WorkLaneKey::Landing(doi.prefix().into()),
                    (None, None) => WorkLaneKey::Start,
                }
            }
            WorkStep::Resolve(id) => WorkLaneKey::Source(id.as_str().into()),
        }
    }

    fn lane_of_url(&self, url: &Url, role: Role) -> WorkLaneKey {
        Host::of(url).map_or(WorkLaneKey::Start, |host| WorkLaneKey::Site {
            site: self.context.hub.config().site_key(&host),
            role,
        })
    }

    /// Returns the maximum number of active steps and works of a lane.
    pub(super) fn bounds_of(&self, lane: &WorkLaneKey) -> LaneBounds {
        match lane {
            WorkLaneKey::Start | WorkLaneKey::MissingInput => LaneBounds::steps(64),
            WorkLaneKey::Source(name) => {
                let batch = self.lookups.batch_of(ResolverId::stored(name));
                LaneBounds {
                    steps: if batch > 1 { 4 } else { 32 },
                    batch,
                }
            }
            WorkLaneKey::Landing(_) => LaneBounds::steps(8),
            WorkLaneKey::Site { site, role } => {
                LaneBounds::of_site(self.context.hub.config(), site, *role)
            }
        }
    }

    /// Returns the site and role of a lane's requests, if all of them share the same.
    pub(super) fn site_of(&self, lane: &WorkLaneKey) -> Option<(SiteKey, Role)> {
        let WorkLaneKey::Source(name) = lane else {
            return lane.site();
        };
        let host = Host::parse(&self.host_of_resolver(ResolverId::stored(name))).ok()?;
        Some((self.context.hub.config().site_key(&host), Role::Metadata))
    }

    /// Returns the host that a resolver queries.
    pub(super) fn host_of_resolver(&self, resolver: ResolverId) -> String {
        let url = spec(resolver)
            .and_then(|spec| spec.source.endpoints.first())
            .map(|endpoint| self.lookups.settings.endpoints.of(endpoint));
        url.and_then(|url| Host::of(&url).ok())
            .map_or_else(|| resolver.to_string(), |host| host.to_string())
    }

    /// Returns the host of the next step of a work.
    pub(super) fn host_of(&self, item: &ActiveWork) -> Option<String> {
        let NextStep::Run(step) = item.next else {
            return None;
        };
        match step {
            WorkStep::Fetch(candidate) | WorkStep::Read(candidate) => {
                let location = item.state.candidate(candidate)?;
                location.url.host_str().map(str::to_owned)
            }
            WorkStep::Resolve(landing::ID) if item.state.work.identifiers.url.is_some() => {
                let url = item.state.work.identifiers.url.as_ref()?;
                url.host_str().map(str::to_owned)
            }
            WorkStep::Resolve(id) => Some(self.host_of_resolver(id)),
        }
    }
}
