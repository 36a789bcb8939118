//! Bodies that are small on the wire and large when they are decoded, or that cost without growing.

use std::io::Write;

use super::Attack;
use crate::reply::Reply;

type Encoder = fn(&[u8]) -> Vec<u8>;

/// Writing to memory cannot fail.
fn gzip(body: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer
        .write_all(body)
        .and_then(|()| writer.finish())
        .unwrap_or_default()
}

pub(super) fn deflate(body: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    writer
        .write_all(body)
        .and_then(|()| writer.finish())
        .unwrap_or_default()
}

fn brotli(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    {
        let mut writer = brotli::CompressorWriter::new(&mut out, 64 << 10, 5, 22);
        let _ = writer.write_all(body);
    }
    out
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(body, 3).unwrap_or_default()
}

/// Makes one bomb of each kind, of `size` bytes when decoded. `kind` is the media type they claim,
/// and `begin` how the decoded body begins.
#[must_use]
pub fn bombs(size: usize, kind: &str, begin: &str) -> Vec<Attack> {
    let mut body = begin.as_bytes().to_vec();
    body.resize(size, b' ');
    let reply = |encoding: &str, body: Vec<u8>| {
        Reply::ok(body)
            .header("content-type", kind)
            .header("content-encoding", encoding)
    };
    let encoders: [(&str, Encoder); 4] = [
        ("gzip", gzip),
        ("deflate", deflate),
        ("br", brotli),
        ("zstd", zstd),
    ];
    let mut attacks = Vec::new();
    for (name, encode) in encoders {
        let once = encode(&body);
        attacks.push(Attack::new(
            format!("{name} in gzip"),
            reply(&format!("{name}, gzip"), gzip(&once)),
        ));
        attacks.push(Attack::new(
            format!("{name} three times"),
            reply(&format!("{name}, {name}, {name}"), encode(&encode(&once))),
        ));
        attacks.push(Attack::new(
            format!("{name} cut short"),
            reply(name, once[..once.len() / 2].to_vec()),
        ));
        attacks.push(Attack::new(
            format!("{name} and then nonsense"),
            reply(name, [once.as_slice(), &[0xff; 4_096]].concat()),
        ));
        attacks.push(Attack::new(
            format!("{name} of nonsense"),
            reply(name, (0..=255).cycle().take(100_000).collect()),
        ));
        attacks.push(Attack::new(name, reply(name, once)));
    }
    for count in [4, 5_000] {
        attacks.push(Attack::new(
            format!("gzip {count} times"),
            reply(&vec!["gzip"; count].join(","), gzip(begin.as_bytes())),
        ));
    }
    let empty = gzip(b"");
    attacks.push(Attack::new(
        "empty gzip members",
        reply("gzip", empty.repeat((200 << 10) / empty.len())),
    ));
    attacks.push(Attack::new(
        "empty gzip members in gzip",
        reply("gzip, gzip", gzip(&empty.repeat((16 << 20) / empty.len()))),
    ));
    let frame = zstd(b"");
    attacks.push(Attack::new(
        "empty zstd frames",
        reply("zstd", frame.repeat((200 << 10) / frame.len().max(1))),
    ));
    // A frame that asks for a window of two terabytes.
    attacks.push(Attack::new(
        "a zstd window beyond memory",
        reply(
            "zstd",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00],
        ),
    ));
    attacks.push(Attack::new(
        "skippable zstd frames",
        reply("zstd", [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(25_000)),
    ));
    attacks.push(Attack::new(
        "unknown encodings",
        reply("compress, exi, x-nothing", body[..begin.len()].to_vec()),
    ));
    attacks
}
