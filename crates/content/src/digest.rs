//! Checksums of files and fingerprints of texts.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use docstokg_hub::files::hex;
use md5::{Digest, Md5};
use sha2::Sha256;

/// Returns the SHA-256 of a file, in hex.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    of_file::<Sha256>(path)
}

/// Returns the MD5 of a file, in hex.
pub(crate) fn md5_of(path: &Path) -> io::Result<String> {
    of_file::<Md5>(path)
}

/// What a text is known by where it must not be written down itself, because it may carry a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    pub(crate) fn of(text: &str) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
        Self(u128::from_be_bytes(bytes))
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Reads what was written.
    pub(crate) fn read(hex: &str) -> Option<Self> {
        u128::from_str_radix(hex, 16).ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    /// Writes it in hex; with a precision, so many characters of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:032x}", self.0))
    }
}

fn of_file<D: Digest>(path: &Path) -> io::Result<String> {
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
