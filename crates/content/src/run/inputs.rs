//! The inputs of a run: files, standard input, the command line, or a query. Inputs are read in
//! batches, as fast as the queue takes them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::panic_containment::contained;
use docstokg_bulk::queue::WorkQueue;
use tokio::sync::mpsc;

use super::feed::hidden;
use crate::identifier::Identifier;
use crate::input::{BadLine, InputReader, ListFormat, NumberedWork};
use crate::work::Work;

/// The number of lines that are read at a time.
const LINES_PER_READ: usize = 500;

/// A line that was read: its source, with a [`NumberedWork`] or a [`BadLine`].
pub type InputResult = (Arc<str>, Result<NumberedWork, BadLine>);

/// A source of works.
pub trait WorkInputs: Send {
    /// Returns the next works; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>>;

    /// Tells after the end whether all works were read, as opposed to a list with an unreadable
    /// rest.
    fn is_complete(&self) -> bool {
        true
    }

    /// Tells whether a later run reads these works from the beginning again.
    fn is_reread(&self) -> bool {
        true
    }
}

/// An argument that the user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserInput {
    /// A file of works.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// A work, written on the command line.
    Work(Box<Work>),
}

impl UserInput {
    /// Reads an argument: `-`, a work, or the name of a file.
    ///
    /// # Errors
    /// Returns a message with the attempted readings, if no reading fits.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        let path = Path::new(text);
        match std::fs::metadata(path).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => {
                return Err(format!(
                    "'{0}' is a directory: give the files in it, for instance {0}/*.txt",
                    hidden(text.trim_end_matches('/'))
                ));
            }
            Ok(kind) if kind.is_block_device() || is_null_device(path) => {
                return Err(format!(
                    "'{}' is a device and not a list of works",
                    hidden(text)
                ));
            }
            // A pipe, such as that of a process substitution, is read like a file.
            Ok(_) => return Ok(Self::File(text.into())),
            Err(_) => {}
        }
        match Identifier::parse(text) {
            Ok(identifier) => Ok(Self::Work(Box::new(Work::new(identifier)))),
            Err(error) => Err(format!(
                "there is no file '{}', and {}",
                hidden(text),
                hidden(&error.about_it())
            )),
        }
    }
}

/// Tells whether a path leads to the device without content.
fn is_null_device(path: &Path) -> bool {
    path.canonicalize()
        .is_ok_and(|path| path == Path::new("/dev/null"))
}

/// Works in memory.
pub struct WorkList(std::vec::IntoIter<InputResult>);

impl WorkList {
    /// Creates the list from works.
    #[must_use]
    pub fn new(source: &str, works: Vec<Work>) -> Self {
        let source: Arc<str> = source.into();
        let line = |(number, work): (usize, Work)| {
            (
                Arc::clone(&source),
                Ok(NumberedWork {
                    number: number as u64 + 1,
                    text: work.shown_id(),
                    work,
                    ignored: Vec::new(),
                    said: None,
                    recorded_file: None,
                }),
            )
        };
        Self(
            works
                .into_iter()
                .enumerate()
                .map(line)
                .collect::<Vec<_>>()
                .into_iter(),
        )
    }
}

impl WorkInputs for WorkList {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        let batch: Vec<InputResult> = self.0.by_ref().take(LINES_PER_READ).collect();
        Box::pin(std::future::ready((!batch.is_empty()).then_some(batch)))
    }
}

/// Works of files and standard input, read by a separate thread: a slow pipe delays no work.
pub struct InputThread {
    batches: mpsc::Receiver<Vec<InputResult>>,
    /// The batches that arrived before the run.
    first: VecDeque<Vec<InputResult>>,
    tally: Arc<InputTally>,
}

/// The account of the lists that an [`InputThread`] reads.
#[derive(Debug, Default)]
struct InputTally {
    /// The number of works and bad lines so far.
    lines: AtomicU64,
    /// A file could not be opened, or could not be read to its end.
    is_cut: AtomicBool,
}

impl InputTally {
    fn note_cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }
}

impl InputThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(inputs: Vec<UserInput>, format: ListFormat) -> std::io::Result<Self> {
        let (send, receive) = mpsc::channel(4);
        let tally = Arc::<InputTally>::default();
        let tell = Arc::clone(&tally);
        std::thread::Builder::new()
            .name("inputs".to_owned())
            .spawn(move || read_all(inputs, format, &send, &tell))?;
        Ok(Self {
            batches: receive,
            first: VecDeque::new(),
            tally,
        })
    }

    /// Tells whether the inputs name no work and have no unreadable line either. The call waits
    /// for the first line, or for the end of all inputs, and must not be made within a runtime.
    pub fn is_empty(&mut self) -> bool {
        while self.tally.lines.load(Ordering::Acquire) == 0 {
            match self.batches.blocking_recv() {
                Some(batch) => self.first.push_back(batch),
                None => break,
            }
        }
        self.tally.lines.load(Ordering::Acquire) == 0
    }
}

impl WorkInputs for InputThread {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        if let Some(batch) = self.first.pop_front() {
            return Box::pin(std::future::ready(Some(batch)));
        }
        Box::pin(self.batches.recv())
    }

    fn is_complete(&self) -> bool {
        !self.tally.is_cut.load(Ordering::Acquire)
    }
}

