//! Why a store did not answer.

/// A store that cannot be used, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or read for now; it may come back.
    #[error("{store} does not answer: {why}")]
    Unavailable {
        /// Which store, without its secrets.
        store: String,
        /// What happened.
        why: String,
    },
    /// It answers, and has lost the record of what was used.
    #[error("{store} has lost its data: it was emptied, or restarted without it")]
    Forgot {
        /// Which store, without its secrets.
        store: String,
    },
    /// It cannot be opened, and waiting will not help.
    #[error("{store} cannot be used: {why}; {remedy}")]
    Unusable {
        /// Which store, without its secrets.
        store: String,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: String,
    },
}
