//! Sections: groups of keys that are declared once, with documentation and defaults.

use serde_json::{Map, Value as Json, json};

use crate::reader::MapReader;

/// A key, as the documentation has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// With dots between its parts.
    pub path: String,
    /// What kind of value.
    pub kind: &'static str,
    /// What holds where it is not written.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// A group of keys. Declare one with [`section!`](crate::section!).
pub trait Section: Clone + Default {
    /// Reads the keys it knows.
    fn read(reader: &mut MapReader<'_>) -> Self;

    /// Puts this layer over another: what this one says wins, key by key.
    #[must_use]
    fn over(self, lower: Self) -> Self;

    /// Adds its keys under a prefix.
    fn keys(prefix: &str, keys: &mut Vec<Key>);

    /// Describes it as JSON schema.
    fn schema() -> Json;

    /// Shows what is set.
    fn show(&self) -> Json;
}

/// A section that another crate owns and this program does not use: accepted, never read.
#[derive(Clone, Debug, Default)]
pub struct Unread;

impl Section for Unread {
    fn read(reader: &mut MapReader<'_>) -> Self {
        reader.skip_rest();
        Self
    }

    fn over(self, _: Self) -> Self {
        self
    }

    fn keys(_: &str, _: &mut Vec<Key>) {}

    fn schema() -> Json {
        json!({ "type": "object" })
    }

    fn show(&self) -> Json {
        json!({})
    }
}

/// Describes a mapping with these keys and no others.
#[must_use]
pub fn closed_schema(properties: Map<String, Json>) -> Json {
    let properties = Json::Object(properties);
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Adds the documentation of a key to its schema.
#[doc(hidden)]
#[must_use]
pub fn with_about(mut schema: Json, about: &str) -> Json {
    if let Json::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(about.trim()));
    }
    schema
}

/// Adds the keys of a section to those of another that holds them at the same level.
#[doc(hidden)]
pub fn merge(into: &mut Map<String, Json>, part: Json) {
    if let Json::Object(part) = part {
        into.extend(part);
    }
}

/// Declares a section: a struct with an optional field per key, and all that [`Section`] asks for.
///
/// ```
/// docstokg_config::section! {
///     /// How tea is made.
///     TeaSettings {
///         /// How long it steeps, in seconds
///         steep_s: u32 = "180",
///     }
/// }
/// docstokg_config::section! {
///     /// What the kitchen makes.
///     KitchenSettings {
///         /// Whether it is open
///         open: bool = "true",
///         @tea: TeaSettings,
///     }
/// }
/// ```
///
/// In this order: `..name: Type` holds the keys of another section at the same level; a key with
/// its documentation, type and default; `+name: Type` is a nested section that `config show` always
/// lists; `@name: Type` one that it lists where anything is set.
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( .. $flat:ident: $part:ty, )*
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:literal, )*
            $( + $listed:ident: $group:ty, )*
            $( @ $nested:ident: $section:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $( #[doc = "Keys of another section, at the same level."] pub $flat: $part, )*
            $( $(#[doc = $doc])+ pub $field: Option<$crate::Sourced<$type>>, )*
            $( #[doc = "A nested group of keys."] pub $listed: $group, )*
            $( #[doc = "A nested group of keys."] pub $nested: $section, )*
        }

        impl $crate::Section for $name {
            fn read(reader: &mut $crate::MapReader<'_>) -> Self {
                Self {
                    $( $flat: <$part as $crate::Section>::read(reader), )*
                    $( $field: reader.take(stringify!($field)), )*
                    $( $listed: reader.section(stringify!($listed)), )*
                    $( $nested: reader.section(stringify!($nested)), )*
                }
            }

            fn over(self, lower: Self) -> Self {
                Self {
                    $( $flat: $crate::Section::over(self.$flat, lower.$flat), )*
                    $( $field: self.$field.or(lower.$field), )*
                    $( $listed: $crate::Section::over(self.$listed, lower.$listed), )*
                    $( $nested: $crate::Section::over(self.$nested, lower.$nested), )*
                }
            }

            fn keys(prefix: &str, keys: &mut Vec<$crate::Key>) {
                $( <$part as $crate::Section>::keys(prefix, keys); )*
                $( keys.push($crate::Key {
                    path: format!("{prefix}{}", stringify!($field)),
                    kind: <$type as $crate::Setting>::KIND,
                    default: $default,
                    about: concat!($($doc),+).trim(),
                }); )*
                $( <$group as $crate::Section>::keys(&format!("{prefix}{}.", stringify!($listed)), keys); )*
                $( <$section as $crate::Section>::keys(&format!("{prefix}{}.", stringify!($nested)), keys); )*
            }

            fn schema() -> $crate::macros::Json {
                #[allow(unused_mut, reason = "some sections have no keys")]
                let mut properties = $crate::macros::Map::new();
                $( $crate::section::merge(&mut properties, <$part as $crate::Section>::schema()["properties"].take()); )*
                $( properties.insert(
                    stringify!($field).to_owned(),
                    $crate::section::with_about(<$type as $crate::Setting>::schema(), concat!($($doc),+)),
                ); )*
                $( properties.insert(stringify!($listed).to_owned(), <$group as $crate::Section>::schema()); )*
                $( properties.insert(stringify!($nested).to_owned(), <$section as $crate::Section>::schema()); )*
                $crate::section::closed_schema(properties)
            }

            fn show(&self) -> $crate::macros::Json {
                #[allow(unused_mut, reason = "some sections have no keys")]
                let mut shown = $crate::macros::Map::new();
                $( $crate::section::merge(&mut shown, $crate::Section::show(&self.$flat)); )*
                $( if let Some(set) = &self.$field {
                    shown.insert(stringify!($field).to_owned(), $crate::Setting::show(&set.value));
                } )*
                $( shown.insert(stringify!($listed).to_owned(), $crate::Section::show(&self.$listed)); )*
                $( match $crate::Section::show(&self.$nested) {
                    $crate::macros::Json::Object(inner) if inner.is_empty() => {}
                    inner => { shown.insert(stringify!($nested).to_owned(), inner); }
                } )*
                $crate::macros::Json::Object(shown)
            }
        }
    };
}
