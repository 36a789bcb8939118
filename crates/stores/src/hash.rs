//! A hash of bytes that is equal in all processes. Deliberate collisions are possible.

/// Returns the 64-bit FNV-1a hash of bytes.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
