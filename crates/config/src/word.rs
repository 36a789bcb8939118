//! Settings whose value is one of a few words.

use crate::node::{ConfigNode, ConfigValue};
use crate::problem::nearest;

/// Declares an enum whose variants are words of the configuration.
///
/// ```
/// docstokg_config::words! {
///     /// The order of a list.
///     ListOrder {
///         /// The newest first.
///         Newest = "newest",
///         /// The oldest first.
///         Oldest = "oldest",
///     }
/// }
/// assert_eq!(ListOrder::Newest.as_str(), "newest");
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// Returns the word used in the configuration.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl $crate::Setting for $name {
            const KIND: &'static str = "word";

            fn read(node: &$crate::ConfigNode) -> Result<Self, String> {
                $crate::word::read(node, Self::WORDS)
            }

            fn schema() -> $crate::macros::Json {
                $crate::word::schema(Self::WORDS)
            }

            fn show(&self) -> $crate::macros::Json {
                self.as_str().into()
            }
        }
    };
}

/// Reads one of a few words, in any case.
///
/// # Errors
/// Returns a message if the value is another word; the message names all words and the nearest one.
pub fn read<T: Copy>(node: &ConfigNode, words: &[(&str, T)]) -> Result<T, String> {
    let list = || {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        match all.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    };
    let ConfigValue::Text(text) = &node.value else {
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

/// Returns the JSON schema of a word.
#[must_use]
pub fn schema<T>(words: &[(&str, T)]) -> serde_json::Value {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    serde_json::json!({ "enum": words })
}
