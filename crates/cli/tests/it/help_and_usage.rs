use crate::support::{program, run};

#[test]
fn help_and_version_go_to_stdout() {
    for arguments in [
        &["--help"][..],
        &["fetch", "--help"],
        &["limits", "--help"],
        &["limits", "show", "--help"],
        &["config", "--help"],
        &["config", "check", "--help"],
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains("Usage:"), "{arguments:?}");
    }
    assert!(run(&["--version"]).out.starts_with("docstokg 0."));
}

/// Wrong command lines, and a part of the sentence that each prints.
const WRONG_USAGE: &[(&[&str], &str)] = &[
    (&["fetch"], "required arguments"),
    (&["fetsh"], "similar subcommand"),
    (&["fetch", "not a url"], "is not a URL: it has no scheme"),
    (&["fetch", "ftp://a.example/"], "'ftp' is not http or https"),
    (
        &["fetch", "http://me:secret@a.example/"],
        "user name or password",
    ),
    (
        &["fetch", "http://a.example/", "--role", "metdata"],
        "unknown role 'metdata'",
    ),
    (
        &["fetch", "http://a.example/", "--method", "G E T"],
        "is not an HTTP method",
    ),
    (
        &[
            "fetch",
            "http://a.example/",
            "--connect-to",
            "a.example=1.2.3.4:5",
        ],
        "the port of the host is missing",
    ),
    (
        &["fetch", "http://a.example/", "--cacert", "/nonexistent.pem"],
        "/nonexistent.pem cannot be read",
    ),
    (
        &[
            "fetch",
            "http://a.example/",
            "--rate",
            "a.example:metadata=rates:10/FORTNIGHT",
        ],
        "the unit is not one of SECOND, MINUTE, HOUR, DAY",
    ),
    (
        &["fetch", "http://a.example/", "--rate-backend", "redis"],
        "redis needs a place",
    ),
    (
        &["fetch", "http://a.example/", "--rate-backend", "redsi"],
        "did you mean 'redis'",
    ),
    (
        &["breaker", "open", "a.example", "--seconds", "0"],
        "expected more than 0",
    ),
    (&["breaker", "show"], "this command has none"),
    (&["limits", "doctor"], "this command has none"),
    (&["limits", "show", "a b"], "is not a host name"),
    (
        &["--config", "/nonexistent.yaml", "config", "show"],
        "the file cannot be read",
    ),
    (
        &["--config", "/dev/zero", "config", "show"],
        "/dev/zero:1: the file cannot be read: it is larger than 4 MiB",
    ),
    (
        &["fetch", "http://a.example/", "--cacert", "/dev/zero"],
        "/dev/zero cannot be read: it is larger than 16 MiB",
    ),
];

#[test]
fn invalid_usage_exits_with_2_and_a_sentence() {
    for (arguments, sentence) in WRONG_USAGE {
        let ran = run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(
            ran.err.contains(sentence) && !ran.err.contains("secret"),
            "{arguments:?}: {}",
            ran.err
        );
        assert!(ran.out.is_empty(), "{arguments:?}");
    }
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_and_as_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bad.yaml");
    let config = "limits:\n  defaults:\n    \
                  metadata: { rates: ['10/FORTNIGHT'], max_delay_ms: -1 }\nbreaker: {}\n";
    std::fs::write(&path, config).expect("a file");
    let path = path.to_str().expect("text");
    let ran = run(&["config", "check", path]);
    assert_eq!(
        (
            ran.code,
            ran.err
                .lines()
                .filter(|line| line.starts_with("docstokg: "))
                .count()
        ),
        (2, 3),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .contains("bad.yaml:4: breaker: unknown key; did you mean 'breakers'?"),
        "{}",
        ran.err
    );
    let ran = run(&["config", "check", path, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(
        (ran.code, shown["problems"].as_array().map(Vec::len)),
        (2, Some(3))
    );
    let ran = run(&["--config", path, "fetch", "http://127.0.0.1:1/"]);
    assert_eq!(ran.code, 2, "nothing is sent with a broken configuration");
}

#[test]
fn the_shipped_configuration_is_valid() {
    let ran = run(&["config", "check"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "configuration OK\n"));
    let shown: serde_json::Value =
        serde_json::from_str(&run(&["config", "show"]).out).expect("JSON");
    assert_eq!(
        shown["limits"]["hosts"]["api.crossref.org"]["metadata"]["rates"][0],
        "10/SECOND"
    );
    let schema: serde_json::Value =
        serde_json::from_str(&run(&["config", "schema"]).out).expect("JSON");
    assert_eq!(schema["type"], "object");
}

#[test]
fn limits_show_the_source_of_each_value() {
    let ran = run(&[
        "limits",
        "show",
        "api.crossref.org",
        "--rate",
        "api.crossref.org:metadata=rates:25/SECOND",
    ]);
    let row = ran
        .out
        .lines()
        .find(|line| line.contains("metadata"))
        .expect("a row");
    for word in [
        "25/SECOND",
        "150",
        "false",
        "memory",
        "off",
        "--rate (rates)",
        "shipped (max_delay_ms, max_concurrent)",
        "default (count_head)",
    ] {
        assert!(row.contains(word), "{word} is not in {row}");
    }
    let shown: serde_json::Value =
        serde_json::from_str(&run(&["limits", "show", "--json"]).out).expect("JSON");
    assert!(shown["limits"].as_array().expect("rows").len() > 30);
    let ran = run(&["limits", "show", "api.crossref.org"]);
    assert!(ran.out.contains("3/SECOND (kind list)"), "{}", ran.out);
    let ran = run(&["limits", "show", "api.crossref.org", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let list = &shown["limits"][0]["kinds"]["list"];
    assert_eq!(list["rates"][0], "3/SECOND", "{shown}");
    assert_eq!(list["source"], "shipped", "{shown}");
}

#[test]
fn environment_variables_override_the_file() {
    let output = program()
        .args(["limits", "show", "api.crossref.org", "--json"])
        .env(
            "DOCSTOKG_RLIMIT__api_crossref_org__metadata",
            "rates:30/SECOND",
        )
        .output()
        .expect("the program");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(shown["limits"][0]["rates"][0], "30/SECOND");
    assert_eq!(
        shown["limits"][0]["sources"]["rates"],
        "$DOCSTOKG_RLIMIT__api_crossref_org__metadata"
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = program()
        .args(["limits", "show"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// What an error repeats of the command line does not steer the terminal either, however a control
/// character is spelt.
#[test]
fn control_characters_of_arguments_are_escaped() {
    let ran = run(&["breaker", "show", "--verbose", "\u{1b}[2J\u{9b}31m"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("unexpected argument")
            && !ran
                .err
                .contains(|letter: char| letter.is_control() && letter != '\n'),
        "{:?}",
        ran.err
    );
}

#[test]
fn a_list_that_cannot_be_read_to_its_end_is_no_success() {
    let directory = tempfile::tempdir().expect("a directory");
    let list = directory.path().join("list.txt");
    let out = directory.path().join("out");
    std::fs::write(&list, "[\"10.1000/a\", {\"doi\": \"10.1000/").expect("a list");
    let ran = run(&[
        "download",
        &list.display().to_string(),
        "--out",
        &out.display().to_string(),
        "--dry-run",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let sentence = "a bracket or quote of its JSON is not closed";
    assert!(ran.err.contains(sentence), "{}", ran.err);
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    let ran = program()
        .args(["config", "schema"])
        .stdout(full)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the output cannot be written: No space left on device"),
        "{said}"
    );
}
