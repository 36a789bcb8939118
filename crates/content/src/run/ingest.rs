//! From inputs to the queue: each work once, bad lines told and left behind.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::engine::Engine;
use super::flow::Event;
use super::inputs::{Inputs, Read};
use super::lanes::LaneName;
use crate::digest::Fingerprint;
use crate::input::{BadLine, Line};
use crate::pursuit::Pursuit;
use crate::queue::{Filed, NewItem, QueueError};
use crate::resolver::order::{is_planned, order};
use crate::resolver::{ResolverId, openalex};
use crate::work::Work;

/// Bad lines that are told one by one; the rest is counted.
const TOLD: u64 = 20;

impl Engine {
    /// Reads all inputs into the queue.
    pub(super) async fn ingest(
        &self,
        mut inputs: Box<dyn Inputs>,
        tell: &mpsc::UnboundedSender<Event>,
    ) -> Result<(), QueueError> {
        while let Some(batch) = inputs.next().await {
            if self.board.is_winding_down() {
                // What has not been read is given again with the next run.
                break;
            }
            let queued = self.enqueue(batch).await?;
            if !queued.is_empty() && tell.send(Event::Queued(queued)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn enqueue(&self, batch: Vec<Read>) -> Result<BTreeMap<LaneName, u64>, QueueError> {
        let mut items = Vec::with_capacity(batch.len());
        let mut lanes_of = Vec::with_capacity(batch.len());
        for (source, read) in batch {
            match read {
                Ok(line) => {
                    for ignored in &line.ignored {
                        self.board
                            .tell(format!("{source}, line {}: {ignored}", line.number));
                    }
                    let (item, first) = self.item(&source, &line);
                    if item.hidden {
                        // Known before its row can be taken in hand.
                        self.hidden.lock().insert(item.key_hash, line.work.clone());
                    }
                    items.push(item);
                    lanes_of.push(first);
                }
                // Not a line: what all the lines were to come from.
                Err(bad) if bad.number == 0 => self
                    .board
                    .tell(format!("{source}: {}", hidden(&bad.problem))),
                Err(bad) => {
                    let mut told = false;
                    self.board.count(|tally| {
                        tally.bad_lines += 1;
                        told = tally.bad_lines <= TOLD;
                    });
                    if told {
                        self.board.tell(format!("{source}, {}", shown(&bad)));
                    }
                }
            }
        }
        let added = self.queue.add(items, self.now()).await?;
        let mut lanes: BTreeMap<LaneName, u64> = BTreeMap::new();
        let (mut new, mut duplicates) = (0, 0);
        for (filed, lane) in added.each.into_iter().zip(lanes_of) {
            if let Filed::New(_) = filed {
                new += 1;
                *lanes.entry(lane).or_default() += 1;
            } else {
                duplicates += 1;
            }
        }
        self.board.count(|tally| {
            tally.works += new;
            tally.duplicates += duplicates;
        });
        Ok(lanes)
    }

    /// Tells whether a resolver may be asked about a work.
    fn may_ask(&self, resolver: ResolverId, work: &Work) -> bool {
        let planned = order(work, &self.aims.choice, &self.resolvers);
        is_planned(&planned, resolver)
    }

    fn item(&self, source: &str, line: &Line) -> (NewItem, LaneName) {
        let work = &line.work;
        let hidden = !work.is_public();
        let work_id = work.shown_id();
        let key_hash = Fingerprint::of(&work.work_key()).bytes();
        let mut pursuit = Pursuit::new(work.clone());
        if let Some(said) = line
            .said
            .as_deref()
            .filter(|_| self.may_ask(openalex::ID, work))
        {
            pursuit.resolved(openalex::ID, said.clone(), self.now());
            // Nobody was asked.
            pursuit.attempts = 0;
        }
        let first = self.lane(&pursuit, &self.next(&pursuit));
        // What the name alone says need not be written down twice.
        let plain = line.said.is_none() && *work == Work::new(work.typed().clone());
        let progress = if plain || hidden {
            None
        } else {
            pursuit.to_text()
        };
        (
            NewItem {
                key_hash,
                work_id,
                source: source.to_owned(),
                line: line.number,
                hidden,
                lane: first.to_string(),
                progress,
            },
            first,
        )
    }
}

/// Says what is wrong with a line, without what may be a key in it.
fn shown(bad: &BadLine) -> String {
    BadLine {
        number: bad.number,
        text_preview: hidden(&bad.text_preview),
        problem: hidden(&bad.problem),
    }
    .to_string()
}

/// Returns a text as it may be shown.
pub(crate) fn hidden(text: &str) -> String {
    text.split_whitespace()
        .map(hidden_word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a word of a line as it may be shown.
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
