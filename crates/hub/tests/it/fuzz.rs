//! Headers that others wrote, changed at random, through the whole hub: every request ends with an
//! answer or a sentence.

use std::sync::Arc;

use docstokg_hub::CookieJar;
use docstokg_origin_sim::hostile::mutated;
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use proptest::prelude::*;

use crate::parsers::read_configuration;
use crate::support::{HubWorld, config, get, rates};

const HEADERS: [(&str, &str); 16] = [
    ("retry-after", "120"),
    ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"),
    ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
    ("content-range", "bytes 0-499/1234"),
    ("content-encoding", "gzip, br"),
    ("content-type", "text/html; charset=\"utf-8\""),
    (
        "content-disposition",
        "attachment; filename=\"a.pdf\"; filename*=UTF-8''b%20c.pdf",
    ),
    (
        "set-cookie",
        "id=a3fWa; Expires=Thu, 21 Oct 2099 07:28:00 GMT; Domain=a.example; Secure; HttpOnly; \
         SameSite=Lax",
    ),
    ("location", "https://a.example:8080/b/../c?d=%20#e"),
    (
        "cache-control",
        "max-age=604800, stale-while-revalidate=86400, private=\"set-cookie\"",
    ),
    ("etag", "W/\"0815\""),
    ("last-modified", "Sunday, 06-Nov-94 08:49:37 GMT"),
    ("x-ratelimit-remaining", "0"),
    ("x-ratelimit-reset", "1700000000"),
    ("ratelimit", "\"default\";r=50;t=30"),
    ("link", "<https://a.example/?page=2>; rel=\"next\""),
];

proptest! {
    #[test]
    fn any_headers_of_an_answer_are_read_or_ignored(
        status in prop::sample::select(vec![200_u16, 206, 301, 304, 403, 416, 429, 503]),
        picked in proptest::collection::vec((0..HEADERS.len(), any::<u64>()), 1..6),
        is_with_cookies in any::<bool>(),
    ) {
        let reply = picked.iter().fold(ScriptedReply::status(status).body("body"), |reply, (which, seed)| {
            let (name, value) = HEADERS[*which];
            reply.header(name, &String::from_utf8_lossy(&mutated(*seed, value.as_bytes())))
        });
        let origin = OriginScript::new("a.example").handler(move |_, _| reply.clone());
        let world = HubWorld::new([origin], config(rates(&["a.example:metadata=rates:1000/SECOND"])));
        let request = get("http://a.example/");
        let request = request.deadline(std::time::Duration::from_secs(60));
        let request = if is_with_cookies {
            request.cookies(Arc::new(CookieJar::new()))
        } else {
            request
        };
        let ended = world.run(move |hub| async move {
            hub.fetch(request).await.map(|answer| answer.head.status)
        });
        if let Err(error) = ended {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_configuration_file_is_read_or_refused_with_every_problem(
        file in prop_oneof![
            Just(include_str!("../../data/shipped.yaml")),
            Just(
                "version: 1\n\
                 limits: { hosts: { a.example: { metadata: { rates: [\"1/SECOND\"] } } } }\n"
            ),
            Just(
                "breakers: { defaults: { fail_max: 5, reset_timeout_s: 60 } }\n\
                 sites: { a: { hosts: [b] } }\n"
            ),
        ],
        seed in any::<u64>(),
    ) {
        read_configuration(&mutated(seed, file.as_bytes()));
    }
}
