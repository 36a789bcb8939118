//! From the hub to the sinks: a bounded queue and a thread.
//!
//! The hub's side pushes and returns: it never waits, and when the queue is full it counts what it
//! drops. The thread looks every tenth of a second, makes records and hands them to every sink. A
//! sink that fails keeps nobody from anything: its loss is counted, and said once.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, Observer, What};
use parking_lot::{Condvar, Mutex};

use crate::assemble::Assembler;
use crate::record::Stamped;
use crate::run::Run;
use crate::sink::Sink;

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(100);
/// How many records are handed over at once.
const BATCH: usize = 8_192;

/// Told, once per sink, that records are being lost, and why.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// What a run's recording came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events that found the queue full.
    pub dropped: u64,
    /// Records that a sink could not write, by sink.
    pub lost: Vec<(&'static str, u64)>,
}

/// Records a run. Give [`Recorder::observer`] to the hub, and [`Recorder::close`] it at the end.
pub struct Recorder {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<Recorded>>,
}

struct Queue {
    most: usize,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    dropped: u64,
    closing: bool,
}

/// The hub's side of a recorder.
struct Tap(Arc<Queue>);

impl Observer for Tap {
    fn note(&self, event: &Event) {
        // Waits are told by how long they were in the end.
        if matches!(
            event.what,
            What::WaitRate { .. }
                | What::WaitTurn { .. }
                | What::WaitSlot
                | What::WaitBreaker { .. }
                | What::CacheMiss
        ) {
            return;
        }
        let event = event.clone();
        let mut waiting = self.0.state.lock();
        if waiting.events.len() >= self.0.most {
            waiting.dropped += 1;
            return;
        }
        waiting.events.push(event);
        let half = waiting.events.len() == self.0.most / 2;
        drop(waiting);
        if half {
            self.0.changed.notify_one();
        }
    }
}

impl Recorder {
    /// Starts to record.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        run: Arc<Run>,
        config: Arc<Config>,
        sinks: Vec<Box<dyn Sink>>,
        notice: Notice,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue {
            most: config.telemetry.queue,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (side, assembler) = (Arc::clone(&queue), Assembler::new(run, config));
        let writer = std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || {
                Writer {
                    sinks,
                    notice,
                    assembler,
                }
                .work(&side)
            })?;
        Ok(Self {
            queue,
            writer: Some(writer),
        })
    }

    /// Returns what watches the hub.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Tap(Arc::clone(&self.queue)))
    }

    /// Returns how many events found the queue full so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.state.lock().dropped
    }

    /// Writes what is left, ends the run, and says what was lost.
    #[must_use]
    pub fn close(mut self) -> Recorded {
        self.finish().unwrap_or_default()
    }

    fn finish(&mut self) -> Option<Recorded> {
        let writer = self.writer.take()?;
        self.queue.state.lock().closing = true;
        self.queue.changed.notify_one();
        writer.join().ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Writer {
    sinks: Vec<Box<dyn Sink>>,
    notice: Notice,
    assembler: Assembler,
}

impl Writer {
    fn work(mut self, queue: &Queue) -> Recorded {
        let mut lost: Vec<u64> = vec![0; self.sinks.len()];
        let mut records = Vec::new();
        let mut spare = Vec::new();
        loop {
            let (dropped, closing) = {
                let mut waiting = queue.state.lock();
                if waiting.events.is_empty() && !waiting.closing {
                    queue.changed.wait_for(&mut waiting, LOOK);
                } else if waiting.events.len() < queue.most / 4 && !waiting.closing {
                    // Let a few more come, and write them in one go.
                    queue.changed.wait_for(&mut waiting, LOOK);
                }
                std::mem::swap(&mut waiting.events, &mut spare);
                (waiting.dropped, waiting.closing)
            };
            let idle = spare.is_empty();
            for event in spare.drain(..) {
                self.assembler.take(event, &mut records);
                if records.len() >= BATCH {
                    self.hand_over(&mut records, dropped, &mut lost);
                }
            }
            self.hand_over(&mut records, dropped, &mut lost);
            if closing && idle {
                for (sink, lost) in self.sinks.iter_mut().zip(&mut lost) {
                    *lost += sink.close(dropped).err().map_or(0, |failed| failed.lost);
                }
                let named = self.sinks.iter().map(|sink| sink.name()).zip(lost);
                return Recorded {
                    dropped,
                    lost: named.filter(|(_, lost)| *lost > 0).collect(),
                };
            }
        }
    }

    fn hand_over(&mut self, records: &mut Vec<Stamped>, dropped: u64, lost: &mut [u64]) {
        for (sink, lost) in self.sinks.iter_mut().zip(lost) {
            if let Err(failed) = sink.write(records, self.assembler.under_way(), dropped) {
                if *lost == 0 && failed.lost > 0 {
                    (self.notice)(&format!(
                        "telemetry is being lost: {}; requests are not affected",
                        failed.why
                    ));
                }
                *lost += failed.lost;
            }
        }
        records.clear();
    }
}
