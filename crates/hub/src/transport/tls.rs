//! TLS by rustls with ring. It trusts the machine's certificates and those that the user adds.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::wire::TransportError;

/// Builds the client configuration of TLS, which also trusts the `extra` certificates.
///
/// A machine without any certificate is valid: plain http works, and https fails with a clear
/// error.
///
/// # Errors
/// Returns a [`TransportError`] if one of the `extra` certificates cannot be used.
pub(super) fn client_config(extra: &[Vec<u8>]) -> Result<ClientConfig, TransportError> {
    let mut roots = RootCertStore::empty();
    let (added, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    tracing::debug!(certificates = added, "loaded the machine's certificates");
    for pem in extra {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| TransportError::Certificate(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| TransportError::Certificate(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(TransportError::Certificate(
                "there is no PEM certificate in it".to_owned(),
            ));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TransportError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
