//! Writes the configuration of a client: the limits of the hosts, and the base URLs of the
//! services.

use std::fmt::Write as _;

use super::{WorkLibrary, hosts};

/// The services, by their names in the configuration of clients.
const SERVICES: [&str; 17] = [
    "openalex",
    "openalex_content",
    "unpaywall",
    "crossref",
    "datacite",
    "arxiv",
    "pmc_id_converter",
    "pmc_bucket",
    "europe_pmc",
    "europe_pmc_articles",
    "doi",
    "wayback",
    "zenodo",
    "figshare",
    "osf",
    "hal",
    "doaj",
];

impl WorkLibrary {
    /// Writes a configuration file for the `docstokg` program. It has the limits of the hosts, the
    /// base URLs of the services, and one budget for each group of requests that a host counts
    /// together.
    #[must_use]
    pub fn client_configuration(&self) -> String {
        let mut text = String::from(
            "version: 1\nidentity: { mailto: reader@simulated-library.org }\n\
             resolvers:\n  endpoints:\n",
        );
        for service in SERVICES {
            if let Some(base) = self.endpoint(service) {
                let _ = writeln!(text, "    {service}: \"{base}\"");
            }
        }
        // Limits are scaled up here, so outages are scaled down. The hosts run on the client's
        // machine and may record a request late, so windows need a wider guard than for real hosts.
        text.push_str(
            "breakers: { defaults: { reset_timeout_s: 4 } }\n\
             limits:\n  global: { guard_ms: 40 }\n  hosts:\n",
        );
        let limits = self.limits();
        for host in self.hosts() {
            write_host(&mut text, &host, &limits);
        }
        text.push_str("sites:\n");
        for limit in &limits {
            write_site(&mut text, limit);
        }
        text
    }
}

/// A host, the role or kind of requests, and the rate.
type ClientRate = (String, String, String);

/// Writes the limits of a host by role and kind.
fn write_host(text: &mut String, host: &str, limits: &[ClientRate]) {
    let own = |what: &str| {
        limits
            .iter()
            .find(|(name, role, _)| name == host && role == what)
            .map(|(_, _, rates)| rates)
    };
    let role = |what: &str| {
        let rates = own(what).map_or(String::new(), |rates| format!("\"{rates}\""));
        format!("{{ rates: [{rates}], max_concurrent: 6, max_delay_ms: 60000 }}")
    };
    let _ = write!(
        text,
        "    {host}: {{ metadata: {}, landing: {}, artifact: {}",
        role("metadata"),
        role("landing"),
        role("artifact")
    );
    if let Some(rates) = own("list") {
        let _ = write!(text, ", kinds: {{ list: {{ rates: [\"{rates}\"] }} }}");
    }
    text.push_str(" }\n");
}

/// Writes the site of a host that counts all its requests together.
fn write_site(text: &mut String, (host, what, rates): &ClientRate) {
    let (name, hosts) = match host.as_str() {
        _ if what != "all" => return,
        // These hosts belong to the site of their operator.
        hosts::ARXIV_PAGES | hosts::EUROPE_PMC => return,
        hosts::ARXIV => (
            "arxiv".to_owned(),
            format!("{host}, {}", hosts::ARXIV_PAGES),
        ),
        hosts::PMC => ("ncbi".to_owned(), host.clone()),
        hosts::ZENODO => ("zenodo".to_owned(), host.clone()),
        hosts::EBI => ("ebi".to_owned(), format!("{host}, {}", hosts::EUROPE_PMC)),
        host => (host.replace('.', "-"), host.to_owned()),
    };
    let most = if host == hosts::ARXIV {
        ", max_concurrent: 1, concurrency: shared"
    } else {
        ", max_concurrent: 6"
    };
    let _ = writeln!(
        text,
        "  {name}: {{ hosts: [{hosts}], common: {{ rates: [\"{rates}\"]{most} }} }}",
    );
}
