//! Types of values, each with its reading, JSON schema and display.

use std::num::NonZeroU32;

use serde_json::{Value as Json, json};

use crate::node::{ConfigNode, ConfigValue};

/// A type of value that a key may have.
pub trait Setting: Sized {
    /// The kind, in words for the documentation.
    const KIND: &'static str;

    /// Reads the value.
    ///
    /// # Errors
    /// Returns a message with the error and the expected value.
    fn read(node: &ConfigNode) -> Result<Self, String>;

    /// Returns the JSON schema of the type.
    fn schema() -> Json;

    /// Returns the value for `config show`.
    fn show(&self) -> Json;
}

/// Reads an integer of zero or more.
///
/// # Errors
/// Returns a message if the value is not such an integer.
pub fn whole(node: &ConfigNode) -> Result<u64, String> {
    let number = match &node.value {
        ConfigValue::Int(number) => Some(*number),
        ConfigValue::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number < 0 => Err(format!(
            "{number} is negative; expected a whole number of zero or more"
        )),
        Some(number) => u64::try_from(number).map_err(|_| format!("{number} is too large")),
        None => Err(format!(
            "expected a whole number, found {}",
            node.describe()
        )),
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HiddenText(pub String);

impl std::fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Setting for HiddenText {
    const KIND: &'static str = "text, never shown";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        // The value may be a key, so the message does not repeat it.
        String::read(node)
            .map(Self)
            .map_err(|_| "expected a text".to_owned())
    }

    fn schema() -> Json {
        String::schema()
    }

    fn show(&self) -> Json {
        json!("***")
    }
}

impl Setting for u64 {
    const KIND: &'static str = "whole number";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        whole(node)
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0 })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl Setting for u32 {
    const KIND: &'static str = "whole number";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let number = whole(node)?;
        Self::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// An optional upper limit: a number from 1, or `null` or 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling(pub Option<NonZeroU32>);

impl Setting for Ceiling {
    const KIND: &'static str = "whole number, or null";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        match &node.value {
            ConfigValue::Null => Ok(Self(None)),
            ConfigValue::Text(text)
                if matches!(text.trim().to_ascii_lowercase().as_str(), "null" | "none") =>
            {
                Ok(Self(None))
            }
            _ => u32::read(node).map(|number| Self(NonZeroU32::new(number))),
        }
    }

    fn schema() -> Json {
        json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX })
    }

    fn show(&self) -> Json {
        json!(self.0.map(NonZeroU32::get))
    }
}

impl Setting for NonZeroU32 {
    const KIND: &'static str = "whole number from 1";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        Self::new(u32::read(node)?).ok_or_else(|| "0 is too small; expected 1 or more".to_owned())
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }

    fn show(&self) -> Json {
        json!(self.get())
    }
}

impl Setting for f64 {
    const KIND: &'static str = "number";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let number = match &node.value {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a setting beyond 2^53 is refused by its range"
            )]
            ConfigValue::Int(number) => Some(*number as Self),
            ConfigValue::Float(number) => Some(*number),
            ConfigValue::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if number.is_finite() && number >= 0.0 => Ok(number),
            Some(number) => Err(format!(
                "{number} is negative or not finite; expected zero or more"
            )),
            None => Err(format!("expected a number, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0 })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        match &node.value {
            ConfigValue::Bool(value) => Ok(*value),
            ConfigValue::Text(text) => text
                .trim()
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| format!("expected true or false, found '{text}'")),
            _ => Err(format!("expected true or false, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl Setting for String {
    const KIND: &'static str = "text";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        match &node.value {
            ConfigValue::Text(text) => Ok(text.trim().to_owned()),
            ConfigValue::Int(number) => Ok(number.to_string()),
            _ => Err(format!("expected a text, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string" })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// Names, written as a list or joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

/// Splits names that are joined by commas.
pub fn split_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

impl Setting for NameList {
    const KIND: &'static str = "list of names";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let ConfigValue::List(items) = &node.value else {
            let text = String::read(node)?;
            return Ok(Self(split_names(&text).map(str::to_owned).collect()));
        };
        items
            .iter()
            .map(String::read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn schema() -> Json {
        json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }

    fn show(&self) -> Json {
        json!(self.0.join(","))
    }
}
