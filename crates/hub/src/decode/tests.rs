use std::io::Write;

use http::HeaderValue;

use super::stage::STEP_OUTPUT;
use super::*;

const CAPS: DecodeCaps = DecodeCaps {
    bytes: 64 << 20,
    ratio: 200,
};

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
    caps: DecodeCaps,
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

/// Calls [`Decoder::step`] until the decoder is idle.
fn run(decoder: &mut Decoder, plain: &mut Vec<u8>) -> Result<(), DecodeError> {
    loop {
        match decoder.step()? {
            DecodeStep::Plain(bytes) => plain.extend(bytes),
            DecodeStep::Working => {}
            DecodeStep::Idle => return Ok(()),
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

/// Empty members take time to decode and yield no output. Each step must do little work, even if
/// they are the output of another stage.
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
        while decoder.step() != Ok(DecodeStep::Idle) {
            steps += 1;
        }
        assert!(
            steps >= members.len() / STEP_INPUT,
            "{header}: {steps} steps"
        );
    }
}

/// The output of the first stage is limited, too, even if the second stage yields no bytes.
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
        let caps = DecodeCaps {
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
    /// Decoding arbitrary bytes by any chain of decoders ends within the caps, and after a bounded
    /// number of steps.
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
        let stated = if honest { &chain } else { &claimed };
        let header = stated.iter().map(|name| names[*name]).collect::<Vec<_>>().join(", ");
        let value = HeaderValue::from_str(&header).unwrap();
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, value)]);
        let caps = DecodeCaps { bytes: 1 << 20, ratio: 200 };
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
                    Ok(DecodeStep::Plain(bytes)) => made += bytes.len(),
                    Ok(DecodeStep::Working) => {}
                    Ok(DecodeStep::Idle) => break,
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
