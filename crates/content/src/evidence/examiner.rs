//! Examination of files on separate threads: few at a time, each for a bounded time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{Runtime, before};
use tokio::sync::{Semaphore, oneshot};

use super::file_identity::{FileIdentity, look_inside};

/// Maximum number of concurrent examinations.
const AT_ONCE: usize = 2;
/// Maximum time of one examination. The wait for a slot does not count: the result must not depend
/// on the number of other files.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of abandoned threads that still run. Beyond this number no further files are
/// examined.
const MAX_RUNAWAY_THREADS: usize = 8;
/// Stack size of the threads: the parser recurses into nested values, up to its own limit.
const STACK_BYTES: usize = 64 << 20;
/// The name of the threads.
const THREAD_NAME: &str = "pdf-examination";

/// Examines files with [`look_inside`] on threads of its own, within [`TIME_LIMIT`].
pub(crate) struct EvidenceExaminer {
    runtime: Arc<dyn Runtime>,
    free: Arc<Semaphore>,
    /// Threads that still read a file whose examination was abandoned.
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

    /// Returns the [`FileIdentity`] of a file. A file that exceeds [`TIME_LIMIT`] results in an
    /// empty result; its thread keeps running, and its slot becomes free.
    pub(crate) async fn look(&self, path: &Path) -> FileIdentity {
        if !self.runtime.can_pause() {
            // Under simulated time an examination runs on the caller's thread.
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
                // The receiver is gone if the examination was abandoned.
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
        // The thread may have finished at this very moment.
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
