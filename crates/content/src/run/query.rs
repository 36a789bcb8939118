//! The works of an OpenAlex query, page by page. The cursor is recorded, so that the next run
//! continues there.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::queue::{QueryCursor, QueueError, WorkQueue};
use docstokg_hub::clock::Runtime;
use docstokg_lookup::driver::RequestSender as _;
use docstokg_lookup::message::LookupRequest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::inputs::{InputResult, WorkInputs};
use crate::bounded_json;
use crate::input::{BadLine, InputReader, ListFormat, NumberedWork};
use crate::resolver::settings::Settings;
use crate::resolver::{OPENALEX, OPENALEX_API, OpenAlex, credits_left};
use crate::work_sender::WorkSender;

/// The number of works per page, which is the maximum of the service.
const WORKS_PER_PAGE: u64 = 100;
/// Maximum number of requests for a page that fails.
const MAX_PAGE_ATTEMPTS: u32 = 5;
/// Maximum wait before the next request for a page.
const MAX_PAGE_RETRY_WAIT: Duration = Duration::from_secs(300);
/// The wait before the next request if the response declares none.
const RETRY_WAIT: Duration = Duration::from_secs(5);

/// The conditions of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkQuery {
    /// The topic, in words.
    pub topic: Option<String>,
    /// The filter, in the syntax of the service.
    pub filter: Option<String>,
    /// The first year of publication.
    pub year_start: Option<i32>,
    /// The last year of publication.
    pub year_end: Option<i32>,
    /// Maximum number of works.
    pub most: Option<u64>,
}

impl WorkQuery {
    /// Returns the name under which the cursor of the query is recorded.
    fn name(&self) -> String {
        format!(
            "{:?}",
            (&self.topic, &self.filter, self.year_start, self.year_end)
        )
    }

    /// Returns the filter for the service; `topic` is the topic as its id.
    fn text(&self, topic: Option<&str>) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(topic.map(|id| format!("topics.id:{id}")));
        parts.extend(self.filter.clone());
        match (self.year_start, self.year_end) {
            (Some(first), Some(last)) => parts.push(format!("publication_year:{first}-{last}")),
            (Some(first), None) => parts.push(format!("publication_year:{first}-")),
            (None, Some(last)) => parts.push(format!("publication_year:-{last}")),
            (None, None) => {}
        }
        parts.join(",")
    }
}

/// The works of a [`WorkQuery`], read page by page.
pub struct QueryPages {
    web: WorkSender,
    runtime: Arc<dyn Runtime>,
    queue: WorkQueue,
    settings: Arc<Settings>,
    query: WorkQuery,
    filter: Option<String>,
    cursor: QueryCursor,
    begun: bool,
    broken_off: bool,
    /// The previous response left no credits for the next page.
    spent: bool,
}

impl QueryPages {
    /// Creates the reader at the recorded cursor of the query.
    #[must_use]
    pub fn new(
        web: WorkSender,
        runtime: Arc<dyn Runtime>,
        queue: WorkQueue,
        settings: Arc<Settings>,
        query: WorkQuery,
    ) -> Self {
        Self {
            web,
            runtime,
            queue,
            settings,
            query,
            filter: None,
            cursor: QueryCursor {
                position: Some("*".to_owned()),
                ..QueryCursor::default()
            },
            begun: false,
            broken_off: false,
            spent: false,
        }
    }

    async fn read(&mut self) -> Result<Option<Vec<InputResult>>, String> {
        self.keep_cursor()
            .await
            .map_err(|error| error.to_string())?;
        let most = self.query.most;
        let left = most.map_or(u64::MAX, |most| most.saturating_sub(self.cursor.found));
        let Some(position) = self.cursor.position.clone().filter(|_| left > 0) else {
            return Ok(None);
        };
        if self.spent {
            // A request without credits would block the service, including free requests.
            return Err("the credits that OpenAlex gives for a day are spent; the same command goes on after midnight UTC".to_owned());
        }
        let answer = self.ask_page(&position, left).await?;
        let Some(results) = answer.get("results").and_then(Value::as_array) else {
            let shown: String = answer.to_string().chars().take(200).collect();
            return Err(format!(
                "OpenAlex answered without the 'results' it should have: {shown}"
            ));
        };
        let next = answer
            .pointer("/meta/next_cursor")
            .and_then(Value::as_str)
            .filter(|_| !results.is_empty())
            .map(str::to_owned);
        if next.as_ref() == Some(&position) {
            return Err("OpenAlex gave the same page again instead of the next".to_owned());
        }
        self.cursor.position = next;
        self.cursor.page += 1;
        let works = self.lines_of(results, left);
        self.cursor.found += works.len() as u64;
        Ok(if works.is_empty() { None } else { Some(works) })
    }

    /// Reads the cursor of an earlier run. Then records, before each further page, that the works
    /// of the previous page are queued.
    async fn keep_cursor(&mut self) -> Result<(), QueueError> {
        if self.begun {
            let cursor = self.cursor.clone();
            return self.queue.set_cursor(self.query.name(), cursor).await;
        }
        self.begun = true;
        if let Some(cursor) = self.queue.cursor(self.query.name()).await? {
            self.cursor = cursor;
        }
        Ok(())
    }

