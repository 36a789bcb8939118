//! Settings that are one word out of a few.

use serde_json::{Value as Json, json};

use super::node::{Node, Value};
use super::problem::nearest;
use super::reader::FromNode;

/// Declares an enum whose variants are words of the configuration.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// Returns the word used in config.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl FromNode for $name {
            const KIND: &'static str = "word";

            fn from_node(node: &Node) -> Result<Self, String> {
                read_word(node, Self::WORDS)
            }

            fn schema() -> Json {
                json!({ "enum": Self::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
            }

            fn show(&self) -> Json {
                json!(self.as_str())
            }
        }
    };
}

fn read_word<T: Copy>(node: &Node, words: &[(&str, T)]) -> Result<T, String> {
    let list = || {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        match all.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    };
    let Value::Text(text) = &node.value else {
        return Err(format!("expected {}, found {}", list(), node.describe()));
    };
    let text = text.trim();
    if let Some((_, found)) = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
    {
        return Ok(*found);
    }
    let meant = nearest(text, words.iter().map(|(word, _)| *word))
        .map_or_else(String::new, |word| format!("; did you mean '{word}'?"));
    Err(format!("'{text}' is not {}{meant}", list()))
}

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
    /// What must have reached the disk before a file appears.
    Durability {
        /// Contents and name, several files in one go.
        Batched = "batched",
        /// Nothing: the operating system writes when it likes.
        None = "none",
    }
}
