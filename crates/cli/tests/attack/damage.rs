//! Files of state and output that are damaged, a disk that is full, symbolic links where files
//! should be, kills.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::download_world::{DownloadWorld, pdf};
use crate::header_fields::{HOST, config};
use crate::measured::{Ended, PATIENCE, measure};
use crate::response_forms::{alone, conclude, is_full, some};
use crate::snapshot::Snapshot;

/// A world with a finished run, copies of which are damaged.
struct Scene {
    world: DownloadWorld,
}

impl Scene {
    fn finished(backend: &str) -> Self {
        let origin = OriginScript::new(HOST).handler(|arrival, _| {
            if arrival.path == "/robots.txt" {
                ScriptedReply::status(404)
            } else {
                pdf(&arrival.path)
            }
        });
        let world = DownloadWorld::start(vec![origin], vec![HOST.to_owned()], &config());
        let urls = |range: std::ops::Range<usize>| {
            range
                .map(|n| format!("http://a.example/{n}.pdf"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        std::fs::write(world.path("first.txt"), urls(0..4)).expect("a file");
        std::fs::write(world.path("second.txt"), urls(0..8)).expect("a file");
        for name in ["canary", "streams"] {
            std::fs::create_dir(world.path(name)).expect("a directory");
        }
        std::fs::write(world.path("canary/kept.txt"), "as it was").expect("a file");
        let scene = Self { world };
        let ended = measure(
            &mut scene.command("first.txt", "good", backend),
            &scene.world.path("streams"),
            PATIENCE,
        );
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        scene
    }

    /// Downloads a list into `NAME/out`, with state in `NAME/state`.
    fn command(&self, list: &str, name: &str, backend: &str) -> Command {
        let (list, out) = (
            self.world.path(list).display().to_string(),
            self.world.path(name).join("out").display().to_string(),
        );
        let mut command = self.world.command(&[
            &list,
            "--out",
            &out,
            "--max-wait",
            "0",
            "--quiet",
            "--rate-backend",
            backend,
        ]);
        std::fs::create_dir_all(self.world.path(name)).expect("a directory");
        command.env("DOCSTOKG_STATE_DIR", self.world.path(name).join("state"));
        command
    }

    /// Copies the finished run to another name.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.world.path(name);
        let status = Command::new("cp")
            .args(["-a", "--"])
            .arg(self.world.path("good"))
            .arg(&copy)
            .status();
        assert!(status.expect("cp").success());
        copy
    }

    /// Runs, and names what was wrong: with the run, or with what is none of its business.
    fn judge(&self, command: &mut Command, what: &str) -> (Ended, Vec<String>) {
        let before = Snapshot::of(&self.world.path("canary"));
        let ended = measure(command, &self.world.path("streams"), PATIENCE);
        let mut problems = [ended.problems(), before.changes(&self.world.path("canary"))].concat();
        if ended.code != Some(0) && ended.err.trim().is_empty() {
            problems.push(format!("it ended with {:?} and said nothing", ended.code));
        }
        (
            ended,
            problems
                .into_iter()
                .map(|problem| format!("{what}: {problem}"))
                .collect(),
        )
    }
}

/// Lists all files under a directory, as paths within it.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).expect("within").to_owned());
            }
        }
    }
    found.sort();
    found
}

type Damage = fn(&Path, &Path);

/// What happens to a file; the second path is the canary's.
const DAMAGES: [(&str, Damage); 8] = [
    ("emptied", |file, _| {
        std::fs::write(file, "").expect("a file");
    }),
    ("cut in half", |file, _| {
        let bytes = std::fs::read(file).expect("a file");
        std::fs::write(file, &bytes[..bytes.len() / 2]).expect("a file");
    }),
    ("cut by a byte", |file, _| {
        let bytes = std::fs::read(file).expect("a file");
        std::fs::write(file, &bytes[..bytes.len().saturating_sub(1)]).expect("a file");
    }),
    ("filled with nonsense", |file, _| {
        let length = std::fs::metadata(file).expect("a file").len();
        let mut random = fastrand::Rng::with_seed(length);
        std::fs::write(file, (0..length).map(|_| random.u8(..)).collect::<Vec<_>>())
            .expect("a file");
    }),
    ("damaged here and there", |file, _| {
        let mut bytes = std::fs::read(file).expect("a file");
        let mut random = fastrand::Rng::with_seed(bytes.len() as u64);
        for _ in 0..bytes.len() / 64 {
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
        }
        std::fs::write(file, bytes).expect("a file");
    }),
    ("grown by zeroes", |file, _| {
        let length = std::fs::metadata(file).expect("a file").len();
        std::fs::OpenOptions::new()
            .write(true)
            .open(file)
            .and_then(|file| file.set_len(length + (4 << 20)))
            .expect("a file");
    }),
    ("a directory", |file, _| {
        std::fs::remove_file(file).expect("a file");
        std::fs::create_dir(file).expect("a directory");
    }),
    ("a link to another file", |file, canary| {
        std::fs::remove_file(file).expect("a file");
        symlink(canary.join("kept.txt"), file).expect("a link");
    }),
];

