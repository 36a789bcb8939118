//! What happened to one work, in sentences in the order of time: the sources, the responses, why there is
//! no file, and what could be done about it.

use docstokg_bulk::queue::{ItemState, QueueError, QueueReader, StoredItem};
use docstokg_bulk::seconds;
use docstokg_hub::clock::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use strsim::damerau_levenshtein;
use url::Url;

use crate::identifier::Identifier;
use crate::reason::{Reason, advice, advice_without_copy, sentence};
use crate::resolver::{ResolverId, landing, spec, unpaywall};
use crate::results::{ResultStatus, link};

/// The most names that are suggested for an unknown one.
const MAX_NEAREST: usize = 3;

/// The history of one work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkHistory {
    /// The work.
    pub work_id: String,
    /// Its title, where it is known.
    pub title: Option<String>,
    /// The input that named it: a file, `-`, `command line`, or a query.
    pub input: String,
    /// The line in that input.
    pub line: u64,
    /// Its result.
    #[serde(serialize_with = "serialize_status")]
    pub standing: ResultStatus,
    /// True if a run has begun with it.
    pub was_tried: bool,
    /// Its file, below the directory of the run.
    pub path: Option<String>,
    /// The attempts, in the order of time.
    pub attempts: Vec<AttemptAccount>,
    /// The reason why it has no file.
    pub decisive: Option<DecisiveReason>,
    /// Its wait.
    pub waiting: Option<WorkWait>,
    /// The address where a human finds it.
    pub link: String,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptAccount {
    /// The time, in RFC 3339.
    pub timestamp: String,
    /// The run.
    pub run_id: String,
    /// The source of the look-up, or the one that named the URL.
    pub source: String,
    /// The host of the request, where it is known.
    pub host: Option<String>,
    /// The URL, without secrets.
    pub url: Option<String>,
    /// `found`, `not_found`, `error`, `saved`, `html`, `later` or `failed`.
    pub status: String,
    /// The status of the response.
    pub http_status: Option<u16>,
    /// The reason why it gave nothing.
    pub reason: Option<String>,
    /// The same in words.
    pub detail: Option<String>,
    /// Its length.
    pub elapsed_ms: f64,
    /// The event, in a sentence.
    pub sentence: String,
}

/// The decisive reason of a work without a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisiveReason {
    /// The word of the reason.
    pub reason: String,
    /// Its meaning.
    pub meaning: String,
    /// The event behind it.
    pub detail: Option<String>,
    /// The advice.
    pub advice: String,
    /// The options of a `download` that tries the work again, where that may help.
    pub options: Vec<&'static str>,
}

/// The wait of a work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkWait {
    /// The host.
    pub host: Option<String>,
    /// The time at which it ends.
    #[serde(with = "seconds")]
    pub until: Timestamp,
    /// The cause, in a few words.
    pub why: String,
}

/// The result of a search for a work.
#[derive(Clone, Debug, PartialEq)]
pub enum HistorySearch {
    /// The work.
    Found(Box<WorkHistory>),
    /// No work has this name; these names are similar.
    Unknown(Vec<String>),
}

/// Writes the word of a status.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn serialize_status<S: Serializer>(
    status: &ResultStatus,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(status.as_str())
}

/// Finds a work by what a user wrote, in any spelling that inputs may have.
///
/// # Errors
/// The queue cannot be read.
pub fn history(queue: &QueueReader, wanted: &str) -> Result<HistorySearch, QueueError> {
    let identifier = Identifier::parse(wanted).ok();
    let mut names = vec![wanted.trim().to_owned()];
    names.extend(identifier.as_ref().map(ToString::to_string));
    names.extend(identifier.as_ref().map(Identifier::work_key));
    for name in &names {
        if let Some(item) = queue.item(name, None)? {
            let attempts = queue.attempts(&item.name)?;
            return Ok(HistorySearch::Found(Box::new(account(item, &attempts))));
        }
    }
    // A work that was given as a URL or another identifier may have this DOI.
    if let Some(Identifier::Doi(doi)) = &identifier
        && let Some(item) = queue.item(wanted, Some(doi.as_str()))?
    {
        let attempts = queue.attempts(&item.name)?;
        return Ok(HistorySearch::Found(Box::new(account(item, &attempts))));
    }
    let name = identifier.map_or_else(|| wanted.trim().to_owned(), |known| known.to_string());
    nearest(queue, &name)
}

