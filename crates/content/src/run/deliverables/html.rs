//! `report.html`: a page without scripts.

use std::collections::BTreeMap;

use docstokg_telemetry::html::{TableLayout, card, document, table};
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{DeliveredWork, MAX_LISTED_WORKS, WorkStanding};
use crate::run::RunReport;

/// The works on the page, by their [`WorkStanding`].
#[derive(Default)]
pub(super) struct PageWorks {
    counts: [u64; 4],
    missing: Vec<DeliveredWork>,
    downloaded: Vec<DeliveredWork>,
    reasons: BTreeMap<String, u64>,
}

fn place(standing: WorkStanding) -> usize {
    match standing {
        WorkStanding::Downloaded => 0,
        WorkStanding::NotOpen => 1,
        WorkStanding::Failed => 2,
        WorkStanding::Waiting => 3,
    }
}

impl PageWorks {
    pub(super) fn take(&mut self, work: DeliveredWork) {
        self.counts[place(work.standing)] += 1;
        if work.standing != WorkStanding::Downloaded {
            *self.reasons.entry(work.reason.clone()).or_default() += 1;
        }
        let list = if work.standing == WorkStanding::Downloaded {
            &mut self.downloaded
        } else {
            &mut self.missing
        };
        if list.len() < MAX_LISTED_WORKS {
            list.push(work);
        }
    }

    pub(super) fn write(&self, report: &RunReport) -> String {
        let [downloaded, not_open, failed, waiting] = self.counts;
        let all = downloaded + not_open + failed + waiting;
        let alarm = if failed > 0 { "bad" } else { "" };
        let page = html! {
            header { h1 { "Download report" } }
            section.cards {
                (card("", "works asked", all, ""))
                (card("good", "downloaded", downloaded, ""))
                (card("", "not openly available", not_open, ""))
                (card(alarm, "failed", failed, ""))
                (card("", "waiting", waiting, ""))
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
                    td { (work.reason) br; small { (work.detail) } }
                }
            }
        };
        html! {
            @if !self.missing.is_empty() {
                section {
                    h2 { "Missing works" }
                    p {
                        small {
                            "The list is also in missing.csv. Some of these open in a browser or "
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
                    td { @if let Some(path) = &work.path { (link(&relative(path), path)) } }
                }
            }
        };
        html! {
            @if !self.downloaded.is_empty() {
                section {
                    h2 { "Downloaded works" }
                    (table(TableLayout::Stacked, &["work", "file"], &rows))
                    (rest(all, self.downloaded.len(), "manifest.jsonl"))
                }
            }
        }
    }
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
