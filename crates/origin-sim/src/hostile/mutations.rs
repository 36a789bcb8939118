//! Random changes to valid input. Most of the input stays valid, so that readers get past the first
//! bytes.

/// Pieces of the syntax of several formats, which mutations insert: brackets, quotes, escapes, line
/// ends, bytes that are not text, beginnings of records, and numbers.
const SYNTAX_PIECES: [&[u8]; 26] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"</",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\r\n",
    b",",
    b";",
    b"=",
    b"&",
    b"%",
    b"@",
    b"TY  - ",
    b"10.",
    b"-1",
    b"99999999999999999999",
];

/// Returns `original` with random changes: bytes are inserted, replaced, removed, repeated, moved
/// or cut off. The same `seed` makes the same changes.
#[must_use]
pub fn mutated(seed: u64, original: &[u8]) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = original.to_vec();
    for _ in 0..random.usize(1..8) {
        let at = random.usize(0..=bytes.len());
        let end = bytes.len().min(at + random.usize(0..40));
        match random.u8(0..7) {
            0 => drop(
                bytes.splice(
                    at..at,
                    SYNTAX_PIECES[random.usize(0..SYNTAX_PIECES.len())]
                        .iter()
                        .copied(),
                ),
            ),
            1 => drop(bytes.splice(
                at..at,
                SYNTAX_PIECES[random.usize(0..SYNTAX_PIECES.len())].repeat(random.usize(1..2_000)),
            )),
            2 => drop(
                bytes.splice(
                    at..end,
                    SYNTAX_PIECES[random.usize(0..SYNTAX_PIECES.len())]
                        .iter()
                        .copied(),
                ),
            ),
            3 => drop(bytes.drain(at..end)),
            4 if at < bytes.len() => bytes[at] = random.u8(..),
            5 => {
                let part = bytes[at..end].to_vec();
                let to = random.usize(0..=bytes.len());
                bytes.splice(to..to, part.repeat(random.usize(1..200)));
            }
            6 if random.u8(0..4) == 0 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}