#[test]
fn damaged_file_is_reported_in_a_sentence() {
    let _turn = alone();
    let (mut problems, mut most, mut cases) = (Vec::new(), 0, 0);
    for backend in ["sqlite", "multiprocess"] {
        let scene = Scene::finished(backend);
        let files = files(&scene.world.path("good"))
            .into_iter()
            .filter(|file| !file.starts_with("out/pdf"));
        let pairs: Vec<(PathBuf, &(&str, Damage))> = files
            .flat_map(|file| DAMAGES.iter().map(move |damage| (file.clone(), damage)))
            .collect();
        for (number, (file, (name, damage))) in some(pairs, 10).into_iter().enumerate() {
            let copy = scene.copy(&format!("copy-{number}"));
            damage(&copy.join(&file), &scene.world.path("canary"));
            let what = format!("{backend}, {} {name}", file.display());
            let (ended, wrong) = scene.judge(
                &mut scene.command("second.txt", &format!("copy-{number}"), backend),
                &what,
            );
            problems.extend(wrong);
            (most, cases) = (most.max(ended.peak), cases + 1);
            std::fs::remove_dir_all(copy).expect("a directory");
        }
    }
    conclude(
        "damaged files",
        cases,
        &format!("{} MiB", most >> 20),
        &problems,
    );
}

/// The same command with a limit of the size of files.
fn with_file_size_limit(inner: &Command, size: u64) -> Command {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--fsize={size}"))
        .arg(inner.get_program())
        .args(inner.get_args());
    for (variable, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command
}

/// A limit of the file size: the signal is an ordinary error, and the run continues without it.
#[test]
fn full_disk_is_reported_and_the_run_is_resumed() {
    let _turn = alone();
    let scene = Scene::finished("sqlite");
    let (mut problems, mut most) = (Vec::new(), 0);
    let sizes = some(
        vec![
            0_u64,
            1,
            100,
            1 << 10,
            2 << 10,
            4 << 10,
            16 << 10,
            64 << 10,
            128 << 10,
            256 << 10,
            1 << 20,
        ],
        4,
    );
    let cases = sizes.len();
    for size in sizes {
        let name = format!("full-{size}");
        let inner = scene.command("second.txt", &name, "sqlite");
        let mut command = with_file_size_limit(&inner, size);
        // Its streams are files as well: a message that could not be written is not judged.
        let before = Snapshot::of(&scene.world.path("canary"));
        let ended = measure(&mut command, &scene.world.path("streams"), PATIENCE);
        problems.extend(
            ended
                .problems()
                .into_iter()
                .chain(before.changes(&scene.world.path("canary")))
                .map(|wrong| format!("{size} bytes: {wrong}")),
        );
        most = most.max(ended.peak);
        let (again, wrong) = scene.judge(
            &mut scene.command("second.txt", &name, "sqlite"),
            &format!("after {size} bytes"),
        );
        problems.extend(wrong);
        if again.code != Some(0) {
            problems.push(format!(
                "after {size} bytes it cannot continue: {:?} {}",
                again.code, again.err
            ));
        }
    }
    conclude(
        "full disk",
        cases,
        &format!("{} MiB", most >> 20),
        &problems,
    );
}

/// Links where directories and files of the run should be: what they lead to stays as it is.
#[test]
fn links_in_place_of_output_files_leave_their_targets_unchanged() {
    let _turn = alone();
    let scene = Scene::finished("sqlite");
    let canary = scene.world.path("canary");
    let names = [
        "out/pdf",
        "out/.docstokg",
        "out/other",
        "out/sha256",
        "out/manifest.jsonl",
        "out/manifest.sqlite3",
        "out/manifest.sqlite3-wal",
        "out/manifest.summary.json",
        "out/report.html",
        "out/missing.csv",
        "out/downloaded.csl.json",
        "state/telemetry.sqlite3",
        "state/state.sqlite",
        "state/state.lock",
        "state/state.peers",
    ];
    let (mut problems, mut cases) = (Vec::new(), 0);
    for (number, name) in some(names.to_vec(), 4).into_iter().enumerate() {
        let targets = [
            ("", true),
            ("kept.txt", true),
            ("kept.txt", false),
            ("not-there", true),
            ("not-there", false),
        ];
        for (target, is_new) in targets {
            let run = format!("links-{number}-{target}-{is_new}");
            if is_new {
                for part in ["out", "state"] {
                    std::fs::create_dir_all(scene.world.path(&run).join(part))
                        .expect("a directory");
                }
            } else {
                scene.copy(&run);
            }
            let link = scene.world.path(&run).join(name);
            let _ = std::fs::remove_file(&link);
            if symlink(canary.join(target), &link).is_err() {
                continue;
            }
            cases += 1;
            let (_, wrong) = scene.judge(
                &mut scene.command("second.txt", &run, "sqlite"),
                &format!("{name} leads to canary/{target}"),
            );
            problems.extend(wrong);
        }
    }
    conclude("symbolic links", cases, "", &problems);
}

/// Killed in the middle of anything, with files damaged by it or not, a run is continued to its
/// end.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a real process is killed after a real time"
)]
fn killed_runs_are_continued() {
    let _turn = alone();
    let scene = Scene::finished("sqlite");
    let mut random = fastrand::Rng::with_seed(15);
    let (mut problems, cases) = (Vec::new(), if is_full() { 60 } else { 6 });
    for number in 0..cases {
        let (name, backend) = (
            format!("kill-{}", number / 3),
            ["sqlite", "multiprocess"][number % 2],
        );
        let mut child = scene
            .command("second.txt", &name, backend)
            .spawn()
            .expect("the program");
        std::thread::sleep(Duration::from_millis(random.u64(1..250)));
        child.kill().expect("it is ours");
        child.wait().expect("its end");
        if number % 3 == 2 {
            let (ended, wrong) = scene.judge(
                &mut scene.command("second.txt", &name, backend),
                &format!("after kill {number}"),
            );
            problems.extend(wrong);
            let files = std::fs::read_dir(scene.world.path(&name).join("out/pdf"))
                .into_iter()
                .flatten()
                .count();
            if (ended.code, files) != (Some(0), 8) {
                problems.push(format!(
                    "after kill {number}: {:?}, {files} files; {}",
                    ended.code, ended.err
                ));
            }
        }
    }
    conclude("kills", cases, "", &problems);
}
