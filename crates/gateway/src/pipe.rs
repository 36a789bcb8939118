//! A pipe from an origin to a client that reads more slowly.
//!
//! The body is read as fast as the origin sends it, so that a slow client does not occupy a slot of
//! the origin. Up to [`IN_MEMORY`] unread bytes are kept in memory, and further ones in a file
//! without a name. All these files together may have [`MAX_SPOOLED`] bytes. When that space is used
//! up, a body is read only as fast as its client reads it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use docstokg_hub::stream::BodyStream;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Maximum number of unread bytes of a body in memory.
const IN_MEMORY: usize = 256 << 10;
/// The number of bytes that are read from a file at once.
const READ_CHUNK_BYTES: usize = 64 << 10;
/// Maximum size of the files of all pipes together, in bytes.
const MAX_SPOOLED: u64 = 8 << 30;
/// Maximum number of bytes that are still read of a body whose client has gone. If the client has
/// received the announced length, the server drops the body before its end is read.
const MAX_LEFTOVER_BYTES: usize = 64 << 10;
/// Maximum time for reading [`MAX_LEFTOVER_BYTES`].
const LEFTOVER_TIME: Duration = Duration::from_secs(5);

/// The disk space that the files of all pipes share.
pub(crate) struct SpoolSpace {
    directory: PathBuf,
    taken: AtomicU64,
}

impl SpoolSpace {
    /// Creates the space for files in `directory`.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            taken: AtomicU64::new(0),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.taken.fetch_add(bytes, Ordering::AcqRel);
        if taken.saturating_add(bytes) <= MAX_SPOOLED {
            return true;
        }
        self.give_back(bytes);
        false
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The file with those unread bytes of a body that exceed [`IN_MEMORY`].
struct SpillFile {
    file: File,
    written: u64,
    read: u64,
}

#[derive(Default)]
struct PipeState {
    queue: VecDeque<Bytes>,
    queued: usize,
    spilled: Option<SpillFile>,
    end: Option<Result<(), String>>,
    is_abandoned: bool,
    reader: Option<Waker>,
}

impl PipeState {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    /// Takes the next unread piece, or returns `None` if no unread piece has arrived.
    fn take(&mut self, space: &SpoolSpace) -> io::Result<Option<Bytes>> {
        if let Some(piece) = self.queue.pop_front() {
            self.queued -= piece.len();
            return Ok(Some(piece));
        }
        let Some(spilled) = &mut self.spilled else {
            return Ok(None);
        };
        let left = spilled.written - spilled.read;
        let wanted = usize::try_from(left)
            .unwrap_or(READ_CHUNK_BYTES)
            .min(READ_CHUNK_BYTES);
        let mut piece = vec![0; wanted];
        spilled.file.read_exact_at(&mut piece, spilled.read)?;
        spilled.read += wanted as u64;
        if spilled.read == spilled.written {
            space.give_back(spilled.written);
            self.spilled = None;
        }
        Ok(Some(piece.into()))
    }
}

struct SharedPipe {
    state: Mutex<PipeState>,
    /// Notified when the client has read a piece or has gone.
    moved: Notify,
    space: Arc<SpoolSpace>,
}

impl Drop for SharedPipe {
    fn drop(&mut self) {
        if let Some(spilled) = &self.state.get_mut().spilled {
            self.space.give_back(spilled.written);
        }
    }
}

/// The end of the pipe from which the client reads.
pub(crate) struct PipeReader(Arc<SharedPipe>);

/// The end of the pipe to which the body is written.
struct PipeWriter(Arc<SharedPipe>);

/// The permission to write unread bytes of a body to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpillMode {
    /// Allowed, because an origin is sending the body.
    Allowed,
    /// Not needed, because the body is on disk already.
    No,
}

