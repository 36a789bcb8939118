//! The words of links: which say "the file of this article" and which say "something else".

/// Words that say no more than "the file": in labels, and behind the page's own path.
const GENERIC: [&str; 72] = [
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

/// Beginnings of words of links that lead to something else than the article.
const OTHER_FILES: [&str; 30] = [
    "advert",
    "agreement",
    "appendi",
    "brochure",
    "bylaw",
    "checklist",
    "citation",
    "copyright",
    "curriculum",
    "disclosure",
    "editorial",
    "errat",
    "figure",
    "flyer",
    "graphical",
    "guide",
    "instruction",
    "licen",
    "manual",
    "moesm",
    "newsletter",
    "permission",
    "poster",
    "prefac",
    "presentation",
    "preview",
    "review",
    "slide",
    "suppl",
    "supporting",
];

/// Words that count only as they stand, with or without a number behind: longer ones mean something else.
const OTHER_FILES_EXACT: [&str; 16] = [
    "cover",
    "coverpage",
    "cv",
    "fig",
    "figs",
    "form",
    "forms",
    "frontmatter",
    "kit",
    "mediakit",
    "peer",
    "policies",
    "policy",
    "si",
    "table",
    "toc",
];

/// Returns whether a word says no more than "the file".
pub(super) fn is_generic(word: &str) -> bool {
    let version = word.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    version || GENERIC.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a word names something else than the article.
pub(super) fn is_other_file(word: &str) -> bool {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    OTHER_FILES_EXACT.contains(&stem) || OTHER_FILES.iter().any(|other| word.starts_with(other))
}

/// What the words on a link say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// "PDF", "Download article (1.2 MB)" and the like.
    TheFile,
    /// Anything else, or nothing.
    Silent,
}

impl Label {
    /// Reads the words on a link. A label that is only a URL says nothing.
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim();
        if text.contains("://") || text.starts_with("www.") || text.chars().count() > 80 {
            return Self::Silent;
        }
        let words = crate::titles::words(text);
        let names_file = words.iter().any(|word| {
            matches!(word.as_str(), "pdf" | "epdf" | "download" | "fulltext" | "descargar" | "télécharger" | "volltext" | "pdfplus" | "printable")
        });
        let full_text = words.windows(2).any(|pair| matches!((pair[0].as_str(), pair[1].as_str()), ("full", "text") | ("texto", "completo")));
        if (names_file || full_text) && words.iter().all(|word| is_generic(word)) { Self::TheFile } else { Self::Silent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_the_file_only_where_it_says_nothing_else() {
        for text in ["PDF", "Download PDF (1.2 MB)", "Full Text (PDF)", "View PDF", "PDF (Español)", "Texto completo", "Download this article"] {
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
        for word in ["supplementary", "moesm1", "guidelines", "fig", "fig2", "cover", "policies", "review", "peer", "cv", "kit"] {
            assert!(is_other_file(word), "{word}");
        }
        for word in ["discovery", "formal", "police", "frontiers", "figshare", "kitchen", "coverage", "article", "peerj"] {
            assert!(!is_other_file(word), "{word}");
        }
    }
}
