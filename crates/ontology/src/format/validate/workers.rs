//! The threads that count and hash statements, and the bounded queue that feeds them.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxrdf::Quad;
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};

use crate::format::guard::CountedReader;
use crate::format::line::{WithGraph, read_common};
use crate::format::report::FormatProblem;
use crate::format::statements::{
    FormatProblems, Stop, in_default_graph, quad_bytes, turtle_problem,
};
use crate::format::tally::{DistinctTerms, Tally};
use crate::format::{FormatLimits, OntologyFormat, ReadOptions};

const BATCH_STATEMENTS: usize = 1024;
const BATCH_BYTES: usize = 256 << 10;
const CHUNK_BYTES: usize = 1 << 20;
/// Number of terms that a thread collects before it locks the set that all threads share.
const SEEN_AT_ONCE: usize = 4096;

pub(super) enum ValidationChunk {
    Statements {
        order: u64,
        quads: Vec<Quad>,
    },
    Lines {
        order: u64,
        format: OntologyFormat,
        bytes: Vec<u8>,
        lines_before: u64,
    },
}

impl ValidationChunk {
    /// Returns the number by which the position of the next chunk exceeds that of this chunk.
    /// Positions count statements or, in line formats, bytes.
    fn length(&self) -> u64 {
        match self {
            Self::Statements { quads, .. } => quads.len() as u64,
            Self::Lines { bytes, .. } => bytes.len() as u64,
        }
    }
}

pub(super) struct Findings {
    pub tally: Tally,
    pub distinct: DistinctTerms,
}

/// State that all threads of a validation share.
struct SharedValidation<'a> {
    limits: &'a FormatLimits,
    /// Number of bytes read from the file so far.
    bytes: &'a AtomicU64,
    /// Number of bytes of canonical lines so far.
    expanded: AtomicU64,
    errors: AtomicU64,
    is_stopped: AtomicBool,
    distinct: Mutex<DistinctTerms>,
}

/// The sending side of the queue to the [`ValidationWorker`]s.
pub(super) struct ChunkQueue<'a> {
    sender: SyncSender<ValidationChunk>,
    shared: &'a SharedValidation<'a>,
    next_order: u64,
}

impl ChunkQueue<'_> {
    fn send(&mut self, work: impl FnOnce(u64) -> ValidationChunk) {
        let work = work(self.next_order);
        self.next_order += work.length();
        // Sending fails only if all threads have panicked, and then the scope panics as well.
        let _ = self.sender.send(work);
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `produce` on this thread while worker threads process the chunks that it sends.
pub(super) fn with_workers(
    options: &ReadOptions,
    bytes: &Arc<AtomicU64>,
    problems: &mut FormatProblems,
    produce: impl FnOnce(&mut ChunkQueue<'_>, &mut FormatProblems) -> io::Result<()>,
) -> io::Result<Findings> {
    let shared = SharedValidation {
        limits: &options.limits,
        bytes,
        expanded: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        distinct: Mutex::new(DistinctTerms::new(&options.limits)),
    };
    let count = options.worker_count();
    let (sender, receiver) = sync_channel(count + 1);
    let receiver = Mutex::new(receiver);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| ValidationWorker::new(&shared).run(&receiver)))
            .collect();
        let mut queue = ChunkQueue {
            sender,
            shared: &shared,
            next_order: 0,
        };
        let produced = produce(&mut queue, problems);
        drop(queue);
        for worker in workers {
            let (part, part_problems) = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tally.merge(part);
            let listed = part_problems.errors.len() as u64;
            part_problems
                .errors
                .into_iter()
                .for_each(|problem| problems.error(problem));
            problems.error_count += part_problems.error_count - listed;
        }
        produced
    })?;
    let distinct = shared
        .distinct
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(Findings { tally, distinct })
}

struct ValidationWorker<'a> {
    shared: &'a SharedValidation<'a>,
    tally: Tally,
    problems: FormatProblems,
}

impl<'a> ValidationWorker<'a> {
    fn new(shared: &'a SharedValidation<'a>) -> Self {
        Self {
            shared,
            tally: Tally::default(),
            problems: FormatProblems::new(shared.limits),
        }
    }

    fn run(mut self, receiver: &Mutex<Receiver<ValidationChunk>>) -> (Tally, FormatProblems) {
        loop {
            // Only one worker waits for the queue; the others wait for this lock.
            let next = lock(receiver).recv();
            let Ok(work) = next else { break };
            if self.shared.is_stopped.load(Ordering::Relaxed) {
                continue;
            }
            match work {
                ValidationChunk::Statements { order, quads } => {
                    let mut expanded = 0;
                    for (at, quad) in quads.iter().enumerate() {
                        expanded += self.tally.add(order + at as u64, quad);
                    }
                    self.account(expanded);
                }
                ValidationChunk::Lines {
                    order,
                    format,
                    bytes,
                    lines_before,
                } => {
                    self.lines(order, format, &bytes, lines_before);
                }
            }
            if self.tally.seen.terms.len() + self.tally.seen.obsolete.len() > SEEN_AT_ONCE {
                lock(&self.shared.distinct).add(&mut self.tally.seen);
            }
        }
        lock(&self.shared.distinct).add(&mut self.tally.seen);
        (self.tally, self.problems)
    }

