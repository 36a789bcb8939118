//! `docstokg fetch URL`: one request through the whole hub.

mod trace;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, TokioRuntime};
use docstokg_hub::event::Observer;
use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{
    FetchError, Host, Hub, Journey, RateWait, Request, ResponseHead, RobotsPolicy, SavedFile,
    redact,
};
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;

use self::trace::TracePrinter;
use super::limits;
use crate::arguments::{FetchArguments, GlobalArguments};
use crate::exit::{self, CommandFailure};
use crate::output;
use crate::session::{Session, TaskThreads};
use crate::telemetry::{MetricsReader, RunRecording};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &FetchArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let request = request(arguments)?;
    let clock = TokioRuntime::default();
    if arguments.explain || global.verbose {
        let host = Url::parse(&arguments.url)
            .ok()
            .and_then(|url| Host::of(&url).ok());
        limits::announce(&loaded.config, host.as_ref());
    }
    let mut session = Session::open(global, loaded, TaskThreads::Caller)?;
    let recording = session.record("fetch", MetricsReader::None)?;
    let trace =
        (arguments.explain).then(|| Arc::new(TracePrinter::new(clock.boot())) as Arc<dyn Observer>);
    let config = session.loaded.config.clone();
    let hub = session.hub(config, [recording.observer(), trace])?;
    session.runtime.block_on(async {
        let fetched = fetch(&hub, request, arguments.output.as_deref());
        let ended = tokio::select! {
            // An interrupt that arrived earlier takes effect before any request is sent.
            biased;
            _ = session.interrupts.next() => {
                let message = "interrupted; no partial file was left";
                Err(CommandFailure::Interrupted(message.to_owned()))
            }
            outcome = fetched => Ok(match outcome {
                Ok(fetched) => answered(global, arguments, &fetched, &recording, clock),
                Err(error) => failed(global, &error, &recording, clock),
            }),
        };
        // The last changes must reach the store before the process ends. If they do not, its leases
        // expire.
        let _ = hub.close().await;
        recording.close();
        ended
    })
}

/// Fetches into memory, or into a file if the arguments name a file.
async fn fetch(
    hub: &Hub,
    request: Request,
    file: Option<&Path>,
) -> Result<FetchedResponse, FetchError> {
    if let Some(path) = file {
        let done = hub.download(request, path).await?;
        return Ok(FetchedResponse {
            head: done.head,
            body: done.preview,
            file: done.file,
            journey: done.journey,
        });
    }
    let done = hub.fetch(request).await?;
    Ok(FetchedResponse {
        head: done.head,
        body: done.body,
        file: None,
        journey: done.journey,
    })
}

struct FetchedResponse {
    head: ResponseHead,
    body: bytes::Bytes,
    file: Option<SavedFile>,
    journey: Journey,
}

fn request(arguments: &FetchArguments) -> Result<Request, CommandFailure> {
    let usage = |message: String| CommandFailure::Usage(message);
    let url = Url::parse(&arguments.url).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => usage(format!(
            "'{}' is not a URL: it has no scheme such as https://",
            arguments.url
        )),
        error => usage(format!("'{}' is not a URL: {error}", arguments.url)),
    })?;
    Host::of(&url).map_err(|error| usage(error.to_string()))?;
    let method: Method = arguments
        .method
        .to_ascii_uppercase()
        .parse()
        .map_err(|_| usage(format!("'{}' is not an HTTP method", arguments.method)))?;
    let robots = if arguments.obey_robots {
        RobotsPolicy::Obey {
            exempt: Arc::default(),
        }
    } else {
        RobotsPolicy::Ignore
    };
    let mut request = Request::new(method, url)
        .robots(robots)
        .role(arguments.role)
        .rate_wait(RateWait::Policy);
    if let Some(resolver) = &arguments.resolver {
        request = request.resolver(resolver);
    }
    for header in &arguments.header {
        // The value may be a credential, so the message does not repeat it.
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| usage("--header: expected 'NAME: VALUE'".to_owned()))?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| usage(format!("--header: '{}' is not a header name", name.trim())))?;
        let value: HeaderValue = value.trim().parse().map_err(|_| {
            usage(format!(
                "--header: the value of {name} has characters that a header may not have"
            ))
        })?;
        request = request.secret_header(name, value);
    }
    Ok(request)
}

fn answered(
    global: &GlobalArguments,
    arguments: &FetchArguments,
    fetched: &FetchedResponse,
    recording: &RunRecording,
    clock: TokioRuntime,
) -> ExitCode {
    let status = fetched.head.status;
    let later = NextAttempt::of(&fetched.journey, clock);
    let ok = status.is_success() || status.is_redirection();
    if global.json {
        let mut shown = answer_json(fetched, recording);
        shown["ok"] = json!(ok);
        if let Some(later) = &later {
            later.add_to(&mut shown, clock);
        }
        output::json(&shown);
    } else if arguments.output.is_none() && (ok || !fetched.body.is_empty()) {
        output::data(&fetched.body);
    }
    if ok {
        if let (Some(file), false) = (&fetched.file, global.quiet) {
            output::tell(&format!(
                "{} bytes to {} (sha256 {})",
                file.bytes,
                file.path.display(),
                file.sha256
            ));
        }
        return ExitCode::SUCCESS;
    }
    let host = Host::of(&fetched.head.url).map_or_else(|_| String::new(), |host| host.to_string());
    output::complain(&format!(
        "{host}: the answer is {status} after {}",
        attempts(&fetched.journey)
    ));
    let Some(later) = later else {
        return ExitCode::from(exit::EXIT_FAILED);
    };
    later.tell(clock);
    ExitCode::from(exit::EXIT_REFUSED)
}

