//! Looks into files beside the run: few at a time, each for a bounded time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{Runtime, before};
use tokio::sync::{Semaphore, oneshot};

use super::file_identity::{FileIdentity, look_inside};

/// How many files are looked into at once.
const AT_ONCE: usize = 2;
/// The longest that a file is looked into. The wait for its turn does not count: whether a file is
/// the wrong one must not depend on how many others there are.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How many threads that do not come to an end are left behind before no more files are looked
/// into.
const MAX_RUNAWAY_THREADS: usize = 8;
/// The stack of the threads: the parser calls itself for what is nested, up to a depth of its own.
const STACK_BYTES: usize = 64 << 20;
/// The name of the threads.
const THREAD_NAME: &str = "pdf-examination";

/// Looks into files.
pub(crate) struct EvidenceExaminer {
    runtime: Arc<dyn Runtime>,
    free: Arc<Semaphore>,
    /// Threads that still read a file whose examination was given up.
    runaways: Arc<AtomicUsize>,
}

impl EvidenceExaminer {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self {
            runtime,
            free: Arc::new(Semaphore::new(AT_ONCE)),
            runaways: Arc::default(),
        }
    }

    /// Looks into a file. One that takes too long has said nothing; the thread that still reads it
    /// is left behind, so that the next file has its turn.
    pub(crate) async fn look(&self, path: &Path) -> FileIdentity {
        if !self.runtime.can_pause() {
            // Simulated time has no threads to wait for.
            return look_inside(path);
        }
        let Ok(_turn) = self.free.acquire().await else {
            return FileIdentity::default();
        };
        if self.runaways.load(Ordering::Relaxed) >= MAX_RUNAWAY_THREADS {
            return FileIdentity::default();
        }
        let (sender, mut receiver) = oneshot::channel();
        let (path, runaways) = (path.to_owned(), Arc::clone(&self.runaways));
        let started = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // The examination may have been given up.
                if sender.send(look_inside(&path)).is_err() {
                    runaways.fetch_sub(1, Ordering::Relaxed);
                }
            });
        if started.is_err() {
            return FileIdentity::default();
        }
        if let Some(inside) = before(
            &*self.runtime,
            self.runtime.boot() + TIME_LIMIT,
            &mut receiver,
        )
        .await
        {
            return inside.unwrap_or_default();
        }
        self.runaways.fetch_add(1, Ordering::Relaxed);
        // It may have ended in this very moment.
        receiver.close();
        let Ok(inside) = receiver.try_recv() else {
            return FileIdentity::default();
        };
        self.runaways.fetch_sub(1, Ordering::Relaxed);
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: usize = 100_000;

    /// Writes a PDF of these objects; the first is its catalogue.
    fn pdf(objects: &[String]) -> Vec<u8> {
        let mut file = "%PDF-1.4\n".to_owned();
        let mut table = String::new();
        for (number, object) in objects.iter().enumerate() {
            table += &format!("{:010} 00000 n \n", file.len());
            file += &format!("{} 0 obj\n{object}\nendobj\n", number + 1);
        }
        let (begin, count) = (file.len(), objects.len() + 1);
        file += &format!(
            "xref\n0 {count}\n0000000000 65535 f \n{table}trailer << /Size {count} /Root 1 0 R \
             /Info 3 0 R >>\nstartxref\n{begin}\n%%EOF"
        );
        file.into_bytes()
    }

    #[test]
    fn structure_of_any_depth_is_examined() {
        let nested =
            |open: &str, close: &str| format!("{}{}", open.repeat(DEPTH), close.repeat(DEPTH));
        let catalogue = "<< /Type /Catalog /Pages 2 0 R >>".to_owned();
        let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned();
        let mut files: Vec<Vec<u8>> = [
            nested("[", "]"),
            nested("<</A ", ">>"),
            nested("(", ")"),
            format!("<< /Title {} >>", nested("(", ")")),
            format!("<< /Type /Page /Contents {} >>", nested("[", "]")),
        ]
        .map(|object| pdf(&[catalogue.clone(), pages.clone(), object]))
        .into();
        let chain = |link: &dyn Fn(usize) -> String| {
            let links = (2..DEPTH).map(link);
            pdf(&std::iter::once(catalogue.clone())
                .chain(links)
                .collect::<Vec<_>>())
        };
        files.push(chain(&|number| format!("{} 0 R", number + 1)));
        files.push(chain(&|number| {
            format!("<< /Type /Pages /Kids [{} 0 R] /Count 1 >>", number + 1)
        }));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.pdf");
        for file in files {
            std::fs::write(&path, file).expect("a file");
            let path = path.clone();
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn(move || look_inside(&path)).expect("a thread");
            assert!(thread.join().is_ok());
        }
    }
}
