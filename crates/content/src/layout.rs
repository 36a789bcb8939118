//! The paths of files below the output directory.

use std::path::{Path, PathBuf};

use url::Url;

use crate::names::{file_stem, id_slug};
use crate::work::Work;
use crate::work_state::ArtifactKind;

/// The layout of files below the output directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileLayout {
    /// `pdf/YEAR__TITLE__ID.pdf`
    #[default]
    ByKind,
    /// `sha256/ab/abcdef….pdf`: the same bytes are one file.
    ContentAddressed,
}

/// The directory of files that are named by their hash.
const BY_HASH: &str = "sha256";

/// The directory of bibliographic metadata.
const METADATA: &str = "metadata";

/// Returns all directories that may contain files, for every [`FileLayout`].
pub fn directories(out: &Path) -> impl Iterator<Item = PathBuf> {
    let kinds = ArtifactKind::ALL.into_iter().map(ArtifactKind::as_str);
    let names = kinds.chain([BY_HASH, METADATA]);
    names.map(move |name| out.join(name))
}

/// Returns the path of the metadata of a work below the out directory.
#[must_use]
pub fn metadata_path(work_id: &str) -> PathBuf {
    Path::new(METADATA).join(format!("{}.json", id_slug(work_id)))
}

/// Returns the path of a file below the output directory.
#[must_use]
pub fn path_of(
    layout: FileLayout,
    work: &Work,
    kind: ArtifactKind,
    extension: &str,
    sha256: &str,
) -> PathBuf {
    match layout {
        FileLayout::ByKind => {
            Path::new(kind.as_str()).join(format!("{}.{extension}", file_stem(work)))
        }
        FileLayout::ContentAddressed => Path::new(BY_HASH)
            .join(sha256.get(..2).unwrap_or("00"))
            .join(format!("{sha256}.{extension}")),
    }
}

/// Returns the file extension in a URL, if it consists of letters and digits.
///
/// ```
/// use docstokg_content::layout::extension_of;
///
/// let of = |url: &str| extension_of(&url.parse().expect("a URL"));
/// assert_eq!(of("https://a.example/file.PDF?x=1").as_deref(), Some("pdf"));
/// assert_eq!(of("https://a.example/file"), None);
/// ```
#[must_use]
pub fn extension_of(url: &Url) -> Option<String> {
    let name = url.path_segments()?.next_back()?;
    let (_, ending) = name.rsplit_once('.')?;
    let plain =
        (1..=8).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| ending.to_ascii_lowercase())
}
