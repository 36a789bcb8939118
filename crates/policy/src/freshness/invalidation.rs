//! The invalidation of stored responses by unsafe requests (RFC 9111 section 4.4).

use http::{HeaderMap, Method, StatusCode, header};
use url::Url;

/// Returns the URLs whose stored responses a request invalidates: its own URL, and those of
/// `Location` and `Content-Location` on the same origin.
///
/// ```
/// use docstokg_policy::freshness::invalidates;
/// use http::{HeaderMap, Method, StatusCode};
///
/// let url = "https://api.example.org/works/1".parse()?;
/// let after = |method, status| invalidates(&method, status, &HeaderMap::new(), &url);
/// assert_eq!(after(Method::PUT, StatusCode::OK), [url.clone()]);
/// assert!(after(Method::PUT, StatusCode::CONFLICT).is_empty());
/// assert!(after(Method::GET, StatusCode::OK).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn invalidates(
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    url: &Url,
) -> Vec<Url> {
    // RFC 9110 section 9.2.1; an unknown method counts as unsafe.
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    // RFC 9111 section 4.4: only responses without an error invalidate.
    if safe.contains(method) || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut urls = vec![without_fragment(url.clone())];
    for field in [header::LOCATION, header::CONTENT_LOCATION] {
        for value in headers.get_all(field) {
            let named = std::str::from_utf8(value.as_bytes()).ok();
            let Some(named) = named.and_then(|named| url.join(named).ok()) else {
                continue;
            };
            // RFC 9111 section 4.4: an origin cannot invalidate responses of another origin.
            let named = without_fragment(named);
            if named.origin() == url.origin() && named.origin().is_tuple() && !urls.contains(&named)
            {
                urls.push(named);
            }
        }
    }
    urls
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}
