//! Downloads that resume after an interruption (RFC 9110 sections 13.1.5 and 14).
//!
//! An unfinished file (the part file) has a stable name beside the final one. A note beside it has
//! a fingerprint of its URL and a strong validator, by which a later attempt requests the rest.
//! Without a validator, the next attempt starts from the beginning.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, DATE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::FileEnds;
use crate::files::hex;

/// Minimum announced length of a body whose note is written before the body is read, in bytes. So a
/// large download can be resumed even if the process is killed.
const MIN_NOTED_BYTES: u64 = 1 << 20;
/// Minimum time by which `Last-Modified` must be older than the response to be a strong validator
/// (RFC 9110 section 8.8.2.2).
const CERTAIN_AGE: Duration = Duration::from_secs(60);

/// The content of a note: where a part file comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartFileNote {
    /// A fingerprint of the URL. The URL itself may contain credentials, which are never written to
    /// disk.
    url: String,
    /// The validator that `If-Range` sends with the request for the rest.
    validator: String,
}

/// The state of a resumable download on the disk.
#[derive(Debug)]
pub(crate) struct ResumableDownload {
    part: PathBuf,
    note: PathBuf,
    /// `true` if there is a note, even if it cannot be read.
    noted: bool,
    /// The [`PartFileNote`] whose validator was sent with the request for the rest; `None` if the
    /// whole body was requested.
    asked_by: Option<PartFileNote>,
}

/// A part file that is open for writing, with the number and hash of the bytes that it already has.
pub(crate) struct BegunDownload {
    pub(crate) file: File,
    pub(crate) hash: Sha256,
    pub(crate) ends: FileEnds,
    pub(crate) bytes: u64,
}

/// The use of a response to a request for the rest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeStart {
    /// The response has the whole body, so that the file starts from the beginning.
    Anew,
    /// The response has the rest of the body after this number of bytes.
    After(u64),
    /// The response cannot be used with the part file, which is removed.
    Useless,
}

impl ResumableDownload {
    pub(crate) fn of(path: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self {
            part: beside(".part"),
            note: beside(".part.note"),
            noted: false,
            asked_by: None,
        }
    }

    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// If the part file can be continued, adds the headers that request the rest, and returns the
    /// length of the part file.
    pub(crate) fn ask_for_rest(&mut self, url: &Url, headers: &mut HeaderMap) -> Option<u64> {
        let text = read_note(&self.note);
        // A note that cannot be read must be removed later, too.
        self.noted = !text
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let note: PartFileNote = serde_json::from_slice(&text.ok()?).ok()?;
        let part = std::fs::symlink_metadata(&self.part).ok()?;
        let length = part.len();
        if !part.is_file() || length == 0 || note.url != fingerprint(url) {
            return None;
        }
        let validator = HeaderValue::from_str(&note.validator).ok()?;
        headers.insert(
            RANGE,
            HeaderValue::from_str(&format!("bytes={length}-")).ok()?,
        );
        headers.insert(IF_RANGE, validator);
        self.asked_by = Some(note);
        Some(length)
    }

    /// Returns the [`ResumeStart`] for a response. The response is appended only if it is the
    /// complete rest of the same version of the file.
    pub(crate) fn start(
        &self,
        asked: Option<u64>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> ResumeStart {
        match (asked, status) {
            (Some(length), StatusCode::PARTIAL_CONTENT) => {
                if self.is_the_rest(length, headers) {
                    ResumeStart::After(length)
                } else {
                    ResumeStart::Useless
                }
            }
            // Either a part was sent that was not requested, or the part file is at least as long
            // as the whole file.
            (None, StatusCode::PARTIAL_CONTENT) | (Some(_), StatusCode::RANGE_NOT_SATISFIABLE) => {
                ResumeStart::Useless
            }
            _ => ResumeStart::Anew,
        }
    }

    /// Returns whether a 206 continues the part file after `length` bytes, by its `Content-Range`
    /// and validators (RFC 9110 sections 14.4 and 15.3.7.3).
    fn is_the_rest(&self, length: u64, headers: &HeaderMap) -> bool {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
                .map(str::trim)
        };
        let range = text(CONTENT_RANGE)
            .and_then(|text| text.strip_prefix("bytes "))
            .and_then(|text| {
                let (range, total) = text.split_once('/')?;
                let (first, last) = range.trim().split_once('-')?;
                Some((
                    first.trim().parse::<u64>().ok()?,
                    last.trim().parse::<u64>().ok()?,
                    total.trim().parse::<u64>().ok()?,
                ))
            });
        let Some((first, last, total)) = range else {
            return false;
        };
        let Some(note) = &self.asked_by else {
            return false;
        };
        let own = if note.validator.starts_with('"') {
            text(ETAG)
        } else {
            text(LAST_MODIFIED)
        };
        first == length
            && last.checked_add(1) == Some(total)
            && own.is_none_or(|own| own == note.validator)
    }