    fn lines(&mut self, order: u64, format: OntologyFormat, bytes: &[u8], mut lines_before: u64) {
        let with_graph = match format {
            OntologyFormat::NQuads => WithGraph::Yes,
            _ => WithGraph::No,
        };
        let text = std::str::from_utf8(bytes);
        let mut start = 0;
        while start < bytes.len() && !self.shared.is_stopped.load(Ordering::Relaxed) {
            let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
            let order = order + start as u64;
            let line = text.ok().and_then(|text| text.get(start..end));
            let line = line.map(|line| line.strip_suffix('\r').unwrap_or(line));
            match line.and_then(|line| Some((line, read_common(line, with_graph)?))) {
                Some((line, statement)) => self.tally.add_canonical(order, line, &statement),
                None => self.any_line(order, with_graph, &bytes[start..end], lines_before),
            }
            start = end + 1;
            lines_before += 1;
        }
    }

    /// Reads a line with the general parser.
    fn any_line(&mut self, order: u64, with_graph: WithGraph, line: &[u8], lines_before: u64) {
        match with_graph {
            WithGraph::Yes => NQuadsParser::new()
                .for_slice(line)
                .for_each(|quad| self.add_parsed(order, quad, lines_before)),
            WithGraph::No => NTriplesParser::new()
                .for_slice(line)
                .map(|triple| triple.map(in_default_graph))
                .for_each(|quad| self.add_parsed(order, quad, lines_before)),
        }
    }

    fn add_parsed(
        &mut self,
        order: u64,
        parsed: Result<Quad, TurtleSyntaxError>,
        lines_before: u64,
    ) {
        match parsed {
            Ok(quad) => {
                self.tally.add(order, &quad);
            }
            Err(error) => {
                self.problems.error(turtle_problem(&error, lines_before));
                let errors = self.shared.errors.fetch_add(1, Ordering::Relaxed) + 1;
                if errors >= self.shared.limits.max_problems as u64 {
                    self.shared.is_stopped.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Adds to the number of expanded bytes. Stops reading if a small file expands beyond its
    /// limit, since it could expand to terabytes.
    fn account(&mut self, expanded: u64) {
        let total = self.shared.expanded.fetch_add(expanded, Ordering::Relaxed) + expanded;
        let bytes = self.shared.bytes.load(Ordering::Relaxed);
        if total > self.shared.limits.expansion_allowed(bytes)
            && !self.shared.is_stopped.swap(true, Ordering::Relaxed)
        {
            self.problems.error(FormatProblem::of_file(format!(
                "the statements are more than {} times larger than the file",
                self.shared.limits.max_expansion_ratio
            )));
        }
    }
}

/// Collects statements until there are enough for a [`ValidationChunk`].
#[derive(Default)]
pub(super) struct StatementBatch {
    quads: Vec<Quad>,
    bytes: usize,
}

impl StatementBatch {
    pub(super) fn push(&mut self, quad: Quad, queue: &mut ChunkQueue<'_>) -> Result<(), Stop> {
        self.bytes += quad_bytes(&quad);
        self.quads.push(quad);
        if self.quads.len() >= BATCH_STATEMENTS || self.bytes >= BATCH_BYTES {
            self.flush(queue);
            if queue.is_stopped() {
                return Err(Stop::Done);
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, queue: &mut ChunkQueue<'_>) {
        let quads = std::mem::take(&mut self.quads);
        self.bytes = 0;
        queue.send(|order| ValidationChunk::Statements { order, quads });
    }
}

/// Divides a line format into chunks of whole lines.
pub(super) struct Chunks<R> {
    reader: CountedReader<R>,
    format: OntologyFormat,
    max_line: usize,
}

impl<R: Read> Chunks<R> {
    pub(super) fn new(
        reader: R,
        format: OntologyFormat,
        options: &ReadOptions,
        bytes: &Arc<AtomicU64>,
    ) -> Self {
        let reader = CountedReader::new(reader, Arc::clone(bytes), options.limits.max_bytes);
        Self {
            reader,
            format,
            max_line: options.limits.max_token_bytes,
        }
    }

    pub(super) fn send_all(
        mut self,
        queue: &mut ChunkQueue<'_>,
        problems: &mut FormatProblems,
    ) -> io::Result<()> {
        let format = self.format;
        let mut pending = Vec::new();
        let mut lines_before = 0;
        while !queue.is_stopped() {
            let start = pending.len();
            let wanted = CHUNK_BYTES.saturating_sub(start).max(CHUNK_BYTES / 4);
            pending.reserve_exact(wanted);
            match self
                .reader
                .by_ref()
                .take(wanted as u64)
                .read_to_end(&mut pending)
            {
                Err(error) if self.reader.exceeded.load(Ordering::Relaxed) => {
                    problems.error(FormatProblem::of_file(error.to_string()));
                    return Ok(());
                }
                other => other?,
            };
            let is_end = pending.len() < start + wanted;
            let cut = memchr::memrchr(b'\n', &pending[start..])
                .or_else(|| memchr::memrchr(b'\r', &pending[start..]))
                .map(|at| start + at + 1);
            let rest = match cut {
                _ if is_end => Vec::new(),
                Some(cut) => pending.split_off(cut),
                None if pending.len() > self.max_line => {
                    let message = format!("a line is longer than {} bytes", self.max_line);
                    problems.error(FormatProblem::at_line(lines_before + 1, message));
                    return Ok(());
                }
                None => continue,
            };
            let bytes = std::mem::replace(&mut pending, rest);
            let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
            queue.send(|order| ValidationChunk::Lines {
                order,
                format,
                bytes,
                lines_before,
            });
            lines_before += lines;
            if is_end {
                break;
            }
        }
        Ok(())
    }
}
