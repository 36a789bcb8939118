//! The names of files on disk: `{year}__{title}__{work id}`, valid on every file system.
//!
//! Names consist of lower-case ASCII letters, digits, `-` and `_`. They contain no separators and
//! no dots, and nothing that is special to a shell or Windows. Titles in other scripts leave few
//! characters; the work id distinguishes such names.

use docstokg_hub::redact;

use crate::digest::Fingerprint;
use crate::identifier::Identifier;
use crate::work::Work;

/// Maximum length of the title part, in characters.
const TITLE_CHARS: usize = 80;

/// Maximum length of the stem, in bytes. An extension and the suffix of an unfinished file fit
/// below the usual limit of 255.
const STEM_BYTES: usize = 200;

/// Maximum length of the work id part, in characters. A longer id is cut and gets a fingerprint.
const ID_CHARS: usize = 80;

/// Returns the stem of the file of a [`Work`], without extension. The stem has at most 200 bytes,
/// and is neither empty nor a reserved name.
///
/// ```
/// use docstokg_content::identifier::Identifier;
/// use docstokg_content::names::file_stem;
/// use docstokg_content::work::Work;
///
/// let mut work = Work::new(Identifier::parse("10.1000/abc")?);
/// work.title = Some("Learning to walk".to_owned());
/// work.year = Some(2016);
/// assert!(file_stem(&work).starts_with("2016__learning-to-walk__doi-10-1000-abc"));
/// # Ok::<(), docstokg_content::identifier::IdentifierError>(())
/// ```
#[must_use]
pub fn file_stem(work: &Work) -> String {
    let year = work
        .year
        .filter(|year| (0..=9999).contains(year))
        .map_or_else(|| "noyear".to_owned(), |year| format!("{year:04}"));
    let title = work
        .title
        .as_deref()
        .map(|title| slug(title, TITLE_CHARS))
        .filter(|title| !title.is_empty());
    let title = title
        .or_else(|| last_part(work))
        .unwrap_or_else(|| "untitled".to_owned());
    let mut stem = format!("{year}__{title}__{}", id_part(work));
    // All parts are ASCII, so every byte is a character boundary. The limits above keep the stem
    // short enough anyway.
    stem.truncate(STEM_BYTES);
    stem
}

/// Returns the last segment of the URL that names a work, without its file extension, as a browser
/// would name the file.
fn last_part(work: &Work) -> Option<String> {
    let Identifier::Url(url) = work.supplied() else {
        return None;
    };
    // The redacted form, because a path may contain a credential.
    let url = url::Url::parse(&redact(url)).ok()?;
    let part = url.path_segments()?.rfind(|part| !part.is_empty())?;
    let part = percent_encoding::percent_decode_str(part).decode_utf8_lossy();
    // A file extension contains letters: `journal.pone.0000308` has no extension.
    let is_ending =
        |ending: &str| ending.len() <= 5 && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    let part = part
        .rsplit_once('.')
        .filter(|(_, ending)| is_ending(ending))
        .map_or(part.as_ref(), |(stem, _)| stem);
    Some(slug(part, TITLE_CHARS)).filter(|part| !part.is_empty())
}

/// Returns the part of the name that identifies the work. A URL may contain a key, so the part is
/// its redacted form with a [`Fingerprint`].
fn id_part(work: &Work) -> String {
    match work.supplied() {
        Identifier::Url(url) => format!(
            "{}_{:.16}",
            slug(&redact(url), ID_CHARS),
            Fingerprint::of(&work.work_id())
        ),
        _ => id_slug(&work.work_id()),
    }
}

/// Returns a work id as part of a file name. Different ids result in different parts.
///
/// If the slug loses information (other characters, other case, too long), a fingerprint of the id
/// follows.
#[must_use]
pub fn id_slug(work_id: &str) -> String {
    let slug = slug(work_id, ID_CHARS);
    // Usual identifiers lose only `:`, `/` and `.`. Two ids that differ in nothing else would have
    // the same slug.
    let lossless = work_id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b':')
        && work_id.len() <= ID_CHARS;
    if lossless && !slug.is_empty() {
        slug
    } else {
        format!("{slug}_{:.12}", Fingerprint::of(work_id))
    }
}

/// Returns the ASCII letters and digits in lower case, with one hyphen for every run of other
/// characters.
fn slug(text: &str, limit: usize) -> String {
    let mut slug = String::new();
    for c in text.chars().flat_map(plain) {
        if slug.len() >= limit {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

/// Replaces the common accented letters by letters without accents.
fn plain(c: char) -> impl Iterator<Item = char> {
    let spelt = match c {
        'à' | 'á' | 'â' | 'ã' | 'å' | 'ā' | 'ă' | 'ą' | 'À' | 'Á' | 'Â' | 'Ã' | 'Å' => {
            "a"
        }
        'ä' | 'æ' | 'Ä' | 'Æ' => "ae",
        'ç' | 'ć' | 'č' | 'Ç' | 'Ć' | 'Č' => "c",
        'è' | 'é' | 'ê' | 'ë' | 'ē' | 'ę' | 'ě' | 'È' | 'É' | 'Ê' | 'Ë' => "e",
        'ì' | 'í' | 'î' | 'ï' | 'ī' | 'ı' | 'Ì' | 'Í' | 'Î' | 'Ï' => "i",
        'ł' | 'Ł' => "l",
        'ñ' | 'ń' | 'ň' | 'Ñ' => "n",
        'ò' | 'ó' | 'ô' | 'õ' | 'ø' | 'ō' | 'Ò' | 'Ó' | 'Ô' | 'Õ' | 'Ø' => "o",
        'ö' | 'œ' | 'Ö' | 'Œ' => "oe",
        'ř' => "r",
        'ś' | 'š' | 'ş' | 'Ś' | 'Š' | 'Ş' => "s",
        'ß' => "ss",
        'ù' | 'ú' | 'û' | 'ū' | 'ů' | 'Ù' | 'Ú' | 'Û' => "u",
        'ü' | 'Ü' => "ue",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' | 'Ź' | 'Ż' | 'Ž' => "z",
        _ => "",
    };
    spelt.chars().chain(spelt.is_empty().then_some(c))
}
