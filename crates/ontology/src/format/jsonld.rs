//! Reads JSON-LD files, in memory or streamed.
//!
//! In JSON, a context may follow the keys that it defines. The parser then keeps all values until
//! the context arrives, which can take seventy times their size in memory, so only small files are
//! read this way. Larger files are streamed, which needs the keys in a certain order (`@context`,
//! `@type`, and `@graph` last). A large file in another order is refused with a message that says
//! so.
//!
//! The parser resolves contexts recursively. Their costs are checked beforehand, and the parser
//! runs on a thread whose stack is large enough for every file within the limits.

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use docstokg_hub::{redact, redact_text};
use oxjsonld::{
    JsonLdErrorCode, JsonLdLoadDocumentOptions, JsonLdParseError, JsonLdParser, JsonLdProfile,
    JsonLdRemoteDocument, JsonLdSyntaxError,
};
use oxrdf::Quad;
use url::Url;

use super::guard::contexts::{ContextScan, SharedBudget};
use super::guard::json::JsonGuard;
use super::guard::stack::{ItemSender, parse_apart};
use super::guard::{SharedWatch, take_failure};
use super::report::FormatProblem;
use super::statements::{FormatProblems, OnStatement, quad_bytes, shorten, with_base};
use super::{ContextLoader, ReadOptions, detect};

/// Maximum nesting of objects and arrays: contexts are processed recursively, and `serde_json`
/// reads no deeper.
pub(crate) const MAX_DEPTH: usize = 127;

pub(crate) fn read(
    mut reader: impl Read + Send,
    options: &ReadOptions,
    problems: &mut FormatProblems,
    on_statement: &mut OnStatement<'_>,
) -> io::Result<()> {
    let limit = options.limits.max_unstreamed_bytes;
    let mut bytes = Vec::new();
    reader
        .by_ref()
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let contexts = RemoteContexts {
        not_loaded: Arc::default(),
        budget: SharedBudget::default(),
        options,
    };
    let not_loaded = Arc::clone(&contexts.not_loaded);
    let mut receiver = StatementReceiver {
        problems,
        on_statement,
        limit,
    };
    let ended = if bytes.len() as u64 > limit {
        receiver.stream(Cursor::new(bytes).chain(reader), &contexts)
    } else {
        receiver.keep(&bytes, &contexts)
    };
    let mut urls = std::mem::take(&mut *lock(&not_loaded));
    urls.dedup();
    // The URLs are stored in records and shown, so remove secrets.
    for url in &mut urls {
        *url = Url::parse(url).map_or_else(|_| redact_text(url), |url| redact(&url));
    }
    for url in &urls {
        let message = format!("the remote context {} is not loaded", shorten(url));
        problems.warning(FormatProblem::of_file(message));
    }
    problems.contexts_not_loaded = urls;
    ended
}

fn lock(list: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The [`ContextLoader`] of a file, and the URLs of contexts that could not be loaded.
struct RemoteContexts<'a> {
    not_loaded: Arc<Mutex<Vec<String>>>,
    budget: SharedBudget,
    options: &'a ReadOptions,
}

type ContextResult = Result<JsonLdRemoteDocument, Box<dyn std::error::Error + Send + Sync>>;

impl RemoteContexts<'_> {
    /// Returns the callback that loads remote contexts for the parser.
    fn callback(
        &self,
    ) -> impl Fn(&str, &JsonLdLoadDocumentOptions) -> ContextResult
    + Send
    + Sync
    + UnwindSafe
    + RefUnwindSafe
    + 'static {
        let missed = AssertUnwindSafe(Arc::clone(&self.not_loaded));
        let loader = AssertUnwindSafe(self.options.contexts.clone());
        let budget = AssertUnwindSafe(Arc::clone(&self.budget));
        let max_bytes = self.options.limits.max_unstreamed_bytes;
        move |url, _| match load(loader.as_ref(), url, max_bytes, &budget) {
            Ok(document) => Ok(JsonLdRemoteDocument {
                document,
                document_url: url.to_owned(),
            }),
            Err(reason) => {
                lock(&missed).push(url.to_owned());
                Err(reason.into())
            }
        }
    }
}

/// Loads a remote context. Returns an error if there is no loader, or the document exceeds a limit.
fn load(
    loader: Option<&Arc<dyn ContextLoader>>,
    url: &str,
    max_bytes: u64,
    budget: &SharedBudget,
) -> Result<Vec<u8>, String> {
    let Some(loader) = loader else {
        return Err("remote contexts are not loaded".to_owned());
    };
    let document = loader.load(url)?;
    if document.len() as u64 > max_bytes {
        return Err("the context is too large".to_owned());
    }
    if detect::json_depth(&document) > MAX_DEPTH {
        return Err("the context is nested too deep".to_owned());
    }
    budget.lock().add_remote(url, &document)?;
    Ok(document)
}

/// A statement of the parser, or its syntax error.
type ParsedQuad = Result<Quad, JsonLdSyntaxError>;

