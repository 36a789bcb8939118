//! Responses with malformed headers, and otherwise correct with a paper as the body.

use super::Attack;
use crate::pdf;
use crate::reply::{Piece, ScriptedReply};

/// Malformed and extreme values of `Retry-After`.
const WAITS: [&str; 14] = [
    "-1",
    "0",
    "1e309",
    "99999999999999999999999999",
    "9223372036854775807",
    "NaN",
    "",
    "\t",
    "1,2,3",
    "Fri, 31 Feb 2099 25:61:61 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Sun, 06 Nov 9999999 08:49:37 GMT",
    "\u{fc}\u{fc}",
    "0x10",
];

/// The faults of header lines: a name, and the lines that follow the status line.
const LINES: [(&str, &str); 34] = [
    (
        "lengths that differ",
        "content-length: 5\r\ncontent-length: 6",
    ),
    ("lengths in one line", "content-length: 5, 6"),
    ("a negative length", "content-length: -5"),
    ("a signed length", "content-length: +5"),
    (
        "a length beyond numbers",
        "content-length: 99999999999999999999999999",
    ),
    (
        "a length of everything",
        "content-length: 18446744073709551615",
    ),
    ("a length in words", "content-length: five"),
    (
        "length and chunks",
        "content-length: 5\r\ntransfer-encoding: chunked",
    ),
    (
        "chunks of another kind",
        "transfer-encoding: identity, chunked, gzip",
    ),
    (
        "a range that was not requested",
        "content-range: bytes 5-1/0",
    ),
    (
        "a range beyond numbers",
        "content-range: bytes 0-99999999999999999999/1",
    ),
    ("a range of nothing", "content-range: \u{1}"),
    (
        "dates of nonsense",
        "date: yesterday\r\nlast-modified: Sun, 99 Foo -1\r\n\
         expires: -1\r\nage: -99999999999999999999",
    ),
    (
        "cache rules of nonsense",
        "cache-control: max-age=99999999999999999999, max-age=-1, =, \"\r\n\
         vary: *, *\r\netag: W/\"\u{1}",
    ),
    (
        "rates of nonsense",
        "x-ratelimit-limit: -1\r\nx-ratelimit-remaining: 1e400\r\nx-ratelimit-reset: NaN\r\n\
         ratelimit: \"a\";r=-1;t=9e99",
    ),
    (
        "rate intervals of nonsense",
        "x-rate-limit-limit: 0\r\nx-rate-limit-interval: 0s\r\nratelimit-policy: \"x\";q=0;w=0",
    ),
    (
        "a cookie for all",
        "set-cookie: a=b; domain=com; path=/\r\nset-cookie: __Host-a=b; domain=attack.example",
    ),
    (
        "cookies of nonsense",
        "set-cookie: \r\nset-cookie: ;;;=\r\n\
         set-cookie: a=b; max-age=99999999999999999999; expires=never\r\n\
         set-cookie: \u{7f}=\u{80}",
    ),
    (
        "a place with line ends",
        "location: http://a.example/\u{b}x\u{c}\u{1b}[2J",
    ),
    ("a place of another kind", "location: file:///etc/passwd"),
    ("a place without a host", "location: http://"),
    (
        "a place with a port beyond ports",
        "location: http://a.example:99999/",
    ),
    (
        "a place that is data",
        "location: data:application/pdf;base64,JVBERi0=",
    ),
    (
        "a place with a credential",
        "location: http://user:PLANTED-in-location@127.0.0.1:1/",
    ),
    (
        "a link to nowhere",
        "link: <>; rel=\"item\"; type=\"application/pdf\", <<<>>>; rel=, ;;;,,,",
    ),
    (
        "a name outside",
        "content-disposition: attachment; filename=\"../../../../canary/overwritten.pdf\"",
    ),
    (
        "another name outside",
        "content-disposition: attachment; filename*=UTF-8''..%2f..%2fcanary%2foverwritten.pdf",
    ),
    (
        "an absolute name",
        "content-disposition: attachment; filename=\"/tmp/docstokg-overwritten.pdf\"",
    ),
    (
        "a kind of nonsense",
        "content-type: ;;;/\u{1}; charset=\"\\",
    ),
    (
        "an alphabet of nonsense",
        "content-type: text/html; charset=utf-7; charset=\u{ff}",
    ),
    ("a refresh", "refresh: 0;url=http://127.0.0.1:1/"),
    (
        "hop-by-hop fields",
        "connection: content-length, close, upgrade\r\nupgrade: h2c\r\n\
         proxy-authenticate: Basic realm=\"\"",
    ),
    (
        "a demand for credentials",
        "www-authenticate: Basic realm=\"\u{1}\", Digest =, ,,,",
    ),
    (
        "an alternative",
        "alt-svc: h3=\":1\"; ma=99999999999999999999",
    ),
];

