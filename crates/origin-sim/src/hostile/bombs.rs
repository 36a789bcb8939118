//! Bodies that are small on the wire and expensive to decode, because they become large or take
//! long.

use std::io::Write;

use super::Attack;
use crate::reply::ScriptedReply;

type Encoder = fn(&[u8]) -> Vec<u8>;

/// Compresses a body with gzip. Writing to memory cannot fail.
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

const ENCODERS: [(&str, Encoder); 4] = [
    ("gzip", gzip),
    ("deflate", deflate),
    ("br", brotli),
    ("zstd", zstd),
];

/// Creates responses with bombs of every kind, as [`Attack`]s. Most decode to `size` bytes that
/// begin with `begin`. `kind` is the declared media type.
#[must_use]
pub fn bombs(size: usize, kind: &str, begin: &str) -> Vec<Attack> {
    let mut body = begin.as_bytes().to_vec();
    body.resize(size, b' ');
    let bombs = ENCODERS
        .into_iter()
        .flat_map(|(name, encode)| encoded(name, encode, &body))
        .chain(repeated(begin))
        .chain(frames());
    let unknown = (
        "unknown encodings".to_owned(),
        "compress, exi, x-nothing".to_owned(),
        body[..begin.len()].to_vec(),
    );
    bombs
        .chain([unknown])
        .map(|(name, encoding, bytes)| {
            let reply = ScriptedReply::ok(bytes)
                .header("content-type", kind)
                .header("content-encoding", &encoding);
            Attack::new(name, reply)
        })
        .collect()
}

/// The name, the `Content-Encoding`, and the encoded bytes of a bomb.
type Bomb = (String, String, Vec<u8>);

/// Encodes a body once and repeatedly, and adds variants that are truncated or have further bytes.
fn encoded(name: &str, encode: Encoder, body: &[u8]) -> Vec<Bomb> {
    let once = encode(body);
    vec![
        (
            format!("{name} in gzip"),
            format!("{name}, gzip"),
            gzip(&once),
        ),
        (
            format!("{name} three times"),
            format!("{name}, {name}, {name}"),
            encode(&encode(&once)),
        ),
        (
            format!("{name} cut short"),
            name.to_owned(),
            once[..once.len() / 2].to_vec(),
        ),
        (
            format!("{name} and then nonsense"),
            name.to_owned(),
            [once.as_slice(), &[0xff; 4_096]].concat(),
        ),
        (
            format!("{name} of nonsense"),
            name.to_owned(),
            (0..=255).cycle().take(100_000).collect(),
        ),
        (name.to_owned(), name.to_owned(), once),
    ]
}

/// Returns bodies that declare more encodings than they have.
fn repeated(begin: &str) -> [Bomb; 2] {
    [4, 5_000].map(|count| {
        (
            format!("gzip {count} times"),
            vec!["gzip"; count].join(","),
            gzip(begin.as_bytes()),
        )
    })
}

/// Returns very many empty gzip members and zstd frames, and a frame that declares a window larger
/// than memory.
fn frames() -> Vec<Bomb> {
    let empty = gzip(b"");
    let frame = zstd(b"");
    let bomb = |name: &str, encoding: &str, bytes| (name.to_owned(), encoding.to_owned(), bytes);
    vec![
        bomb(
            "empty gzip members",
            "gzip",
            empty.repeat((200 << 10) / empty.len()),
        ),
        bomb(
            "empty gzip members in gzip",
            "gzip, gzip",
            gzip(&empty.repeat((16 << 20) / empty.len())),
        ),
        bomb(
            "empty zstd frames",
            "zstd",
            frame.repeat((200 << 10) / frame.len().max(1)),
        ),
        // A frame with a window of two terabytes.
        bomb(
            "a zstd window beyond memory",
            "zstd",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00],
        ),
        bomb(
            "skippable zstd frames",
            "zstd",
            [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(25_000),
        ),
    ]
}
