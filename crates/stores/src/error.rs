//! The errors of a store.

/// An error of a store, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or read at the moment. The store may return.
    #[error("{store} does not answer: {why}")]
    Unavailable {
        /// The name of the store, without secrets.
        store: String,
        /// The description of the failure, in words.
        why: String,
    },
    /// The store responds, but has lost the record of used permits.
    #[error("{store} has lost its data: it was emptied, or restarted without it")]
    Forgot {
        /// The name of the store, without secrets.
        store: String,
    },
    /// The store cannot be opened, and waiting does not help.
    #[error("{store} cannot be used: {why}; {remedy}")]
    Unusable {
        /// The name of the store, without secrets.
        store: String,
        /// The cause.
        why: String,
        /// The action for the user.
        remedy: String,
    },
}
