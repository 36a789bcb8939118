//! Content encodings undone in small steps, with caps that a bomb cannot get around.
//!
//! Each encoding is a stage with its own input and output. A step gives one stage a few kilobytes,
//! so that a caller can look at its deadline and let others run in between, whatever the stages
//! make of them. The caps hold inside the decoder's own writes, at every stage: a piece that wants
//! to become gigabytes is stopped at the cap, not after the piece.

use std::io::{self, Write};

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Below this much output the ratio says nothing.
const RATIO_FREE: u64 = 1 << 20;
/// How much a stage is given in one step.
const STEP: usize = 4 << 10;
/// How much a stage may make of that. Honest encoders make no more than a thousandfold, which is a
/// quarter of this.
const STEP_OUTPUT: usize = 16 << 20;
/// How many encodings are undone at most. Honest answers have one, some have two.
const MOST_ENCODINGS: usize = 3;

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
pub(crate) struct Caps {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
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
    stages: Vec<Box<dyn Stage>>,
    /// What waits for each stage.
    inputs: Vec<Input>,
    caps: Caps,
    received: u64,
    finishing: bool,
    /// How many stages have come to their end.
    ended: usize,
}

/// Bytes that wait for a stage.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    from: usize,
}

impl Input {
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
        self.from = self.bytes.len().min(start + STEP);
        &self.bytes[start..self.from]
    }
}

impl Decoder {
    /// Reads `Content-Encoding`; `None` when there is nothing to undo. Encodings we did not ask for
    /// stay as they are.
    ///
    /// # Errors
    /// It names more encodings than are undone.
    pub(crate) fn of(headers: &HeaderMap, caps: Caps) -> Result<Option<Self>, DecodeError> {
        let values = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let names = values
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase());
        let names: Vec<String> = names
            .filter(|name| !matches!(name.as_str(), "" | "identity"))
            .take(MOST_ENCODINGS + 1)
            .collect();
        if names.len() > MOST_ENCODINGS {
            return Err(DecodeError::TooMany);
        }
        let stages: Option<Vec<Box<dyn Stage>>> =
            names.iter().rev().map(|name| stage(name)).collect();
        let Some(stages) = stages.filter(|stages| !stages.is_empty()) else {
            return Ok(None);
        };
        let inputs = stages.iter().map(|_| Input::default()).collect();
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
    pub(crate) fn step(&mut self) -> Result<Step, DecodeError> {
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
            None => return Ok(Step::Idle),
        };
        let out = self.stages[place].out();
        if let Some(overrun) = out.overrun.take() {
            return Err(overrun);
        }
        done.map_err(|error| DecodeError::Malformed(error.to_string()))?;
        let bytes = std::mem::take(&mut out.bytes);
        if bytes.is_empty() {
            return Ok(Step::Working);
        }
        match self.inputs.get_mut(place + 1) {
            Some(next) => {
                next.add(bytes);
                Ok(Step::Working)
            }
            None => Ok(Step::Plain(bytes)),
        }
    }

    /// Tells a stage how much it may have made by the end of the next step.
    fn limit(&mut self, place: usize) {
        let by_ratio = RATIO_FREE.max(self.received.saturating_mul(self.caps.ratio));
        let last = place + 1 == self.stages.len();
        let out = self.stages[place].out();
        (out.by_ratio, out.ratio) = (by_ratio, self.caps.ratio);
        out.by_size = if last { self.caps.bytes } else { u64::MAX };
    }
}

/// Makes the stage that undoes an encoding; `None` for one that we did not ask for.
fn stage(name: &str) -> Option<Box<dyn Stage>> {
    Some(match name {
        "br" => Box::new(brotli::DecompressorWriter::new(Out::default(), 8 << 10)),
        "zstd" => Box::new(zstd::stream::zio::Writer::new(
            Out::default(),
            zstd::stream::raw::Decoder::new().ok()?,
        )),
        "deflate" => Box::new(Inflate {
            engine: None,
            out: Out::default(),
            ended: false,
        }),
        "gzip" | "x-gzip" => Box::new(flate2::write::MultiGzDecoder::new(Out::default())),
        _ => return None,
    })
}

/// One decoder, and what it has made.
trait Stage: Send {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
    fn out(&mut self) -> &mut Out;
}

/// The output of a stage: collects, counts and says stop.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    written: u64,
    by_ratio: u64,
    by_size: u64,
    ratio: u64,
    overrun: Option<DecodeError>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len() as u64;
        if self.written > self.by_size {
            self.overrun = Some(DecodeError::TooLarge);
        } else if self.written > self.by_ratio || self.bytes.len() + bytes.len() > STEP_OUTPUT {
            self.overrun = Some(DecodeError::Bomb { ratio: self.ratio });
        }
        if self.overrun.is_some() {
            return Err(io::Error::other("over the cap"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stage for flate2::write::MultiGzDecoder<Out> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.try_finish()
    }

    fn out(&mut self) -> &mut Out {
        self.get_mut()
    }
}

impl Stage for brotli::DecompressorWriter<Out> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.close()
    }

    fn out(&mut self) -> &mut Out {
        self.get_mut()
    }
}