/// Finds works that differ by a version alone, and names that are similar.
fn nearest(queue: &QueueReader, wanted: &str) -> Result<HistorySearch, QueueError> {
    let lower = wanted.to_lowercase();
    let key = |name: &str| Identifier::parse(name).map(|name| name.work_key()).ok();
    let wanted_key = key(wanted);
    let mut same: Option<String> = None;
    let mut near: Vec<(usize, String)> = Vec::new();
    queue.each_name(|name| {
        // Works of a kind have the same key only if their names begin alike.
        let is_alike = name.get(..6) == wanted.get(..6);
        if same.is_none() && is_alike && wanted_key.is_some() && key(name) == wanted_key {
            same = Some(name.to_owned());
        }
        let most = 1 + name.len().min(lower.len()) / 4;
        if name.len().abs_diff(lower.len()) > most {
            return;
        }
        let distance = damerau_levenshtein(&lower, &name.to_lowercase());
        if distance <= most {
            near.push((distance, name.to_owned()));
            near.sort();
            near.truncate(MAX_NEAREST);
        }
    })?;
    if let Some(item) = same
        .map(|name| queue.item(&name, None))
        .transpose()?
        .flatten()
    {
        let attempts = queue.attempts(&item.name)?;
        return Ok(HistorySearch::Found(Box::new(account(item, &attempts))));
    }
    let names = near.into_iter().map(|(_, name)| name);
    Ok(HistorySearch::Unknown(names.collect()))
}

/// Describes what happened to a work. `attempts` are its records, as JSON text.
#[must_use]
pub fn account(item: StoredItem, attempts: &[String]) -> WorkHistory {
    let record: Value = item
        .record
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null);
    let read = |text: &String| serde_json::from_str(text).ok();
    let attempts: Vec<Value> = attempts.iter().filter_map(read).collect();
    let attempts: Vec<AttemptAccount> = attempts.iter().map(attempt).collect();
    let reason = record["reason"].as_str().and_then(Reason::read);
    let http_status = status(&record);
    let standing = ResultStatus::of_work(item.state, reason, http_status);
    let was_unpaywall_queried = attempts
        .iter()
        .any(|attempt| attempt.source == unpaywall::ID.as_str());
    let decisive = reason.filter(|_| item.state == ItemState::Failed);
    WorkHistory {
        title: text(&record, "title"),
        standing,
        was_tried: !attempts.is_empty() || !record.is_null() || item.due.is_some(),
        path: text(&record, "path").filter(|_| item.state == ItemState::Done),
        decisive: decisive.map(|reason| {
            let advice = match reason {
                Reason::NotFound if was_unpaywall_queried => advice_without_copy(),
                _ => advice(reason, http_status),
            };
            DecisiveReason {
                reason: reason.to_string(),
                meaning: sentence(reason, http_status),
                detail: text(&record, "reason_detail"),
                advice: advice.text.to_owned(),
                options: advice.options.unwrap_or_default().to_vec(),
            }
        }),
        waiting: item.due.map(|until| WorkWait {
            host: item.deferral.as_ref().map(|deferral| deferral.host.clone()),
            until,
            why: item
                .deferral
                .as_ref()
                .map_or_else(|| "retry later".to_owned(), |deferral| deferral.why.clone()),
        }),
        link: link(&item.name, record["doi"].as_str()),
        attempts,
        input: item.source,
        line: item.line,
        work_id: item.name,
    }
}

fn text(record: &Value, key: &str) -> Option<String> {
    record[key].as_str().map(str::to_owned)
}

fn status(record: &Value) -> Option<u16> {
    let status = record["http_status"].as_u64();
    status.and_then(|status| u16::try_from(status).ok())
}

