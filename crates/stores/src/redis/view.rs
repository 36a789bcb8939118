//! The script's state of a site, read back as a `Site`.

use docstokg_policy::breaker::{Breaker, OpenReason};
use docstokg_policy::budget::{Budget, History};
use docstokg_policy::retry_budget::RetryBudget;
use docstokg_policy::role::Role;
use docstokg_policy::site::Site;
use redis::Value as Redis;
use serde_json::{Map, Value, json};

use super::lua::Lua;
use super::wire::{Malformed, Reply};
use crate::handle::SiteView;

/// Reads the reply to `view`. The named budgets come first.
pub(super) fn read(reply: &Reply, names: &[String]) -> Result<SiteView, Malformed> {
    let now = reply.stamp(0)?;
    let Some(Redis::BulkString(packed)) = reply.rest(1).first() else {
        return Err(Malformed);
    };
    let state = match packed.as_slice() {
        [] => json!({ "b": { "e": 0, "f": 0 } }),
        packed => {
            rmp_serde::from_slice::<Lua>(packed)
                .map_err(|_| Malformed)?
                .0
        }
    };
    let mut found: Vec<(String, Budget)> = Vec::new();
    for (name, written) in state["u"].as_object().into_iter().flatten() {
        let mut read: Budget = serde_json::from_value(budget_of(written)).map_err(|_| Malformed)?;
        let history =
            json!({ "permits": words(&bytes(&written["g"])), "coarse": coarse_of(written) });
        read.restore(serde_json::from_value::<History>(history).map_err(|_| Malformed)?);
        found.push((name.clone(), read));
    }
    let (mut order, mut budgets) = (names.to_vec(), Vec::new());
    order.extend(
        found
            .iter()
            .map(|(name, _)| name.clone())
            .filter(|name| !names.contains(name)),
    );
    for name in &order {
        let index = found.iter().position(|(known, _)| known == name);
        budgets.push(index.map_or_else(Budget::default, |index| found.swap_remove(index).1));
    }
    let isolated = Role::ALL
        .into_iter()
        .filter_map(|role| Some((role, state["i"].get(role.as_str())?)));
    let isolated = isolated
        .map(|(role, own)| Ok((role, breaker_of(own)?)))
        .collect::<Result<_, Malformed>>()?;
    let mut site = Site::from_parts(breaker_of(&state["b"])?, isolated, budgets);
    let spent = state["r"]["s"].as_f64().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget for retries is at most a hundred"
    )]
    site.set_retries(RetryBudget::new(spent as u16, now));
    Ok(SiteView {
        site,
        budgets: order,
        now,
    })
}

/// Reads the little-endian words of a string.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        })
        .collect()
}

fn length(micros: &Value) -> Value {
    let micros = whole(micros);
    json!({ "secs": micros / 1_000_000, "nanos": micros % 1_000_000 * 1_000 })
}

/// Reads a number, which `MessagePack` may have written as a whole one or not.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "instants and counts are whole and small"
)]
fn whole(number: &Value) -> u64 {
    number
        .as_u64()
        .or_else(|| number.as_f64().map(|number| number as u64))
        .unwrap_or(0)
}

/// Lists what a Lua table holds; an empty one may have been written as a list or a map.
fn list(table: &Value) -> Vec<&Value> {
    match table {
        Value::Array(items) => items.iter().collect(),
        Value::Object(items) => items.values().collect(),
        _ => Vec::new(),
    }
}

fn reason_of(word: &Value) -> Value {
    word.as_str()
        .and_then(OpenReason::from_word)
        .map_or(Value::Null, |reason| {
            serde_json::to_value(reason).unwrap_or(Value::Null)
        })
}

fn role_of(word: &Value) -> Value {
    let role = Role::ALL
        .into_iter()
        .find(|role| word.as_str() == Some(role.as_str()));
    role.map_or(Value::Null, |role| {
        serde_json::to_value(role).unwrap_or(Value::Null)
    })
}

