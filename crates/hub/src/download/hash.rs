//! The SHA-256 of a file, computed while its body arrives. A small body is hashed by the task that
//! reads it. A large body is hashed by a thread, so that the next piece is read at the same time.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

/// Minimum size in bytes of a body that is hashed by a thread.
const MIN_THREADED_BYTES: u64 = 4 << 20;
/// The number of bytes that are sent to the thread together. With smaller messages, the two threads
/// would spend most of their time waking each other.
const CHUNK_BYTES: usize = 1 << 20;
/// Maximum number of chunks that wait to be hashed.
const MAX_WAITING_CHUNKS: usize = 8;

/// The hash of the pieces so far.
pub(crate) struct FileHashing {
    seen: u64,
    hasher: ChunkHasher,
}

enum ChunkHasher {
    Inline(Box<Sha256>),
    Threaded {
        chunk: PieceBatch,
        chunks: mpsc::Sender<Vec<Bytes>>,
        digest: oneshot::Receiver<Sha256>,
    },
}

/// Pieces that will be sent to the thread together.
#[derive(Default)]
struct PieceBatch {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl PieceBatch {
    /// Adds a piece. When the pieces reach [`CHUNK_BYTES`], returns and removes all of them.
    fn put(&mut self, piece: Bytes) -> Option<Vec<Bytes>> {
        self.bytes += piece.len();
        self.pieces.push(piece);
        if self.bytes < CHUNK_BYTES {
            return None;
        }
        self.bytes = 0;
        Some(std::mem::take(&mut self.pieces))
    }
}

impl FileHashing {
    /// Continues from `hash`, which covers the bytes that a file already has.
    pub(crate) fn from(hash: Sha256) -> Self {
        Self {
            seen: 0,
            hasher: ChunkHasher::Inline(Box::new(hash)),
        }
    }

    /// Hashes a piece.
    pub(crate) async fn update(&mut self, piece: &Bytes) {
        self.seen += piece.len() as u64;
        if self.seen >= MIN_THREADED_BYTES
            && let ChunkHasher::Inline(hash) = &mut self.hasher
            && let Some(threaded) = threaded(std::mem::take(hash))
        {
            self.hasher = threaded;
        }
        match &mut self.hasher {
            ChunkHasher::Inline(hash) => hash.update(piece),
            ChunkHasher::Threaded { chunk, chunks, .. } => {
                if let Some(full) = chunk.put(piece.clone()) {
                    // The thread runs until this sender is dropped, so it always receives the
                    // chunk.
                    let _ = chunks.send(full).await;
                }
            }
        }
    }

    /// Returns the digest of all pieces, or `None` if the thread ended early.
    pub(crate) async fn finish(self) -> Option<Vec<u8>> {
        let hash = match self.hasher {
            ChunkHasher::Inline(hash) => *hash,
            ChunkHasher::Threaded {
                chunk,
                chunks,
                digest,
            } => {
                chunks.send(chunk.pieces).await.ok()?;
                drop(chunks);
                digest.await.ok()?
            }
        };
        Some(hash.finalize().to_vec())
    }
}

/// Moves a hash to a new thread. Returns `None` if no thread can be started.
fn threaded(mut hash: Box<Sha256>) -> Option<ChunkHasher> {
    let (chunks, mut waiting) = mpsc::channel::<Vec<Bytes>>(MAX_WAITING_CHUNKS);
    let (done, digest) = oneshot::channel();
    let work = move || {
        while let Some(chunk) = waiting.blocking_recv() {
            for piece in chunk {
                hash.update(&piece);
            }
        }
        // If the receiver was cancelled, no task needs the digest.
        let _ = done.send(*hash);
    };
    std::thread::Builder::new()
        .name("docstokg-hash".to_owned())
        .spawn(work)
        .ok()?;
    Some(ChunkHasher::Threaded {
        chunk: PieceBatch::default(),
        chunks,
        digest,
    })
}
