//! `report.html`: a page without scripts.

use std::collections::BTreeMap;

use docstokg_telemetry::html::{TableLayout, card, document, table};
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::MAX_LISTED_WORKS;
use crate::results::{DeliveredFile, DeliveredWork, ResultStatus};
use crate::run::RunReport;

/// The works on the page: those without a file, and those with one.
#[derive(Default)]
pub(super) struct PageWorks {
    missing: Vec<DeliveredWork>,
    downloaded: Vec<DeliveredWork>,
    reasons: BTreeMap<String, u64>,
}

impl PageWorks {
    pub(super) fn take(&mut self, work: &DeliveredWork) {
        let is_downloaded = work.status == ResultStatus::Downloaded;
        if !is_downloaded {
            *self.reasons.entry(work.reason.clone()).or_default() += 1;
        }
        let list = if is_downloaded {
            &mut self.downloaded
        } else {
            &mut self.missing
        };
        if list.len() < MAX_LISTED_WORKS {
            list.push(work.clone());
        }
    }

    pub(super) fn write(&self, report: &RunReport) -> String {
        let counts = &report.results;
        let (all, downloaded) = (counts.works(), counts.number(ResultStatus::Downloaded));
        let tone = |status| match status {
            ResultStatus::Downloaded => "good",
            ResultStatus::Failed if counts.number(status) > 0 => "bad",
            _ => "",
        };
        let of_works = &ResultStatus::ALL[..5];
        let page = html! {
            header { h1 { "Download report" } }
            section.cards {
                (card("", "works asked", all, ""))
                @for status in of_works {
                    (card(tone(*status), status.words(), counts.number(*status), ""))
                }
            }
            p {
                (counts.without_file_in_words())
                @if let Some(lines) = counts.lines_in_words() { "; " (lines) }
                ". Run " (report.run_id) ". Every line of the list: " (link("results.csv", "results.csv"))
                @if counts.number(ResultStatus::Unrecognised) > 0 {
                    "; lines that were not recognised: " (link("unrecognised.csv", "unrecognised.csv"))
                }
            }
            (self.reasons())
            (self.missing(all - downloaded))
            (self.downloaded(downloaded))
            (network(report))
        };
        document("Download report", &page)
    }

    fn reasons(&self) -> Markup {
        let mut reasons: Vec<(&String, &u64)> = self.reasons.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1));
        let rows = html! {
            @for (reason, works) in &reasons { tr { td { (reason) } td { (works) } } }
        };
        html! {
            @if !reasons.is_empty() {
                section {
                    h2 { "Why works are missing" }
                    (table(TableLayout::Stacked, &["reason", "works"], &rows))
                }
            }
        }
    }

    fn missing(&self, all: u64) -> Markup {
        let rows = html! {
            @for work in &self.missing {
                tr {
                    td {
                        (link(&work.link, work.title.as_deref().unwrap_or(&work.work_id)))
                        br; small { (work.work_id) }
                    }
                    td {
                        (work.reason)
                        @if let Some(wait) = &work.wait { "; next try at " (wait.ready_at()) }
                        br; small { (work.detail) }
                    }
                }
            }
        };
        html! {
            @if !self.missing.is_empty() {
                section {
                    h2 { "Missing works" }
                    p {
                        small {
                            "The list is also in " (link("missing.csv", "missing.csv")) ". Some of these open in a browser or "
                            "through a library."
                        }
                    }
                    (table(TableLayout::Stacked, &["work", "reason"], &rows))
                    (rest(all, self.missing.len(), "missing.csv"))
                }
            }
        }
    }

    fn downloaded(&self, all: u64) -> Markup {
        let rows = html! {
            @for work in &self.downloaded {
                tr {
                    td {
                        (work.title.as_deref().unwrap_or(&work.work_id))
                        @if let Some(year) = work.year { " (" (year) ")" }
                        br; small { (link(&work.link, &work.work_id)) }
                    }
                    td {
                        @for file in &work.files {
                            (link(&relative(&file.path), &file.path)) br;
                            small { (provenance(file)) } br;
                        }
                    }
                }
            }
        };
        html! {
            @if !self.downloaded.is_empty() {
                section {
                    h2 { "Downloaded works" }
                    (table(TableLayout::Stacked, &["work", "file"], &rows))
                    (rest(all, self.downloaded.len(), "results.csv"))
                }
            }
        }
    }
}

/// Says which version a file is, under which licence, and which source named it.
fn provenance(file: &DeliveredFile) -> String {
    let parts = [
        file.version.clone(),
        file.licence_name(),
        file.source.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn rest(all: u64, shown: usize, file: &str) -> Markup {
    let more = all.saturating_sub(shown as u64);
    html! {
        @if more > 0 { p { small { (more) " more are listed in " (file) "." } } }
    }
}

/// Writes the network section, which comes last.
fn network(report: &RunReport) -> Markup {
    let attempts = report.resolvers["attempts"].as_object();
    let successes = |name: &str| report.resolvers["successes"][name].as_u64().unwrap_or(0);
    let rows = html! {
        @for (name, number) in attempts.into_iter().flatten() {
            tr { td { (name) } td { (number) } td { (successes(name)) } }
        }
    };
    let columns = ["source", "attempts", "successful"];
    html! {
        section {
            h2 { "Requests by source" }
            (table(TableLayout::Stacked, &columns, &rows))
            p {
                small {
                    "run " (report.run_id) "; limits, waits and failures of requests: "
                    "docstokg summary with this directory"
                }
            }
        }
    }
}

/// All characters that need encoding in a relative link.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Writes a path as a relative link.
fn relative(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Writes a link, or only its text if the address is empty.
fn link(address: &str, text: &str) -> Markup {
    let leads = address.starts_with("https://")
        || address.starts_with("http://")
        || (!address.is_empty() && !address.contains(':'));
    html! {
        @if leads { a href=(address) { (text) } } @else { (text) }
    }
}
