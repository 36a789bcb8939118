//! The two canonical forms of a URL: for the index (one spelling per resource) and for the request
//! (per role).
//!
//! As in RFC 3986 section 6.2: case of scheme and host, case of escapes, needless escapes, dot
//! segments, default port, no fragment. The query is never reordered or re-encoded, because servers
//! sign and compare it byte by byte.

use url::Url;

use crate::role::Role;

/// The query parameters that only serve tracking. Landing requests drop them; other requests keep
/// them.
const TRACKERS: [&str; 24] = [
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "dclid",
    "fbclid",
    "gbraid",
    "gclid",
    "gclsrc",
    "igshid",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "twclid",
    "utm_campaign",
    "utm_content",
    "utm_id",
    "utm_medium",
    "utm_name",
    "utm_source",
    "utm_term",
    "wbraid",
    "yclid",
];

/// Returns the form under which a URL is indexed and compared.
///
/// ```
/// use docstokg_policy::canonical::for_index;
///
/// let url = "https://Journal.example:443/%7Euser/../a%2fb#top".parse()?;
/// assert_eq!(for_index(&url).as_str(), "https://journal.example/a%2Fb");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn for_index(url: &Url) -> Url {
    let mut canonical = url.clone();
    canonical.set_fragment(None);
    let path = normalise_escapes(url.path());
    if path != url.path() {
        canonical.set_path(&path);
    }
    if let Some(host) = url
        .host_str()
        .filter(|host| host.ends_with('.'))
        .map(|host| host.trim_end_matches('.'))
        .filter(|host| !host.is_empty())
    {
        // A valid host with a dot at its end is also valid without that dot. If the call failed,
        // the dot would stay.
        let _ = canonical.set_host(Some(host));
    }
    canonical
}

/// Returns the form that is sent, without the fragment. For [`Role::Landing`] the known trackers
/// are removed, too.
///
/// Path and all other parameters keep their order and spelling.
///
/// ```
/// use docstokg_policy::canonical::for_request;
/// use docstokg_policy::role::Role;
///
/// let url = "https://journal.example/a?id=1&utm_source=mail".parse()?;
/// assert_eq!(for_request(&url, Role::Landing).query(), Some("id=1"));
/// assert_eq!(for_request(&url, Role::Artifact).query(), url.query());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn for_request(url: &Url, role: Role) -> Url {
    let mut sent = url.clone();
    sent.set_fragment(None);
    if role != Role::Landing {
        return sent;
    }
    let Some(query) = url.query() else {
        return sent;
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_tracker(pair)).collect();
    if kept.len() < query.split('&').count() {
        let kept = kept.join("&");
        sent.set_query((!kept.is_empty()).then_some(kept.as_str()));
    }
    sent
}

fn is_tracker(pair: &str) -> bool {
    let name = pair
        .split('=')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    TRACKERS.binary_search(&name.as_str()).is_ok()
}

/// Upper-cases escapes and decodes those of unreserved characters (RFC 3986 sections 6.2.2.1 and
/// 6.2.2.2).
///
/// An escape right after a bare `%` stays, because its decoded form could complete an escape.
fn normalise_escapes(path: &str) -> String {
    let mut normal = String::with_capacity(path.len());
    let mut rest = path;
    let mut bare = None;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        normal.push_str(before);
        let code = escape
            .get(1..3)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = code else {
            bare = Some(normal.len());
            normal.push('%');
            rest = &escape[1..];
            continue;
        };
        let is_apart = bare.is_none_or(|bare| normal.len() > bare + 2);
        match u8::from_str_radix(code, 16) {
            Ok(byte) if is_apart && (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) => {
                normal.push(char::from(byte));
            }
            _ => {
                normal.push('%');
                normal.push_str(&code.to_ascii_uppercase());
            }
        }
        rest = &escape[3..];
    }
    normal.push_str(rest);
    normal
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(text: &str) -> String {
        for_index(&Url::parse(text).unwrap()).to_string()
    }

    fn request(text: &str, role: Role) -> String {
        for_request(&Url::parse(text).unwrap(), role).to_string()
    }

    #[test]
    fn one_resource_has_one_index_form() {
        for (text, canonical) in [
            (
                "HTTP://Example.ORG:80/a/../b/./c#part",
                "http://example.org/b/c",
            ),
            ("https://example.org./x", "https://example.org/x"),
            (
                "https://example.org/%7euser/%e2%82%ac/%2f",
                "https://example.org/~user/%E2%82%AC/%2F",
            ),
            (
                "https://example.org/100%/x%zz",
                "https://example.org/100%/x%zz",
            ),
            (
                "https://example.org/%3%30/%41",
                "https://example.org/%3%30/A",
            ),
            (
                "https://example.org/a?b=2&a=%7e1#x",
                "https://example.org/a?b=2&a=%7e1",
            ),
            ("https://bücher.example", "https://xn--bcher-kva.example/"),
        ] {
            assert_eq!(index(text), canonical);
        }
    }

    #[test]
    fn landing_requests_lose_known_trackers_and_nothing_else() {
        let text = "https://example.org/p?utm_source=x&id=7&FBCLID=1&empty=&ref=home&id=8#top";
        assert_eq!(
            request(text, Role::Landing),
            "https://example.org/p?id=7&empty=&ref=home&id=8"
        );
        assert_eq!(
            request("https://example.org/p?gclid=1", Role::Landing),
            "https://example.org/p"
        );
        assert_eq!(
            request("https://example.org/p?&a=%20+&", Role::Landing),
            "https://example.org/p?&a=%20+&"
        );
    }

    #[test]
    fn metadata_and_artifact_requests_keep_their_query() {
        let text = "https://example.org/p?utm_source=x&id=7";
        assert_eq!(request(text, Role::Metadata), text);
        assert_eq!(request(text, Role::Artifact), text);
    }

    #[test]
    fn the_trackers_are_sorted_for_the_search() {
        assert!(TRACKERS.is_sorted());
    }

    proptest! {
        #[test]
        fn the_index_form_of_an_index_form_is_itself(
            path in "[a-zA-Z0-9/%._~-]{0,30}",
            query in "[a-z0-9=&%+]{0,20}",
        ) {
            let url = Url::parse(&format!("https://Example.org/{path}?{query}")).unwrap();
            let once = for_index(&url);
            prop_assert_eq!(for_index(&once), once);
        }
    }
}
