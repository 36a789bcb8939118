//! `report.html`: one page without scripts, readable on a phone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use docstokg_hub::html::escape;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Delivered, MOST_ROWS, Standing};
use crate::run::Report;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:68rem;padding:1rem;color:#1b1f24;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem}\
.tile{border:1px solid #d0d7de;border-radius:.5rem;padding:.6rem .8rem}\
.tile strong{display:block;font-size:1.7rem;line-height:1.2}.tile span{color:#57606a}\
.good strong{color:#1a7f37}.bad strong{color:#b42318}\
table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid #d8dee4;overflow-wrap:anywhere}\
th{color:#57606a;font-weight:600}small{color:#57606a}a{color:#0969da}\
@media(max-width:40rem){thead{display:none}tr{display:block;padding:.5rem 0;border-bottom:1px solid #d8dee4}td{display:block;border:0;padding:.1rem 0}}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}.tile,td,th{border-color:#30363d}.tile span,small,th{color:#9198a1}a{color:#4493f8}\
.good strong{color:#3fb950}.bad strong{color:#f85149}}";

/// The works of a page.
#[derive(Default)]
pub(super) struct Works {
    counts: [u64; 4],
    missing: Vec<Delivered>,
    downloaded: Vec<Delivered>,
    reasons: BTreeMap<String, u64>,
}

fn place(standing: Standing) -> usize {
    match standing {
        Standing::Downloaded => 0,
        Standing::NotOpen => 1,
        Standing::Failed => 2,
        Standing::Waiting => 3,
    }
}

impl Works {
    pub(super) fn take(&mut self, work: Delivered) {
        self.counts[place(work.standing)] += 1;
        if work.standing != Standing::Downloaded {
            *self.reasons.entry(work.reason.clone()).or_default() += 1;
        }
        let list = if work.standing == Standing::Downloaded {
            &mut self.downloaded
        } else {
            &mut self.missing
        };
        if list.len() < MOST_ROWS {
            list.push(work);
        }
    }

    pub(super) fn write(&self, report: &Report) -> String {
        let [downloaded, not_open, failed, waiting] = self.counts;
        let mut page = format!(
            "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>Download report</title><style>{STYLE}</style></head><body><h1>Download report</h1><div class=\"tiles\">"
        );
        let tiles = [
            ("", downloaded + not_open + failed + waiting, "works asked"),
            ("good", downloaded, "downloaded"),
            ("", not_open, "not openly available"),
            (if failed > 0 { "bad" } else { "" }, failed, "failed"),
            ("", waiting, "waiting"),
        ];
        for (class, number, name) in tiles {
            let _ = write!(
                page,
                "<div class=\"tile {class}\"><strong>{number}</strong><span>{name}</span></div>"
            );
        }
        page.push_str("</div>");
        self.write_reasons(&mut page);
        self.write_missing(&mut page, not_open + failed + waiting);
        self.write_downloaded(&mut page, downloaded);
        write_network(&mut page, report);
        page.push_str("</body></html>\n");
        page
    }

    fn write_reasons(&self, page: &mut String) {
        if self.reasons.is_empty() {
            return;
        }
        let mut reasons: Vec<(&String, &u64)> = self.reasons.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1));
        page.push_str("<h2>Why works are missing</h2><table><thead><tr><th>reason<th>works</tr></thead><tbody>");
        for (reason, works) in reasons {
            let _ = write!(page, "<tr><td>{}<td>{works}</tr>", escape(reason));
        }
        page.push_str("</tbody></table>");
    }

    fn write_missing(&self, page: &mut String, all: u64) {
        if self.missing.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Missing works</h2><p><small>The list is also in missing.csv. Some of these open in a browser or through a library.</small></p>",
        );
        page.push_str("<table><thead><tr><th>work<th>reason</tr></thead><tbody>");
        for work in &self.missing {
            let name = work.title.as_deref().unwrap_or(&work.work_id);
            let _ = write!(
                page,
                "<tr><td>{}<br><small>{}</small>",
                anchor(&work.link, name),
                escape(&work.work_id)
            );
            let _ = write!(
                page,
                "<td>{}<br><small>{}</small></tr>",
                escape(&work.reason),
                escape(&work.detail)
            );
        }
        page.push_str("</tbody></table>");
        write_rest(page, all, self.missing.len(), "missing.csv");
    }

    fn write_downloaded(&self, page: &mut String, all: u64) {
        if self.downloaded.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Downloaded works</h2><table><thead><tr><th>work<th>file</tr></thead><tbody>",
        );
        for work in &self.downloaded {
            let name = work.title.as_deref().unwrap_or(&work.work_id);
            let year = work
                .year
                .map(|year| format!(" ({year})"))
                .unwrap_or_default();
            let _ = write!(
                page,
                "<tr><td>{}{year}<br><small>{}</small>",
                escape(name),
                anchor(&work.link, &work.work_id)
            );
            let file = work
                .path
                .as_deref()
                .map(|path| anchor(&relative(path), path))
                .unwrap_or_default();
            let _ = write!(page, "<td>{file}</tr>");
        }
        page.push_str("</tbody></table>");
        write_rest(page, all, self.downloaded.len(), "manifest.jsonl");
    }
}

fn write_rest(page: &mut String, all: u64, shown: usize, file: &str) {
    if all > shown as u64 {
        let _ = write!(
            page,
            "<p><small>{} more are listed in {file}.</small></p>",
            all - shown as u64
        );
    }
}

/// Writes the figures of the network, which come last.
fn write_network(page: &mut String, report: &Report) {
    page.push_str("<h2>Requests by source</h2><table><thead><tr><th>source<th>attempts<th>successful</tr></thead><tbody>");
    let attempts = report.resolvers["attempts"].as_object();
    for (name, number) in attempts.into_iter().flatten() {
        let successes = report.resolvers["successes"][name].as_u64().unwrap_or(0);
        let _ = write!(
            page,
            "<tr><td>{}<td>{number}<td>{successes}</tr>",
            escape(name)
        );
    }
    let _ = write!(
        page,
        "</tbody></table><p><small>run {}; limits, waits and failures of requests: docstokg summary with this directory</small></p>",
        escape(&report.run_id)
    );
}

/// Everything that is not plainly harmless in a relative link.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Writes a path as a relative link.
fn relative(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Writes a link; what is none is text.
fn anchor(link: &str, text: &str) -> String {
    let leads = link.starts_with("https://")
        || link.starts_with("http://")
        || (!link.is_empty() && !link.contains(':'));
    if leads {
        format!("<a href=\"{}\">{}</a>", escape(link), escape(text))
    } else {
        escape(text)
    }
}