/// Sends a live body through a pipe, and returns the [`PipeReader`]. The body is read as fast as
/// its origin sends it.
pub(crate) fn through(body: BodyStream, space: &Arc<SpoolSpace>) -> PipeReader {
    let (writer, reader) = pipe(space);
    tokio::spawn(fill(writer, None, body, SpillMode::Allowed));
    reader
}

/// Sends a stored body, whose first piece has been read already, through a pipe. Returns the
/// [`PipeReader`].
pub(crate) fn after(first: Bytes, rest: BodyStream, space: &Arc<SpoolSpace>) -> PipeReader {
    let (writer, reader) = pipe(space);
    tokio::spawn(fill(writer, Some(first), rest, SpillMode::No));
    reader
}

async fn fill(writer: PipeWriter, first: Option<Bytes>, mut body: BodyStream, spill: SpillMode) {
    let mut piece = first;
    let (mut leftover, mut until) = (MAX_LEFTOVER_BYTES, None);
    loop {
        let length = piece.as_ref().map_or(0, Bytes::len);
        if let Some(piece) = piece
            && writer.write(piece, spill).await.is_err()
        {
            // After the client has gone, the body is read to its end only if little of it is left.
            // Reading the end stores the response and settles the attempt.
            leftover = leftover.saturating_sub(length);
            if leftover == 0 {
                return;
            }
        }
        let next = {
            // `next` is pinned and kept here: dropping it half-way would lose the response that is
            // being stored.
            let mut next = std::pin::pin!(body.next());
            tokio::select! {
                next = &mut next => next,
                () = writer.abandoned() => {
                    let until = *until.get_or_insert_with(|| Instant::now() + LEFTOVER_TIME);
                    match timeout_at(until, next).await {
                        Ok(next) => next,
                        Err(_) => return,
                    }
                }
            }
        };
        piece = match next {
            Ok(None) => return writer.end(Ok(())),
            Ok(next) => next,
            Err(error) => return writer.end(Err(error.to_string())),
        };
    }
}

fn pipe(space: &Arc<SpoolSpace>) -> (PipeWriter, PipeReader) {
    let shared = Arc::new(SharedPipe {
        state: Mutex::default(),
        moved: Notify::new(),
        space: Arc::clone(space),
    });
    (PipeWriter(Arc::clone(&shared)), PipeReader(shared))
}

/// The error of a write after the client has gone.
struct ClientGone;

impl PipeWriter {
    /// Writes a piece, and waits while the pipe has no space for it.
    ///
    /// # Errors
    /// Returns [`ClientGone`] if the client has gone.
    async fn write(&self, piece: Bytes, spill: SpillMode) -> Result<(), ClientGone> {
        loop {
            let moved = self.0.moved.notified();
            if self.try_write(&piece, spill)? {
                return Ok(());
            }
            moved.await;
        }
    }

    fn try_write(&self, piece: &Bytes, spill: SpillMode) -> Result<bool, ClientGone> {
        let mut state = self.0.state.lock();
        if state.is_abandoned {
            return Err(ClientGone);
        }
        let fits = state.queued == 0 || state.queued + piece.len() <= IN_MEMORY;
        if state.spilled.is_none() && fits {
            state.queued += piece.len();
            state.queue.push_back(piece.clone());
            state.wake_reader();
            return Ok(true);
        }
        if spill == SpillMode::No || !self.0.space.take(piece.len() as u64) {
            return Ok(false);
        }
        if self.spill(&mut state, piece).is_err() {
            // The disk is full: the piece is written again when the client has read others.
            self.0.space.give_back(piece.len() as u64);
            return Ok(false);
        }
        state.wake_reader();
        Ok(true)
    }

    fn spill(&self, state: &mut PipeState, piece: &Bytes) -> io::Result<()> {
        let spilled = match &mut state.spilled {
            Some(spilled) => spilled,
            none => none.insert(SpillFile {
                file: tempfile::tempfile_in(&self.0.space.directory)?,
                written: 0,
                read: 0,
            }),
        };
        let written = spilled.file.write_all_at(piece, spilled.written);
        if written.is_ok() {
            spilled.written += piece.len() as u64;
        } else if spilled.written == spilled.read {
            state.spilled = None;
        }
        written
    }

