//! Links of reference managers into bibliographic databases. Such a link leads to a record behind a
//! login, never to a file.

use url::Url;

/// The hosts of databases. Their subdomains count, too.
const DATABASE_HOSTS: &[&str] = &[
    "app.dimensions.ai",
    "apps.isiknowledge.com",
    "apps.webofknowledge.com",
    "badge.dimensions.ai",
    "ebsco.com",
    "ebscohost.com",
    "embase.com",
    "engineeringvillage.com",
    "galegroup.com",
    "gale.com",
    "gateway.isiknowledge.com",
    "gateway.webofknowledge.com",
    "lens.org",
    "ovid.com",
    "ovidds.com",
    "proquest.com",
    "publons.com",
    "reaxys.com",
    "scifinder-n.cas.org",
    "scifinder.cas.org",
    "scopus.com",
    "webofknowledge.com",
    "webofscience.com",
];

/// Tells whether a link leads to the record of a database. Links through the proxy of a library
/// count (`www-scopus-com.proxy.example.edu`, `scopus.com.proxy.example.edu`).
pub(super) fn is_database_link(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    DATABASE_HOSTS.iter().any(|known| {
        let is_below = |name: &str| {
            let rest = host.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        is_below(known) || is_proxied(host, known)
    })
}

/// Tells whether a host is a proxy whose name contains the known host.
fn is_proxied(host: &str, known: &str) -> bool {
    let hyphened = known.replace('.', "-");
    let begins = |name: &str| {
        host.find(name).is_some_and(|at| {
            let before = host[..at].chars().next_back();
            let after = host[at + name.len()..].chars().next();
            before.is_none_or(|c| matches!(c, '.' | '-')) && after == Some('.')
        })
    };
    host.contains("proxy") && (begins(known) || begins(&hyphened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_databases_are_told_from_those_to_publishers() {
        let is_database = |text: &str| is_database_link(&Url::parse(text).unwrap());
        for link in [
            "https://www.scopus.com/inward/record.uri?eid=2-s2.0-1",
            "http://search.ebscohost.com/login.aspx?direct=true&db=a9h&AN=1",
            "https://app.dimensions.ai/details/publication/pub.1",
            "https://www.lens.org/lens/article/view/1",
            "http://ovidsp.ovid.com/ovidweb.cgi?T=JS",
            "https://search.proquest.com/docview/1",
            "https://www.webofscience.com/wos/woscc/full-record/WOS:1",
            "https://www-scopus-com.ezproxy.example.edu/record",
        ] {
            assert!(is_database(link), "{link}");
        }
        for link in [
            "https://journals.example.org/lens.org",
            "https://notscopus.com/a",
            "https://www.dimensions.ai.example.org/",
            "https://link.springer.com/article/10.1007/1",
            "https://doi.org/10.1000/a",
        ] {
            assert!(!is_database(link), "{link}");
        }
    }
}
