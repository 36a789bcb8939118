//! Text-mining services of publishers. Crossref names their links, and each service requires its
//! own credential.

use docstokg_lookup::source_spec::{
    CredentialCarrier, CredentialRecipient, SecretHeader, SourceCredential,
};
use url::Url;

/// The host of Elsevier's service, from its documentation.
const ELSEVIER: &str = "api.elsevier.com";

/// The key for text mining at Elsevier.
pub(super) static ELSEVIER_KEY: SourceCredential = SourceCredential {
    key: "elsevier_api_key",
    variable: "ELSEVIER_API_KEY",
    about: "The key for text mining at Elsevier; sent to api.elsevier.com only",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "x-els-apikey",
        before: "",
        to: CredentialRecipient::Host(ELSEVIER),
        beside: None,
    }),
};

/// The token of an institution at Elsevier.
pub(super) static ELSEVIER_INSTTOKEN: SourceCredential = SourceCredential {
    key: "elsevier_insttoken",
    variable: "ELSEVIER_INSTTOKEN",
    about: "The token of your institution at Elsevier, beside the key",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "x-els-insttoken",
        before: "",
        to: CredentialRecipient::Host(ELSEVIER),
        beside: Some(&ELSEVIER_KEY),
    }),
};

/// The token for text mining at Wiley.
pub(super) static WILEY_TOKEN: SourceCredential = SourceCredential {
    key: "wiley_tdm_token",
    variable: "WILEY_TDM_TOKEN",
    about: "The token for text mining at Wiley; sent to api.wiley.com only",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "wiley-tdm-client-token",
        before: "",
        to: CredentialRecipient::Host("api.wiley.com"),
        beside: None,
    }),
};

/// Selects the PDF of an article whose format is a query parameter. Tells whether the URL has such
/// a parameter.
pub(super) fn choose_pdf(url: &mut Url) -> bool {
    let chooses = url.host_str() == Some(ELSEVIER);
    if chooses {
        url.set_query(Some("httpAccept=application/pdf"));
    }
    chooses
}
