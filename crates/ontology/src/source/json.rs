//! Reading JSON of services whose fields may be missing, null, or the text "null".

use docstokg_hub::redact_text;
use serde_json::Value as Json;

use super::{Outcome, Reply, Step};

/// Reads the body of an answer, or says what came instead.
pub(super) fn body(source: &str, reply: &Reply) -> Result<Json, Box<Step>> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        // What came is quoted in records and on terminals.
        let start = String::from_utf8_lossy(&reply.body[..reply.body.len().min(120)]);
        let words = start.split(|letter: char| letter.is_whitespace() || letter.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let preview = redact_text(&words.join(" "));
        Box::new(Outcome::failed(format!(
            "{source} did not answer with JSON ({error}): {preview}"
        )))
    })
}

/// Returns a text; what is missing, null, empty or the text "null" or "false" is none.
pub(super) fn text(value: &Json) -> Option<&str> {
    let text = value.as_str()?.trim();
    (!matches!(text, "" | "null" | "false" | "None")).then_some(text)
}

/// Says that a status is not an answer that this source can use.
pub(super) fn bad_status(source: &str, reply: &Reply) -> Step {
    Outcome::failed(format!(
        "{source} answered with status {}",
        reply.status.as_u16()
    ))
}
