//! Compressed streams of a PDF.

use flate2::{Decompress, FlushDecompress, Status};

use super::syntax::Dictionary;

/// How much is unpacked at once.
const PIECE_BYTES: usize = 64 << 10;

/// What unpacking came to.
pub(super) enum Inflated {
    /// All of it.
    Whole(Vec<u8>),
    /// More than is read.
    TooLarge,
    /// It cannot be unpacked to its end.
    Broken,
}

/// Unpacks data.
pub(super) fn all_of(data: &[u8], most: usize) -> Inflated {
    let mut content = Vec::new();
    let mut is_too_large = false;
    let is_whole = unpack(data, |piece| {
        is_too_large = content.len() + piece.len() > most;
        if !is_too_large {
            content.extend_from_slice(piece);
        }
        !is_too_large
    });
    match (is_whole, is_too_large) {
        (_, true) => Inflated::TooLarge,
        (true, _) => Inflated::Whole(content),
        (false, _) => Inflated::Broken,
    }
}

/// Returns whether data can be unpacked to their end, without keeping what is in them. Takes what
/// they expand to from `left`; what is larger than that is not unpacked further, and taken as whole.
pub(super) fn is_whole(data: &[u8], left: &mut u64) -> bool {
    let is_whole = unpack(data, |piece| {
        *left = left.saturating_sub(piece.len() as u64);
        *left > 0
    });
    is_whole || *left == 0
}

/// Unpacks data piece by piece as long as `take` wants more, and tells whether their end was there
/// and all before it is as it was packed.
fn unpack(data: &[u8], mut take: impl FnMut(&[u8]) -> bool) -> bool {
    let mut state = Decompress::new(true);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let (read, written) = (state.total_in(), state.total_out());
        let rest = usize::try_from(read).ok().and_then(|read| data.get(read..));
        let rest = rest.unwrap_or_default();
        let status = state.decompress(rest, &mut piece, FlushDecompress::None);
        let length = usize::try_from(state.total_out() - written).unwrap_or(0);
        let wants_more = take(&piece[..length]);
        match status {
            Ok(Status::StreamEnd) => return true,
            Ok(_) if wants_more && (length > 0 || state.total_in() > read) => {}
            _ => return false,
        }
    }
}

/// Undoes the prediction of rows, as PNG has it.
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

/// Returns the neighbour that is nearest to their plane (PNG's fourth filter).
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