fn attempt(record: &Value) -> AttemptAccount {
    let url = text(record, "url");
    let parsed = url.as_deref().and_then(|url| Url::parse(url).ok());
    AttemptAccount {
        timestamp: text(record, "timestamp").unwrap_or_default(),
        run_id: text(record, "run_id").unwrap_or_default(),
        source: text(record, "resolver_name").unwrap_or_default(),
        host: parsed.and_then(|url| url.host_str().map(str::to_owned)),
        url,
        status: text(record, "status").unwrap_or_default(),
        http_status: status(record),
        reason: text(record, "reason"),
        detail: text(record, "reason_detail"),
        elapsed_ms: record["elapsed_ms"].as_f64().unwrap_or(0.0),
        sentence: sentence_of(record),
    }
}

/// Returns the name of a source, for a person.
fn source_title(name: &str) -> String {
    match ResolverId::stored(name) {
        ResolverId::DIRECT => "the input".to_owned(),
        landing::ID => "the landing page".to_owned(),
        id => spec(id).map_or_else(|| name.to_owned(), |spec| spec.source.title.to_owned()),
    }
}

/// Tells what happened in an attempt.
fn sentence_of(record: &Value) -> String {
    let source = source_title(record["resolver_name"].as_str().unwrap_or_default());
    let url = record["url"].as_str().and_then(|url| Url::parse(url).ok());
    let host = url.and_then(|url| url.host_str().map(str::to_owned));
    let host = host.unwrap_or_else(|| "its host".to_owned());
    let reason = record["reason"].as_str().and_then(Reason::read);
    let meaning = reason.map_or_else(String::new, |reason| {
        format!(": {}", sentence(reason, status(record)))
    });
    let detail = record["reason_detail"]
        .as_str()
        .filter(|detail| !detail.is_empty());
    let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
    match record["status"].as_str().unwrap_or_default() {
        "found" => match record["metadata"]["locations"].as_u64() {
            Some(1) => format!("{source} named 1 location"),
            Some(locations) => format!("{source} named {locations} locations"),
            None => format!("{source} returned locations"),
        },
        "not_found" => format!("{source} named no copy{detail}"),
        "error" => format!("{source} gave no usable response{meaning}{detail}"),
        "saved" => format!("{host} sent the file, which {source} named"),
        "html" => format!("{host} sent a web page where {source} named a file"),
        "later" => format!("{host} is tried again later{meaning}{detail}"),
        "failed" => format!("{host} gave no file, which {source} named{meaning}{detail}"),
        other => format!("{source}: {other}{meaning}{detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(status: &str, more: &Value) -> String {
        let mut record = json!({
            "resolver_name": "unpaywall", "status": status, "timestamp": "2026-11-19T08:00:00.000Z",
            "run_id": "r", "elapsed_ms": 12.0, "metadata": { "locations": null }, "url": null,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            record[key] = value.clone();
        }
        record.to_string()
    }

    #[test]
    fn attempts_become_sentences_and_the_reason_has_its_advice() {
        let item = StoredItem {
            name: "doi:10.1234/a".to_owned(),
            source: "list.txt".to_owned(),
            line: 7,
            state: ItemState::Failed,
            due: None,
            deferral: None,
            record: Some(
                json!({ "reason": "robots_disallowed", "reason_detail": "by robots.txt" })
                    .to_string(),
            ),
        };
        let attempts = [
            record("found", &json!({ "metadata": { "locations": 1 } })),
            record(
                "failed",
                &json!({ "url": "https://pub.example/a.pdf", "reason": "robots_disallowed",
                         "reason_detail": "by robots.txt" }),
            ),
            record(
                "not_found",
                &json!({ "resolver_name": "crossref", "reason_detail": "not known" }),
            ),
        ];
        let shown = account(item, &attempts);
        let sentences: Vec<&str> = shown
            .attempts
            .iter()
            .map(|attempt| attempt.sentence.as_str())
            .collect();
        assert_eq!(
            sentences,
            [
                "Unpaywall named 1 location",
                "pub.example gave no file, which Unpaywall named: the site's robots.txt forbids it (by robots.txt)",
                "Crossref named no copy (not known)",
            ]
        );
        assert_eq!(shown.standing, ResultStatus::Blocked);
        let decisive = shown.decisive.unwrap();
        assert_eq!(decisive.options, ["--retry-failed", "--ignore-robots"]);
        assert_eq!(shown.link, "https://doi.org/10.1234/a");
    }
}
