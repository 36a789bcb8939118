//! The requests that a stored response may serve (RFC 9111 section 4.1).
//!
//! Of the request fields that `Vary` names, only one digest is stored. A [`VariantKey`] contains no
//! field values, so no value of `Authorization` or `Cookie` reaches a disk. A caller that must also
//! prevent guesses from digests passes a keyed hash.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::{Deserialize, Serialize};

use super::fields::list_members;
use super::members::{is_token, split_outside_quotes};
use super::{CacheMode, CacheRequest, StoredResponse};

/// A digest of request fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    /// Writes the first bytes, which are sufficient to distinguish digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest(")?;
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "..)")
    }
}

/// The caller's hash function: collision-resistant, and unchanged for the lifetime of the cache.
pub type FieldHasher<'a> = &'a dyn Fn(&[u8]) -> Digest;

/// The names in `Vary`, and a [`Digest`] of their values in the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantKey {
    names: Vec<Box<str>>,
    digest: Digest,
}

impl VariantKey {
    /// Returns the key of a response to a [`CacheRequest`]. Returns `None` if the response serves
    /// no other request, because of `Vary: *` or a malformed `Vary`.
    pub(super) fn of(
        request: CacheRequest<'_>,
        response_headers: &HeaderMap,
        mode: CacheMode,
        hash: FieldHasher<'_>,
    ) -> Option<Self> {
        let mut names = Vec::new();
        for name in list_members(response_headers, &header::VARY)? {
            if name == b"*" || !is_token(name) {
                return None;
            }
            names.push(
                String::from_utf8_lossy(name)
                    .to_ascii_lowercase()
                    .into_boxed_str(),
            );
        }
        // A private cache serves one user who may have several credentials. A response to one of
        // them must not serve another, even if `Vary` does not name the field.
        if mode == CacheMode::Private {
            names.push(header::AUTHORIZATION.as_str().into());
        }
        names.sort_unstable();
        names.dedup();
        let digest = digest(&names, request.headers, hash);
        Some(Self { names, digest })
    }

    /// Returns whether a [`CacheRequest`] has the field values of this key.
    #[must_use]
    pub fn matches(&self, request: CacheRequest<'_>, hash: FieldHasher<'_>) -> bool {
        digest(&self.names, request.headers, hash) == self.digest
    }

    /// Returns the digest, which also covers the names. Two responses of one URL with the same
    /// digest are the same variant, and the later one replaces the earlier.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Selects the [`StoredResponse`] of a URL that serves a request, and returns its position. Of the
/// matching variants, the one with the latest `Date` is selected; if several have that date, the
/// one that arrived last.
#[must_use]
pub fn select<'a>(
    request: CacheRequest<'_>,
    variants: impl IntoIterator<Item = &'a StoredResponse>,
    hash: FieldHasher<'_>,
) -> Option<usize> {
    let matching = variants.into_iter().enumerate();
    let matching = matching.filter(|(_, stored)| stored.variant().matches(request, hash));
    let newest = matching.max_by_key(|(_, stored)| (stored.facts().date, stored.received()));
    newest.map(|(position, _)| position)
}

fn digest(names: &[Box<str>], headers: &HeaderMap, hash: FieldHasher<'_>) -> Digest {
    let mut input = Vec::with_capacity(64 * names.len());
    let mut add = |bytes: &[u8]| {
        input.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        input.extend_from_slice(bytes);
    };
    for name in names {
        add(name.as_bytes());
        // An absent field differs from an empty one.
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) if headers.contains_key(&name) => add(&normalised(headers, &name)),
            _ => add(b"\0absent"),
        }
    }
    hash(&input)
}

/// Joins the lines of a field and removes differences without meaning: white space around commas,
/// and case in case-insensitive fields. The order remains, because origins may depend on it.
fn normalised<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Cow<'a, [u8]> {
    let mut lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let joined = match (lines.next(), lines.next()) {
        (Some(only), None) => Cow::Borrowed(only),
        (first, second) => {
            let lines: Vec<_> = first.into_iter().chain(second).chain(lines).collect();
            Cow::Owned(lines.join(&b","[..]))
        }
    };
    let is_opaque = [
        header::AUTHORIZATION,
        header::COOKIE,
        header::PROXY_AUTHORIZATION,
    ];
    if is_opaque.contains(name) {
        return joined;
    }
    let Some(parts) = split_outside_quotes(&joined) else {
        return joined;
    };
    let parts: Vec<_> = parts.into_iter().map(<[u8]>::trim_ascii).collect();
    let mut value = parts.join(&b","[..]);
    let has_no_case = [
        header::ACCEPT_LANGUAGE,
        header::ACCEPT_ENCODING,
        header::ACCEPT_CHARSET,
    ];
    if has_no_case.contains(name) {
        value.make_ascii_lowercase();
    }
    Cow::Owned(value)
}