    fn end(&self, end: Result<(), String>) {
        let mut state = self.0.state.lock();
        state.end = Some(end);
        state.wake_reader();
    }

    /// Waits until the client has gone.
    async fn abandoned(&self) {
        loop {
            let moved = self.0.moved.notified();
            if self.0.state.lock().is_abandoned {
                return;
            }
            moved.await;
        }
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.end.is_none() {
            state.end = Some(Err("the transfer was given up".to_owned()));
            state.wake_reader();
        }
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.state.lock().is_abandoned = true;
        self.0.moved.notify_waiters();
    }
}

impl Body for PipeReader {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut state = self.0.state.lock();
        match state.take(&self.0.space) {
            Ok(Some(piece)) => {
                drop(state);
                self.0.moved.notify_waiters();
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Ok(None) => match &state.end {
                Some(Ok(())) => Poll::Ready(None),
                Some(Err(why)) => Poll::Ready(Some(Err(io::Error::other(why.clone())))),
                None => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            },
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn piece(number: usize) -> Bytes {
        let byte = u8::try_from(number % 251).unwrap();
        vec![byte; 10_000 + number].into()
    }

    #[tokio::test]
    async fn a_body_arrives_whole_however_the_client_reads() {
        for read_after in [0, 1, 40, 100] {
            let space = Arc::new(SpoolSpace::new(std::env::temp_dir()));
            let (writer, mut reader) = pipe(&space);
            let mut got = Vec::new();
            let mut expected = Vec::new();
            for number in 0..100 {
                expected.extend_from_slice(&piece(number));
                assert!(
                    writer
                        .write(piece(number), SpillMode::Allowed)
                        .await
                        .is_ok()
                );
                if number >= read_after {
                    let frame = reader.frame().await.unwrap().unwrap();
                    got.extend_from_slice(frame.data_ref().unwrap());
                }
            }
            writer.end(Ok(()));
            while let Some(frame) = reader.frame().await {
                got.extend_from_slice(frame.unwrap().data_ref().unwrap());
            }
            assert!(got == expected, "read after {read_after}");
            assert_eq!(space.taken.load(Ordering::Acquire), 0);
        }
    }

    #[tokio::test]
    async fn space_in_files_is_given_back_when_the_client_goes() {
        let space = Arc::new(SpoolSpace::new(std::env::temp_dir()));
        let (writer, reader) = pipe(&space);
        for number in 0..100 {
            assert!(
                writer
                    .write(piece(number), SpillMode::Allowed)
                    .await
                    .is_ok()
            );
        }
        assert!(space.taken.load(Ordering::Acquire) > 0);
        drop(reader);
        assert!(writer.write(piece(1), SpillMode::Allowed).await.is_err());
        writer.abandoned().await;
        drop(writer);
        assert_eq!(space.taken.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn without_a_file_the_body_waits_for_its_client() {
        let space = Arc::new(SpoolSpace::new(std::env::temp_dir()));
        let (writer, mut reader) = pipe(&space);
        let written = async {
            for number in 0..100 {
                assert!(writer.write(piece(number), SpillMode::No).await.is_ok());
                assert!(writer.0.state.lock().queued <= IN_MEMORY);
            }
            writer.end(Err("it broke off".to_owned()));
        };
        let read = async {
            for number in 0..100 {
                let frame = reader.frame().await.unwrap().unwrap();
                assert_eq!(*frame.data_ref().unwrap(), piece(number));
            }
            let end = reader.frame().await.unwrap();
            assert_eq!(end.unwrap_err().to_string(), "it broke off");
        };
        tokio::join!(written, read);
        assert_eq!(space.taken.load(Ordering::Acquire), 0);
    }
}
