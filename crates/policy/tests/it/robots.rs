use std::time::Duration;

use docstokg_policy::robots::{Robots, RobotsRuling};
use http::StatusCode;
use proptest::prelude::*;

fn allows(file: &str, agent: &str, path: &str) -> bool {
    Robots::parse(file.as_bytes()).allows(agent, path)
}

#[test]
fn the_longest_rule_decides_and_allowing_wins_a_tie() {
    let file = "User-agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n\
                    Disallow: /tie\nAllow: /tie\n";
    assert!(allows(file, "docstokg", "/example/page/one"));
    assert!(!allows(file, "docstokg", "/example/page/disallowed.gif"));
    assert!(allows(file, "docstokg", "/tie"));
    assert!(allows(file, "docstokg", "/elsewhere"));
}

#[test]
fn own_groups_are_joined_and_win_over_those_for_everybody() {
    let file = "User-Agent: *\nDisallow: /\n\nuser-agent: DocsToKG\nuser-agent: other\n\
                    Disallow: /a\nCrawl-delay: 1.5\n\nSitemap: https://x/y\nUser-agent: docstokg\n\
                    Disallow: /b\nCrawl-delay: 3\n";
    let robots = Robots::parse(file.as_bytes());
    for agent in ["docstokg", "DocsToKG/1.2 (+https://example.org)"] {
        assert!(
            robots.allows(agent, "/c")
                && !robots.allows(agent, "/a")
                && !robots.allows(agent, "/b/x")
        );
        assert_eq!(robots.crawl_delay(agent), Some(Duration::from_secs(3)));
    }
    assert!(!robots.allows("stranger", "/c"));
    assert!(
        !robots.allows("docstokgx", "/c"),
        "a token matches as a whole"
    );
    assert_eq!(robots.crawl_delay("stranger"), None);
}

#[test]
fn stars_and_dollars_match_as_the_rfc_says() {
    let file = "User-agent: *\nDisallow: /*.pdf$\nDisallow: /private*/x\nDisallow: /q?*id=\n\
                    Disallow: /lit%2A\n";
    assert!(!allows(file, "a", "/p/one.pdf"));
    assert!(allows(file, "a", "/p/one.pdf?download"));
    assert!(!allows(file, "a", "/private-things/x/y"));
    assert!(!allows(file, "a", "/q?a=1&id=2"));
    assert!(allows(file, "a", "/q?a=1"));
    assert!(
        !allows(file, "a", "/lit%2A") && !allows(file, "a", "/lit*") && allows(file, "a", "/litx")
    );
    assert!(
        !allows("User-agent: *\nDisallow: /a$b\n", "a", "/a$b")
            && !allows("User-agent: *\nDisallow: /a%24\n", "a", "/a$b")
    );
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
    let file = "\u{feff}Disallow: /lost\r# comment\rUser-agent : *   # all\r\r\
                    Disallow: /a # why\rDisallow:\rNonsense\rAllow /x\r";
    assert!(!allows(file, "x", "/a") && allows(file, "x", "/lost") && allows(file, "x", "/x"));
    assert!(allows("User-agent: *\nDisallow: /\n", "x", "/robots.txt"));
    assert!(allows("", "x", "/a"));
    assert!(
        !allows("User-agent: *\nDisallow: secret\n", "x", "/secret"),
        "a missing slash is meant"
    );
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
    let ruling = |code: u16| RobotsRuling::from_status(StatusCode::from_u16(code).ok());
    assert_eq!(
        (ruling(200), ruling(404), ruling(403)),
        (
            RobotsRuling::Parse,
            RobotsRuling::AllowAll,
            RobotsRuling::AllowAll
        )
    );
    assert_eq!(
        (ruling(503), ruling(429), RobotsRuling::from_status(None)),
        (
            RobotsRuling::DisallowForNow,
            RobotsRuling::DisallowForNow,
            RobotsRuling::DisallowForNow
        )
    );
}

