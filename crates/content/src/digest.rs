//! Checksums of files and fingerprints of texts.

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

/// Returns what a text is known by where it must not be written down itself, because it may carry a key.
pub(crate) fn fingerprint(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..16])
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