fn read_all(
    inputs: Vec<UserInput>,
    format: ListFormat,
    send: &mpsc::Sender<Vec<InputResult>>,
    tally: &InputTally,
) {
    let mut number = 0;
    for input in inputs {
        // The channel is closed when the run has ended.
        let listening = match input {
            UserInput::Work(work) => {
                number += 1;
                tally.lines.fetch_add(1, Ordering::AcqRel);
                send.blocking_send(vec![(
                    "command line".into(),
                    Ok(NumberedWork {
                        number,
                        text: work.shown_id(),
                        work: *work,
                        ignored: Vec::new(),
                        said: None,
                        recorded_file: None,
                    }),
                )])
                .is_ok()
            }
            UserInput::Stdin => read_one("-", std::io::stdin().lock(), format, send, tally),
            UserInput::File(path) => match File::open(&path) {
                Ok(file) => read_one(
                    &path.display().to_string(),
                    BufReader::with_capacity(256 << 10, file),
                    format,
                    send,
                    tally,
                ),
                Err(error) => {
                    tally.note_cut();
                    tally.lines.fetch_add(1, Ordering::AcqRel);
                    let problem = format!("the file cannot be read: {error}");
                    let bad = of_whole_list(problem);
                    send.blocking_send(vec![(path.display().to_string().into(), Err(bad))])
                        .is_ok()
                }
            },
        };
        if !listening {
            return;
        }
    }
}

fn read_one(
    source: &str,
    reader: impl BufRead,
    format: ListFormat,
    send: &mpsc::Sender<Vec<InputResult>>,
    tally: &InputTally,
) -> bool {
    let source: Arc<str> = source.into();
    let lines_before = tally.lines.load(Ordering::Acquire);
    let mut batch = Vec::with_capacity(LINES_PER_READ);
    // The first line is sent at once, so that work can begin.
    let mut most = 1;
    for line in until_fault(InputReader::new(reader, format), tally) {
        tally.lines.fetch_add(1, Ordering::AcqRel);
        if line.as_ref().is_err_and(BadLine::ends_list) {
            tally.note_cut();
        }
        batch.push((Arc::clone(&source), line));
        if batch.len() >= most {
            most = LINES_PER_READ;
            if send.blocking_send(std::mem::take(&mut batch)).is_err() {
                return false;
            }
        }
    }
    if tally.lines.load(Ordering::Acquire) == lines_before {
        let empty = of_whole_list("the list is empty: it names no work".to_owned());
        batch.push((source, Err(empty)));
    }
    batch.is_empty() || send.blocking_send(batch).is_ok()
}

/// Describes a problem of a list as a whole.
const fn of_whole_list(problem: String) -> BadLine {
    BadLine {
        number: 0,
        text_preview: String::new(),
        problem,
    }
}

/// Reads lines until the reader panics, which is reported as a fault of the program. The works
/// before the fault are kept, and the list counts as not read to its end.
fn until_fault(
    mut lines: impl Iterator<Item = Result<NumberedWork, BadLine>>,
    tally: &InputTally,
) -> impl Iterator<Item = Result<NumberedWork, BadLine>> {
    let (mut number, mut ended) = (0, false);
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let line = contained(|| lines.next()).unwrap_or_else(|| {
            (ended, number) = (true, number + 1);
            tally.note_cut();
            let problem =
                "the list cannot be read any further; this is a fault of the program".to_owned();
            Some(Err(BadLine {
                number,
                text_preview: String::new(),
                problem,
            }))
        });
        if let Some(Ok(NumberedWork { number: read, .. }) | Err(BadLine { number: read, .. })) =
            &line
        {
            number = *read;
        }
        line
    })
}

/// An input that an earlier run did not read to its end, and that cannot be read again.
pub struct LostInput;

impl WorkInputs for LostInput {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        Box::pin(std::future::ready(None))
    }

    fn is_complete(&self) -> bool {
        false
    }
}

/// Several inputs, one after the other. The queue records that inputs are unread until all are
/// read. So a later run without these inputs does not report itself complete.
pub struct ChainedInputs {
    inputs: VecDeque<Box<dyn WorkInputs>>,
    queue: WorkQueue,
    begun: bool,
    complete: bool,
}

impl ChainedInputs {
    /// Chains inputs for the works of a [`WorkQueue`].
    #[must_use]
    pub fn new(inputs: Vec<Box<dyn WorkInputs>>, queue: WorkQueue) -> Self {
        Self {
            inputs: inputs.into(),
            queue,
            begun: false,
            complete: true,
        }
    }
}

impl WorkInputs for ChainedInputs {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        Box::pin(async {
            if !self.begun && !self.inputs.is_empty() {
                self.begun = true;
                // If the queue cannot be written, the following works cannot be queued either,
                // which ends the run.
                let _ = self.queue.set_unread(true).await;
            }
            while let Some(first) = self.inputs.front_mut() {
                if let Some(batch) = first.next().await {
                    return Some(batch);
                }
                self.complete &= first.is_complete();
                self.inputs.pop_front();
            }
            if self.begun && self.complete {
                let _ = self.queue.set_unread(false).await;
            }
            None
        })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn is_reread(&self) -> bool {
        let first = self.inputs.front();
        first.is_some_and(|first| first.is_reread())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_panics_keeps_what_it_read_and_says_so() {
        let tally = InputTally::default();
        let good = InputReader::new(&b"10.1000/a\n10.1000/b\n"[..], ListFormat::Lines);
        let lines: Vec<_> =
            until_fault(good.chain(std::iter::from_fn(|| panic!("a fault"))), &tally).collect();
        assert_eq!(lines.iter().filter(|line| line.is_ok()).count(), 2);
        let reported = lines
            .last()
            .and_then(|line| line.as_ref().err())
            .expect("it is reported");
        assert!(
            reported.number == 3 && reported.problem.contains("fault of the program"),
            "{reported}"
        );
        assert!(tally.is_cut.load(Ordering::Acquire));
    }
}
