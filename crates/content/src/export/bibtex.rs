//! Works as BibTeX entries.

use super::ExportedWork;
use crate::metadata::PersonName;

/// Writes a work as an entry.
pub(super) fn entry(work: &ExportedWork, prefix: &str) -> String {
    let said = &work.metadata.statement;
    let kind = kind(work.metadata.csl_type());
    let part_of = if matches!(kind, "incollection" | "inproceedings") {
        "booktitle"
    } else {
        "journal"
    };
    let publisher = match kind {
        "phdthesis" => "school",
        "techreport" => "institution",
        _ => "publisher",
    };
    let ids = &work.metadata.identifiers;
    let authors: Vec<String> = said.authors.iter().map(name).collect();
    let text = |text: &Option<String>| text.as_deref().map(escaped);
    let month = work.metadata.date_parts().get(1).map(u32::to_string);
    let fields = [
        // A second pair of braces keeps the case of letters.
        ("title", Some(format!("{{{}}}", escaped(work.title())))),
        (
            "author",
            (!authors.is_empty()).then(|| authors.join(" and ")),
        ),
        (part_of, text(&said.journal)),
        (publisher, text(&said.publisher)),
        ("year", work.year()),
        ("month", month),
        ("volume", text(&said.volume)),
        ("number", text(&said.issue)),
        (
            "pages",
            text(&said.pages).map(|pages| pages.replace('-', "--")),
        ),
        ("issn", said.issn.first().map(|issn| escaped(issn))),
        ("language", text(&said.language)),
        ("doi", work.work.doi.as_deref().map(verbatim)),
        ("eprint", ids.arxiv.as_ref().map(ToString::to_string)),
        (
            "archiveprefix",
            ids.arxiv.as_ref().map(|_| "arXiv".to_owned()),
        ),
        ("pmid", ids.pmid.map(|id| id.to_string())),
        (
            "url",
            Some(verbatim(&work.work.link)).filter(|url| !url.is_empty()),
        ),
        ("abstract", text(&said.r#abstract)),
        ("file", files(work, prefix)),
    ];
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("  {name} = {{{}}},\n", value?)));
    let fields: Vec<String> = fields.collect();
    let key = key(work);
    format!("@{kind}{{{key},\n{}}}\n\n", fields.concat())
}

/// Returns the kind of an entry for a type of CSL.
fn kind(csl: &str) -> &'static str {
    match csl {
        "article-journal" => "article",
        "book" => "book",
        "chapter" => "incollection",
        "paper-conference" => "inproceedings",
        "thesis" => "phdthesis",
        "report" => "techreport",
        _ => "misc",
    }
}

/// Returns a key that no other work of the directory has.
fn key(work: &ExportedWork) -> String {
    let authors = &work.metadata.statement.authors;
    let first = authors.first().map(PersonName::last).unwrap_or_default();
    let letters = first.chars().filter(char::is_ascii_alphabetic);
    let letters: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    let year = work.year().unwrap_or_default();
    let name = if letters.is_empty() { "work" } else { &letters };
    format!("{name}{year}-{}", work.work.item)
}

/// Writes a name as BibTeX takes it apart: `van der Berg, Jr., Jan`. The name of an organisation is
/// kept whole by braces.
fn name(name: &PersonName) -> String {
    if name.family.is_none() {
        return format!("{{{}}}", escaped(&name.full()));
    }
    let parts = [Some(name.last()), name.suffix.clone(), name.given.clone()];
    let parts = parts.into_iter().flatten().map(|part| {
        let part = escaped(&part);
        // Words and signs that mean something between names.
        if part.contains(',') || part.split(' ').any(|word| word == "and") {
            format!("{{{part}}}")
        } else {
            part
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Lists the files as reference managers read them: `title:path:type`, with a semicolon between.
fn files(work: &ExportedWork, prefix: &str) -> Option<String> {
    let record = |text: &str| {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            if matches!(letter, '\\' | ':' | ';') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        escaped
    };
    let files = work.work.files.iter().map(|file| {
        let path = record(&format!("{prefix}{}", file.path));
        format!("Full Text:{path}:{}", file.plain_media_type())
    });
    let files: Vec<String> = files.collect();
    (!files.is_empty()).then(|| verbatim(&files.join(";")))
}

/// Escapes what means something to LaTeX. BibTeX counts braces wherever they stand, so that they are
/// named.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '{' => escaped.push_str("\\textbraceleft{}"),
            '}' => escaped.push_str("\\textbraceright{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Writes an address or path, which is not LaTeX: only braces would end the field.
fn verbatim(text: &str) -> String {
    text.replace('{', "%7B").replace('}', "%7D")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped_and_braces_stay_balanced() {
        assert_eq!(
            escaped("50% of {A_B} & C#1 ~ x^2 $y \\z"),
            "50\\% of \\textbraceleft{}A\\_B\\textbraceright{} \\& C\\#1 \
             \\textasciitilde{} x\\textasciicircum{}2 \\$y \\textbackslash{}z"
        );
    }

    #[test]
    fn names_are_written_in_parts() {
        let written = |full: &str| name(&PersonName::of_full_name(full).expect("a name"));
        assert_eq!(written("Jan van der Berg"), "van der Berg, Jan");
        assert_eq!(written("Martin King Jr."), "King, Jr., Martin");
        assert_eq!(
            written("The Climate and Sea Group"),
            "{The Climate and Sea Group}"
        );
    }
}
