//! File operations that several crates use.

use std::io;
use std::path::{Path, PathBuf};

/// Writes a file under a temporary name, and renames it when it is complete.
///
/// # Errors
/// Returns an [`io::Error`] if the file cannot be written or renamed.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = beside(path);
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| {
            // A temporary file that cannot be removed stays behind, but its name identifies it.
            let _ = std::fs::remove_file(&beside);
        })
}

/// Returns a temporary name in the same directory, for a file that is not complete.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

/// Formats bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