/// Sends a statement to the receiver. Breaks if the parser must stop.
fn send(
    sender: &mut ItemSender<ParsedQuad>,
    parsed: ParsedQuad,
    not_loaded: &Mutex<Vec<String>>,
) -> ControlFlow<()> {
    match &parsed {
        Ok(quad) => {
            let bytes = quad_bytes(quad);
            sender.send(parsed, bytes)
        }
        // Without one of its contexts, the rest of the file cannot be checked.
        Err(_) if !lock(not_loaded).is_empty() => ControlFlow::Break(()),
        Err(error) => {
            let is_json = error.code().is_some();
            sender.send(parsed, 0)?;
            // If the text is not valid JSON, the guards and the parser may interpret the rest
            // differently.
            if is_json {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        }
    }
}

/// Receives the statements of a parser that runs on its own thread, see [`parse_apart`].
struct StatementReceiver<'a, 'b> {
    problems: &'a mut FormatProblems,
    on_statement: &'a mut OnStatement<'b>,
    limit: u64,
}

impl StatementReceiver<'_, '_> {
    /// Reads a file that is in memory, with its keys in any order.
    fn keep(&mut self, bytes: &[u8], contexts: &RemoteContexts<'_>) -> io::Result<()> {
        if let Some(problem) = fault(bytes, contexts) {
            self.problems.error(problem);
            return Ok(());
        }
        let parser = with_base(
            JsonLdParser::new(),
            contexts.options,
            JsonLdParser::with_base_iri,
        );
        let parse = |sender: &mut ItemSender<ParsedQuad>| {
            let mut statements = parser
                .for_slice(bytes)
                .with_load_document_callback(contexts.callback());
            let _ = statements.try_for_each(|parsed| send(sender, parsed, &contexts.not_loaded));
        };
        let ended = parse_apart(parse, |parsed| self.take(parsed))?;
        self.note_panic(ended.is_none());
        Ok(())
    }

    fn stream(
        &mut self,
        reader: impl Read + Send,
        contexts: &RemoteContexts<'_>,
    ) -> io::Result<()> {
        let options = contexts.options;
        let watch = SharedWatch::default();
        let guard = JsonGuard::new(reader, &options.limits, Arc::clone(&watch))
            .with_depth(MAX_DEPTH)
            .with_contexts(ContextScan::default(), Arc::clone(&contexts.budget));
        let parser = JsonLdParser::new().with_profile(JsonLdProfile::Streaming);
        let parser = with_base(parser, options, JsonLdParser::with_base_iri);
        let parse = |sender: &mut ItemSender<ParsedQuad>| -> Option<io::Error> {
            let statements = parser
                .for_reader(guard)
                .with_load_document_callback(contexts.callback());
            for statement in statements {
                let parsed = match statement {
                    Ok(quad) => Ok(quad),
                    Err(JsonLdParseError::Syntax(error)) => Err(error),
                    Err(JsonLdParseError::Io(error)) => return Some(error),
                };
                if send(sender, parsed, &contexts.not_loaded).is_break() {
                    break;
                }
            }
            None
        };
        let ended = parse_apart(parse, |parsed| self.take(parsed))?;
        self.note_panic(ended.is_none());
        if let Some(error) = ended.flatten() {
            let problem = take_failure(&watch).ok_or(error)?;
            self.problems.error(problem);
        }
        Ok(())
    }

    fn note_panic(&mut self, has_panicked: bool) {
        if has_panicked {
            let message = "the JSON-LD parser failed on this file; nothing more is known about it";
            self.problems.error(FormatProblem::of_file(message));
        }
    }

    fn take(&mut self, parsed: ParsedQuad) -> ControlFlow<()> {
        let error = match parsed {
            Ok(quad) => {
                return match (self.on_statement)(quad) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(stop) => {
                        self.problems.stop(stop);
                        ControlFlow::Break(())
                    }
                };
            }
            Err(error) => error,
        };
        if matches!(
            error.code(),
            Some(JsonLdErrorCode::InvalidStreamingKeyOrder)
        ) {
            self.problems.is_unordered = self.problems.error_count == 0;
            self.problems.error(FormatProblem::of_file(format!(
                "the file is larger than {} MiB, so it has to be streamed, and its keys are not \
                 in the order for that: {}",
                self.limit >> 20,
                shorten(&error.to_string())
            )));
            return ControlFlow::Break(());
        }
        let start = error.location().map(|location| location.start);
        self.problems.error(FormatProblem {
            line: start.map(|start| start.line + 1),
            column: start.map(|start| start.column + 1),
            message: shorten(&error.to_string()),
        });
        if self.problems.is_full() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Returns the first fault of the file as JSON text, or of its contexts.
fn fault(bytes: &[u8], contexts: &RemoteContexts<'_>) -> Option<FormatProblem> {
    // Apply the same limits as to a streamed file.
    let watch = SharedWatch::default();
    let limits = &contexts.options.limits;
    let mut guard = JsonGuard::new(bytes, limits, Arc::clone(&watch)).with_depth(MAX_DEPTH);
    if io::copy(&mut guard, &mut io::sink()).is_err() {
        return take_failure(&watch);
    }
    let document: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => {
            return Some(FormatProblem {
                line: Some(error.line() as u64),
                column: Some(error.column() as u64),
                message: format!(
                    "this cannot be read as JSON: {}",
                    shorten(&error.to_string())
                ),
            });
        }
    };
    let mut budget = contexts.budget.lock();
    let judged = ContextScan::default()
        .pass(bytes, &mut budget)
        .and_then(|()| budget.judge_kept(&document));
    judged.err().map(FormatProblem::of_file)
}
