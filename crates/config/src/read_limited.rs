//! Files that a user names, read up to a size. The size of a device or a pipe is not known
//! beforehand.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a file of at most `max_bytes`. The error for a larger file is "it is larger than N MiB",
/// followed by `hint`.
///
/// # Errors
/// Returns an error if the file cannot be read, or is larger.
pub fn read_bytes(path: &Path, max_bytes: u64, hint: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let most = max_bytes >> 20;
        return Err(io::Error::other(format!(
            "it is larger than {most} MiB, {hint}"
        )));
    }
    Ok(bytes)
}

/// Reads the text of a file of at most `max_bytes`, as [`read_bytes`] does.
///
/// # Errors
/// Returns an error if the file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, max_bytes: u64, hint: &str) -> io::Result<String> {
    String::from_utf8(read_bytes(path, max_bytes, hint)?)
        .map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_a_device_is_refused() {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let (size, hint) = (file.metadata().unwrap().len(), "which no list is");
        let text = read_text(file, size, hint).unwrap();
        assert_eq!(text.len() as u64, size);
        for path in [file, Path::new("/dev/zero")] {
            let error = read_bytes(path, size - 1, hint).unwrap_err().to_string();
            assert!(error.contains("MiB, which no list is"), "{error}");
        }
        let program = std::env::current_exe().unwrap();
        let error = read_text(&program, u64::MAX, hint).unwrap_err().to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }
}
