//! Origins on loopback, for tests that do not run within a runtime.

use docstokg_hub::clock::{Clock, SystemClock};

use super::{Listener, Security};
use crate::origin::{OriginScript, SimulatedWeb};

/// A [`SimulatedWeb`] on loopback, with a runtime of its own. The listener stops when this value is
/// dropped.
pub struct ServedWeb {
    /// The origins that the listener serves.
    pub web: SimulatedWeb,
    /// Address and port of the [`Listener`].
    pub address: String,
    _listener: Listener,
    _runtime: tokio::runtime::Runtime,
}

#[expect(
    clippy::expect_used,
    reason = "an origin without a port is a failed test"
)]
impl ServedWeb {
    /// Serves one [`OriginScript`].
    ///
    /// # Panics
    /// If no port is available.
    #[must_use]
    pub fn start(origin: OriginScript) -> Self {
        Self::start_all([origin])
    }

    /// Serves several [`OriginScript`]s.
    ///
    /// # Panics
    /// If no port is available.
    #[must_use]
    pub fn start_all(origins: impl IntoIterator<Item = OriginScript>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let web = SimulatedWeb::new(origins, SystemClock.boot());
        let listener = runtime
            .block_on(Listener::start(&web, Security::Plain))
            .expect("a port");
        Self {
            web,
            address: listener.address.to_string(),
            _listener: listener,
            _runtime: runtime,
        }
    }
}
