//! Runs a recursive parser on a thread with a stack of known size.
//!
//! The guards limit the depth of a parser's recursion for every file. The size of the calling
//! thread's stack is not known here, and a stack overflow would abort the process.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};

use docstokg_bulk::panic_containment::contained;

/// Stack size of a parser's thread, in bytes. Only the used part takes memory.
const STACK_BYTES: usize = 256 << 20;
const BATCH_ITEMS: usize = 256;
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of batches that wait for the receiver.
const WAITING_BATCHES: usize = 2;

/// Sends the items of a parser to the thread that started the parser.
pub(crate) struct ItemSender<T> {
    batches: SyncSender<Vec<T>>,
    batch: Vec<T>,
    bytes: usize,
}

impl<T> ItemSender<T> {
    /// Sends an item that takes about `bytes`. Breaks if the receiver has stopped.
    pub(crate) fn send(&mut self, item: T, bytes: usize) -> ControlFlow<()> {
        self.batch.push(item);
        self.bytes += bytes;
        if self.batch.len() < BATCH_ITEMS && self.bytes < BATCH_BYTES {
            return ControlFlow::Continue(());
        }
        self.flush()
    }

    fn flush(&mut self) -> ControlFlow<()> {
        self.bytes = 0;
        match self.batches.send(std::mem::take(&mut self.batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Runs `parse` on a thread with a large stack, and calls `receive` on this thread for each item
/// that `parse` sends, until `receive` breaks. Returns the result of `parse`, or `None` if `parse`
/// panicked.
///
/// # Errors
/// The I/O error if the thread cannot be started.
pub(crate) fn parse_apart<T: Send, E: Send>(
    parse: impl FnOnce(&mut ItemSender<T>) -> E + Send,
    receive: impl FnMut(T) -> ControlFlow<()>,
) -> io::Result<Option<E>> {
    let (batches, received) = sync_channel(WAITING_BATCHES);
    let mut sender = ItemSender {
        batches,
        batch: Vec::new(),
        bytes: 0,
    };
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new()
            .name("parser".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                contained(|| {
                    let ended = parse(&mut sender);
                    let _ = sender.flush();
                    ended
                })
            })?;
        let _ = received.iter().flatten().try_for_each(receive);
        // The parser's next send fails, so the parser stops.
        drop(received);
        Ok(parser.join().ok().flatten())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deepen(levels: u64) -> u64 {
        let frame = std::hint::black_box([levels; 64]);
        match levels {
            0 => 0,
            _ => frame[usize::try_from(levels).unwrap() % 64] - levels + 1 + deepen(levels - 1),
        }
    }

    #[test]
    fn a_parser_has_its_own_stack_and_ends_with_its_receiver() {
        let mut sum = 0;
        let ended = parse_apart(
            |sender: &mut ItemSender<u64>| {
                let depth = deepen(50_000);
                (0..u64::MAX).find(|&n| sender.send(n, 1).is_break());
                depth
            },
            |n| {
                sum += n;
                if n < 1000 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        );
        assert_eq!((ended.unwrap(), sum), (Some(50_000), 500_500));
    }

    #[test]
    fn a_parser_that_panics_is_noticed() {
        let ended = parse_apart(
            |_: &mut ItemSender<()>| assert!(std::hint::black_box(false), "a parser's own fault"),
            ControlFlow::Continue,
        );
        assert_eq!(ended.unwrap(), None);
    }
}
