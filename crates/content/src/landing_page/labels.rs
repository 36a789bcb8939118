//! Classification of the words of links: "the file of this article", or "something else".

/// Words with no more meaning than "the file", in labels and after the page's own path.
const GENERIC_WORDS: [&str; 72] = [
    "a",
    "accepted",
    "acrobat",
    "adobe",
    "article",
    "as",
    "bitstream",
    "complete",
    "completo",
    "content",
    "descargar",
    "dissertation",
    "dl",
    "document",
    "download",
    "download_pdf",
    "en",
    "english",
    "entire",
    "epdf",
    "es",
    "espanol",
    "español",
    "file",
    "final",
    "for",
    "fr",
    "free",
    "full",
    "fulltext",
    "galley",
    "get",
    "in",
    "kb",
    "kib",
    "main",
    "manuscript",
    "mb",
    "mib",
    "of",
    "open",
    "original",
    "pages",
    "paper",
    "pdf",
    "pdfft",
    "pdfplus",
    "português",
    "postprint",
    "pp",
    "preprint",
    "print",
    "printable",
    "pt",
    "published",
    "publisher",
    "read",
    "reprint",
    "save",
    "size",
    "stream",
    "submitted",
    "text",
    "texto",
    "the",
    "thesis",
    "this",
    "to",
    "télécharger",
    "version",
    "view",
    "volltext",
];

/// Beginnings of words on links that do not lead to the article.
const OTHER_FILES: [&str; 39] = [
    "advert",
    "agreement",
    "appendi",
    "brochure",
    "bylaw",
    "checklist",
    "citation",
    "copyright",
    "corrig",
    "curriculum",
    "dataset",
    "disclosure",
    "editorial",
    "errat",
    "excerpt",
    "figure",
    "flyer",
    "frontmatter",
    "graphical",
    "guide",
    "instruction",
    "licen",
    "manual",
    "mdar",
    "moesm",
    "newsletter",
    "permission",
    "poster",
    "prefac",
    "presentation",
    "preview",
    "rebuttal",
    "retract",
    "review",
    "slide",
    "sponsor",
    "subscription",
    "suppl",
    "supporting",
];

/// Beginnings of such words that count on links and in file names only, because journals have them
/// in their paths.
const OTHER_NAMES: [&str; 7] = [
    "comment",
    "correspondence",
    "decision",
    "letter",
    "reply",
    "response",
    "terms",
];

/// Complete words of such links, with or without a number after them. Longer words mean something
/// else.
const OTHER_FILES_EXACT: [&str; 21] = [
    "additional",
    "cover",
    "coverpage",
    "cv",
    "fig",
    "figs",
    "form",
    "forms",
    "front",
    "kit",
    "mediakit",
    "peer",
    "policies",
    "policy",
    "press",
    "supp",
    "suppdata",
    "suppfile",
    "suppinfo",
    "table",
    "toc",
];

/// Words of such links that count before a number of one or two digits: `rc1` is a referee's
/// comment, `mmc2` a supplement.
const NUMBERED_FILES: [&str; 7] = ["ac", "add", "cc", "ec", "esm", "mmc", "rc"];

/// Tells whether a word means no more than "the file".
pub(super) fn is_generic(word: &str) -> bool {
    let version = word
        .strip_prefix('v')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    version || GENERIC_WORDS.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Tells whether a word of a file name means no more than "the file": `fulltext01` and the `s2` of
/// `1-s2.0` do.
pub(super) fn is_plain_name(word: &str) -> bool {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    is_generic(word)
        || matches!(
            word,
            "s2" | "nihms" | "xml" | "html" | "htm" | "abstract" | "epub"
        )
        || (stem.len() > 3 && GENERIC_WORDS.contains(&stem))
}

/// Tells whether a word on a link, or in the name of its file, names something other than the
/// article.
pub(super) fn is_other_name(word: &str) -> bool {
    is_other_file(word) || OTHER_NAMES.iter().any(|other| word.starts_with(other))
}

/// Tells whether a word names something other than the article.
pub(super) fn is_other_file(word: &str) -> bool {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = matches!(word.len() - stem.len(), 1..=2) && NUMBERED_FILES.contains(&stem);
    is_numbered
        || stem == "si"
        || OTHER_FILES_EXACT.contains(&stem)
        || OTHER_FILES.iter().any(|other| word.starts_with(other))
}

/// The meaning of the words on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Words such as "PDF" or "Download article (1.2 MB)".
    TheFile,
    /// Any other words, or an empty label.
    Silent,
}

impl Label {
    /// Reads the words on a link. A label that is only a URL is [`Label::Silent`].
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim();
        if text.contains("://") || text.starts_with("www.") || text.chars().count() > 80 {
            return Self::Silent;
        }
        let words = crate::titles::words(text);
        let names_file = words.iter().any(|word| {
            matches!(
                word.as_str(),
                "pdf"
                    | "epdf"
                    | "download"
                    | "fulltext"
                    | "descargar"
                    | "télécharger"
                    | "volltext"
                    | "pdfplus"
                    | "printable"
            )
        });
        let full_text = words.windows(2).any(|pair| {
            matches!(
                (pair[0].as_str(), pair[1].as_str()),
                ("full", "text") | ("texto", "completo")
            )
        });
        if (names_file || full_text) && words.iter().all(|word| is_generic(word)) {
            Self::TheFile
        } else {
            Self::Silent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_the_file_only_where_it_says_nothing_else() {
        for text in [
            "PDF",
            "Download PDF (1.2 MB)",
            "Full Text (PDF)",
            "View PDF",
            "PDF (Español)",
            "Texto completo",
            "Download this article",
        ] {
            assert_eq!(Label::read(text), Label::TheFile, "{text}");
        }
        for text in [
            "Media kit (PDF)",
            "https://x.example/a.pdf",
            "www.x.example/a.pdf",
            "Grants manual",
            "Curriculum vitae",
            "",
            "Smith 2019 (PDF)",
            "article",
        ] {
            assert_eq!(Label::read(text), Label::Silent, "{text}");
        }
    }

    #[test]
    fn other_files_are_known_by_their_words() {
        for word in [
            "supplementary",
            "moesm1",
            "guidelines",
            "fig",
            "fig2",
            "cover",
            "policies",
            "review",
            "peer",
            "cv",
            "kit",
        ] {
            assert!(is_other_file(word), "{word}");
        }
        for word in [
            "discovery",
            "formal",
            "police",
            "frontiers",
            "figshare",
            "kitchen",
            "coverage",
            "article",
            "peerj",
        ] {
            assert!(!is_other_file(word), "{word}");
        }
    }
}
