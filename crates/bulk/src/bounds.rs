//! The bounds of a work lane, derived from the hub's [`Config`].

use docstokg_hub::Host;
use docstokg_hub::config::Config;
use docstokg_policy::role::Role;

/// Maximum number of concurrent steps of a lane if the configuration does not bound the concurrent
/// requests to its site.
const UNBOUNDED_SITE: usize = 64;

/// The maximum of concurrent steps of a lane, and of items per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneBounds {
    /// Maximum number of concurrent steps.
    pub steps: usize,
    /// Maximum number of items per step.
    pub batch: usize,
}

impl LaneBounds {
    /// Returns the [`LaneBounds`] of a number of concurrent steps with one item each.
    #[must_use]
    pub const fn steps(steps: usize) -> Self {
        Self { steps, batch: 1 }
    }

    /// Returns the bounds of the lane of a site and role. A lane may have about twice as many
    /// concurrent steps as the site may have concurrent requests, so that the hub's admission queue
    /// of the site never runs empty.
    #[must_use]
    pub fn of_site(config: &Config, site: &str, role: Role) -> Self {
        let at_once = max_concurrent(config, site, role);
        Self::steps(at_once.map_or(UNBOUNDED_SITE, |at_once| (2 * at_once).clamp(4, 128)))
    }
}

/// Returns the maximum number of concurrent requests of a role to a site; `None` if there is no
/// limit. For a site of several hosts, that is the smaller of their common limit and the sum of the
/// limits of the hosts.
fn max_concurrent(config: &Config, site: &str, role: Role) -> Option<usize> {
    let of_host = |host: &Host| {
        let bound = config.limits.of(host, role).max_concurrent.value;
        bound.map(|bound| bound.get() as usize)
    };
    let Some(joined) = config.joined_site(site) else {
        return of_host(&Host::parse(site).ok()?);
    };
    let common = joined.common.as_ref();
    let common = common.and_then(|common| common.max_concurrent.value);
    let common = common.map(|bound| bound.get() as usize);
    let together = joined.hosts.iter().map(of_host).sum::<Option<usize>>();
    common.into_iter().chain(together).min()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use docstokg_hub::config::load::{ConfigSources, load};

    use super::*;

    fn config(yaml: &str) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.yaml");
        std::fs::write(&file, format!("version: 1\n{yaml}")).unwrap();
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        load(&sources)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .0
    }

    /// The lane of `arxiv.org` must respect the single connection that arXiv allows for all its
    /// hosts.
    #[test]
    fn a_joined_site_keeps_the_bound_of_its_common_budget() {
        let config = config(
            "sites: { arxiv: { hosts: [arxiv.org, export.arxiv.org], common: { rates: [\"1/3SECOND\"], max_concurrent: 1 } } }\n",
        );
        let site = config.site_key(&Host::parse("export.arxiv.org").unwrap());
        assert_eq!(
            LaneBounds::of_site(&config, &site, Role::Artifact),
            LaneBounds::steps(4)
        );
    }

    #[test]
    fn a_joined_site_without_a_common_bound_has_those_of_its_hosts_together() {
        let config = config(
            "limits: { hosts: { a.example: { artifact: { max_concurrent: 3 } }, b.example: { artifact: { max_concurrent: 4 } } } }\nsites: { ab: { hosts: [a.example, b.example] } }\n",
        );
        let site = config.site_key(&Host::parse("b.example").unwrap());
        assert_eq!(
            LaneBounds::of_site(&config, &site, Role::Artifact),
            LaneBounds::steps(14)
        );
    }

    #[test]
    fn a_host_has_its_own_bound_or_the_default() {
        let config = config(
            "limits: { defaults: { artifact: { max_concurrent: 5 } }, hosts: { a.example: { artifact: { max_concurrent: 9, rates: [\"2/SECOND\"] } } } }\n",
        );
        assert_eq!(
            LaneBounds::of_site(&config, "a.example", Role::Artifact),
            LaneBounds::steps(18)
        );
        assert_eq!(
            LaneBounds::of_site(&config, "b.example", Role::Artifact),
            LaneBounds::steps(10)
        );
    }
}