    /// Requests the page at a position, with at most `left` works.
    async fn ask_page(&mut self, position: &str, left: u64) -> Result<Value, String> {
        let filter = self.filter().await?;
        let mut url = self.address("works");
        url.query_pairs_mut()
            .append_pair("filter", &filter)
            .append_pair("per_page", &WORKS_PER_PAGE.min(left).to_string())
            .append_pair("cursor", position);
        self.ask(url).await
    }

    /// Reads the works of a page as input lines. Each has the
    /// [`LookupOutcome`](crate::resolver::LookupOutcome) that a look-up would return.
    fn lines_of(&self, results: &[Value], left: u64) -> Vec<InputResult> {
        let source: Arc<str> = format!("openalex, page {}", self.cursor.page).into();
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let resolver = OpenAlex::new(Arc::clone(&self.settings));
        let lines = results
            .iter()
            .take(left)
            .zip(1..)
            .flat_map(|(work, number)| {
                let said = Some(Box::new(resolver.read(work)));
                let lines =
                    InputReader::new(std::io::Cursor::new(work.to_string()), ListFormat::Jsonl);
                lines.map(move |line| match line {
                    Ok(line) => Ok(NumberedWork {
                        number,
                        text: line.work.shown_id(),
                        said: said.clone(),
                        ..line
                    }),
                    Err(bad) => Err(BadLine { number, ..bad }),
                })
            });
        lines.map(|line| (Arc::clone(&source), line)).collect()
    }

    /// Returns the filter, after a request for the id of the topic.
    async fn filter(&mut self) -> Result<String, String> {
        if let Some(filter) = &self.filter {
            return Ok(filter.clone());
        }
        let mut topic = None;
        if let Some(text) = self.query.topic.clone() {
            let mut url = self.address("topics");
            url.query_pairs_mut()
                .append_pair("search", &text)
                .append_pair("per_page", "1");
            let answer = self.ask(url).await?;
            let id = answer
                .pointer("/results/0/id")
                .and_then(Value::as_str)
                .and_then(|id| id.rsplit('/').next());
            topic = Some(
                id.ok_or_else(|| format!("OpenAlex knows no topic '{text}'"))?
                    .to_owned(),
            );
        }
        let filter = self.query.text(topic.as_deref());
        self.filter = Some(filter.clone());
        Ok(filter)
    }

    fn address(&self, path: &str) -> Url {
        let base = self.settings.endpoints.of(&OPENALEX_API);
        let mut url = base.clone();
        url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
        url
    }

    async fn ask(&mut self, url: Url) -> Result<Value, String> {
        let mut last = String::new();
        for _ in 0..MAX_PAGE_ATTEMPTS {
            let request = LookupRequest::metadata(url.clone(), OPENALEX.as_str())
                .kind("list")
                .secrets(self.settings.secret_headers(&url));
            let disposition = match self.web.send(request).await {
                Ok(answer) if answer.status.is_success() => {
                    self.spent = credits_left(&answer) == Some(0);
                    return bounded_json::read(&answer.body)
                        .ok_or_else(|| "the answer of OpenAlex cannot be read as JSON".to_owned());
                }
                Ok(answer) if matches!(answer.status.as_u16(), 400 | 401 | 403 | 404) => {
                    let text: String = String::from_utf8_lossy(&answer.body)
                        .chars()
                        .take(200)
                        .collect();
                    return Err(self
                        .settings
                        .redact(&format!("OpenAlex answered {}: {text}", answer.status)));
                }
                Ok(answer) => {
                    last = format!("OpenAlex answered {}", answer.status);
                    answer.disposition
                }
                Err(failure) => {
                    last = failure.detail;
                    failure.disposition
                }
            };
            let wait = disposition.retry().map_or(RETRY_WAIT, |later| later.wait);
            if wait > MAX_PAGE_RETRY_WAIT {
                return Err(format!(
                    "{last}; it asks for no requests for {} s; run the same command again then",
                    wait.as_secs()
                ));
            }
            self.runtime.sleep_until(self.runtime.boot() + wait).await;
        }
        Err(last)
    }
}

impl WorkInputs for QueryPages {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<InputResult>>> {
        Box::pin(async {
            match self.read().await {
                Ok(works) => works,
                Err(problem) => {
                    self.cursor.position = None;
                    self.query.most = Some(0);
                    self.begun = false;
                    self.broken_off = true;
                    let bad = BadLine {
                        number: 0,
                        text_preview: String::new(),
                        problem: self.settings.redact(&problem),
                    };
                    // Report the problem once, and keep the recorded cursor.
                    Some(vec![("openalex query".into(), Err(bad))])
                }
            }
        })
    }

    fn is_complete(&self) -> bool {
        !self.broken_off
    }

    /// The next run goes on where the query stands.
    fn is_reread(&self) -> bool {
        false
    }
}
