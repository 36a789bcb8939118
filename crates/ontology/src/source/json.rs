//! Reads the JSON of services whose fields may be missing, null, or the text "null".

use docstokg_hub::redact_text;
use docstokg_lookup::message::LookupResponse;
use serde_json::Value as Json;

use super::{LookupStep, SourceOutcome};

/// Reads the body of a response as JSON; the error quotes another body.
pub(super) fn body(source: &str, response: &LookupResponse) -> Result<Json, String> {
    serde_json::from_slice(&response.body).map_err(|error| {
        // The body is quoted in records and on terminals.
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

/// Ends a look-up because the source cannot use the status.
pub(super) fn bad_status<'a>(source: &str, response: &LookupResponse) -> LookupStep<'a> {
    SourceOutcome::failed(format!(
        "{source} answered with status {}",
        response.status.as_u16()
    ))
}
