//! Content encodings undone in small steps, with caps that a bomb cannot get around.
//!
//! Each encoding is a stage with its own input and output. A step gives one stage a few kilobytes,
//! so that a caller can check its deadline and yield in between, whatever the stages make of them.
//! The caps hold inside the decoder's own writes, at every stage: a piece that wants to become
//! gigabytes is stopped at the cap, not after the piece.

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

mod stage;

use stage::{DecodeStage, stage};

/// Below this much output the ratio says nothing.
const RATIO_EXEMPT_BYTES: u64 = 1 << 20;
/// How much a stage is given in one step.
const STEP_INPUT: usize = 4 << 10;
/// How many encodings are undone at most. Honest answers have one, some have two.
const MAX_ENCODINGS: usize = 3;

/// Why decoding ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// More decoded bytes than the cap.
    TooLarge,
    /// More decoded bytes per byte received than the cap.
    Bomb {
        /// The cap.
        ratio: u64,
    },
    /// More encodings than are undone.
    TooMany,
    /// Not what the header says it is.
    Malformed(String),
}

/// Limits on a decoded body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeCaps {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeStep {
    /// Decoded bytes.
    Plain(Vec<u8>),
    /// Nothing to hand out yet; there is more to do.
    Working,
    /// Everything that came has been decoded.
    Idle,
}

/// Undoes the encodings of a body.
pub(crate) struct Decoder {
    /// The last encoding named was applied last: it is undone first.
    stages: Vec<Box<dyn DecodeStage>>,
    /// What waits for each stage.
    inputs: Vec<StageInput>,
    caps: DecodeCaps,
    received: u64,
    finishing: bool,
    /// How many stages have come to their end.
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
    /// Reads `Content-Encoding`; `None` when there is nothing to undo. Encodings we did not ask for
    /// stay as they are.
    ///
    /// # Errors
    /// It names more encodings than are undone.
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

    /// Takes a chunk that came over the wire.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.received += chunk.len() as u64;
        self.inputs[0].add(chunk.to_vec());
    }

    /// Ends the body: what is cut off is malformed.
    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    /// Does a bounded amount of work: the stage nearest to the end that has something to do.
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

    /// Sets how much a stage may have produced by the end of the next step.
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
