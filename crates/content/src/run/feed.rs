//! The path from inputs to the queue: each work once. Lines without a work are reported and
//! skipped.

use std::collections::BTreeSet;
use std::sync::Arc;

use docstokg_bulk::job::{BoxFuture, Job as _, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::{NewItem, NewLine, QueueError, UnrecognisedLine};
use docstokg_bulk::scheduler::ItemFeed;
use docstokg_hub::clock::Timestamp;

use super::inputs::{InputResult, WorkInputs};
use super::lookup::statement_row;
use super::works::WorksJob;
use crate::digest::Fingerprint;
use crate::input::{BadLine, NumberedWork};
use crate::resolver::order::{is_planned, order};
use crate::resolver::{OPENALEX, ResolverId};
use crate::work::Work;
use crate::work_state::WorkState;

/// Lines that are reported one by one; the others are counted and listed in `unrecognised.csv`.
const MAX_REPORTED_LINES: u64 = 3;

/// The works of inputs, as new items of the [`WorkQueue`](docstokg_bulk::queue::WorkQueue).
pub(super) struct WorkFeed {
    works: Arc<WorksJob>,
    inputs: Box<dyn WorkInputs>,
    begun: Timestamp,
    /// The sources that were read from the beginning.
    reread: BTreeSet<Arc<str>>,
    parts: LineParts,
}

impl WorkFeed {
    pub(super) fn new(works: Arc<WorksJob>, inputs: Box<dyn WorkInputs>) -> Self {
        Self {
            begun: works.context.clock.now(),
            works,
            inputs,
            reread: BTreeSet::new(),
            parts: LineParts::default(),
        }
    }

    /// Takes lines apart: the works of some, and those that name none.
    fn take(&mut self, batch: Vec<InputResult>) -> (Vec<NewItem>, Vec<UnrecognisedLine>) {
        if self.inputs.is_reread() {
            let sources = batch.iter().map(|(source, _)| source);
            for source in sources {
                if !self.reread.contains(source) {
                    self.reread.insert(Arc::clone(source));
                }
            }
        }
        self.works.items_of(batch, &mut self.parts)
    }

    /// Returns the lists that were read to their end, and since when: other lines are no longer in them.
    fn removed_lines(&self) -> (Timestamp, Vec<String>) {
        let sources = self.reread.iter().map(ToString::to_string);
        (self.begun, sources.collect())
    }
}

/// Numbers the works of lines that name several.
#[derive(Default)]
pub(super) struct LineParts {
    last: Option<(Arc<str>, u64)>,
    part: u64,
}

impl LineParts {
    fn next(&mut self, source: &Arc<str>, number: u64) -> u64 {
        let line = (Arc::clone(source), number);
        self.part = if self.last.as_ref() == Some(&line) {
            self.part + 1
        } else {
            0
        };
        self.last = Some(line);
        self.part
    }
}

impl ItemFeed for WorkFeed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        Box::pin(async {
            let batch = self.inputs.next().await;
            if self.works.context.progress.is_cancelled() {
                // What a cancelled run has not queued is given again with the next run.
                return None;
            }
            let Some(batch) = batch else {
                if self.inputs.is_complete() {
                    let (begun, sources) = self.removed_lines();
                    let works = Arc::clone(&self.works);
                    let queue = &works.context.queue;
                    works.tell_failure(queue.forget_lines_before(begun, sources).await);
                }
                return None;
            };
            let (items, unrecognised) = self.take(batch);
            let works = Arc::clone(&self.works);
            let now = works.context.clock.now();
            if !unrecognised.is_empty() {
                works.tell_failure(
                    works
                        .context
                        .queue
                        .add_unrecognised(unrecognised, now)
                        .await,
                );
            }
            Some(items)
        })
    }
}

impl WorksJob {
    /// Returns the works of lines, and the lines that name none.
    fn items_of(
        &self,
        batch: Vec<InputResult>,
        parts: &mut LineParts,
    ) -> (Vec<NewItem>, Vec<UnrecognisedLine>) {
        let mut items = Vec::with_capacity(batch.len());
        let mut unrecognised = Vec::new();
        for (source, read) in batch {
            match read {
                Ok(mut line) => {
                    let part = parts.next(&source, line.number);
                    for ignored in &line.ignored {
                        let notice = format!("{source}, line {}: {ignored}", line.number);
                        self.context.progress.notify(notice);
                    }
                    let item = self.item(&source, &line, part);
                    if let Some(file) = line.recorded_file.take().filter(|_| !item.hidden) {
                        self.note_recorded_file(&source, &item.name, *file);
                    }
                    if item.hidden {
                        // The work must be known before a worker can claim its row.
                        self.hidden.lock().insert(item.key_hash, line.work.clone());
                    }
                    items.push(item);
                }
                Err(bad) => {
                    self.report_bad(&source, &bad);
                    // Without a number it is not a line.
                    if bad.number > 0 {
                        let part = parts.next(&source, bad.number);
                        unrecognised.push(unrecognised_line(&source, &bad, part));
                    }
                }
            }
        }
        (items, unrecognised)
    }

    /// Tells that lines could not be recorded. Works cannot be queued then either, and that ends the
    /// run.
    fn tell_failure(&self, recorded: Result<(), QueueError>) {
        if let Err(error) = recorded {
            self.context.progress.notify(error.to_string());
        }
    }

    fn report_bad(&self, source: &str, bad: &BadLine) {
        if bad.number == 0 {
            // The problem is that of the whole list and not of a line.
            let notice = format!("{source}: {}", hidden(&bad.problem));
            return self.context.progress.notify(notice);
        }
        let mut nth = 0;
        self.context.progress.count(|counters| {
            counters.bad_lines += 1;
            nth = counters.bad_lines;
        });
        if nth <= MAX_REPORTED_LINES || bad.ends_list() {
            self.context
                .progress
                .notify(format!("{source}, {}", shown(bad)));
        } else if nth == MAX_REPORTED_LINES + 1 {
            let notice = "more lines are not recognised; they are counted at the end";
            self.context.progress.notify(notice);
        }
    }

    /// Tells whether a resolver may be queried about a work.
    fn may_ask(&self, resolver: ResolverId, work: &Work) -> bool {
        let planned = order(work, &self.goals.choice, &self.lookups.resolvers);
        is_planned(&planned, resolver)
    }

    fn item(&self, source: &str, line: &NumberedWork, part: u64) -> NewItem {
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
        let metadata = said.and_then(|said| {
            let at = self.context.clock.runtime().wall();
            statement_row(OPENALEX, said, at)
        });
        let text = if hidden {
            work.shown_id()
        } else {
            line.text.clone()
        };
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
            recorded_line: Some(NewLine {
                number: line.number,
                part,
                text,
            }),
            metadata,
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

/// Returns a line that names no work, as it is recorded.
fn unrecognised_line(source: &str, bad: &BadLine, part: u64) -> UnrecognisedLine {
    UnrecognisedLine {
        source: source.to_owned(),
        line: NewLine {
            number: bad.number,
            part,
            text: hidden(&bad.text_preview),
        },
        problem: hidden(&bad.problem),
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
