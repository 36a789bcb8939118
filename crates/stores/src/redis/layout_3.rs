//! The reader for sites of layout 3, whose script decided on the server. A record has a header, the
//! state as `MessagePack`, and a log of the permits since.

use docstokg_policy::breaker::{Breaker, OpenReason};
use docstokg_policy::budget::{Budget, BudgetChange, History};
use docstokg_policy::extension::Extensions;
use docstokg_policy::retry_budget::RetryBudget;
use docstokg_policy::role::Role;
use docstokg_policy::site::Site;
use docstokg_policy::time::BootInstant;
use serde_json::{Map, Value, json};

use super::wire::MalformedReply;
use crate::hash::fnv;

mod lua;

use lua::LuaValue;

/// The version of the record.
pub(super) const LAYOUT: u8 = 3;
/// The length of the header of a record in bytes.
const HEADER: usize = 76;
/// The offset in the header of the beginning of the log.
const LOG_BEGINS: usize = 8;
/// The version of the stored limits of a host.
const LIMITS_FORMAT: u8 = 3;

/// Parses a record. Returns the [`Site`], and the names of its budgets.
pub(super) fn read(raw: &[u8], now: BootInstant) -> Result<(Site, Vec<String>), MalformedReply> {
    let (header, _) = raw.split_at_checked(HEADER).ok_or(MalformedReply)?;
    let begins = header[LOG_BEGINS..].first_chunk().ok_or(MalformedReply)?;
    let begins = usize::try_from(u32::from_le_bytes(*begins)).map_err(|_| MalformedReply)?;
    let packed = raw.get(HEADER..begins).ok_or(MalformedReply)?;
    let LuaValue(state) = rmp_serde::from_slice(packed).map_err(|_| MalformedReply)?;
    let (mut names, mut budgets) = (Vec::new(), Vec::new());
    for (name, written) in state["u"].as_object().into_iter().flatten() {
        let mut read: Budget =
            serde_json::from_value(budget_of(written)).map_err(|_| MalformedReply)?;
        let history =
            json!({ "permits": words(&bytes(&written["g"])), "coarse": coarse_of(written) });
        read.restore(serde_json::from_value::<History>(history).map_err(|_| MalformedReply)?);
        names.push(name.clone());
        budgets.push(read);
    }
    replay(&raw[begins..], &state, &names, &mut budgets)?;
    let isolated = Role::ALL
        .into_iter()
        .filter_map(|role| Some((role, state["i"].get(role.as_str())?)));
    let isolated = isolated
        .map(|(role, own)| Ok((role, breaker_of(own)?)))
        .collect::<Result<_, MalformedReply>>()?;
    let mut site = Site::from_parts(breaker_of(&state["b"])?, isolated, budgets);
    if let Some(extensions) = limits_of(&bytes(&state["l"]["s"])) {
        site.set_extensions(extensions);
    }
    let spent = state["r"]["s"].as_f64().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget for retries is at most a hundred"
    )]
    site.set_retries(RetryBudget::new(spent as u16, now));
    Ok((site, names))
}

/// Spends the permits in the log. Each entry has eight bytes, with instant and kind. The kind lists
/// the budgets in which the permit has a cost of one.
fn replay(
    log: &[u8],
    state: &Value,
    names: &[String],
    budgets: &mut [Budget],
) -> Result<(), MalformedReply> {
    let kinds = list(&state["q"]).into_iter();
    let kinds: Vec<Vec<String>> = kinds.map(|kind| names_of(&bytes(&kind["a"]))).collect();
    for word in log.as_chunks::<8>().0 {
        let (mut at, kind) = (*word, word[7]);
        at[7] = 0;
        let change = BudgetChange::Spent {
            weight: 1,
            at: BootInstant::from_micros(u64::from_le_bytes(at)),
        };
        for name in kinds.get(usize::from(kind)).ok_or(MalformedReply)? {
            let index = names.iter().position(|known| known == name);
            budgets[index.ok_or(MalformedReply)?].replay(change);
        }
    }
    Ok(())
}

/// Returns the names of the budgets of a kind. Each budget has a name that ends with a zero, the
/// number of its windows, and twenty bytes for each window.
fn names_of(kind: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = kind.get(1..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        let windows = rest.get(end + 1).copied().map_or(0, usize::from);
        rest = rest.get(end + 2 + 20 * windows..).unwrap_or_default();
    }
    names
}

/// Parses the snapshot of the host's limits. Version, hash and length precede the [`Extensions`] of
/// a site. Later changes are learned again.
fn limits_of(sealed: &[u8]) -> Option<Extensions> {
    let (&[format, a, b, c, d, _, _], body) = sealed.split_first_chunk::<7>()?;
    #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
    let is_whole = fnv(body) as u32 == u32::from_le_bytes([a, b, c, d]);
    if format != LIMITS_FORMAT || !is_whole {
        return None;
    }
    postcard::from_bytes(body).ok()
}

/// Parses the little-endian words of a string.
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

/// Parses a number, which `MessagePack` may have written as an integer or a float.
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

/// Returns the values of a Lua table; an empty table may have been written as a list or a map.
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

fn breaker_of(table: &Value) -> Result<Breaker, MalformedReply> {
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
    serde_json::from_value(breaker).map_err(|_| MalformedReply)
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

/// Returns each large window with its buckets.
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

/// Parses a string of bytes, which JSON represents as a list of numbers, or as text if the bytes
/// are valid text.
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
