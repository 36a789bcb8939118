//! Simulated processes: groups of tasks that can be paused for a time, or killed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Runtime;
use parking_lot::Mutex;

use super::late::{LateRuntime, Lateness};
use super::{Simulation, Task};

/// The state of a simulated [`Process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    Running,
    /// Paused, as by SIGSTOP.
    Paused,
    /// Killed: nothing of the process runs again, not even the destructors of its values.
    Dead,
}

/// The processes of a simulation, each with the tasks that wait because it is paused.
#[derive(Default)]
pub(super) struct Processes(Mutex<Vec<(ProcessState, Vec<Arc<Task>>)>>);

impl Processes {
    /// Returns the [`Task`] if it may run now. Otherwise keeps the task until its process
    /// continues.
    pub(super) fn may_run(&self, task: Arc<Task>) -> Option<Arc<Task>> {
        let mut all = self.0.lock();
        match task
            .process
            .checked_sub(1)
            .and_then(|index| all.get_mut(index))
        {
            Some((ProcessState::Paused | ProcessState::Dead, kept)) => {
                kept.push(task);
                None
            }
            _ => Some(task),
        }
    }

    fn add(&self) -> usize {
        let mut all = self.0.lock();
        all.push((ProcessState::Running, Vec::new()));
        all.len()
    }

    /// Changes the [`ProcessState`] of a process, and returns its kept tasks if they may run again.
    fn set(&self, process: usize, state: ProcessState) -> Vec<Arc<Task>> {
        let mut all = self.0.lock();
        let (was, kept) = &mut all[process - 1];
        if *was == ProcessState::Dead {
            return Vec::new();
        }
        *was = state;
        if state == ProcessState::Running {
            std::mem::take(kept)
        } else {
            Vec::new()
        }
    }
}

/// A simulated process in a [`Simulation`].
#[derive(Clone)]
pub struct Process {
    simulation: Simulation,
    number: usize,
}

impl Process {
    pub(super) fn start(simulation: &Simulation) -> Self {
        Self {
            simulation: simulation.clone(),
            number: simulation.0.processes.add(),
        }
    }

    /// Returns the [`Runtime`] for a hub in this process.
    #[must_use]
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        let lateness = self
            .simulation
            .0
            .lateness
            .clone()
            .unwrap_or_else(|| Lateness::seeded(1));
        Arc::new(LateRuntime {
            simulation: self.simulation.clone(),
            lateness,
            process: self.number,
        })
    }

    /// Starts a task in this [`Process`].
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.simulation.spawn_in(self.number, Box::pin(work));
    }

    /// Kills the process, like `kill -9`: its tasks never run again.
    pub fn kill(&self) {
        self.simulation
            .0
            .processes
            .set(self.number, ProcessState::Dead);
    }

    /// Pauses the [`Process`] for a time.
    pub fn pause(&self, length: Duration) {
        self.simulation
            .0
            .processes
            .set(self.number, ProcessState::Paused);
        let (simulation, number) = (self.simulation.clone(), self.number);
        self.simulation.start(async move {
            simulation.sleep(length).await;
            let resumed = simulation.0.processes.set(number, ProcessState::Running);
            simulation.0.ready.lock().extend(resumed);
        });
    }
}
