//! What tests share.

use std::sync::Arc;

use docstokg_ontology::facade::{FacadeEvent, FacadeObserver};
use parking_lot::Mutex;
use serde_json::Value as Json;

/// Keeps events.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Json>>);

impl Kept {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn all(&self) -> Vec<Json> {
        self.0.lock().clone()
    }

    pub(crate) fn last(&self) -> Json {
        self.0.lock().last().cloned().expect("an event")
    }
}

impl FacadeObserver for Kept {
    fn note(&self, event: &FacadeEvent) {
        self.0.lock().push(event.to_json());
    }
}
