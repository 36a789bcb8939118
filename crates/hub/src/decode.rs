//! Decoding of content encodings in small steps, with caps that stop decompression bombs.
//!
//! Each encoding is a stage with its own input and output. A step passes at most a few kilobytes to
//! one stage, so that the caller can check its deadline and let other tasks run between steps. Each
//! stage checks the caps while its decoder writes, so that a small piece that expands to gigabytes
//! is stopped at the cap.

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

mod stage;

use stage::{DecodeStage, stage};

/// Size of the output from which on the ratio is checked, in bytes.
const RATIO_EXEMPT_BYTES: u64 = 1 << 20;
/// Maximum input of a stage in one step, in bytes.
const STEP_INPUT: usize = 4 << 10;
/// Maximum number of encodings of a body. Honest responses have one or, rarely, two.
const MAX_ENCODINGS: usize = 3;

/// The reason why decoding failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The decoded body is larger than the maximum number of bytes.
    TooLarge,
    /// The ratio of the decoded body to the received bytes is larger than the maximum.
    Bomb {
        /// The maximum ratio.
        ratio: u64,
    },
    /// The header names more encodings than [`MAX_ENCODINGS`].
    TooMany,
    /// The body is not valid in the encoding that the header names.
    Malformed(String),
}

/// Limits on a decoded body: its size in bytes, and its ratio to the received bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeCaps {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeStep {
    /// Decoded bytes.
    Plain(Vec<u8>),
    /// The step yielded no bytes, but further steps may.
    Working,
    /// All received bytes are decoded, so that further steps need another chunk.
    Idle,
}

/// Decodes a body, with one stage for each of its encodings.
pub(crate) struct Decoder {
    /// The stages in order of decoding. The encoding that the header names last was applied last,
    /// so it is decoded first.
    stages: Vec<Box<dyn DecodeStage>>,
    /// For each stage, the bytes that it has not decoded yet.
    inputs: Vec<StageInput>,
    caps: DecodeCaps,
    received: u64,
    finishing: bool,
    /// The number of stages, from the first, whose data has ended.
    ended: usize,
}

/// Bytes that wait for a stage.
#[derive(Default)]
struct StageInput {
    bytes: Vec<u8>,
    from: usize,
}

impl StageInput {
    fn is_empty(&self) -> bool {
        self.from >= self.bytes.len()
    }

    fn add(&mut self, bytes: Vec<u8>) {
        if self.is_empty() {
            (self.bytes, self.from) = (bytes, 0);
        } else {
            self.bytes.drain(..self.from);
            self.from = 0;
            self.bytes.extend_from_slice(&bytes);
        }
    }

    fn take(&mut self) -> &[u8] {
        let start = self.from;
        self.from = self.bytes.len().min(start + STEP_INPUT);
        &self.bytes[start..self.from]
    }
}

impl Decoder {
    /// Creates the decoder for `Content-Encoding`. Returns `None` if the header names no encoding,
    /// or one that the hub does not request: the body then stays encoded.
    ///
    /// # Errors
    /// Returns [`DecodeError::TooMany`] if the header names more than [`MAX_ENCODINGS`] encodings.
    pub(crate) fn of(headers: &HeaderMap, caps: DecodeCaps) -> Result<Option<Self>, DecodeError> {
        let values = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let names = values
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase());
        let names: Vec<String> = names
            .filter(|name| !matches!(name.as_str(), "" | "identity"))
            .take(MAX_ENCODINGS + 1)
            .collect();
        if names.len() > MAX_ENCODINGS {
            return Err(DecodeError::TooMany);
        }
        let stages: Option<Vec<Box<dyn DecodeStage>>> =
            names.iter().rev().map(|name| stage(name)).collect();
        let Some(stages) = stages.filter(|stages| !stages.is_empty()) else {
            return Ok(None);
        };
        let inputs = stages.iter().map(|_| StageInput::default()).collect();
        Ok(Some(Self {
            stages,
            inputs,
            caps,
            received: 0,
            finishing: false,
            ended: 0,
        }))
    }

    /// Adds a chunk from the wire to the input.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.received += chunk.len() as u64;
        self.inputs[0].add(chunk.to_vec());
    }

    /// Declares that no input follows. If the encoded data is incomplete, further steps report it
    /// as malformed.
    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    /// Does a bounded amount of work, in the last stage that has input.
    ///
    /// # Errors
    /// Returns a [`DecodeError`] for a malformed body, or for one that exceeds the caps.
    pub(crate) fn step(&mut self) -> Result<DecodeStep, DecodeError> {
        let busy = self.inputs.iter().rposition(|input| !input.is_empty());
        let (place, done) = match busy {
            Some(place) => {
                self.limit(place);
                (place, self.stages[place].push(self.inputs[place].take()))
            }
            None if self.finishing && self.ended < self.stages.len() => {
                let place = self.ended;
                self.ended += 1;
                self.limit(place);
                (place, self.stages[place].end())
            }
            None => return Ok(DecodeStep::Idle),
        };
        let out = self.stages[place].out();
        if let Some(overrun) = out.overrun.take() {
            return Err(overrun);
        }
        done.map_err(|error| DecodeError::Malformed(error.to_string()))?;
        let bytes = std::mem::take(&mut out.bytes);
        if bytes.is_empty() {
            return Ok(DecodeStep::Working);
        }
        match self.inputs.get_mut(place + 1) {
            Some(next) => {
                next.add(bytes);
                Ok(DecodeStep::Working)
            }
            None => Ok(DecodeStep::Plain(bytes)),
        }
    }

    /// Sets the maximum output of the stage at `place`, which applies until the end of the next
    /// step.
    fn limit(&mut self, place: usize) {
        let by_ratio = RATIO_EXEMPT_BYTES.max(self.received.saturating_mul(self.caps.ratio));
        let last = place + 1 == self.stages.len();
        let out = self.stages[place].out();
        (out.by_ratio, out.ratio) = (by_ratio, self.caps.ratio);
        out.by_size = if last { self.caps.bytes } else { u64::MAX };
    }
}

#[cfg(test)]
mod tests;
