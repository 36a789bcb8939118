//! Decodes requests for the simulated services.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

/// The path and the parameters of an [`Arrival`], decoded.
pub(super) struct DecodedRequest {
    pub(super) path: String,
    parameters: Vec<(String, String)>,
}

impl DecodedRequest {
    pub(super) fn of(arrival: &Arrival) -> Self {
        let (path, query) = arrival.path.split_once('?').unwrap_or((&arrival.path, ""));
        let parameters = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        Self {
            path: percent_decode_str(path).decode_utf8_lossy().into_owned(),
            parameters,
        }
    }

    /// Returns the value of a parameter; `None` if the parameter is missing or blank.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }
}

/// Returns a response with JSON.
pub(super) fn json(status: u16, value: &Value) -> ScriptedReply {
    ScriptedReply::status(status)
        .header("content-type", "application/json")
        .body(value.to_string())
}

/// Returns a response with a text of a media type.
pub(super) fn text(status: u16, kind: &str, text: impl Into<String>) -> ScriptedReply {
    ScriptedReply::status(status)
        .header("content-type", kind)
        .body(text.into())
}

/// Returns a response with a page.
pub(super) fn page(status: u16, html: impl Into<String>) -> ScriptedReply {
    text(status, "text/html; charset=utf-8", html)
}
