//! Settings whose value is one of a few words.

use docstokg_config::words;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate_headers::ResetForm;

words! {
    /// A kind of store.
    BackendKind {
        /// A store in the memory of this process.
        Memory = "memory",
        /// A store for all processes of this machine, in a mapped file.
        Multiprocess = "multiprocess",
        /// A store for all processes of this machine, in a database in the state directory.
        Sqlite = "sqlite",
        /// A store for several machines, on a Redis or Valkey server.
        Redis = "redis",
    }
}

words! {
    /// The behaviour while the store does not reply.
    OnStoreFailure {
        /// Continue with this process's share of the limits.
        Local = "local",
        /// Send no requests.
        Refuse = "refuse",
    }
}

words! {
    /// The processes that a limit on requests at once applies to.
    Concurrency {
        /// Each process has its own limit.
        Local = "local",
        /// All processes that share the store have one limit.
        Shared = "shared",
    }
}

words! {
    /// The spreading of a budget's requests over its windows, as a word for [`Pacing`].
    PacingWord {
        /// Requests at equal distances.
        Even = "even",
        /// As many requests at once as the windows allow.
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
    /// The effect of a host's rate headers on its limits.
    TrustWord {
        /// Headers make limits stricter.
        Tighten = "tighten",
        /// Headers make limits stricter, or raise them to the declared values.
        Raise = "raise",
        /// Headers have no effect and are not read.
        Ignore = "ignore",
    }
}

words! {
    /// The form of the reset in a rate header, as a word for [`ResetForm`].
    ResetWord {
        /// Recognised by the size of the number.
        Auto = "auto",
        /// Seconds until the reset.
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
    /// The data that must be on the disk before a file appears under its name.
    Durability {
        /// Contents and name, synchronised for several files together.
        Batched = "batched",
        /// No data: the operating system writes at its own time.
        None = "none",
    }
}

words! {
    /// The hosts that receive the user's e-mail address.
    Contact {
        /// Only services that are queried for metadata.
        Services = "services",
        /// Every host.
        Everywhere = "everywhere",
    }
}
