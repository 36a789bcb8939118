//! Header fields that carry credentials, or say who asks. Pure.
//!
//! Judged by the same names and values as the parameters of URLs, and by a few names that mean a
//! person or a program in a header field alone. The cache keeps responses to them apart, redirects
//! to other origins leave them behind, and diagnostic output hides them. A field that is taken for
//! a credential by mistake costs a miss; one that is not recognised gives a response away.

use http::header::{self, AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderName, HeaderValue};

use super::secret::{Names, as_one_word, has_part, is_key, is_secret_last_word};

/// Fields that most requests have, and that never carry credentials.
const ORDINARY_FIELDS: [HeaderName; 16] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::RANGE,
    header::REFERER,
    header::USER_AGENT,
    header::VIA,
];

/// Parts of names that announce credentials wherever they stand, as one word in lower case.
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

/// Words that have one of these parts and announce no credentials.
const ORDINARY_WORDS: [&str; 6] = [
    "assign", "author", "design", "keyboard", "keyword", "signal",
];

/// Endings of names that say who asks, as one word in lower case.
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

/// Endings of names whose values look like keys and differ from request to request.
const TRACE_ENDINGS: [&str; 5] = [
    "correlationid",
    "requestid",
    "spanid",
    "traceid",
    "traceparent",
];

/// Authentication schemes that a value begins with.
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

/// Returns whether a header field carries credentials, by its name or by the look of its value.
#[must_use]
pub fn is_credential(name: &HeaderName, value: &HeaderValue) -> bool {
    !ORDINARY_FIELDS.contains(name)
        && (is_credential_name(name) || (!is_trace(name) && looks_like_credential(value)))
}

/// Returns whether the name of a header field announces credentials or says who asks.
fn is_credential_name(name: &HeaderName) -> bool {
    if [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].contains(name) {
        return true;
    }
    // Says how a browser came to send the request: `Sec-Fetch-User: ?1`.
    if name.as_str().starts_with("sec-fetch-") {
        return false;
    }
    let word = as_one_word(name.as_str());
    Names::Ordinary.is_secret(name.as_str())
        || is_secret_last_word(name.as_str())
        || has_part(&word, &CREDENTIAL_PARTS, &ORDINARY_WORDS)
        || IDENTITY_ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// Returns whether a field traces a request: its value is new in every request.
fn is_trace(name: &HeaderName) -> bool {
    let word = as_one_word(name.as_str());
    TRACE_ENDINGS.iter().any(|ending| word.ends_with(ending))
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
}