/// The next attempt of a request that ended because of a long wait. The origin or the breaker
/// declared the time.
struct NextAttempt {
    wait: Duration,
    is_probe: bool,
}

impl NextAttempt {
    fn of(journey: &Journey, clock: TokioRuntime) -> Option<Self> {
        let stopped = journey.stopped?;
        Some(Self {
            wait: stopped.until()?.since(clock.boot()),
            is_probe: matches!(stopped, StopReason::BreakerOpen { .. }),
        })
    }

    fn add_to(&self, shown: &mut Value, clock: TokioRuntime) {
        shown["cooldown_remaining_ms"] = json!(whole_millis(self.wait));
        shown["until"] = json!((clock.wall() + self.wait).to_string());
    }

    fn tell(&self, clock: TokioRuntime) {
        output::hint(&format!(
            "the next attempt is due at {} (in {:.0} s), {}; try again then",
            clock.wall() + self.wait,
            self.wait.as_secs_f64().ceil(),
            if self.is_probe {
                "when the host, which is paused after failures, is probed"
            } else {
                "which is after the deadline"
            },
        ));
    }
}

fn answer_json(fetched: &FetchedResponse, recording: &RunRecording) -> Value {
    let received = fetched.body.len() as u64;
    let mut shown = json!({
        "ok": false,
        "status": fetched.head.status.as_u16(),
        "url": redact(&fetched.head.url),
        "bytes": fetched.file.as_ref().map_or(received, |file| file.bytes),
        "headers": headers_json(&fetched.head),
        "run_id": recording.run.id,
        "journey": journey_json(&fetched.journey),
    });
    match &fetched.file {
        Some(file) => {
            shown["path"] = json!(file.path.display().to_string());
            shown["sha256"] = json!(file.sha256);
        }
        None => match std::str::from_utf8(&fetched.body) {
            Ok(text) => shown["body"] = json!(text),
            Err(_) => shown["body_is_text"] = json!(false),
        },
    }
    shown
}

fn failed(
    global: &GlobalArguments,
    error: &FetchError,
    recording: &RunRecording,
    clock: TokioRuntime,
) -> ExitCode {
    let refused = error.kind.refused();
    let later = NextAttempt::of(&error.journey, clock).filter(|_| refused.is_none());
    output::complain(&error.sentence());
    if let Some(hint) = error.kind.hint() {
        output::hint(hint);
    }
    if let Some(later) = &later {
        later.tell(clock);
    }
    if global.json {
        let mut shown = json!({
            "ok": false,
            "error": error.kind.class(),
            "message": error.sentence(),
            "url": error.url,
            "run_id": recording.run.id,
            "journey": journey_json(&error.journey),
        });
        if let Some(later) = &later {
            later.add_to(&mut shown, clock);
        }
        if let Some(refused) = refused {
            shown["host"] = json!(refused.host.as_str());
            shown["role"] = json!(refused.role.as_str());
            shown["reason"] = json!(refused.reason());
            shown["until"] = json!(refused.until.to_string());
            shown["cooldown_remaining_ms"] = json!(whole_millis(refused.cooldown_remaining));
            if let Some(resolver) = refused.by.resolver() {
                shown["resolver"] = json!(resolver);
            }
        }
        output::json(&shown);
    }
    ExitCode::from(if refused.is_some() || later.is_some() {
        exit::EXIT_REFUSED
    } else {
        exit::EXIT_FAILED
    })
}

fn attempts(journey: &Journey) -> String {
    let plural = if journey.attempts == 1 {
        "attempt"
    } else {
        "attempts"
    };
    format!(
        "{} {plural} in {:.1} s",
        journey.attempts,
        journey.elapsed.as_secs_f64()
    )
}

fn headers_json(head: &ResponseHead) -> Value {
    let mut shown = serde_json::Map::new();
    for name in head.headers.keys() {
        let values: Vec<String> = head
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        shown.insert(name.to_string(), json!(values.join(", ")));
    }
    Value::Object(shown)
}

fn journey_json(journey: &Journey) -> Value {
    json!({
        "attempts": journey.attempts,
        "redirects": journey.redirects,
        "rate_delay_ms": whole_millis(journey.rate_delay),
        "rate_concurrency_wait_ms": whole_millis(journey.slot_wait),
        "breaker_wait_ms": whole_millis(journey.breaker_wait),
        "backoff_ms": whole_millis(journey.backoff),
        "header_ms": whole_millis(journey.header_time),
        "body_ms": whole_millis(journey.body_time),
        "elapsed_ms": whole_millis(journey.elapsed),
        "stopped": journey.stopped.map(StopReason::as_str),
        "cache": journey.cache.as_str(),
    })
}
