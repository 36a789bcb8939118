//! Keys of stored responses and of flights. Keys are hashes, so that no secret reaches the disk.

use docstokg_policy::freshness::{CacheMode, Digest};
use docstokg_policy::role::Role;
use docstokg_stores::cache::CacheKey;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::files::hex;
use crate::redact::{FieldKind, is_credential};
use crate::request::Request;

/// Hashes the text of the header fields that `Vary` names.
pub(super) fn hash(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// The key space of a request. A stored response serves only requests of the same space.
///
/// Requests of the hub and relayed requests have different spaces, because the hub stores bodies
/// decoded, a relay as sent. A private and a shared cache have different spaces, because a response
/// in a private cache must not be served from a shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySpace {
    Own,
    PrivateRelay,
    SharedRelay,
}

impl KeySpace {
    pub(super) const ALL: [Self; 3] = [Self::Own, Self::PrivateRelay, Self::SharedRelay];

    /// Returns the [`KeySpace`] of a request.
    pub(super) fn of(request: &Request) -> Self {
        match request.relay.as_ref().map(|relay| relay.mode) {
            None => Self::Own,
            Some(CacheMode::Private) => Self::PrivateRelay,
            Some(CacheMode::Shared) => Self::SharedRelay,
        }
    }

    /// Returns the [`CacheKey`] of a URL, compared in its exact form. Entries under this key are
    /// responses to GET, which also serve HEAD.
    pub(super) fn key(self, url: &Url) -> CacheKey {
        let mut hash = Sha256::new();
        hash.update(match self {
            Self::Own => &b"GET "[..],
            Self::PrivateRelay => b"private GET ",
            Self::SharedRelay => b"shared GET ",
        });
        hash.update(url.as_str().as_bytes());
        CacheKey::new(hash.finalize().into())
    }
}

/// Returns the [`CacheKey`] of a flight. Requests share a flight if they have the same URL and
/// header fields.
///
/// The fields in `ignored`, which only trace a request, do not count. If a response depends on such
/// a field, its `Vary` names the field, and each request that waited is sent after all.
pub(super) fn of_flight(key: &CacheKey, headers: &HeaderMap, ignored: &[HeaderName]) -> CacheKey {
    let mut hash = Sha256::new();
    hash.update(b"flight");
    hash.update(key.as_bytes());
    hash_fields(&mut hash, headers, |name, value| {
        FieldKind::of(name, value) != FieldKind::Trace && !ignored.contains(name)
    });
    CacheKey::new(hash.finalize().into())
}

/// Replaces the credentials of a request by an identity: the role and a hash of all credentials.
///
/// A stored response is selected by `Authorization`, which becomes this identity. So a response for
/// one set of credentials, cookies or role is never served to another, even if the origin sends no
/// `Vary`. Every field that is not known to be harmless counts as a credential, because a miss is
/// better than a leak. Fields in `ignored` do not count, unless they are known credentials.
pub(super) fn set_identity(
    headers: &mut HeaderMap,
    role: Role,
    secrets: &[HeaderName],
    ignored: &[HeaderName],
) {
    let counts = |name: &HeaderName, value: &HeaderValue| match FieldKind::of(name, value) {
        FieldKind::Credential => true,
        FieldKind::Unknown => !ignored.contains(name),
        FieldKind::Negotiation | FieldKind::Trace => secrets.contains(name),
    };
    let identity = match digest_of(headers, counts) {
        None => HeaderValue::from_static(role.as_str()),
        Some(digest) => HeaderValue::from_str(&format!("{role} {digest}"))
            .unwrap_or(HeaderValue::from_static(role.as_str())),
    };
    headers.insert(AUTHORIZATION, identity);
}

/// Marks a request of a shared cache as having credentials if they are in a field other than
/// `Authorization`. RFC 9111 section 3.5 then decides whether the response is stored, as it does
/// for `Authorization`.
pub(super) fn mark_credentials(headers: &mut HeaderMap, secrets: &[HeaderName]) {
    if headers.contains_key(AUTHORIZATION) {
        return;
    }
    let counts = |name: &HeaderName, value: &HeaderValue| {
        *name != COOKIE && (is_credential(name, value) || secrets.contains(name))
    };
    let digest = digest_of(headers, counts);
    if let Some(mark) = digest.and_then(|digest| HeaderValue::from_str(&digest).ok()) {
        headers.insert(AUTHORIZATION, mark);
    }
}

/// Returns a digest of the fields that count; `None` if the request has no such field.
fn digest_of(
    headers: &HeaderMap,
    counts: impl Fn(&HeaderName, &HeaderValue) -> bool,
) -> Option<String> {
    let mut hash = Sha256::new();
    let count = hash_fields(&mut hash, headers, counts);
    (count > 0).then(|| hex(&hash.finalize()))
}

/// Adds the wanted fields to a hash, sorted by name, and returns their number.
fn hash_fields(
    hash: &mut Sha256,
    headers: &HeaderMap,
    is_wanted: impl Fn(&HeaderName, &HeaderValue) -> bool,
) -> usize {
    let wanted = headers
        .iter()
        .filter(|(name, value)| is_wanted(name, value));
    let mut fields: Vec<(&str, &[u8])> = wanted
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    fields.sort_unstable();
    for (name, value) in &fields {
        for part in [name.as_bytes(), value] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    fields.len()
}
