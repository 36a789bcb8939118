//! Reading of the responses of services: usable responses, clean misses, and failures.

use docstokg_lookup::message::LookupResponse;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::settings::Settings;
use super::{LookupOutcome, RequestFailure, ResolverId};
use crate::bounded_json;
use crate::identifier::Doi;
use crate::location::{CandidateLocation, LocationOffer, link};
use crate::reason::Reason;
pub(super) use crate::titles::clean as title;
use crate::work::{Identifiers, LearnedMetadata};

/// Maximum length of the part of a response in a message, in characters.
const PREVIEW_CHARS: usize = 200;

/// The reason why there is no response to read.
pub(super) enum ReplyFailure {
    /// The service responded with this status that it does not know the work.
    Missing(u16),
    /// Any other failure.
    Failed(RequestFailure),
}

impl ReplyFailure {
    /// Converts any variant into a [`RequestFailure`], for requests without a possible miss.
    pub(super) fn into_failure(self) -> RequestFailure {
        match self {
            Self::Failed(failure) => failure,
            Self::Missing(status) => {
                let detail = format!("the service answered {status}");
                RequestFailure::new(Reason::HttpStatus, detail, Some(status))
            }
        }
    }

    /// Converts the reason into a [`LookupOutcome`].
    pub(super) fn into_outcome(self, service: &str) -> LookupOutcome {
        match self {
            Self::Missing(status) => {
                LookupOutcome::not_found(format!("{service} does not know it ({status})"))
            }
            Self::Failed(failure) => LookupOutcome::Failed(failure),
        }
    }
}

/// Sorts a response by its status. A success is returned, the given statuses are clean misses, and
/// everything else is a failure with its reason.
pub(super) fn sort(
    settings: &Settings,
    result: Result<LookupResponse, RequestFailure>,
    missing: &[u16],
) -> Result<LookupResponse, ReplyFailure> {
    let response = result.map_err(|failure| {
        ReplyFailure::Failed(RequestFailure {
            detail: settings.redact(&failure.detail),
            ..failure
        })
    })?;
    let status = response.status.as_u16();
    match status {
        200..=299 if status != 202 => Ok(response),
        _ if missing.contains(&status) => Err(ReplyFailure::Missing(status)),
        _ => Err(ReplyFailure::Failed(refusal(settings, &response))),
    }
}

/// Describes a status that is neither a success nor a clean miss, as a [`RequestFailure`].
pub(super) fn refusal(settings: &Settings, response: &LookupResponse) -> RequestFailure {
    let host = response.url.host_str().unwrap_or_default();
    let (status, shown) = (response.status.as_u16(), preview(&response.body));
    let detail = settings.redact(&format!("{host} answered {status}: {shown}"));
    RequestFailure::of_status(response.status, detail, response.disposition.clone())
}

/// Sorts a response and reads JSON that must have a value at a pointer. An error in the shape of a
/// success is a failure, not a miss.
pub(super) fn record(
    settings: &Settings,
    result: Result<LookupResponse, RequestFailure>,
    missing: &[u16],
    pointer: &str,
) -> Result<Value, ReplyFailure> {
    let response = sort(settings, result, missing)?;
    let value = json(settings, &response).map_err(ReplyFailure::Failed)?;
    if value.pointer(pointer).is_some_and(|found| !found.is_null()) {
        Ok(value)
    } else {
        let wanted = format!("'{}'", pointer.trim_start_matches('/').replace('/', "."));
        Err(ReplyFailure::Failed(unreadable(
            settings,
            &response,
            Reason::JsonError,
            &wanted,
        )))
    }
}

/// Reads a body as JSON. Pages, empty bodies and invalid JSON are failures whose message shows the
/// beginning of the body.
pub(super) fn json(
    settings: &Settings,
    response: &LookupResponse,
) -> Result<Value, RequestFailure> {
    bounded_json::read(&response.body)
        .filter(|value| value.is_object() || value.is_array())
        .ok_or_else(|| unreadable(settings, response, Reason::JsonError, "JSON"))
}

/// Describes a body that is not in the expected format.
pub(super) fn unreadable(
    settings: &Settings,
    response: &LookupResponse,
    reason: Reason,
    wanted: &str,
) -> RequestFailure {
    let host = response.url.host_str().unwrap_or_default();
    let shown = if response.body.is_empty() {
        "an empty body".to_owned()
    } else {
        preview(&response.body)
    };
    let status = response.status.as_u16();
    let detail = format!("{host} answered {status} without the {wanted} it should have: {shown}");
    RequestFailure::new(reason, settings.redact(&detail), Some(status))
}

fn preview(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * PREVIEW_CHARS)]);
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(PREVIEW_CHARS)
        .collect()
}

/// Returns the text at a pointer. A value that is absent, null, blank or the word `null` results in
/// `None`.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    let text = value.pointer(pointer)?.as_str()?.trim();
    (!text.is_empty() && !text.eq_ignore_ascii_case("null")).then_some(text)
}

/// Returns the text or number at a pointer as text.
pub(super) fn scalar(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::Number(number) => Some(number.to_string()),
        _ => text(value, pointer).map(str::to_owned),
    }
}

/// Returns the items at a pointer; an absent list is empty.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the year at a pointer, from a number or the beginning of a text.
pub(super) fn year(value: &Value, pointer: &str) -> Option<i32> {
    scalar(value, pointer)?
        .get(..4)?
        .parse()
        .ok()
        .filter(|year| (1000..3000).contains(year))
}

/// Returns the [`CandidateLocation`] at a pointer, and learns the identifier in its link.
pub(super) fn location_at(
    value: &Value,
    pointer: &str,
    offers: LocationOffer,
    resolver: ResolverId,
    learned: &mut LearnedMetadata,
) -> Option<CandidateLocation> {
    let found = text(value, pointer)?;
    learn_link(&mut learned.identifiers, found);
    Some(CandidateLocation::new(link(found)?, offers, resolver))
}

/// Learns the arXiv id or PMC id in a link. Links with a DOI are skipped: they may belong to
/// another version of the work.
pub(super) fn learn_link(identifiers: &mut Identifiers, link: &str) {
    let mut carried = Identifiers::default();
    carried.insert_from_link(link);
    identifiers.merge(Identifiers {
        arxiv: carried.arxiv,
        pmcid: carried.pmcid,
        ..Identifiers::default()
    });
}

/// All characters that need encoding in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Returns a [`Doi`] as part of a path. Slashes are kept, unless segments between them would be
/// read as steps upwards.
pub(crate) fn doi_path(doi: &Doi) -> String {
    let steps = doi
        .as_str()
        .split('/')
        .any(|part| matches!(part, "." | ".." | ""));
    utf8_percent_encode(doi.as_str(), if steps { NON_ALPHANUMERIC } else { PATH }).to_string()
}
