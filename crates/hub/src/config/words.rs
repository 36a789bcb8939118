//! Settings that are one word out of a few.

use docstokg_config::words;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate_headers::ResetForm;

words! {
    /// A kind of store.
    BackendKind {
        /// This process only.
        Memory = "memory",
        /// All processes of this machine, through a mapped file.
        Multiprocess = "multiprocess",
        /// All processes of this machine, through a database in the state directory.
        Sqlite = "sqlite",
        /// Several machines, through a Redis or Valkey server.
        Redis = "redis",
    }
}

words! {
    /// What to do while the store does not answer.
    OnStoreFailure {
        /// Go on with this process's share of the limits.
        Local = "local",
        /// Send nothing.
        Refuse = "refuse",
    }
}

words! {
    /// Over what a bound on requests at once holds.
    Concurrency {
        /// This process.
        Local = "local",
        /// All processes that share the store.
        Shared = "shared",
    }
}

words! {
    /// How the requests of a budget are spread over its windows.
    PacingWord {
        /// At equal distances.
        Even = "even",
        /// As many at once as the windows allow.
        Burst = "burst",
    }
}

impl From<PacingWord> for Pacing {
    fn from(word: PacingWord) -> Self {
        match word {
            PacingWord::Even => Self::Even,
            PacingWord::Burst => Self::Burst,
        }
    }
}

words! {
    /// What the rate headers of a host may do to its limits.
    TrustWord {
        /// Make them stricter.
        Tighten = "tighten",
        /// Make them stricter, and raise them to what the headers state.
        Raise = "raise",
        /// Nothing: they are not read.
        Ignore = "ignore",
    }
}

words! {
    /// How the reset in a rate header is written.
    ResetWord {
        /// Recognised by its size.
        Auto = "auto",
        /// Seconds left.
        Seconds = "seconds",
        /// Seconds since 1970.
        Epoch = "epoch",
    }
}

impl From<ResetWord> for ResetForm {
    fn from(word: ResetWord) -> Self {
        match word {
            ResetWord::Auto => Self::Recognise,
            ResetWord::Seconds => Self::SecondsLeft,
            ResetWord::Epoch => Self::EpochSeconds,
        }
    }
}

words! {
    /// What must have reached the disk before a file appears.
    Durability {
        /// Contents and name, several files in one go.
        Batched = "batched",
        /// Nothing: the operating system writes when it likes.
        None = "none",
    }
}

words! {
    /// Which hosts receive the address of the person behind a run.
    Contact {
        /// The services that are asked for metadata.
        Services = "services",
        /// Every host.
        Everywhere = "everywhere",
    }
}
