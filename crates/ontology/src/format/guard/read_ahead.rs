//! Reads and checks a file on a separate thread, ahead of its parser.
//!
//! For large files, this makes reading faster, because the parser runs on one thread only.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, sync_channel};

const BLOCK_BYTES: usize = 64 << 10;
/// Maximum number of blocks that are read ahead.
const MAX_WAITING_BLOCKS: usize = 4;

/// The reader of the blocks that were read ahead.
pub(crate) struct ReadAhead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    at: usize,
}

impl ReadAhead {
    /// Runs `parse` on this thread, with a reader of the blocks that another thread reads ahead.
    /// The other thread ends when `parse` returns.
    pub(crate) fn over<R: Read + Send, T>(reader: R, parse: impl FnOnce(Self) -> T) -> T {
        let (sender, blocks) = sync_channel(MAX_WAITING_BLOCKS);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut reader = reader;
                loop {
                    let mut block = vec![0; BLOCK_BYTES];
                    let read = match reader.read(&mut block) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Ok(0) => return,
                        Ok(read) => Ok(read),
                        Err(error) => Err(error),
                    };
                    let is_last = read.is_err();
                    let sent = sender.send(read.map(|read| {
                        block.truncate(read);
                        block
                    }));
                    if sent.is_err() || is_last {
                        return;
                    }
                }
            });
            parse(Self {
                blocks,
                block: Vec::new(),
                at: 0,
            })
        })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            match self.blocks.recv() {
                Ok(block) => self.block = block?,
                Err(_) => return Ok(0),
            }
            self.at = 0;
        }
        let read = (&self.block[self.at..]).read(out)?;
        self.at += read;
        Ok(read)
    }
}
