//! The SHA-256 of a body on its way. Small ones are hashed where they are read; a large one gets a
//! thread, so that the next piece is read while the last one is hashed.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

/// From how many bytes on a body is large.
const LARGE: u64 = 4 << 20;
/// How many bytes are handed over at once: two threads that wake each other for every piece do
/// little else.
const HANDED_OVER: usize = 1 << 20;
/// How many such heaps may wait to be hashed.
const WAITING: usize = 8;

/// A hash that grows.
pub(crate) struct Hashing {
    seen: u64,
    place: Place,
}

enum Place {
    Here(Box<Sha256>),
    Beside {
        heap: Heap,
        heaps: mpsc::Sender<Vec<Bytes>>,
        digest: oneshot::Receiver<Sha256>,
    },
}

/// Pieces that are handed over together.
#[derive(Default)]
struct Heap {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Heap {
    /// Adds a piece, and returns all there are when they are enough.
    fn put(&mut self, piece: Bytes) -> Option<Vec<Bytes>> {
        self.bytes += piece.len();
        self.pieces.push(piece);
        if self.bytes < HANDED_OVER {
            return None;
        }
        self.bytes = 0;
        Some(std::mem::take(&mut self.pieces))
    }
}

impl Hashing {
    /// Goes on from a hash of what is there already.
    pub(crate) fn from(hash: Sha256) -> Self {
        Self {
            seen: 0,
            place: Place::Here(Box::new(hash)),
        }
    }

    /// Takes in a piece.
    pub(crate) async fn update(&mut self, piece: &Bytes) {
        self.seen += piece.len() as u64;
        if self.seen >= LARGE
            && let Place::Here(hash) = &mut self.place
            && let Some(beside) = beside(std::mem::take(hash))
        {
            self.place = beside;
        }
        match &mut self.place {
            Place::Here(hash) => hash.update(piece),
            Place::Beside { heap, heaps, .. } => {
                if let Some(full) = heap.put(piece.clone()) {
                    // The thread ends only after this side has: there is always somebody to take
                    // it.
                    let _ = heaps.send(full).await;
                }
            }
        }
    }

    /// Returns the digest of everything.
    pub(crate) async fn finish(self) -> Option<Vec<u8>> {
        let hash = match self.place {
            Place::Here(hash) => *hash,
            Place::Beside {
                heap,
                heaps,
                digest,
            } => {
                heaps.send(heap.pieces).await.ok()?;
                drop(heaps);
                digest.await.ok()?
            }
        };
        Some(hash.finalize().to_vec())
    }
}

/// Moves a hash to a thread of its own.
fn beside(mut hash: Box<Sha256>) -> Option<Place> {
    let (heaps, mut waiting) = mpsc::channel::<Vec<Bytes>>(WAITING);
    let (done, digest) = oneshot::channel();
    let work = move || {
        while let Some(heap) = waiting.blocking_recv() {
            for piece in heap {
                hash.update(&piece);
            }
        }
        // Whoever wanted to know may have given up.
        let _ = done.send(*hash);
    };
    std::thread::Builder::new()
        .name("docstokg-hash".to_owned())
        .spawn(work)
        .ok()?;
    Some(Place::Beside {
        heap: Heap::default(),
        heaps,
        digest,
    })
}
