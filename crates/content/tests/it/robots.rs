use std::time::Duration;

use docstokg_content::robots::{Robots, Ruling};
use http::StatusCode;
use proptest::prelude::*;

fn allows(file: &str, agent: &str, path: &str) -> bool {
    Robots::parse(file.as_bytes()).allows(agent, path)
}

#[test]
fn the_longest_rule_decides_and_allowing_wins_a_tie() {
    let file = "User-agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\nDisallow: /tie\nAllow: /tie\n";
    assert!(allows(file, "docstokg", "/example/page/one"));
    assert!(!allows(file, "docstokg", "/example/page/disallowed.gif"));
    assert!(allows(file, "docstokg", "/tie"));
    assert!(allows(file, "docstokg", "/elsewhere"));
}

#[test]
fn own_groups_are_joined_and_win_over_those_for_everybody() {
    let file = "User-Agent: *\nDisallow: /\n\nuser-agent: DocsToKG\nuser-agent: other\nDisallow: /a\nCrawl-delay: 1.5\n\nSitemap: https://x/y\nUser-agent: docstokg\nDisallow: /b\nCrawl-delay: 3\n";
    let robots = Robots::parse(file.as_bytes());
    for agent in ["docstokg", "DocsToKG/1.2 (+https://example.org)"] {
        assert!(robots.allows(agent, "/c") && !robots.allows(agent, "/a") && !robots.allows(agent, "/b/x"));
        assert_eq!(robots.crawl_delay(agent), Some(Duration::from_secs(3)));
    }
    assert!(!robots.allows("stranger", "/c"));
    assert!(!robots.allows("docstokgx", "/c"), "a token matches as a whole");
    assert_eq!(robots.crawl_delay("stranger"), None);
}

#[test]
fn stars_and_dollars_match_as_the_rfc_says() {
    let file = "User-agent: *\nDisallow: /*.pdf$\nDisallow: /private*/x\nDisallow: /q?*id=\nDisallow: /lit%2A\n";
    assert!(!allows(file, "a", "/p/one.pdf"));
    assert!(allows(file, "a", "/p/one.pdf?download"));
    assert!(!allows(file, "a", "/private-things/x/y"));
    assert!(!allows(file, "a", "/q?a=1&id=2"));
    assert!(allows(file, "a", "/q?a=1"));
    assert!(!allows(file, "a", "/lit%2A") && !allows(file, "a", "/lit*") && allows(file, "a", "/litx"));
    assert!(!allows("User-agent: *\nDisallow: /a$b\n", "a", "/a$b") && !allows("User-agent: *\nDisallow: /a%24\n", "a", "/a$b"));
}

#[test]
fn escapes_are_compared_in_one_form() {
    let file = "User-agent: *\nDisallow: /foo/bar/\u{30c4}\nDisallow: /%7euser\nDisallow: /a%3cd\n";
    assert!(!allows(file, "a", "/foo/bar/%E3%83%84"));
    assert!(!allows(file, "a", "/~user/x"));
    assert!(!allows(file, "a", "/a%3Cd"));
}

#[test]
fn old_line_ends_marks_comments_and_rules_before_any_group_are_coped_with() {
    let file = "\u{feff}Disallow: /lost\r# comment\rUser-agent : *   # all\r\rDisallow: /a # why\rDisallow:\rNonsense\rAllow /x\r";
    assert!(!allows(file, "x", "/a") && allows(file, "x", "/lost") && allows(file, "x", "/x"));
    assert!(allows("User-agent: *\nDisallow: /\n", "x", "/robots.txt"));
    assert!(allows("", "x", "/a"));
    assert!(!allows("User-agent: *\nDisallow: secret\n", "x", "/secret"), "a missing slash is meant");
}

#[test]
fn a_file_of_half_a_megabyte_is_read_to_its_end() {
    let mut file = String::from("User-agent: *\n");
    while file.len() < 500 * 1024 {
        file.push_str("Disallow: /filler/filler/filler\n");
    }
    file.push_str("Disallow: /last\n");
    assert!(!allows(&file, "x", "/last"));
}

#[test]
fn the_status_rules_before_the_file_does() {
    let ruling = |code: u16| Ruling::from_status(StatusCode::from_u16(code).ok());
    assert_eq!((ruling(200), ruling(404), ruling(403)), (Ruling::Parse, Ruling::AllowAll, Ruling::AllowAll));
    assert_eq!((ruling(503), ruling(429), Ruling::from_status(None)), (Ruling::DisallowForNow, Ruling::DisallowForNow, Ruling::DisallowForNow));
}

proptest! {
    #[test]
    fn no_file_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), path in ".{0,30}") {
        let robots = Robots::parse(&bytes);
        let _ = (robots.allows("docstokg", &path), robots.crawl_delay("docstokg"));
    }

    #[test]
    fn no_rules_panic(lines in proptest::collection::vec("(user-agent|allow|disallow|crawl-delay): [*$/a-z0-9%.\u{e9}-]{0,8}", 0..12), path in "/[a-z%*$]{0,8}") {
        let robots = Robots::parse(lines.join("\n").as_bytes());
        let _ = (robots.allows("a", &path), robots.crawl_delay("a"));
    }
}
