//! Content encodings undone chunk by chunk, with caps that a bomb cannot get around.
//!
//! The caps are enforced inside the decoder's own writes: a chunk of a few kilobytes that wants to become gigabytes is
//! stopped after the cap, not after the chunk.

use std::io::{self, Write};

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Below this much output the ratio says nothing.
const RATIO_FREE: u64 = 1 << 20;

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
    /// Not what the header says it is.
    Malformed(String),
}

/// Limits on a decoded body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// Undoes the encodings of a body.
pub(crate) struct Decoder {
    stages: Box<dyn Stage>,
}

impl Decoder {
    /// Reads `Content-Encoding`; `None` when there is nothing to undo. Encodings we did not ask for stay as they are.
    pub(crate) fn of(headers: &HeaderMap, caps: Caps) -> Option<Self> {
        let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let names: Vec<String> = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !matches!(*name, "" | "identity")).collect();
        if names.is_empty() || !names.iter().all(|name| matches!(*name, "gzip" | "x-gzip" | "deflate" | "br" | "zstd")) {
            return None;
        }
        let mut stages: Box<dyn Stage> = Box::new(Sink { out: Vec::new(), written: 0, received: 0, caps, overrun: None });
        // The last encoding named was applied last: it is undone first, so it must end up outermost.
        for name in names {
            stages = match name {
                "br" => Box::new(Writing { writer: brotli::DecompressorWriter::new(stages, 8 << 10) }),
                "zstd" => match zstd::stream::raw::Decoder::new() {
                    Ok(decoder) => Box::new(Writing { writer: zstd::stream::zio::Writer::new(stages, decoder) }),
                    Err(_) => return None,
                },
                "deflate" => Box::new(Inflate { engine: None, next: stages, ended: false }),
                _ => Box::new(Writing { writer: flate2::write::MultiGzDecoder::new(stages) }),
            };
        }
        Some(Self { stages })
    }

    /// Decodes a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<Vec<u8>, DecodeError> {
        self.stages.sink().received += chunk.len() as u64;
        let written = self.stages.write_all(chunk).and_then(|()| self.stages.flush());
        self.taken(written)
    }

    /// Ends the body: what is cut off is malformed.
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>, DecodeError> {
        let ended = self.stages.end();
        self.taken(ended)
    }

    fn taken(&mut self, result: io::Result<()>) -> Result<Vec<u8>, DecodeError> {
        let sink = self.stages.sink();
        match (sink.overrun.take(), result) {
            (Some(overrun), _) => Err(overrun),
            (None, Err(error)) => Err(DecodeError::Malformed(error.to_string())),
            (None, Ok(())) => Ok(std::mem::take(&mut sink.out)),
        }
    }
}

/// One decoder that writes into the next.
trait Stage: Write + Send {
    fn sink(&mut self) -> &mut Sink;
    fn end(&mut self) -> io::Result<()>;
}

impl Stage for Box<dyn Stage> {
    fn sink(&mut self) -> &mut Sink {
        (**self).sink()
    }

    fn end(&mut self) -> io::Result<()> {
        (**self).end()
    }
}

