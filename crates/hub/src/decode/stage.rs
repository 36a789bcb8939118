//! The decoding of a single content encoding: the decoder, and its output, which counts bytes and
//! stops at the caps.

use std::io::{self, Write};

use super::DecodeError;

/// Maximum output of a stage in one step, in bytes. Honest encoders compress by a factor of at most
/// a thousand; the value is four times what that yields for the input of one step.
pub(super) const STEP_OUTPUT: usize = 16 << 20;

/// Returns the [`DecodeStage`] of an encoding; `None` for an encoding that the hub does not
/// request.
pub(super) fn stage(name: &str) -> Option<Box<dyn DecodeStage>> {
    Some(match name {
        "br" => Box::new(brotli::DecompressorWriter::new(
            CappedOutput::default(),
            8 << 10,
        )),
        "zstd" => Box::new(zstd::stream::zio::Writer::new(
            CappedOutput::default(),
            zstd::stream::raw::Decoder::new().ok()?,
        )),
        "deflate" => Box::new(Inflate {
            engine: None,
            out: CappedOutput::default(),
            ended: false,
        }),
        "gzip" | "x-gzip" => Box::new(flate2::write::MultiGzDecoder::new(CappedOutput::default())),
        _ => return None,
    })
}

/// The decoder of one encoding, with its output.
pub(super) trait DecodeStage: Send {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
    fn out(&mut self) -> &mut CappedOutput;
}

/// The output of a stage: collects bytes, counts them, and stops at the caps.
#[derive(Default)]
pub(super) struct CappedOutput {
    pub(super) bytes: Vec<u8>,
    written: u64,
    pub(super) by_ratio: u64,
    pub(super) by_size: u64,
    pub(super) ratio: u64,
    pub(super) overrun: Option<DecodeError>,
}

impl Write for CappedOutput {
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

impl DecodeStage for flate2::write::MultiGzDecoder<CappedOutput> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.try_finish()
    }

    fn out(&mut self) -> &mut CappedOutput {
        self.get_mut()
    }
}

impl DecodeStage for brotli::DecompressorWriter<CappedOutput> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.close()
    }

    fn out(&mut self) -> &mut CappedOutput {
        self.get_mut()
    }
}

impl DecodeStage for zstd::stream::zio::Writer<CappedOutput, zstd::stream::raw::Decoder<'static>> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).and_then(|()| self.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        self.finish()
    }

    fn out(&mut self) -> &mut CappedOutput {
        self.writer_mut()
    }
}

/// The decoder of "deflate". The RFC means zlib by that name, and some servers send bare deflate;
/// the first byte shows which.
struct Inflate {
    engine: Option<flate2::Decompress>,
    out: CappedOutput,
    ended: bool,
}

impl DecodeStage for Inflate {
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

    fn out(&mut self) -> &mut CappedOutput {
        &mut self.out
    }
}