    /// Opens the part file as `start` demands: to continue it, or to start from the beginning.
    /// Returns the file with the hash of the bytes that it keeps.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the part file cannot be opened or read.
    pub(crate) fn open(&mut self, start: ResumeStart) -> io::Result<BegunDownload> {
        let (mut hash, mut ends) = (Sha256::new(), FileEnds::default());
        let ResumeStart::After(length) = start else {
            self.forget();
            // An existing entry may be a link, so it is removed instead of written through.
            remove(&self.part)?;
            let file = File::options()
                .write(true)
                .create_new(true)
                .open(&self.part)?;
            return Ok(BegunDownload {
                file,
                hash,
                ends,
                bytes: 0,
            });
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .custom_flags(no_follow())
            .open(&self.part)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("the part file is not a file"));
        }
        let mut buffer = vec![0; 256 << 10];
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left)
                .unwrap_or(buffer.len())
                .min(buffer.len());
            let read = file.read(&mut buffer[..most])?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the part file became shorter",
                ));
            }
            hash.update(&buffer[..read]);
            ends.take(&buffer[..read]);
            left -= read as u64;
        }
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        Ok(BegunDownload {
            file,
            hash,
            ends,
            bytes: length,
        })
    }

    /// Writes the note of a large body before the body is read, so that it exists even if the
    /// process is killed.
    pub(crate) fn note_begun(&mut self, url: &Url, headers: &HeaderMap, expected: Option<u64>) {
        if expected.is_some_and(|length| length >= MIN_NOTED_BYTES) {
            self.note(url, headers);
        }
    }

    /// Writes the note if the headers have a strong validator.
    pub(crate) fn note(&mut self, url: &Url, headers: &HeaderMap) {
        if let Some(validator) = strong_validator(headers)
            && let Ok(text) = serde_json::to_vec(&PartFileNote {
                url: fingerprint(url),
                validator,
            })
        {
            // If the note cannot be written, the next attempt starts from the beginning.
            self.noted = write_note(&self.note, &text).is_ok();
        }
    }

    /// Returns whether the part file has a note.
    pub(crate) fn is_noted(&self) -> bool {
        self.noted
    }

    /// Removes the note, because its part file is complete or removed.
    pub(crate) fn forget(&mut self) {
        if std::mem::take(&mut self.noted) {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Returns flags for opening a file: links are refused, and opening a pipe does not wait for its
/// other end.
fn no_follow() -> i32 {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or_default()
}

/// Maximum length of a note that is read, in bytes.
const MAX_NOTE_BYTES: u64 = 64 << 10;

fn read_note(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(no_follow())
        .open(path)?;
    let mut text = Vec::new();
    file.take(MAX_NOTE_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn write_note(path: &Path, text: &[u8]) -> io::Result<()> {
    remove(path)?;
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(text)
}

/// Removes a file or a link, if present.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn fingerprint(url: &Url) -> String {
    hex(&Sha256::digest(url.as_str().as_bytes()))
}

/// Returns a validator that is certain to differ between two versions of a body; `None` if the
/// headers have no such validator.
fn strong_validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
            .map(str::trim)
    };
    if text(ACCEPT_RANGES).is_some_and(|ranges| ranges.eq_ignore_ascii_case("none"))
        || text(CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"))
    {
        return None;
    }
    if let Some(tag) = text(ETAG) {
        return tag.starts_with('"').then(|| tag.to_owned());
    }
    let (modified, date) = (text(LAST_MODIFIED)?, text(DATE)?);
    let age = httpdate::parse_http_date(date)
        .ok()?
        .duration_since(httpdate::parse_http_date(modified).ok()?)
        .ok()?;
    (age >= CERTAIN_AGE).then(|| modified.to_owned())
}