/// The end of the chain: collects, counts and says stop.
struct Sink {
    out: Vec<u8>,
    written: u64,
    received: u64,
    caps: Caps,
    overrun: Option<DecodeError>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len() as u64;
        if self.written > self.caps.bytes {
            self.overrun = Some(DecodeError::TooLarge);
        } else if self.written > RATIO_FREE && self.written / self.caps.ratio > self.received {
            self.overrun = Some(DecodeError::Bomb { ratio: self.caps.ratio });
        }
        if self.overrun.is_some() {
            return Err(io::Error::other("over the cap"));
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stage for Sink {
    fn sink(&mut self) -> &mut Sink {
        self
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A decoder of some library.
struct Writing<W> {
    writer: W,
}

impl<W: Write> Write for Writing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Stage for Writing<flate2::write::MultiGzDecoder<Box<dyn Stage>>> {
    fn sink(&mut self) -> &mut Sink {
        self.writer.get_mut().sink()
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.try_finish()?;
        self.writer.get_mut().end()
    }
}

impl Stage for Writing<brotli::DecompressorWriter<Box<dyn Stage>>> {
    fn sink(&mut self) -> &mut Sink {
        self.writer.get_mut().sink()
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.close()?;
        self.writer.get_mut().end()
    }
}

impl Stage for Writing<zstd::stream::zio::Writer<Box<dyn Stage>, zstd::stream::raw::Decoder<'static>>> {
    fn sink(&mut self) -> &mut Sink {
        self.writer.writer_mut().sink()
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.finish()?;
        self.writer.writer_mut().end()
    }
}

/// "deflate" is zlib by the RFC and bare deflate by some servers: the first byte tells.
struct Inflate {
    engine: Option<flate2::Decompress>,
    next: Box<dyn Stage>,
    ended: bool,
}

impl Write for Inflate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(first) = bytes.first().filter(|_| !self.ended) else { return Ok(bytes.len()) };
        let engine = self.engine.get_or_insert_with(|| flate2::Decompress::new(first & 0x0f == 8));
        let mut rest = bytes;
        loop {
            let mut plain = Vec::with_capacity(16 << 10);
            let before = engine.total_in();
            let status = engine.decompress_vec(rest, &mut plain, flate2::FlushDecompress::None).map_err(io::Error::other)?;
            let taken = usize::try_from(engine.total_in() - before).unwrap_or(rest.len());
            rest = &rest[taken..];
            self.next.write_all(&plain)?;
            self.ended = status == flate2::Status::StreamEnd;
            if self.ended || (taken == 0 && plain.is_empty()) {
                return Ok(bytes.len());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.next.flush()
    }
}

impl Stage for Inflate {
    fn sink(&mut self) -> &mut Sink {
        self.next.sink()
    }

    fn end(&mut self) -> io::Result<()> {
        if self.engine.is_some() && !self.ended {
            return Err(io::Error::other("the compressed stream is cut off"));
        }
        self.next.end()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const CAPS: Caps = Caps { bytes: 64 << 20, ratio: 200 };

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    fn encode(name: &str, plain: &[u8]) -> Vec<u8> {
        match name {
            "gzip" => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "deflate" => {
                let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "bare" => {
                let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            "br" => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 9, 22).write_all(plain).unwrap();
                out
            }
            _ => zstd::encode_all(plain, 3).unwrap(),
        }
    }

    fn decode(encoding: &'static str, coded: &[u8], piece: usize, caps: Caps) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::of(&headers(encoding), caps).expect("an encoding");
        let mut plain = Vec::new();
        for chunk in coded.chunks(piece) {
            plain.extend(decoder.push(chunk)?);
        }
        plain.extend(decoder.finish()?);
        Ok(plain)
    }

    #[test]
    fn every_encoding_is_undone_in_chunks_of_any_size() {
        let plain: Vec<u8> = (0..50_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for (header, name) in [("gzip", "gzip"), ("deflate", "deflate"), ("deflate", "bare"), ("br", "br"), ("zstd", "zstd"), ("X-GZIP", "gzip")] {
            let coded = encode(name, &plain);
            for piece in [1, 7, 4096, coded.len()] {
                assert_eq!(decode(header, &coded, piece, CAPS).as_deref(), Ok(&*plain), "{name} in pieces of {piece}");
            }
        }
        let twice = encode("br", &encode("gzip", &plain));
        assert_eq!(decode("gzip, br", &twice, 100, CAPS).as_deref(), Ok(&*plain));
    }

    #[test]
    fn bombs_are_stopped_at_the_cap() {
        let plain = vec![0; 32 << 20];
        for name in ["gzip", "br", "zstd"] {
            let coded = encode(name, &plain);
            assert_eq!(decode(name, &coded, coded.len(), CAPS), Err(DecodeError::Bomb { ratio: 200 }), "{name}");
            let caps = Caps { bytes: 1 << 20, ratio: u64::MAX };
            assert_eq!(decode(name, &coded, coded.len(), caps), Err(DecodeError::TooLarge), "{name}");
        }
    }

    #[test]
    fn garbage_and_cut_bodies_are_malformed() {
        let plain: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        for (header, name) in [("gzip", "gzip"), ("deflate", "deflate"), ("deflate", "bare"), ("br", "br"), ("zstd", "zstd")] {
            let coded = encode(name, &plain);
            let cut = decode(header, &coded[..coded.len() / 2], 1000, CAPS);
            assert!(matches!(cut, Err(DecodeError::Malformed(_))), "{name}: {:?}", cut.map(|plain| plain.len()));
        }
        assert!(matches!(decode("gzip", b"<html>not gzip</html>", 100, CAPS), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn unknown_encodings_are_left_alone() {
        assert!(Decoder::of(&headers("aes128gcm"), CAPS).is_none());
        assert!(Decoder::of(&headers("identity"), CAPS).is_none());
        assert!(Decoder::of(&HeaderMap::new(), CAPS).is_none());
    }
}
