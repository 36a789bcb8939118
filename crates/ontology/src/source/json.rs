//! Reads the JSON of services, in which fields may be missing, null, or the text "null".

use docstokg_hub::redact_text;
use docstokg_lookup::message::LookupResponse;
use serde_json::Value as Json;

use super::{LookupStep, SourceOutcome};

/// Reads the body of a response as JSON. If the body is not JSON, the error quotes its beginning.
pub(super) fn body(source: &str, response: &LookupResponse) -> Result<Json, String> {
    serde_json::from_slice(&response.body).map_err(|error| {
        // The quotation is stored in records and shown on terminals, so clean it.
        let start = String::from_utf8_lossy(&response.body[..response.body.len().min(120)]);
        let words = start.split(|letter: char| letter.is_whitespace() || letter.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let preview = redact_text(&words.join(" "));
        format!("{source} did not answer with JSON ({error}): {preview}")
    })
}

/// Returns a text, or `None` for a value that is missing, null, empty, "null" or "false".
pub(super) fn text(value: &Json) -> Option<&str> {
    let text = value.as_str()?.trim();
    (!matches!(text, "" | "null" | "false" | "None")).then_some(text)
}

/// Ends a look-up because of an error status.
pub(super) fn bad_status<'a>(source: &str, response: &LookupResponse) -> LookupStep<'a> {
    SourceOutcome::failed(format!(
        "{source} answered with status {}",
        response.status.as_u16()
    ))
}
