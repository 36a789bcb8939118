//! The name of a downloaded file in the library.

use docstokg_hub::ResponseHead;
use http::header::CONTENT_DISPOSITION;
use url::Url;

use super::fetch::GatedLocation;

/// Maximum length of a file name, in bytes.
const MAX_NAME: usize = 120;

/// Returns the name for a downloaded file: the first that exists of those from the server, from the
/// source and from the end of the URL. If that has no usable characters, the id of the ontology is
/// the name.
pub(super) fn filename(target: &GatedLocation, head: &ResponseHead, id: &str) -> String {
    let stated = head.headers.get(CONTENT_DISPOSITION).and_then(|value| {
        let value = value.to_str().ok()?;
        let (_, name) = value.split_once("filename=")?;
        let name = name.split(';').next()?.trim().trim_matches('"');
        Some(name.to_owned())
    });
    let of_url = |url: &Url| {
        let name = url.path_segments()?.next_back()?.to_owned();
        (name.contains('.') && name.len() > 1).then_some(name)
    };
    let name = stated
        .or_else(|| target.location.filename.clone())
        .or_else(|| of_url(&target.location.url))
        .or_else(|| of_url(&head.url));
    let format = target
        .location
        .format
        .map_or("data", crate::wanted_ontology::TargetFormat::as_str);
    safe_name(&name.unwrap_or_default()).unwrap_or_else(|| format!("{id}.{format}"))
}

/// Returns a name that cannot leave its directory, or `None` if `name` has no usable characters.
fn safe_name(name: &str) -> Option<String> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let fits =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '+');
    let name: String = name
        .chars()
        .map(|letter| if fits(letter) { letter } else { '_' })
        .collect();
    let name = name.trim_start_matches(['.', '_']);
    // Keep the end of the name, because it has the extension.
    let cut = name.len().saturating_sub(MAX_NAME);
    let name = &name[cut..];
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_in_their_directory() {
        for (name, safe) in [
            ("hp.owl", Some("hp.owl")),
            ("../../etc/passwd", Some("passwd")),
            ("..\\..\\x.owl", Some("x.owl")),
            (".hidden", Some("hidden")),
            ("a b.owl", Some("a_b.owl")),
            ("", None),
            ("..", None),
            ("/", None),
        ] {
            assert_eq!(safe_name(name).as_deref(), safe, "{name}");
        }
        assert_eq!(
            safe_name(&format!("{}.owl", "x".repeat(300)))
                .unwrap()
                .len(),
            MAX_NAME
        );
    }
}
