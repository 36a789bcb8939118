//! Checks that a stream is UTF-8, at any division into blocks.

/// The bytes of a character that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Utf8Check {
    pending: Vec<u8>,
}

impl Utf8Check {
    /// Returns false if the stream cannot be UTF-8, for any further bytes.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) -> bool {
        while let (false, Some((&first, rest))) = (self.pending.is_empty(), bytes.split_first()) {
            self.pending.push(first);
            bytes = rest;
            match std::str::from_utf8(&self.pending) {
                Ok(_) => self.pending.clear(),
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => (),
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                self.pending
                    .extend_from_slice(&bytes[error.valid_up_to()..]);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn utf8_check_of_pieces_equals_that_of_the_whole(
            text in "\\PC{0,20}",
            noise in proptest::collection::vec(any::<u8>(), 0..3),
            step in 1usize..5,
        ) {
            let mut bytes = text.into_bytes();
            bytes.extend(noise);
            let mut check = Utf8Check::default();
            let is_valid = bytes.chunks(step).all(|piece| check.pass(piece));
            let is_whole = is_valid && check.pending.is_empty();
            prop_assert_eq!(is_whole, std::str::from_utf8(&bytes).is_ok());
        }
    }
}
