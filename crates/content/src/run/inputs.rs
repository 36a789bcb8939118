//! The inputs of a run: files, standard input, the command line, or a query. Inputs are read in
//! batches, as fast as the queue takes them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        if std::path::Path::new(text).is_file() {
            return Ok(Self::File(text.into()));
        }
        match Identifier::parse(text) {
            Ok(identifier) => Ok(Self::Work(Box::new(Work::new(identifier)))),
            Err(error) => Err(format!(
                "'{}' is no file here, and {}",
                hidden(text),
                hidden(&error.to_string())
            )),
        }
    }
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
    /// A file could not be opened, or could not be read to its end.
    unopened: Arc<AtomicBool>,
}

impl InputThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(inputs: Vec<UserInput>, format: ListFormat) -> std::io::Result<Self> {
        let (send, receive) = mpsc::channel(4);
        let unopened = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&unopened);
        std::thread::Builder::new()
            .name("inputs".to_owned())
            .spawn(move || read_all(inputs, format, &send, &tell))?;
        Ok(Self {
            batches: receive,
            unopened,
        })
    }
}

impl WorkInputs for InputThread {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        Box::pin(self.batches.recv())
    }

    fn is_complete(&self) -> bool {
        !self.unopened.load(Ordering::Acquire)
    }
}

fn read_all(
    inputs: Vec<UserInput>,
    format: ListFormat,
    send: &mpsc::Sender<Vec<InputResult>>,
    unopened: &AtomicBool,
) {
    let mut number = 0;
    for input in inputs {
        // The channel is closed when the run has ended.
        let listening = match input {
            UserInput::Work(work) => {
                number += 1;
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
            UserInput::Stdin => read_one("-", std::io::stdin().lock(), format, send, unopened),
            UserInput::File(path) => match File::open(&path) {
                Ok(file) => read_one(
                    &path.display().to_string(),
                    BufReader::with_capacity(256 << 10, file),
                    format,
                    send,
                    unopened,
                ),
                Err(error) => {
                    unopened.store(true, Ordering::Release);
                    let problem = format!("the file cannot be read: {error}");
                    let bad = BadLine {
                        number: 0,
                        text_preview: String::new(),
                        problem,
                    };
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
    unread: &AtomicBool,
) -> bool {
    let source: Arc<str> = source.into();
    let mut batch = Vec::with_capacity(LINES_PER_READ);
    // The first line is sent at once, so that work can begin.
    let mut most = 1;
    for line in until_fault(InputReader::new(reader, format), unread) {
        if line.as_ref().is_err_and(BadLine::ends_list) {
            unread.store(true, Ordering::Release);
        }
        batch.push((Arc::clone(&source), line));
        if batch.len() >= most {
            most = LINES_PER_READ;
            if send.blocking_send(std::mem::take(&mut batch)).is_err() {
                return false;
            }
        }
    }
    batch.is_empty() || send.blocking_send(batch).is_ok()
}

/// Reads lines until the reader panics, which is reported as a fault of the program. The works
/// before the fault are kept, and the list counts as not read to its end.
fn until_fault(
    mut lines: impl Iterator<Item = Result<NumberedWork, BadLine>>,
    unread: &AtomicBool,
) -> impl Iterator<Item = Result<NumberedWork, BadLine>> {
    let (mut number, mut ended) = (0, false);
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let line = contained(|| lines.next()).unwrap_or_else(|| {
            (ended, number) = (true, number + 1);
            unread.store(true, Ordering::Release);
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
        let unread = AtomicBool::new(false);
        let good = InputReader::new(&b"10.1000/a\n10.1000/b\n"[..], ListFormat::Lines);
        let lines: Vec<_> = until_fault(
            good.chain(std::iter::from_fn(|| panic!("a fault"))),
            &unread,
        )
        .collect();
        assert_eq!(lines.iter().filter(|line| line.is_ok()).count(), 2);
        let reported = lines
            .last()
            .and_then(|line| line.as_ref().err())
            .expect("it is reported");
        assert!(
            reported.number == 3 && reported.problem.contains("fault of the program"),
            "{reported}"
        );
        assert!(unread.load(Ordering::Acquire));
    }
}