#[test]
fn a_name_with_stars_is_a_name() {
    let file = "User-agent: *WordPress*\nDisallow: /\n\nUser-agent: * # everybody\nDisallow: /a\n";
    assert!(allows(file, "docstokg", "/b") && !allows(file, "docstokg", "/a"));
    assert!(
        !allows(
            "User-agent: * and all others\nDisallow: /a\n",
            "docstokg",
            "/a"
        ),
        "a star and a word is a star"
    );
    assert!(!allows(
        "User-agent: docstokg/2.0\nDisallow: /a\n",
        "docstokg",
        "/a"
    ));
}

#[test]
fn what_people_write_instead_is_read_as_crawlers_do() {
    for file in [
        "User Agent: *\nDisallow: /a\n",
        "useragent: *\nDisallow: /a\n",
        "User-agent *\nDisallow /a\n",
        "User-agent\t*\nDisallow:\t/a\n",
        "User-agent: *\nDissallow: /a\n",
        "User-agent: *\nDisalow: /a\n",
    ] {
        assert!(
            !allows(file, "docstokg", "/a") && allows(file, "docstokg", "/b"),
            "{file}"
        );
    }
    // Three words without a colon are no line.
    assert!(allows(
        "User-agent: *\nDisallow /a for all\n",
        "docstokg",
        "/a"
    ));
}

#[test]
fn lines_that_are_no_rules_do_not_end_a_row_of_names() {
    let file = "User-agent: one\nSitemap: https://x.example/s.xml\nNoindex: /n\n\n\
                    User-agent: docstokg\nCrawl-delay: 4\nUser-agent: two\nDisallow: /a\n";
    let robots = Robots::parse(file.as_bytes());
    assert!(
        ["one", "docstokg", "two"]
            .iter()
            .all(|agent| !robots.allows(agent, "/a"))
    );
    assert_eq!(robots.crawl_delay("docstokg"), Some(Duration::from_secs(4)));
    assert_eq!(
        robots.crawl_delay("two"),
        None,
        "it was named below the delay"
    );
}

#[test]
fn rule_for_the_index_page_applies_to_its_directory() {
    let file = "User-agent: *\nDisallow: /\nAllow: /x/index.html\n";
    assert!(allows(file, "docstokg", "/x/") && allows(file, "docstokg", "/x/index.html"));
    assert!(!allows(file, "docstokg", "/x/y") && !allows(file, "docstokg", "/"));
    assert!(
        allows(
            "User-agent: *\nDisallow: /x/index.html\n",
            "docstokg",
            "/x/"
        ),
        "forbidding the index forbids no more"
    );
}

/// Where we are stricter than Google's parser, and why.
#[test]
fn differences_to_google_s_parser_are_on_the_strict_side() {
    // A path without its slash: Google's rule matches nothing; the site meant the path.
    assert!(!allows(
        "User-agent: *\nDisallow: secret\n",
        "docstokg",
        "/secret"
    ));
    // A crawl delay: Google ignores it; sites mean it.
    assert_eq!(
        Robots::parse(b"User-agent: *\nCrawl-delay: 2\n").crawl_delay("docstokg"),
        Some(Duration::from_secs(2))
    );
    // Needless escapes: Google compares them as they stand; RFC 9309 section 2.2.2 compares octets.
    assert!(!allows(
        "User-agent: *\nDisallow: /%7euser\n",
        "docstokg",
        "/~user"
    ));
}

proptest! {
    #[test]
    fn robots_parse_reads_any_bytes_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), path in ".{0,30}") {
        let robots = Robots::parse(&bytes);
        let _ = (robots.allows("docstokg", &path), robots.crawl_delay("docstokg"));
    }

    #[test]
    fn robots_allows_matches_any_rule_without_a_panic(
        lines in proptest::collection::vec(
            "(user-agent|allow|disallow|crawl-delay): [*$/a-z0-9%.\u{e9}-]{0,8}",
            0..12,
        ),
        path in "/[a-z%*$]{0,8}",
    ) {
        let robots = Robots::parse(lines.join("\n").as_bytes());
        let _ = (robots.allows("a", &path), robots.crawl_delay("a"));
    }
}
