//! The process that a run belongs to, in a form that another process can check: its id alone may
//! belong to another process by now.

use docstokg_stores::process::{boot_id, may_run, signature};
use serde::{Deserialize, Serialize};

/// A process of this or another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProcess {
    /// The process id.
    pub pid: u32,
    /// `pid 4711 on lab-3`.
    pub signature: String,
    /// The boot of the machine.
    pub boot: String,
    /// When the process started, in clock ticks since the boot; `None` where the system does not
    /// tell.
    #[serde(default)]
    pub start_ticks: Option<u64>,
}

/// The life of a process, as another process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLife {
    /// A process that runs.
    Running,
    /// A process that has ended, by itself or not.
    Ended,
    /// A process of another machine, which cannot be checked.
    Elsewhere,
}

impl RunProcess {
    /// Describes this process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            signature: signature().to_string(),
            boot: boot_id(),
            start_ticks: stat(pid).map(|stat| stat.start_ticks),
        }
    }

    /// Tells whether the process runs: the same process, not another one with its id.
    #[must_use]
    pub fn life(&self) -> ProcessLife {
        let this_machine = signature();
        let node = |signature: &str| {
            signature
                .split_once(" on ")
                .map(|(_, node)| node.to_owned())
        };
        if node(&self.signature) != node(&this_machine) {
            return ProcessLife::Elsewhere;
        }
        let is_same = || match (self.start_ticks, stat(self.pid)) {
            (Some(begun), Some(found)) => !found.is_zombie && found.start_ticks == begun,
            // The system does not tell when processes started.
            _ => self.start_ticks.is_none(),
        };
        if self.boot == boot_id() && may_run(&self.signature) && is_same() {
            ProcessLife::Running
        } else {
            ProcessLife::Ended
        }
    }
}

/// The facts that the system has of a process.
struct ProcessStat {
    is_zombie: bool,
    start_ticks: u64,
}

/// Reads `/proc/PID/stat` (proc(5)): the state is field 3, the start field 22. The name in field 2
/// may contain spaces and parentheses.
fn stat(pid: u32) -> Option<ProcessStat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some(ProcessStat {
        is_zombie: *fields.first()? == "Z",
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_differs_from_a_later_one_with_its_id() {
        let current = RunProcess::current();
        assert_eq!(current.life(), ProcessLife::Running);
        let earlier = RunProcess {
            start_ticks: current.start_ticks.map(|ticks| ticks.saturating_sub(1)),
            ..current.clone()
        };
        assert_eq!(earlier.life(), ProcessLife::Ended);
        let before_boot = RunProcess {
            boot: "another boot".to_owned(),
            ..current.clone()
        };
        assert_eq!(before_boot.life(), ProcessLife::Ended);
        let elsewhere = RunProcess {
            signature: "pid 1 on another-machine".to_owned(),
            ..current
        };
        assert_eq!(elsewhere.life(), ProcessLife::Elsewhere);
    }
}
