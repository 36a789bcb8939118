//! Checksums of files and fingerprints of texts.

use std::io;
use std::path::Path;

pub(crate) use docstokg_bulk::digest::{Fingerprint, sha256_of};
use md5::Md5;

/// Returns the MD5 of a file, in hex.
pub(crate) fn md5_of(path: &Path) -> io::Result<String> {
    docstokg_bulk::digest::digest_of::<Md5>(path)
}
