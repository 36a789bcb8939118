//! Sections: groups of keys that are declared once, with documentation and defaults.

use serde_json::{Map, Value as Json, json};

use crate::node::{ConfigNode, ConfigValue};
use crate::reader::MapReader;
use crate::setting::Setting;
use crate::source::{SourcedValue, ValueSource};

/// A key, as the documentation lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// The path, with dots between its parts.
    pub path: String,
    /// The kind of value.
    pub kind: &'static str,
    /// The value that applies if the key is not set.
    pub default: String,
    /// The purpose of the key.
    pub about: &'static str,
}

/// A group of keys, as [`section!`](crate::section!) declares it.
pub trait Section: Clone + Default {
    /// Reads the keys of the section.
    fn read(reader: &mut MapReader<'_>) -> Self;

    /// Merges this layer with a lower one. For each key, the value of this layer takes precedence.
    #[must_use]
    fn over(self, lower: Self) -> Self;

    /// Returns the defaults of the keys, the lowest layer. A mapping of names is empty by default.
    #[must_use]
    fn defaults() -> Self {
        Self::default()
    }

    /// Adds the keys of the section under a prefix.
    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>);

    /// Returns the JSON schema of the section.
    fn schema() -> Json;

    /// Returns the values that are set, for `config show`.
    fn show(&self) -> Json;
}

/// A section that another crate owns and this program does not use: accepted, but never read.
#[derive(Clone, Debug, Default)]
pub struct UnreadSection;

impl Section for UnreadSection {
    fn read(reader: &mut MapReader<'_>) -> Self {
        reader.skip_rest();
        Self
    }

    fn over(self, _: Self) -> Self {
        self
    }

    fn keys(_: &str, _: &mut Vec<ConfigKey>) {}

    fn schema() -> Json {
        json!({ "type": "object" })
    }

    fn show(&self) -> Json {
        json!({})
    }
}

/// Reads the default that a section declares, written as in a file.
///
/// # Panics
/// Panics if the default is not a [`ConfigValue`] of its type.
#[must_use]
pub fn default_value<T: Setting>(written: impl Into<ConfigValue>) -> SourcedValue<T> {
    let source = ValueSource::Default;
    let node = ConfigNode {
        source: source.clone(),
        value: written.into(),
    };
    match T::read(&node) {
        Ok(value) => SourcedValue::new(value, source),
        Err(message) => panic!("a default is wrong: {message}"),
    }
}

/// Returns the documentation of a default: its own text, or its literal as in a file.
#[doc(hidden)]
#[must_use]
pub fn default_text(text: Option<&str>, literal: Option<&str>) -> String {
    let is_digit = |first: char| first.is_ascii_digit();
    match (text, literal.unwrap_or_default()) {
        (Some(text), _) => text.to_owned(),
        (None, number) if number.starts_with(is_digit) => number.replace('_', ""),
        (None, literal) => literal.trim_matches(['"', '[', ']']).to_owned(),
    }
}

/// Returns the schema of a mapping with these keys and no others.
#[must_use]
pub fn closed_schema(properties: Map<String, Json>) -> Json {
    let properties = Json::Object(properties);
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Adds the documentation of a [`ConfigKey`] to its schema.
#[doc(hidden)]
#[must_use]
pub fn with_about(mut schema: Json, about: &str) -> Json {
    if let Json::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(about.trim()));
    }
    schema
}

/// Adds the keys of a section to those of another section at the same level.
#[doc(hidden)]
pub fn merge(into: &mut Map<String, Json>, part: Json) {
    if let Json::Object(part) = part {
        into.extend(part);
    }
}

/// Declares a section: a struct with an optional field per key, and its [`Section`] implementation.
///
/// ```
/// docstokg_config::section! {
///     /// The making of tea.
///     TeaSettings {
///         /// The steeping time in seconds
///         steep_s: u32 = 180,
///         /// The herb in the tea
///         herb: String => "none",
///     }
/// }
/// docstokg_config::section! {
///     /// The products of the kitchen.
///     KitchenSettings {
///         /// Open or closed
///         open: bool = true => "true on weekdays",
///         @tea: TeaSettings,
///     }
/// }
/// assert_eq!(TeaSettings::default().steep_s().value, 180);
/// ```
///
/// The parts have this order:
///
/// - `..name: Type` for the keys of another section at the same level,
/// - a key with its documentation, type and default,
/// - `+name: Type` for a nested section that `config show` always lists,
/// - `@name: Type` for a nested section that `config show` lists if any of its keys is set.
///
/// A default is `= VALUE`, written as in a file. `=> "TEXT"` documents a default that is not
/// self-explanatory. A key with a text alone has no default, and the code that resolves it defines
/// the meaning of its absence. A key with a value has a method of its name, which returns the
/// written value or the default.
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( .. $flat:ident: $part:ty, )*
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty $(= $default:expr)? $(=> $text:literal)?,
            )*
            $( + $listed:ident: $group:ty, )*
            $( @ $nested:ident: $section:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $( #[doc = "Keys of another section, at the same level."] pub $flat: $part, )*
            $( $(#[doc = $doc])+ pub $field: Option<$crate::SourcedValue<$type>>, )*
            $( #[doc = "A nested group of keys."] pub $listed: $group, )*
            $( #[doc = "A nested group of keys."] pub $nested: $section, )*
        }

        #[allow(dead_code, reason = "some keys are read with their position only")]
        impl $name {
            $( $(
                /// Returns the [`SourcedValue`] of the key of this name, or its default.
                #[must_use]
                pub fn $field(&self) -> $crate::SourcedValue<$type> {
                    let written = self.$field.clone();
                    written.unwrap_or_else(|| $crate::section::default_value($default))
                }
            )? )*
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

            fn defaults() -> Self {
                Self {
                    $( $flat: $crate::Section::defaults(), )*
                    $( $field: None$(.or_else(|| Some($crate::section::default_value($default))))?, )*
                    $( $listed: $crate::Section::defaults(), )*
                    $( $nested: $crate::Section::defaults(), )*
                }
            }

            fn keys(prefix: &str, keys: &mut Vec<$crate::ConfigKey>) {
                $( <$part as $crate::Section>::keys(prefix, keys); )*
                $( keys.push($crate::ConfigKey {
                    path: format!("{prefix}{}", stringify!($field)),
                    kind: <$type as $crate::Setting>::KIND,
                    default: $crate::section::default_text(
                        None$(.or(Some($text)))?,
                        None$(.or(Some(stringify!($default))))?,
                    ),
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
