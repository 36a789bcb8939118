//! A run of the program: how it ended, and what it cost.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, SystemClock};

/// How long a run may take: only what hangs takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The most memory that any run may take.
pub(crate) const MOST_MEMORY: u64 = 256 << 20;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// The most memory it held, in bytes.
    pub(crate) peak: u64,
    /// The processor time it took.
    pub(crate) cpu: Duration,
    pub(crate) began: BootInstant,
    pub(crate) took: Duration,
    /// It was ended because it took too long.
    pub(crate) is_overdue: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Names what no run may do, whatever it met.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.is_overdue {
            problems.push(format!("it did not end within {:?}", self.took));
        } else if let Some(signal) = self.signal {
            problems.push(format!("signal {signal} ended it"));
        }
        if !matches!(self.code, Some(0..=3) | None) {
            problems.push(format!("it ended with {:?}", self.code));
        }
        if self.err.contains("panicked at") {
            problems.push("it panicked".to_owned());
        }
        if self.peak > MOST_MEMORY {
            problems.push(format!("it took {} MiB", self.peak >> 20));
        }
        if let Some(character) = self
            .err
            .chars()
            .chain(self.out.chars())
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
        {
            problems.push(format!(
                "the control character {character:?} was written to a stream"
            ));
        }
        if !problems.is_empty() {
            problems.push(format!("it said: {}", tail(&self.err)));
        }
        problems
    }
}

fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(1_500);
    text.chars().skip(skipped).collect()
}

/// Runs a command to its end, or ends it after `limit`. Its streams go to files `out` and `err` in
/// a directory.
#[expect(clippy::disallowed_methods, reason = "a real process takes real time")]
#[expect(
    clippy::zombie_processes,
    reason = "it is waited for in a way that also says what it used"
)]
pub(crate) fn measure(command: &mut Command, streams: &Path, limit: Duration) -> Ended {
    let stream = |name: &str| File::create(streams.join(name)).expect("a file");
    command
        .stdin(Stdio::null())
        .stdout(stream("out"))
        .stderr(stream("err"));
    let began = SystemClock.boot();
    let mut child = command.spawn().expect("the program");
    let id = i32::try_from(child.id()).expect("a process id");
    let (mut is_overdue, mut peak) = (false, 0);
    let (status, usage) = loop {
        if let Some(ended) = reap(id) {
            break ended;
        }
        peak = memory(id).unwrap_or(peak).max(peak);
        if !is_overdue && SystemClock.boot().since(began) > limit {
            is_overdue = true;
            child.kill().expect("it is there");
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let took = SystemClock.boot().since(began);
    let read = |name: &str| {
        String::from_utf8_lossy(&std::fs::read(streams.join(name)).expect("a file")).into_owned()
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or(0))
    };
    Ended {
        code: status.code(),
        signal: status.signal(),
        peak,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        began,
        took,
        is_overdue,
        out: read("out"),
        err: read("err"),
    }
}

/// Returns the most that a process has held so far, in bytes. Its use of resources at the end would
/// say what this test held when it started the process, if that was more.
fn memory(id: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(
        kibibytes
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .ok()?
            << 10,
    )
}

/// Takes the end of a child with what it used, if it has ended.
#[expect(
    unsafe_code,
    reason = "the standard library waits for a child without its use of the processor"
)]
fn reap(id: i32) -> Option<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: a rusage of zeroes is a valid one, and both pointers are to locals that outlive the
    // call.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (
            libc::wait4(id, &raw mut status, libc::WNOHANG, &raw mut usage),
            usage,
        )
    };
    assert!(waited >= 0, "the child cannot be waited for");
    (waited == id).then(|| (ExitStatus::from_raw(status), usage))
}
