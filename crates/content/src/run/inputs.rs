//! Where works come from: files, standard input, the command line, or a query. Read in batches, as
//! fast as they are queued.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docstokg_bulk::contained::contained;
use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::queue::Queue;
use tokio::sync::mpsc;

use super::feed::hidden;
use crate::identifier::Identifier;
use crate::input::{BadLine, Format, InputReader, Line};
use crate::work::Work;

/// How many lines are read at a time.
const BATCH: usize = 500;

/// A line that was read: its source, and the work or what is wrong.
pub type Read = (Arc<str>, Result<Line, BadLine>);

/// Where works come from.
pub trait Inputs: Send {
    /// Returns the next few; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<Read>>>;

    /// Tells, at the end, whether it is the end of the works, and not only of what could be read.
    fn is_complete(&self) -> bool {
        true
    }
}

/// One thing that the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file of works.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// A work, written on the command line.
    Work(Box<Work>),
}

impl Input {
    /// Reads an argument: `-`, a work, or the name of a file.
    ///
    /// # Errors
    /// It is neither; the message says what was tried.
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

/// Works that are in memory.
pub struct Listed(std::vec::IntoIter<Read>);

impl Listed {
    /// Takes works as they are.
    #[must_use]
    pub fn new(source: &str, works: Vec<Work>) -> Self {
        let source: Arc<str> = source.into();
        let line = |(number, work)| {
            (
                Arc::clone(&source),
                Ok(Line {
                    number: number as u64 + 1,
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

impl Inputs for Listed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<Read>>> {
        let batch: Vec<Read> = self.0.by_ref().take(BATCH).collect();
        Box::pin(std::future::ready((!batch.is_empty()).then_some(batch)))
    }
}

/// Works of files and standard input, read by a thread of their own: a slow pipe keeps no work
/// waiting.
pub struct Reading {
    batches: mpsc::Receiver<Vec<Read>>,
    /// A file could not be opened, or not be read to its end.
    unopened: Arc<AtomicBool>,
}

impl Reading {
    /// Starts to read.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(inputs: Vec<Input>, format: Format) -> std::io::Result<Self> {
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

impl Inputs for Reading {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<Read>>> {
        Box::pin(self.batches.recv())
    }

    fn is_complete(&self) -> bool {
        !self.unopened.load(Ordering::Acquire)
    }
}

fn read_all(
    inputs: Vec<Input>,
    format: Format,
    send: &mpsc::Sender<Vec<Read>>,
    unopened: &AtomicBool,
) {
    let mut number = 0;
    for input in inputs {
        // The channel is closed once the run has ended.
        let listening = match input {
            Input::Work(work) => {
                number += 1;
                send.blocking_send(vec![(
                    "command line".into(),
                    Ok(Line {
                        number,
                        work: *work,
                        ignored: Vec::new(),
                        said: None,
                        recorded_file: None,
                    }),
                )])
                .is_ok()
            }
            Input::Stdin => read_one("-", std::io::stdin().lock(), format, send, unopened),
            Input::File(path) => match File::open(&path) {
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
    format: Format,
    send: &mpsc::Sender<Vec<Read>>,
    unread: &AtomicBool,
) -> bool {
    let source: Arc<str> = source.into();
    let mut batch = Vec::with_capacity(BATCH);
    // The first line goes at once: work can begin.
    let mut most = 1;
    for line in until_fault(InputReader::new(reader, format), unread) {
        if line.as_ref().is_err_and(BadLine::ends_list) {
            unread.store(true, Ordering::Release);
        }
        batch.push((Arc::clone(&source), line));
        if batch.len() >= most {
            most = BATCH;
            if send.blocking_send(std::mem::take(&mut batch)).is_err() {
                return false;
            }
        }
    }
    batch.is_empty() || send.blocking_send(batch).is_ok()
}

/// Reads lines up to one at which the reader panics: that is a fault of the program, and it is
/// reported. The works before it are kept, and the list counts as not read to its end.
fn until_fault(
    mut lines: impl Iterator<Item = Result<Line, BadLine>>,
    unread: &AtomicBool,
) -> impl Iterator<Item = Result<Line, BadLine>> {
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
        if let Some(Ok(Line { number: read, .. }) | Err(BadLine { number: read, .. })) = &line {
            number = *read;
        }
        line
    })
}

/// Several inputs, one after the other. That they are being read is written down until they have
/// been, so that a later run which goes on without them does not take itself for complete.
pub struct Chained {
    inputs: VecDeque<Box<dyn Inputs>>,
    queue: Queue,
    begun: bool,
    complete: bool,
}

impl Chained {
    /// Chains inputs of the works of a queue.
    #[must_use]
    pub fn new(inputs: Vec<Box<dyn Inputs>>, queue: Queue) -> Self {
        Self {
            inputs: inputs.into(),
            queue,
            begun: false,
            complete: true,
        }
    }
}

impl Inputs for Chained {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<Read>>> {
        Box::pin(async {
            if !self.begun && !self.inputs.is_empty() {
                self.begun = true;
                // Where the queue cannot be written, the works that follow cannot be queued either,
                // and that ends the run.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_panics_keeps_what_it_read_and_says_so() {
        let unread = AtomicBool::new(false);
        let good = InputReader::new(&b"10.1000/a\n10.1000/b\n"[..], Format::Lines);
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
