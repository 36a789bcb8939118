//! JSON-LD: read into memory up to a limit, because a context may come after what it explains.

use std::io::{self, Read};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};

use super::report::Problem;
use super::statements::{OnStatement, Problems, shorten, with_base};
use super::{ContextLoader, Options, detect};

/// Deepest nesting of objects and arrays; contexts are processed recursively.
const MAX_DEPTH: usize = 256;

pub(crate) fn read(
    reader: impl Read,
    options: &Options,
    problems: &mut Problems,
    on_statement: &mut OnStatement<'_>,
) -> io::Result<()> {
    let limit = options.limits.max_unstreamed_bytes;
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        problems.error(Problem::of_file(format!(
            "the file is larger than {} MiB, the limit for JSON-LD, which cannot be streamed",
            limit >> 20
        )));
        return Ok(());
    }
    if let Some(problem) = fault(&bytes) {
        problems.error(problem);
        return Ok(());
    }
    let not_loaded: Arc<Mutex<Vec<String>>> = Arc::default();
    parse(&bytes, options, &not_loaded, problems, on_statement);
    let mut urls = std::mem::take(&mut *lock(&not_loaded));
    urls.dedup();
    for url in &urls {
        let message = format!("the remote context {} is not loaded", shorten(url));
        problems.warning(Problem::of_file(message));
    }
    problems.contexts_not_loaded = urls;
    Ok(())
}

fn lock(list: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wrong with the file as JSON.
fn fault(bytes: &[u8]) -> Option<Problem> {
    let depth = detect::json_depth(bytes);
    if depth > MAX_DEPTH {
        let message = format!("objects and arrays are nested {depth} deep, more than {MAX_DEPTH}");
        return Some(Problem::of_file(message));
    }
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes)
        .err()
        .map(|error| Problem {
            line: Some(error.line() as u64),
            column: Some(error.column() as u64),
            message: format!("this is not JSON: {}", shorten(&error.to_string())),
        })
}

/// A remote context, if there is a loader and what it loads is within the limits.
fn load(
    loader: Option<&Arc<dyn ContextLoader>>,
    url: &str,
    max_bytes: u64,
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
    Ok(document)
}

fn parse(
    bytes: &[u8],
    options: &Options,
    not_loaded: &Arc<Mutex<Vec<String>>>,
    problems: &mut Problems,
    on_statement: &mut OnStatement<'_>,
) {
    let parser = with_base(JsonLdParser::new(), options, JsonLdParser::with_base_iri);
    let missed = AssertUnwindSafe(Arc::clone(not_loaded));
    let loader = AssertUnwindSafe(options.contexts.clone());
    let max_bytes = options.limits.max_unstreamed_bytes;
    let statements = parser
        .for_slice(bytes)
        .with_load_document_callback(move |url, _| {
            let document = load(loader.as_ref(), url, max_bytes);
            match document {
                Ok(document) => Ok(JsonLdRemoteDocument {
                    document,
                    document_url: url.to_owned(),
                }),
                Err(reason) => {
                    lock(&missed).push(url.to_owned());
                    Err(reason.into())
                }
            }
        });
    for statement in statements {
        match statement {
            Ok(quad) => {
                if let Err(stop) = on_statement(quad) {
                    problems.stop(stop);
                    return;
                }
            }
            Err(error) => {
                // What follows a context that is not available cannot be judged.
                if !lock(not_loaded).is_empty() {
                    return;
                }
                let start = error.location().map(|location| location.start);
                problems.error(Problem {
                    line: start.map(|start| start.line + 1),
                    column: start.map(|start| start.column + 1),
                    message: shorten(&error.to_string()),
                });
                if problems.is_full() {
                    return;
                }
            }
        }
    }
}
