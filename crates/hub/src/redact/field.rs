//! Classification of request header fields by how much they reveal about the user. Pure functions,
//! without I/O.
//!
//! [`FieldKind::of`] recognises a credential by the names and values that are secrets in URLs, too,
//! and by names that identify a person or a program only in header fields. The result is used by
//!
//! - redirects to other origins, which drop credentials;
//! - diagnostic output, which hides them;
//! - the cache, which stores responses separately by credentials and by unknown fields.
//!
//! If a harmless field is taken for a credential, the cache misses. If a credential is not
//! recognised, a response leaks.

use http::{HeaderName, HeaderValue};

use super::secret::{NameContext, as_one_word, has_part, is_key, is_secret_word};

/// The kind of a request header field, by how much the field reveals about the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// A field that describes the wanted response. If a response depends on it, the origin must
    /// name it in `Vary`.
    Negotiation,
    /// A field that differs from request to request, or from gateway to gateway.
    Trace,
    /// A field that contains credentials, or identifies the user.
    Credential,
    /// A field whose meaning is not known.
    Unknown,
}

/// Fields of RFC 9110, RFC 9111 and of browsers that never contain credentials.
const NEGOTIATION_FIELDS: [&str; 42] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "device-memory",
    "dnt",
    "downlink",
    "dpr",
    "ect",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "pragma",
    "priority",
    "proxy-connection",
    "range",
    "referer",
    "rtt",
    "save-data",
    "sec-gpc",
    "sec-purpose",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "viewport-width",
    "width",
];

/// Prefixes of fields in which a browser describes itself and the cause of the request.
const NEGOTIATION_STARTS: [&str; 2] = ["sec-ch-", "sec-fetch-"];

/// Fields that name a request and the gateways on its way.
const TRACE_FIELDS: [&str; 19] = [
    "b3",
    "baggage",
    "forwarded",
    "sentry-trace",
    "tracestate",
    "uber-trace-id",
    "via",
    "x-amzn-trace-id",
    "x-b3-flags",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-cloud-trace-context",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-forwarded-for",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-queue-start",
    "x-request-start",
];

/// Parts of a name that indicate credentials at any position. They are compared with the name in
/// lower case and without separators.
const CREDENTIAL_PARTS: [&str; 17] = [
    "auth",
    "cookie",
    "credential",
    "csrf",
    "jwt",
    "key",
    "oidcclaim",
    "passcode",
    "passphrase",
    "passw",
    "saml",
    "secret",
    "session",
    "sign",
    "token",
    "userinfo",
    "xsrf",
];

/// Words that contain one of the [`CREDENTIAL_PARTS`], but do not indicate credentials.
const ORDINARY_WORDS: [&str; 6] = [
    "assign", "author", "design", "keyboard", "keyword", "signal",
];

/// Endings of names that identify the user. They are compared with the name in lower case and
/// without separators.
const IDENTITY_ENDINGS: [&str; 53] = [
    "access",
    "accesscode",
    "account",
    "accountid",
    "actas",
    "affiliation",
    "appid",
    "applicationid",
    "authentication",
    "cert",
    "certificate",
    "clientid",
    "clientsdn",
    "code",
    "cookie2",
    "customerid",
    "dpop",
    "entitlement",
    "eppn",
    "from",
    "group",
    "groups",
    "identity",
    "kerberos",
    "license",
    "login",
    "mail",
    "memberid",
    "onbehalfof",
    "organizationid",
    "orgid",
    "permissions",
    "persistentid",
    "principal",
    "principalid",
    "principalname",
    "role",
    "roles",
    "scope",
    "scopes",
    "sso",
    "sub",
    "subjectdn",
    "subscriber",
    "subscription",
    "tenant",
    "tenantid",
    "uid",
    "user",
    "useremail",
    "userid",
    "username",
    "userproject",
];

/// Words that identify the user at any position in a name.
const IDENTITY_WORDS: [&str; 8] = [
    "account",
    "email",
    "identity",
    "login",
    "principal",
    "tenant",
    "uid",
    "user",
];

/// Endings of the names of trace fields, whose values look like keys but differ from request to
/// request.
const TRACE_ENDINGS: [&str; 5] = [
    "correlationid",
    "requestid",
    "spanid",
    "traceid",
    "traceparent",
];

