//! Where lists come from: pipes, directories, devices, and lists without a work.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::download_world::{DownloadWorld, text};

fn said(ran: &Output) -> String {
    text(&ran.stderr)
}

/// Runs the command of a world in a shell, with its arguments as `"$@"`.
fn in_shell(world: &DownloadWorld, arguments: &[&str], script: &str) -> Output {
    let command = world.command(arguments);
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script, "bash"])
        .arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null()).output().expect("bash")
}

#[test]
fn pipes_and_process_substitutions_are_lists() {
    let world = DownloadWorld::plain();
    let list = "http://a.example/1.pdf\\nhttp://a.example/2.pdf\\n";
    let ran = in_shell(&world, &["--json"], &format!("\"$@\" <(printf '{list}')"));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    assert_eq!(report["saved"], 2, "{}", said(&ran));
    let fifo = world.path("list.fifo");
    let script = format!(
        "mkfifo {0}; printf '{1}' > {0} & \"$@\" {0}",
        fifo.display(),
        list.replace(".pdf", "b.pdf")
    );
    let ran = in_shell(&world, &["--json"], &script);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    assert_eq!(report["saved"], 4, "{}", said(&ran));
}

#[test]
fn what_is_not_a_list_has_a_sentence_of_its_own() {
    let world = DownloadWorld::plain();
    let directory = world.path("lists");
    std::fs::create_dir(&directory).expect("a directory");
    let directory = directory.display().to_string();
    for (input, sentence) in [
        (
            directory.as_str(),
            format!("'{directory}' is a directory: give the files in it"),
        ),
        (
            "/dev/null",
            "'/dev/null' is a device and not a list of works".to_owned(),
        ),
        (
            "works.txt",
            "there is no file 'works.txt', and it is not a DOI".to_owned(),
        ),
        (
            "123",
            "there is no file '123', and it is a bare number; write pmid:123".to_owned(),
        ),
    ] {
        let ran = world.run(&[input]);
        assert_eq!(ran.status.code(), Some(2), "{input}: {}", said(&ran));
        assert!(said(&ran).contains(&sentence), "{input}: {}", said(&ran));
    }
}

#[test]
fn an_empty_list_is_an_error() {
    let world = DownloadWorld::plain();
    let list = world.path("empty.txt");
    std::fs::write(&list, "# nothing yet\n\n").expect("a list");
    let path = list.to_str().expect("a path");
    for arguments in [vec![path], vec!["-"], vec![path, "--dry-run"]] {
        let ran = in_shell(&world, &arguments, "\"$@\"");
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {}", said(&ran));
        assert!(
            said(&ran).contains("the inputs are empty: they name no work"),
            "{}",
            said(&ran)
        );
    }
    assert!(!world.path("out").exists(), "nothing was begun");
    // Beside other inputs it is reported, and the others are downloaded.
    let ran = world.run(&[path, "http://a.example/1.pdf"]);
    assert!(
        said(&ran).contains("the list is empty: it names no work"),
        "{}",
        said(&ran)
    );
    assert!(world.path("out").exists());
}

#[test]
fn versions_of_an_arxiv_work_are_works_of_their_own() {
    let world = DownloadWorld::plain();
    let ran = world.run(&[
        "2101.00001",
        "arXiv:2101.00001v2",
        "2101.00001v2",
        "--dry-run",
    ]);
    assert!(
        said(&ran).contains("dry run: 2 works, 1 repeated in the list"),
        "{}",
        said(&ran)
    );
}
