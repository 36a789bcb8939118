//! The path from inputs to the queue: each work once. Lines without a work are reported and
//! skipped.

use std::sync::Arc;

use docstokg_bulk::job::{BoxFuture, Job as _, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::NewItem;
use docstokg_bulk::scheduler::ItemFeed;

use super::inputs::{InputResult, WorkInputs};
use super::works::WorksJob;
use crate::digest::Fingerprint;
use crate::input::{BadLine, NumberedWork};
use crate::resolver::order::{is_planned, order};
use crate::resolver::{OPENALEX, ResolverId};
use crate::work::Work;
use crate::work_state::WorkState;

/// Maximum number of bad lines that are reported one by one; further lines are only counted.
const MAX_REPORTED_LINES: u64 = 20;

/// The works of inputs, as new items of the [`WorkQueue`](docstokg_bulk::queue::WorkQueue).
pub(super) struct WorkFeed {
    works: Arc<WorksJob>,
    inputs: Box<dyn WorkInputs>,
}

impl WorkFeed {
    pub(super) fn new(works: Arc<WorksJob>, inputs: Box<dyn WorkInputs>) -> Self {
        Self { works, inputs }
    }
}

impl ItemFeed for WorkFeed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        Box::pin(async {
            let batch = self.inputs.next().await?;
            // A later run reads again what a cancelled run has not queued.
            (!self.works.context.progress.is_cancelled()).then(|| self.works.items_of(batch))
        })
    }
}

impl WorksJob {
    fn items_of(&self, batch: Vec<InputResult>) -> Vec<NewItem> {
        let mut items = Vec::with_capacity(batch.len());
        for (source, read) in batch {
            match read {
                Ok(mut line) => {
                    for ignored in &line.ignored {
                        let notice = format!("{source}, line {}: {ignored}", line.number);
                        self.context.progress.notify(notice);
                    }
                    let item = self.item(&source, &line);
                    if let Some(file) = line.recorded_file.take().filter(|_| !item.hidden) {
                        self.note_recorded_file(&source, &item.name, *file);
                    }
                    if item.hidden {
                        // The work must be known before a worker can claim its row.
                        self.hidden.lock().insert(item.key_hash, line.work.clone());
                    }
                    items.push(item);
                }
                Err(bad) => self.report_bad(&source, &bad),
            }
        }
        items
    }

    fn report_bad(&self, source: &str, bad: &BadLine) {
        if bad.number == 0 {
            // The problem is that of the whole list and not of a line.
            let notice = format!("{source}: {}", hidden(&bad.problem));
            return self.context.progress.notify(notice);
        }
        let mut is_reported = false;
        self.context.progress.count(|counters| {
            counters.bad_lines += 1;
            is_reported = counters.bad_lines <= MAX_REPORTED_LINES;
        });
        if is_reported {
            self.context
                .progress
                .notify(format!("{source}, {}", shown(bad)));
        }
    }

    /// Tells whether a resolver may be queried about a work.
    fn may_ask(&self, resolver: ResolverId, work: &Work) -> bool {
        let planned = order(work, &self.goals.choice, &self.lookups.resolvers);
        is_planned(&planned, resolver)
    }

    fn item(&self, source: &str, line: &NumberedWork) -> NewItem {
        let work = &line.work;
        let hidden = !work.is_public();
        let now = self.context.clock.now();
        let mut state = WorkState::new(work.clone());
        let said = line.said.as_deref();
        if let Some(said) = said.filter(|_| self.may_ask(OPENALEX, work)) {
            state.resolved(OPENALEX, said.clone(), now);
            // The service was not queried for this.
            state.attempts = 0;
        }
        let first_lane = match self.next(&state, now) {
            NextStep::Run(step) => self.lane_of(&state, step),
            NextStep::Wait(_) | NextStep::End => WorkLaneKey::Start,
        };
        // A state that follows from the name alone need not be persisted.
        let is_plain = line.said.is_none() && *work == Work::new(work.supplied().clone());
        NewItem {
            key_hash: Fingerprint::of(&work.work_key()).bytes(),
            name: work.shown_id(),
            source: source.to_owned(),
            line: line.number,
            hidden,
            untrusted: self.options.untrusted_input,
            lane: first_lane,
            saved_state: if is_plain || hidden {
                None
            } else {
                state.to_text()
            },
        }
    }
}

/// Describes a [`BadLine`], without parts that may be a credential.
fn shown(bad: &BadLine) -> String {
    BadLine {
        number: bad.number,
        text_preview: hidden(&bad.text_preview),
        problem: hidden(&bad.problem),
    }
    .to_string()
}

/// Returns a text without parts that may be a credential.
pub(super) fn hidden(text: &str) -> String {
    text.split_whitespace()
        .map(hidden_word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the printable form of a word of a line.
fn hidden_word(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let rest = rest.split_once('@').map_or(rest, |(_, host)| host);
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, ""), |(rest, _)| (rest, "?***"));
    format!("{scheme}://{rest}{query}")
}
