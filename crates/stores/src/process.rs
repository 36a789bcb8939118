//! Identifiers of this process and of this boot of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use docstokg_policy::time::Clock;

pub use crate::multiprocess::PerProcess;

/// Returns the identifier of this boot. Instants of one boot clock have no meaning in another boot.
#[must_use]
pub fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    // Systems other than Linux have no identifier of the boot, so the minute of the boot replaces
    // it.
    read.map_or_else(
        |_| format!("since {}", wall_at_boot() / 60),
        |id| id.trim().to_owned(),
    )
}

fn wall_at_boot() -> u64 {
    let clock = crate::clock::SystemClock;
    let wall = u64::try_from(clock.wall().as_micros()).unwrap_or(0);
    wall.saturating_sub(clock.boot().as_micros()) / 1_000_000
}

/// Describes this process: `pid 4711 on lab-3`.
#[must_use]
pub fn signature() -> Arc<str> {
    let node = rustix::system::uname();
    format!(
        "pid {} on {}",
        std::process::id(),
        node.nodename().to_string_lossy()
    )
    .into()
}

/// Returns whether the process of a [`signature`] may still run. Processes of other machines always
/// may.
#[must_use]
pub fn may_run(signature: &str) -> bool {
    let node = rustix::system::uname();
    let of_this_machine = signature
        .strip_prefix("pid ")
        .and_then(|rest| rest.split_once(" on "))
        .filter(|(_, other)| *other == node.nodename().to_string_lossy());
    let pid = of_this_machine
        .and_then(|(pid, _)| pid.parse().ok())
        .and_then(rustix::process::Pid::from_raw);
    // A process of another user cannot be signalled, but it runs.
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Returns the first of a range of ids that no other process and no other handle of this process
/// uses.
#[must_use]
pub fn first_name() -> u64 {
    static HANDLE_COUNT: AtomicU32 = AtomicU32::new(0);
    // The upper half is random; the lower half counts. Ids stay below 2^53, which the numbers of a
    // script represent exactly. The random part is mixed with process and time, because a child
    // process inherits the state of its parent's generator.
    let handle = u64::from(HANDLE_COUNT.fetch_add(1, Ordering::Relaxed));
    let now = crate::clock::SystemClock.boot().as_micros();
    let mixed =
        (fastrand::u64(..) ^ now ^ u64::from(std::process::id()).rotate_left(32) ^ handle << 48)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 43) | 1) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_may_run() {
        assert!(may_run(&signature()));
        assert!(may_run("pid 1 on another-machine"));
        assert!(may_run("something else"));
        let node = rustix::system::uname();
        let node = node.nodename().to_string_lossy();
        // Larger than the largest id of a system.
        assert!(!may_run(&format!("pid 2000000000 on {node}")));
    }
}
