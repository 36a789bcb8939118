//! Works as RIS records: lines of a tag and a value, each ended by CR LF.

use super::ExportedWork;
use crate::metadata::PersonName;

/// Writes a work as a record.
pub(super) fn entry(work: &ExportedWork, prefix: &str) -> String {
    let said = &work.metadata.statement;
    let mut record = RisRecord(String::new());
    record.line("TY", Some(kind(work.metadata.csl_type())));
    record.line("ID", Some(&work.work.work_id));
    record.line("TI", Some(work.title()));
    for author in &said.authors {
        record.line("AU", Some(&name(author)));
    }
    record.line("T2", said.journal.as_deref());
    record.line("PB", said.publisher.as_deref());
    record.line("PY", work.year().as_deref());
    record.line("DA", date(&work.metadata.date_parts()).as_deref());
    record.line("VL", said.volume.as_deref());
    record.line("IS", said.issue.as_deref());
    let (first, last) = match said
        .pages
        .as_deref()
        .and_then(|pages| pages.split_once('-'))
    {
        Some((first, last)) => (Some(first), Some(last)),
        None => (said.pages.as_deref(), None),
    };
    record.line("SP", first);
    record.line("EP", last);
    for issn in &said.issn {
        record.line("SN", Some(issn));
    }
    record.line("LA", said.language.as_deref());
    record.line("AB", said.r#abstract.as_deref());
    record.line("DO", work.work.doi.as_deref());
    record.line(
        "UR",
        Some(&work.work.link)
            .filter(|url| !url.is_empty())
            .map(String::as_str),
    );
    for file in &work.work.files {
        let tag = if file.is_pdf() { "L1" } else { "L2" };
        record.line(tag, Some(&format!("{prefix}{}", file.path)));
    }
    record.0.push_str("ER  - \r\n\r\n");
    record.0
}

/// The lines of a record.
struct RisRecord(String);

impl RisRecord {
    /// Adds a line. A value is one line, whatever is in it.
    fn line(&mut self, tag: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        let words = value.split(|letter: char| letter.is_whitespace() || letter.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        if !words.is_empty() {
            self.0
                .push_str(&format!("{tag}  - {}\r\n", words.join(" ")));
        }
    }
}

/// Returns the type of a record for a type of CSL.
fn kind(csl: &str) -> &'static str {
    match csl {
        "article-journal" => "JOUR",
        "book" => "BOOK",
        "chapter" => "CHAP",
        "paper-conference" => "CPAPER",
        "thesis" => "THES",
        "report" => "RPRT",
        "dataset" => "DATA",
        "software" => "COMP",
        _ => "GEN",
    }
}

/// Writes a name: `van der Berg, Jan, Jr.`
fn name(name: &PersonName) -> String {
    let parts = [Some(name.last()), name.given.clone(), name.suffix.clone()];
    let parts = parts.into_iter().flatten();
    // A comma separates the parts.
    let parts = parts.map(|part| part.replace(',', " "));
    parts.collect::<Vec<_>>().join(", ")
}

/// Writes a date as `YYYY/MM/DD/`, with what is known of it.
fn date(parts: &[u32]) -> Option<String> {
    let (year, rest) = parts.split_first()?;
    let part = |at: usize| {
        rest.get(at)
            .map_or_else(String::new, |part| format!("{part:02}"))
    };
    Some(format!("{year:04}/{}/{}/", part(0), part(1)))
}