/// Malformed status lines.
const STATUS_LINES: [&str; 10] = [
    "HTTP/1.1 999 ?",
    "HTTP/1.1 000 ?",
    "HTTP/1.1 99999 ?",
    "HTTP/9.9 200 OK",
    "ICY 200 OK",
    "HTTP/1.1",
    "",
    "\0\0\0\0",
    "HTTP/1.1 200 \u{1b}[2J",
    "HTTP/1.1 -200 OK",
];

fn answer(status_line: &str, lines: &str) -> Vec<Piece> {
    let head = format!("{status_line}\r\n{lines}\r\nconnection: close\r\n\r\n");
    let paper = pdf::carrying(&[b' '; 1_500]);
    vec![Piece::Bytes([head.into_bytes(), paper].concat().into())]
}

/// Creates the responses with malformed headers.
#[must_use]
pub fn odd_headers() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for wait in WAITS {
        for status in [429_u16, 503] {
            let head = format!("HTTP/1.1 {status} Later");
            attacks.push(Attack::new(
                format!("{status}, retry-after: {wait:?}"),
                ScriptedReply::verbatim(status, answer(&head, &format!("retry-after: {wait}"))),
            ));
        }
    }
    for (name, lines) in LINES {
        for status in [200_u16, 206, 302] {
            let head = format!("HTTP/1.1 {status} OK");
            attacks.push(Attack::new(
                format!("{status}, {name}"),
                ScriptedReply::verbatim(status, answer(&head, lines)),
            ));
        }
    }
    for line in STATUS_LINES {
        attacks.push(Attack::new(
            format!("status line {line:?}"),
            ScriptedReply::verbatim(200, answer(line, "x-a: b")),
        ));
    }
    for (name, lines) in large_headers() {
        let status = if name.starts_with("a place") {
            302
        } else {
            200
        };
        attacks.push(Attack::new(
            name,
            ScriptedReply::verbatim(status, answer(&format!("HTTP/1.1 {status} OK"), &lines)),
        ));
    }
    attacks
}

/// Returns very many headers, and very long headers.
fn large_headers() -> [(&'static str, String); 5] {
    let many = |text: fn(usize) -> String| (0..400).map(text).collect::<Vec<_>>().join("\r\n");
    [
        (
            "many cookies",
            many(|n| format!("set-cookie: c{n}={}; path=/{n}", "v".repeat(50))),
        ),
        ("many headers", many(|n| format!("x-{n}: {n}"))),
        (
            "a link of 60 KiB",
            format!(
                "link: {}",
                "<http://a.example/x.pdf>; rel=item; type=application/pdf, ".repeat(1_000)
            ),
        ),
        (
            "a cookie of 60 KiB",
            format!("set-cookie: a={}", "b".repeat(60_000)),
        ),
        (
            "a place of 60 KiB",
            format!("location: /{}", "a/../".repeat(12_000)),
        ),
    ]
}
