//! The recording of a run: a bounded queue and a thread between the hub and the sinks.
//!
//! The observer adds an event to the queue and returns without waiting. If the queue is full, it
//! counts the event as dropped. Every tenth of a second, or when the queue is half full, the thread
//! converts the events to records and passes these to every sink. A failed sink affects neither
//! requests nor other sinks: its lost records are counted, and the first loss is reported.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, EventKind, Observer};
use parking_lot::{Condvar, Mutex};

use crate::assemble::Assembler;
use crate::config::TelemetryConfig;
use crate::record::TimedRecord;
use crate::run::RunIdentity;
use crate::sink::Sink;

/// The interval at which the thread takes events from the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of records that a sink receives at once.
const MAX_BATCH: usize = 8_192;

/// A callback that is called once for each sink that loses records, with a message.
pub type LossNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// The events and records that the recording of a run lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingLoss {
    /// Number of events that were dropped because the queue was full.
    pub dropped: u64,
    /// Number of records that each sink could not write.
    pub lost: Vec<(&'static str, u64)>,
}

/// Records a run. The hub reports events to [`Recorder::observer`]; [`Recorder::close`] ends the
/// recording.
///
/// ```
/// use std::sync::Arc;
/// use docstokg_hub::{Hub, config::load, stores::clock::SystemClock};
/// use docstokg_telemetry::sink::sqlite::SqliteSink;
/// use docstokg_telemetry::{Recorder, RunIdentity, config::TelemetryConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("telemetry.sqlite3");
/// let (config, settings) = load::load(&load::ConfigSources::default())?;
/// let run = Arc::new(RunIdentity::begin("example", &settings, &SystemClock));
/// let sink = SqliteSink::open(&path, Arc::clone(&run), None, Arc::new(SystemClock))?;
/// let (telemetry, shared) = (TelemetryConfig::default(), Arc::new(config.clone()));
/// let notice = Arc::new(|loss: &str| eprintln!("{loss}"));
/// let recorder = Recorder::start(run, shared, &telemetry, vec![Box::new(sink)], notice)?;
/// let hub = Hub::builder(config).observer(recorder.observer()).build()?;
/// # drop(hub);
/// assert_eq!(recorder.close().dropped, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    queue: Arc<EventQueue>,
    writer: Option<JoinHandle<RecordingLoss>>,
}

struct EventQueue {
    capacity: usize,
    state: Mutex<PendingEvents>,
    changed: Condvar,
}

#[derive(Default)]
struct PendingEvents {
    events: Vec<Event>,
    dropped: u64,
    closing: bool,
}

/// The [`Observer`] that adds the hub's events to the queue.
struct QueueObserver(Arc<EventQueue>);

impl Observer for QueueObserver {
    fn note(&self, event: &Event) {
        // These events need no record: the event that ends a wait has the length of the wait.
        if matches!(
            event.what,
            EventKind::WaitRate { .. }
                | EventKind::WaitTurn { .. }
                | EventKind::WaitSlot
                | EventKind::WaitBreaker { .. }
                | EventKind::WaitSlowStart { .. }
                | EventKind::WaitCaution { .. }
                | EventKind::CacheMiss
        ) {
            return;
        }
        let event = event.clone();
        let mut pending = self.0.state.lock();
        if pending.events.len() >= self.0.capacity {
            pending.dropped += 1;
            return;
        }
        pending.events.push(event);
        let half = pending.events.len() == self.0.capacity / 2;
        drop(pending);
        if half {
            self.0.changed.notify_one();
        }
    }
}

impl Recorder {
    /// Starts the thread that writes records to the sinks.
    ///
    /// # Errors
    /// The I/O error if the thread cannot be started.
    pub fn start(
        run: Arc<RunIdentity>,
        config: Arc<Config>,
        telemetry: &TelemetryConfig,
        sinks: Vec<Box<dyn Sink>>,
        notice: LossNotice,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(EventQueue {
            capacity: telemetry.queue,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (source, assembler) = (Arc::clone(&queue), Assembler::new(run, config));
        let writer = std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || {
                RecordWriter {
                    sinks,
                    notice,
                    assembler,
                }
                .run(&source)
            })?;
        Ok(Self {
            queue,
            writer: Some(writer),
        })
    }

    /// Returns the [`Observer`] to register with the hub.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(QueueObserver(Arc::clone(&self.queue)))
    }

    /// Returns the number of events that were dropped so far because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.state.lock().dropped
    }

    /// Writes the remaining events to the sinks, ends the run, and returns the [`RecordingLoss`].
    #[must_use]
    pub fn close(mut self) -> RecordingLoss {
        self.finish().unwrap_or_default()
    }

    fn finish(&mut self) -> Option<RecordingLoss> {
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

struct RecordWriter {
    sinks: Vec<Box<dyn Sink>>,
    notice: LossNotice,
    assembler: Assembler,
}

impl RecordWriter {
    fn run(mut self, queue: &EventQueue) -> RecordingLoss {
        let mut lost: Vec<u64> = vec![0; self.sinks.len()];
        let mut records = Vec::new();
        let mut spare = Vec::new();
        loop {
            let (dropped, closing) = {
                let mut pending = queue.state.lock();
                if pending.events.is_empty() && !pending.closing {
                    queue.changed.wait_for(&mut pending, POLL_INTERVAL);
                } else if pending.events.len() < queue.capacity / 4 && !pending.closing {
                    // Waiting makes the batch larger, and a larger batch is cheaper per event.
                    queue.changed.wait_for(&mut pending, POLL_INTERVAL);
                }
                std::mem::swap(&mut pending.events, &mut spare);
                (pending.dropped, pending.closing)
            };
            let idle = spare.is_empty();
            for event in spare.drain(..) {
                self.assembler.take(event, &mut records);
                if records.len() >= MAX_BATCH {
                    self.deliver(&mut records, dropped, &mut lost);
                }
            }
            self.deliver(&mut records, dropped, &mut lost);
            if closing && idle {
                for (sink, lost) in self.sinks.iter_mut().zip(&mut lost) {
                    *lost += sink.close(dropped).err().map_or(0, |failed| failed.lost);
                }
                let named = self.sinks.iter().map(|sink| sink.name()).zip(lost);
                return RecordingLoss {
                    dropped,
                    lost: named.filter(|(_, lost)| *lost > 0).collect(),
                };
            }
        }
    }

    fn deliver(&mut self, records: &mut Vec<TimedRecord>, dropped: u64, lost: &mut [u64]) {
        for (sink, lost) in self.sinks.iter_mut().zip(lost) {
            if let Err(failed) = sink.write(records, self.assembler.active_requests(), dropped) {
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
