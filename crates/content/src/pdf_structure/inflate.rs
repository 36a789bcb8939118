//! Decompression of PDF streams.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};

use super::syntax::Dictionary;

/// The number of bytes that are decompressed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The result of decompressing a stream.
pub(super) enum InflateResult {
    /// The complete data.
    Whole(Vec<u8>),
    /// The data exceed the allowance.
    TooLarge,
    /// The data cannot be decompressed to their end.
    Broken,
}

/// Decompresses data into an [`InflateResult`]. The decompressed size is subtracted from `left`,
/// also on failure.
pub(super) fn all_of(data: &[u8], left: &mut usize) -> InflateResult {
    let mut content = Vec::new();
    let mut is_too_large = false;
    let state = Unpacker::new().feed(data, |piece| {
        is_too_large = piece.len() > *left;
        *left = left.saturating_sub(piece.len());
        if !is_too_large {
            content.extend_from_slice(piece);
        }
        !is_too_large
    });
    match (state, is_too_large) {
        (_, true) => InflateResult::TooLarge,
        (InflateProgress::Ended, _) => InflateResult::Whole(content),
        _ => InflateResult::Broken,
    }
}

/// Tells whether data can be decompressed to their end, without keeping the result. `next` returns
/// the data piece by piece, then an empty piece. The decompressed size is subtracted from `left`;
/// data beyond the allowance are not decompressed further and count as complete.
pub(super) fn is_whole(
    mut next: impl FnMut() -> io::Result<Vec<u8>>,
    left: &mut u64,
) -> io::Result<bool> {
    let mut unpacker = Unpacker::new();
    loop {
        let data = next()?;
        let state = unpacker.feed(&data, |piece| {
            *left = left.saturating_sub(piece.len() as u64);
            *left > 0
        });
        if state != InflateProgress::Continues || data.is_empty() {
            return Ok(state == InflateProgress::Ended || *left == 0);
        }
    }
}

/// The state of a decompression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InflateProgress {
    /// The end was reached and all data are intact.
    Ended,
    /// More input is needed.
    Continues,
    /// The receiver wants no more output, or the data are damaged.
    Stopped,
}

/// Decompresses data that arrive piece by piece.
struct Unpacker {
    state: Decompress,
    piece: Vec<u8>,
}

impl Unpacker {
    fn new() -> Self {
        Self {
            state: Decompress::new(true),
            piece: vec![0; PIECE_BYTES],
        }
    }

    /// Decompresses the next piece, until `take` returns `false`.
    fn feed(&mut self, mut data: &[u8], mut take: impl FnMut(&[u8]) -> bool) -> InflateProgress {
        loop {
            let (read, written) = (self.state.total_in(), self.state.total_out());
            let status = self
                .state
                .decompress(data, &mut self.piece, FlushDecompress::None);
            let read = usize::try_from(self.state.total_in() - read).unwrap_or(0);
            let length = usize::try_from(self.state.total_out() - written).unwrap_or(0);
            data = data.get(read..).unwrap_or_default();
            let wants_more = take(&self.piece[..length]);
            match status {
                Ok(Status::StreamEnd) => return InflateProgress::Ended,
                Ok(_) if wants_more && (length > 0 || read > 0) => {}
                Ok(_) if wants_more && data.is_empty() => return InflateProgress::Continues,
                _ => return InflateProgress::Stopped,
            }
        }
    }
}

/// Undoes the row prediction of PNG.
pub(super) fn without_predictor(content: Vec<u8>, dictionary: &Dictionary) -> Vec<u8> {
    let parameters = dictionary.get(b"DecodeParms");
    let parameters = parameters.and_then(|found| match found.as_array() {
        Some(all) => all.first()?.as_dictionary(),
        None => found.as_dictionary(),
    });
    let Some(parameters) = parameters.filter(|found| found.number(b"Predictor") >= Some(10)) else {
        return content;
    };
    let columns = parameters.number(b"Columns").unwrap_or(1).clamp(1, 4_096);
    let columns = usize::try_from(columns).unwrap_or(1);
    let mut rows = Vec::with_capacity(content.len());
    let mut above = vec![0_u8; columns];
    for row in content.chunks_exact(columns + 1) {
        let (method, row) = (row[0], &row[1..]);
        let mut own = vec![0_u8; columns];
        for (at, byte) in row.iter().enumerate() {
            let left = if at == 0 { 0 } else { own[at - 1] };
            let corner = if at == 0 { 0 } else { above[at - 1] };
            let predicted = match method {
                1 => left,
                2 => above[at],
                3 => u8::midpoint(left, above[at]),
                4 => nearest(left, above[at], corner),
                _ => 0,
            };
            own[at] = byte.wrapping_add(predicted);
        }
        rows.extend_from_slice(&own);
        above = own;
    }
    rows
}

/// Returns the neighbour that is nearest to the plane of all three (PNG's fourth filter).
fn nearest(left: u8, above: u8, corner: u8) -> u8 {
    let plane = i16::from(left) + i16::from(above) - i16::from(corner);
    let far = |byte: u8| (plane - i16::from(byte)).abs();
    if far(left) <= far(above) && far(left) <= far(corner) {
        left
    } else if far(above) <= far(corner) {
        above
    } else {
        corner
    }
}
