//! The SHA-256 of a body on its way. Small ones are hashed where they are read; a large one gets a
//! thread, so that the next piece is read while the last one is hashed.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

/// From how many bytes on a body is large.
const MIN_THREADED_BYTES: u64 = 4 << 20;
/// How many bytes are handed over at once: two threads that wake each other for every piece do
/// little else.
const CHUNK_BYTES: usize = 1 << 20;
/// How many such chunks may wait to be hashed.
const MAX_WAITING_CHUNKS: usize = 8;

/// A hash that grows.
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

/// Pieces that are handed over together.
#[derive(Default)]
struct PieceBatch {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl PieceBatch {
    /// Adds a piece, and returns all there are when they are enough.
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
    /// Continues from the hash of what is there already.
    pub(crate) fn from(hash: Sha256) -> Self {
        Self {
            seen: 0,
            hasher: ChunkHasher::Inline(Box::new(hash)),
        }
    }

    /// Takes in a piece.
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
                    // The thread ends only after this side has: it always receives the chunk.
                    let _ = chunks.send(full).await;
                }
            }
        }
    }

    /// Returns the digest of everything.
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

/// Moves a hash to a thread of its own.
fn threaded(mut hash: Box<Sha256>) -> Option<ChunkHasher> {
    let (chunks, mut waiting) = mpsc::channel::<Vec<Bytes>>(MAX_WAITING_CHUNKS);
    let (done, digest) = oneshot::channel();
    let work = move || {
        while let Some(chunk) = waiting.blocking_recv() {
            for piece in chunk {
                hash.update(&piece);
            }
        }
        // The receiver may have been cancelled.
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
