//! Lua tables, parsed from `MessagePack` as JSON: strings may be any bytes, and tables lists or
//! maps.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

/// A value of the script.
pub(super) struct LuaValue(pub(super) Value);

impl<'de> Deserialize<'de> for LuaValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyLuaValue).map(Self)
    }
}

struct AnyLuaValue;

impl<'de> Visitor<'de> for AnyLuaValue {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value of the script")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(json!(value))
    }

    /// Converts a string that is not text to a list of numbers in JSON.
    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(LuaValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((LuaValue(key), LuaValue(value))) = entries.next_entry()? {
            map.insert(
                key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                value,
            );
        }
        Ok(Value::Object(map))
    }
}