fn breaker_of(table: &Value) -> Result<Breaker, Malformed> {
    let past = table.get("p").map(|past| {
        json!({
            "opens": whole(&past["o"]),
            "outlasted": whole(&past["x"]),
            "learned_reset": length(&past["l"]),
            "turned_at": whole(&past["c"]),
            "failed_at": whole(&past["d"]),
            "throttled_at": whole(&past["h"]),
            "recent": list(&past["r"]).into_iter().map(whole).collect::<Vec<_>>(),
        })
    });
    let lease = |lease: &Value| {
        json!({
            "id": whole(&lease["i"]),
            "role": role_of(&lease["o"]),
            "expires": whole(&lease["x"]),
        })
    };
    let block =
        |block: &Value| json!({ "until": whole(&block["u"]), "reason": reason_of(&block["r"]) });
    let trip = table.get("t").map(|trip| {
        json!({
            "open_until": whole(&trip["u"]),
            "reason": reason_of(&trip["r"]),
            "block": trip.get("b").map(block),
            "half_open": trip["h"].as_bool().unwrap_or(false),
            "leases": list(&trip["l"]).into_iter().map(lease).collect::<Vec<_>>(),
            "by": trip.get("w"),
        })
    });
    let breaker = json!({
        "generation": whole(&table["e"]),
        "failures": whole(&table["f"]),
        "past": past,
        "trip": trip,
    });
    serde_json::from_value(breaker).map_err(|_| Malformed)
}

fn window_of(coarse: &Value) -> Value {
    json!({ "limit": whole(&coarse["l"]), "per": length(&coarse["p"]) })
}

fn budget_of(table: &Value) -> Value {
    let reservation = |reservation: &Value| {
        let stage = if reservation["s"].as_bool() == Some(true) {
            "Sent"
        } else {
            "Waiting"
        };
        json!({
            "id": whole(&reservation["i"]),
            "position": whole(&reservation["p"]),
            "at": whole(&reservation["a"]),
            "weight": whole(&reservation["w"]),
            "expires": whole(&reservation["x"]),
            "stage": stage,
        })
    };
    let slot = |slot: &Value| json!({ "id": whole(&slot["i"]), "expires": whole(&slot["x"]) });
    let coarse = |coarse: &Value| {
        json!({
            "window": window_of(coarse),
            "width": whole(&coarse["w"]),
            "id": whole(&coarse["l"]) << 32 ^ whole(&coarse["p"]),
            "share": whole(&coarse["s"]),
        })
    };
    let all = |field: &str, read: &dyn Fn(&Value) -> Value| {
        list(&table[field])
            .into_iter()
            .map(read)
            .collect::<Vec<_>>()
    };
    let waits = all(
        "w",
        &|wait| json!({ "at": whole(&wait["a"]), "length": length(&wait["l"]) }),
    );
    let counts = table.get("y").map(|counts| {
        json!({
            "started": whole(&counts["s"]),
            "calls": whole(&counts["c"]),
            "throttled": whole(&counts["t"]),
        })
    });
    let mut budget = Map::new();
    budget.insert("keep".to_owned(), json!(whole(&table["cap"])));
    budget.insert("coarse".to_owned(), json!(all("c", &coarse)));
    budget.insert("reservations".to_owned(), json!(all("t", &reservation)));
    budget.insert("slots".to_owned(), json!(all("s", &slot)));
    budget.insert("multiplier".to_owned(), json!(whole(&table["m"])));
    budget.insert("counts".to_owned(), json!(counts));
    budget.insert("extensions".to_owned(), Value::Null);
    budget.insert(
        "waits".to_owned(),
        if waits.is_empty() {
            Value::Null
        } else {
            json!(waits)
        },
    );
    Value::Object(budget)
}

/// Pairs each large window with its buckets.
fn coarse_of(table: &Value) -> Value {
    let history = |coarse: &Value| {
        let pairs = words(&bytes(&coarse["b"]));
        let buckets: Vec<Value> = pairs
            .chunks_exact(2)
            .map(|pair| json!({ "latest": pair[0], "count": pair[1] }))
            .collect();
        json!([window_of(coarse), buckets])
    };
    list(&table["c"]).into_iter().map(history).collect()
}

/// Reads a string of bytes, which JSON knows as a list of numbers, or as text if it happens to be
/// one.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_u64)
            .filter_map(|byte| u8::try_from(byte).ok())
            .collect(),
        _ => Vec::new(),
    }
}
