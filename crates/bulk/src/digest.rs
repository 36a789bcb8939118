//! Checksums of files and fingerprints of texts.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use docstokg_hub::files::hex;
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of a file, in hex.
///
/// # Errors
/// Returns an [`io::Error`] if the file cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    digest_of::<Sha256>(path)
}

/// Returns the digest of a file, in hex.
///
/// # Errors
/// Returns an [`io::Error`] if the file cannot be read.
pub fn digest_of<D: Digest>(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = D::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

/// A hash that identifies a text that must not be persisted, because it may contain a credential.
///
/// ```
/// use docstokg_bulk::digest::Fingerprint;
///
/// let shown = Fingerprint::of("https://api.example/?key=s3cret").to_string();
/// assert_eq!(shown.len(), 32);
/// assert_eq!(Fingerprint::read(&shown), Some(Fingerprint::of("https://api.example/?key=s3cret")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Returns the fingerprint of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns the fingerprint as bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Reads a fingerprint in hex.
    #[must_use]
    pub fn read(hex: &str) -> Option<Self> {
        u128::from_str_radix(hex, 16).ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    /// Writes the fingerprint in hex. A precision limits the number of characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:032x}", self.0))
    }
}