impl Stage for zstd::stream::zio::Writer<Out, zstd::stream::raw::Decoder<'static>> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.finish()
    }

    fn out(&mut self) -> &mut Out {
        self.writer_mut()
    }
}

/// "deflate" is zlib by the RFC and bare deflate by some servers: the first byte tells.
struct Inflate {
    engine: Option<flate2::Decompress>,
    out: Out,
    ended: bool,
}

impl Stage for Inflate {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(first) = bytes.first().filter(|_| !self.ended) else {
            return Ok(());
        };
        let engine = self
            .engine
            .get_or_insert_with(|| flate2::Decompress::new(first & 0x0f == 8));
        let mut rest = bytes;
        loop {
            let mut plain = Vec::with_capacity(16 << 10);
            let before = engine.total_in();
            let status = engine
                .decompress_vec(rest, &mut plain, flate2::FlushDecompress::None)
                .map_err(io::Error::other)?;
            let taken = usize::try_from(engine.total_in() - before).unwrap_or(rest.len());
            rest = &rest[taken..];
            self.out.write_all(&plain)?;
            self.ended = status == flate2::Status::StreamEnd;
            if self.ended || (taken == 0 && plain.is_empty()) {
                return Ok(());
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.engine.is_some() && !self.ended {
            return Err(io::Error::other("the compressed stream is cut off"));
        }
        Ok(())
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const CAPS: Caps = Caps {
        bytes: 64 << 20,
        ratio: 200,
    };

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    fn encode(name: &str, plain: &[u8]) -> Vec<u8> {
        match name {
            "gzip" => {
                let mut writer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "deflate" => {
                let mut writer =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "bare" => {
                let mut writer =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "br" => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 9, 22)
                    .write_all(plain)
                    .unwrap();
                out
            }
            _ => zstd::encode_all(plain, 3).unwrap(),
        }
    }

    fn decode(
        encoding: &'static str,
        coded: &[u8],
        piece: usize,
        caps: Caps,
    ) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::of(&headers(encoding), caps)?.expect("an encoding");
        let mut plain = Vec::new();
        for chunk in coded.chunks(piece) {
            decoder.push(chunk);
            run(&mut decoder, &mut plain)?;
        }
        decoder.finish();
        run(&mut decoder, &mut plain)?;
        Ok(plain)
    }

    /// Takes steps until there is nothing left to do.
    fn run(decoder: &mut Decoder, plain: &mut Vec<u8>) -> Result<(), DecodeError> {
        loop {
            match decoder.step()? {
                Step::Plain(bytes) => plain.extend(bytes),
                Step::Working => {}
                Step::Idle => return Ok(()),
            }
        }
    }

    #[test]
    fn more_than_three_encodings_are_refused_however_many_are_named() {
        let plain = b"three times";
        let thrice = encode("gzip", &encode("gzip", &encode("gzip", plain)));
        assert_eq!(
            decode("gzip, gzip, identity, gzip", &thrice, 100, CAPS).as_deref(),
            Ok(&plain[..])
        );
        let many = HeaderMap::from_iter([(
            CONTENT_ENCODING,
            HeaderValue::from_str(&vec!["gzip"; 5_000].join(",")).unwrap(),
        )]);
        assert_eq!(Decoder::of(&many, CAPS).err(), Some(DecodeError::TooMany));
        let mut repeated = HeaderMap::new();
        for _ in 0..5_000 {
            repeated.append(CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        assert_eq!(
            Decoder::of(&repeated, CAPS).err(),
            Some(DecodeError::TooMany)
        );
    }

    /// Members without contents cost time and give nothing: each step does little, also where they
    /// come out of another stage.
    #[test]
    fn empty_members_are_decoded_in_small_steps() {
        let members: Vec<u8> = encode("gzip", b"").repeat(8_000);
        for (header, coded) in [
            ("gzip", members.clone()),
            ("gzip, br", encode("br", &members)),
            ("gzip, zstd", encode("zstd", &members)),
        ] {
            let mut decoder = Decoder::of(&headers(header), CAPS)
                .unwrap()
                .expect("an encoding");
            decoder.push(&coded);
            decoder.finish();
            let mut steps = 0;
            while decoder.step() != Ok(Step::Idle) {
                steps += 1;
            }
            assert!(steps >= members.len() / STEP, "{header}: {steps} steps");
        }
    }

    /// What an outer stage makes is bounded as well, though an inner one makes nothing of it.
    #[test]
    fn a_bomb_between_two_stages_is_stopped() {
        let inner: Vec<u8> = encode("gzip", b"").repeat(1 << 20);
        let coded = encode("zstd", &inner);
        assert_eq!(
            decode("gzip, zstd", &coded, coded.len(), CAPS),
            Err(DecodeError::Bomb { ratio: 200 })
        );
    }

    #[test]
    fn every_encoding_is_undone_in_chunks_of_any_size() {
        let plain: Vec<u8> = (0..50_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for (header, name) in [
            ("gzip", "gzip"),
            ("deflate", "deflate"),
            ("deflate", "bare"),
            ("br", "br"),
            ("zstd", "zstd"),
            ("X-GZIP", "gzip"),
        ] {
            let coded = encode(name, &plain);
            for piece in [1, 7, 4096, coded.len()] {
                assert_eq!(
                    decode(header, &coded, piece, CAPS).as_deref(),
                    Ok(&*plain),
                    "{name} in pieces of {piece}"
                );
            }
        }
        let twice = encode("br", &encode("gzip", &plain));
        assert_eq!(
            decode("gzip, br", &twice, 100, CAPS).as_deref(),
            Ok(&*plain)
        );
    }

    #[test]
    fn bombs_are_stopped_at_the_cap() {
        let plain = vec![0; 32 << 20];
        for name in ["gzip", "br", "zstd"] {
            let coded = encode(name, &plain);
            assert_eq!(
                decode(name, &coded, coded.len(), CAPS),
                Err(DecodeError::Bomb { ratio: 200 }),
                "{name}"
            );
            let caps = Caps {
                bytes: 1 << 20,
                ratio: u64::MAX,
            };
            assert_eq!(
                decode(name, &coded, coded.len(), caps),
                Err(DecodeError::TooLarge),
                "{name}"
            );
        }
    }

    #[test]
    fn garbage_and_cut_bodies_are_malformed() {
        let plain: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        for (header, name) in [
            ("gzip", "gzip"),
            ("deflate", "deflate"),
            ("deflate", "bare"),
            ("br", "br"),
            ("zstd", "zstd"),
        ] {
            let coded = encode(name, &plain);
            let cut = decode(header, &coded[..coded.len() / 2], 1000, CAPS);
            assert!(
                matches!(cut, Err(DecodeError::Malformed(_))),
                "{name}: {:?}",
                cut.map(|plain| plain.len())
            );
        }
        assert!(matches!(
            decode("gzip", b"<html>not gzip</html>", 100, CAPS),
            Err(DecodeError::Malformed(_))
        ));
    }

    proptest::proptest! {
        /// Whatever is made of coded bytes, in whatever chain: it ends, within the caps, in a
        /// bounded number of steps.
        #[test]
        fn fuzz_a_chain_of_decoders_ends_within_its_caps(
            chain in proptest::collection::vec(0..4_usize, 1..4),
            claimed in proptest::collection::vec(0..4_usize, 1..4),
            honest in proptest::prelude::any::<bool>(),
            seed in proptest::prelude::any::<u64>(),
            piece in 1..5_000_usize,
        ) {
            let names = ["gzip", "deflate", "br", "zstd"];
            let plain: Vec<u8> = (0..20_000u32).flat_map(|n| (n / 9).to_le_bytes()).collect();
            let coded = chain.iter().fold(plain, |coded, name| encode(names[*name], &coded));
            let coded = docstokg_origin_sim::hostile::mutated(seed, &coded);
            let told = if honest { &chain } else { &claimed };
            let header = told.iter().map(|name| names[*name]).collect::<Vec<_>>().join(", ");
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_str(&header).unwrap())]);
            let caps = Caps { bytes: 1 << 20, ratio: 200 };
            let mut decoder = Decoder::of(&headers, caps).unwrap().expect("an encoding");
            let (mut made, mut steps) = (0, 0);
            'all: for chunk in coded.chunks(piece).map(Some).chain([None]) {
                match chunk {
                    Some(chunk) => decoder.push(chunk),
                    None => decoder.finish(),
                }
                loop {
                    steps += 1;
                    match decoder.step() {
                        Ok(Step::Plain(bytes)) => made += bytes.len(),
                        Ok(Step::Working) => {}
                        Ok(Step::Idle) => break,
                        Err(_) => break 'all,
                    }
                }
            }
            proptest::prop_assert!(made <= (1 << 20) + STEP_OUTPUT, "{made} bytes");
            proptest::prop_assert!(steps <= 200_000, "{steps} steps for {} bytes", coded.len());
        }
    }

    #[test]
    fn unknown_encodings_are_left_alone() {
        for none in [headers("aes128gcm"), headers("identity"), HeaderMap::new()] {
            assert!(Decoder::of(&none, CAPS).unwrap().is_none());
        }
    }
}