/// Authentication schemes at the beginning of a value.
const SCHEMES: [&str; 8] = [
    "apikey",
    "basic",
    "bearer",
    "digest",
    "dpop",
    "hmac",
    "negotiate",
    "token",
];

impl FieldKind {
    /// Classifies a field by its name and, if that is not sufficient, by the form of its value.
    pub(crate) fn of(name: &HeaderName, value: &HeaderValue) -> Self {
        let text = name.as_str();
        let is_negotiation = NEGOTIATION_STARTS
            .iter()
            .any(|start| text.starts_with(start));
        if is_negotiation || NEGOTIATION_FIELDS.contains(&text) {
            Self::Negotiation
        } else if is_credential_name(text) {
            Self::Credential
        } else if is_trace(text) {
            Self::Trace
        } else if looks_like_credential(value) {
            Self::Credential
        } else {
            Self::Unknown
        }
    }
}

/// Returns whether a header field contains credentials, judged by its name and its value.
#[must_use]
pub fn is_credential(name: &HeaderName, value: &HeaderValue) -> bool {
    FieldKind::of(name, value) == FieldKind::Credential
}

/// Returns whether the name of a header field indicates credentials or identifies the user.
fn is_credential_name(name: &str) -> bool {
    let word = as_one_word(name);
    // Names of fields are in lower case here, so capitals do not separate words: `XSid` is one
    // word.
    let mut words = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .map(|word| word.strip_prefix('x').unwrap_or(word));
    NameContext::Ordinary.is_secret(name)
        || words.any(|word| is_secret_word(word) || IDENTITY_WORDS.contains(&word))
        || has_part(&word, &CREDENTIAL_PARTS, &ORDINARY_WORDS)
        || IDENTITY_ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// Returns whether a field traces a request, so that its value differs in every request.
fn is_trace(name: &str) -> bool {
    let word = as_one_word(name);
    TRACE_FIELDS.contains(&name) || TRACE_ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// Returns whether a value looks like a key, or names an authentication scheme.
fn looks_like_credential(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else {
        return false;
    };
    match text.trim().split_once(' ') {
        None => is_key(text.trim()),
        Some((scheme, _)) => SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(name: &str, value: &str) -> bool {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        is_credential(&name, &HeaderValue::from_str(value).unwrap())
    }

    #[test]
    fn credential_is_recognised_by_its_name_in_any_spelling() {
        for name in [
            "XAccessToken",
            "x_api_key",
            "apikey",
            "XSid",
            "X-Sid-Of-Site",
            "X-Pin-Entered",
            "X-Email-Address",
            "X-User-Data",
            "X-Tenant-Name",
            "X-Forwarded-Access-Token",
            "Sec-Token-Binding",
            "Sec-Session-Response",
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Cookie2",
            "X-Access-Token",
            "Private-Token",
            "ApiKey",
            "Api_Key",
            "X-ELS-Insttoken",
            "X-Goog-Api-Key",
            "X-Amz-Security-Token",
            "Ocp-Apim-Subscription-Key",
            "CR-Clickthrough-Client-Token",
            "Crossref-Plus-API-Token",
            "Wiley-TDM-Client-Token",
            "X-GitLab-Token",
            "X-Dataverse-key",
            "X-Shibboleth-Session",
            "X-Shib-Session-ID",
            "X-Shib-Session-Index",
            "X-CSRF-Token",
            "X-XSRF-TOKEN",
            "Token",
            "X-Auth",
            "X-Auth-Key",
            "X-Auth-Email",
            "X-AuthToken",
            "X-Api-Secret",
            "X-Client-Secret",
            "X-Consumer-Key",
            "X-Session",
            "X-Session-Id",
            "X-SID",
            "X-OTP",
            "X-JWT-Assertion",
            "X-Password",
            "X-Signature",
            "X-Hub-Signature-256",
            "Signature",
            "X-Api-Key-2",
            "X-Token-Hash",
            "X-Ticket",
            "X-Credential",
            "X-Authentication",
            "DPoP",
            "Remote-User",
            "X-Forwarded-User",
            "X-Forwarded-Email",
            "X-Forwarded-Client-Cert",
            "X-MS-Client-Principal",
            "X-IBM-Client-Id",
            "X-User-Id",
            "X-AccessKeyId",
            "KeyId",
            "X-APIKeyId",
            "SecretId",
            "TokenId",
            "X-Api-Keys",
            "X-Tokens",
            "OAuth",
            "XAuth",
            "BasicAuth",
            "X-Auth-Info",
            "AuthHeader",
            "X-Auth-Code",
            "X-Auth-Request-Groups",
            "X-SessionData",
            "X-Session-State",
            "UserSession",
            "X-WebSession",
            "X-Sign",
            "Signature-Input",
            "X-Passcode",
            "X-XSRF",
            "X-Userinfo",
            "X-Authority-Key",
            "SSL_CLIENT_S_DN",
            "X-Client-Cert-Subject-DN",
            "X-Tenant",
            "X-Account",
            "X-Customer-Id",
            "X-Org-Id",
            "X-Member-Id",
            "X-Subscriber",
            "X-License",
            "X-Access-Code",
            "X-UID",
            "On-Behalf-Of",
            "X-Act-As",
            "X-Roles",
            "X-Forwarded-Groups",
            "X-OIDC-Scope",
            "OIDC_CLAIM_sub",
            "OIDC_CLAIM_given_name",
            "X-SAML-Attributes",
            "X-Remote-SSO",
            "X-Goog-User-Project",
            "X-Authorization-Context",
            "From",
            "Mail",
            "Affiliation",
            "Entitlement",
            "Persistent-Id",
        ] {
            assert!(judge(name, "v"), "{name}");
        }
    }

    #[test]
    fn credential_is_recognised_by_its_value() {
        for value in [
            "Bearer abc",
            "basic YTpi",
            "eyJhbGciOi.eyJzdWIi.c2ln",
            "ghp_0123456789abcdef",
            "aB3dE5fG7hI9jK1lM3nO5",
        ] {
            assert!(judge("X-Unknown", value), "{value}");
        }
    }

    #[test]
    fn other_fields_are_not_credentials() {
        for (name, value) in [
            ("Accept", "application/json, text/xml;q=0.9"),
            ("Accept-Language", "en-GB,en;q=0.5"),
            ("User-Agent", "python-requests/2.31.0"),
            ("User-Agent", "Basically/1.0 (mailto:me@example.org)"),
            ("If-None-Match", "\"d41d8cd98f00b204e9800998ecf8427e\""),
            ("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("Range", "bytes=0-99"),
            ("Referer", "https://a.example/token"),
            ("X-Request-Id", "d41d8cd9-8f00-b204-e980-0998ecf8427e"),
            ("X-B3-TraceId", "d41d8cd98f00b204e9800998ecf8427e"),
            ("X-Requested-With", "XMLHttpRequest"),
            ("X-Keyword", "monkey"),
            ("Author", "Smith"),
            ("X-Author-Name", "Smith"),
            ("X-Design", "new"),
            ("Sec-CH-UA-Platform", "Linux"),
            ("Upgrade-Insecure-Requests", "1"),
            ("Content-Disposition", "inline"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("Priority", "u=1, i"),
            ("Sec-Fetch-User", "?1"),
            ("Via", "1.1 docstokg"),
        ] {
            assert!(!judge(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn field_that_is_not_known_is_of_no_harmless_kind() {
        use FieldKind::{Negotiation, Trace, Unknown};
        for (name, kind) in [
            ("Accept", Negotiation),
            ("Accept-Language", Negotiation),
            ("If-Range", Negotiation),
            ("Sec-Fetch-User", Negotiation),
            ("Sec-CH-UA-Model", Negotiation),
            ("User-Agent", Negotiation),
            ("DNT", Negotiation),
            ("Priority", Negotiation),
            ("Via", Trace),
            ("Forwarded", Trace),
            ("X-Forwarded-For", Trace),
            ("X-Request-ID", Trace),
            ("traceparent", Trace),
            ("Uber-Trace-Id", Trace),
            // A response may depend on these fields without a `Vary` that says so.
            ("X-Forwarded-Host", Unknown),
            ("X-Forwarded-Prefix", Unknown),
            ("X-Requested-With", Unknown),
            ("Prefer", Unknown),
            ("Origin", Unknown),
            ("X-Whatever", Unknown),
            ("Sec-Whatever", Unknown),
            ("Accept-Whatever", Unknown),
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            let value = HeaderValue::from_static("v");
            assert_eq!(FieldKind::of(&name, &value), kind, "{name}");
        }
    }
}
