//! Classification of transport errors by their causes.

use std::error::Error;
use std::io::ErrorKind;

use docstokg_policy::classify::Fault;
use rustix::io::Errno;

use super::SendError;
use super::addresses::{InternalAddress, NoAddress, ResolverUnreachable};
use super::dial::BlockedWhileDialling;

/// Converts a transport error to a [`SendError`]. The message names the innermost cause, and never
/// the URL.
pub(super) fn read(error: &reqwest::Error) -> SendError {
    if let Some(kept) = kept_from_leaving(error) {
        return kept;
    }
    let message = innermost(error);
    if was_not_processed(error) {
        return SendError::Unprocessed { message };
    }
    let io = causes_of::<std::io::Error>(error).last();
    if !error.is_connect() && is_closed_connection(error, io) {
        let is_write = io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe);
        let fault = if is_write { Fault::Write } else { Fault::Read };
        return SendError::Closed { fault, message };
    }
    SendError::Fault {
        fault: fault_of(error, io),
        message,
    }
}

/// Returns the [`SendError`] of a request that this process decided not to send; `None` for other
/// errors.
fn kept_from_leaving(error: &reqwest::Error) -> Option<SendError> {
    if let Some(blocked) = causes_of::<BlockedWhileDialling>(error).next() {
        return Some(SendError::Blocked(blocked.0.clone()));
    }
    if let Some(internal) = causes_of::<InternalAddress>(error).next() {
        return Some(SendError::Internal {
            host: internal.name.clone(),
            address: internal.address,
        });
    }
    error
        .is_builder()
        .then(|| SendError::Unsendable(innermost(error)))
}

fn was_not_processed(error: &reqwest::Error) -> bool {
    causes_of::<h2::Error>(error).any(is_unprocessed)
        || (!error.is_connect() && causes_of::<hyper::Error>(error).any(hyper::Error::is_canceled))
}

fn is_closed_connection(error: &reqwest::Error, io: Option<&std::io::Error>) -> bool {
    io.is_some_and(is_closed)
        || causes_of::<hyper::Error>(error).any(hyper::Error::is_incomplete_message)
}

/// Returns the [`Fault`] that an error means. It may be due to the name, to TLS, to this machine or
/// to the route to the origin.
fn fault_of(error: &reqwest::Error, io: Option<&std::io::Error>) -> Fault {
    if causes_of::<NoAddress>(error).next().is_some() {
        Fault::Dns
    } else if chain(error).any(is_tls) {
        Fault::Tls
    } else if io.is_some_and(is_lack_of_files) {
        Fault::OpenFiles
    } else if causes_of::<ResolverUnreachable>(error).next().is_some()
        || io.is_some_and(is_lack_of_route)
    {
        Fault::NoRoute
    } else if error.is_connect() {
        Fault::Connect
    } else if error.is_timeout() || io.is_some_and(|io| io.kind() == ErrorKind::TimedOut) {
        Fault::Timeout
    } else {
        Fault::Read
    }
}

fn is_lack_of_route(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable
    )
}

/// Returns whether this process cannot open more files. Nothing was sent then, and the host is not
/// the cause.
pub(super) fn is_lack_of_files(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        [Errno::MFILE, Errno::NFILE]
            .map(Errno::raw_os_error)
            .contains(&code)
    })
}

/// Returns whether the origin ended the connection, or refused the request, before processing the
/// request (RFC 9113 section 8.7). When a connection ends, requests that are already processed
/// continue on it.
fn is_unprocessed(error: &h2::Error) -> bool {
    let said = |reason| error.is_remote() && error.reason() == Some(reason);
    error.is_go_away() && said(h2::Reason::NO_ERROR)
        || error.is_reset() && said(h2::Reason::REFUSED_STREAM)
}

fn is_closed(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
    )
}

/// Returns an error and all its causes, the innermost last.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause| (*cause).source())
}

/// Returns those causes of an error that have the type `E`, the outermost first.
fn causes_of<E: Error + 'static>(error: &reqwest::Error) -> impl Iterator<Item = &E> {
    chain(error).filter_map(|cause| cause.downcast_ref::<E>())
}

fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    // The `source` of an `io::Error` skips its inner error, so the inner error is checked here.
    // Such errors may be nested several times.
    let wrapped = |error: &'_ std::io::Error| error.get_ref().is_some_and(|inner| is_tls(inner));
    cause.is::<rustls::Error>() || cause.downcast_ref::<std::io::Error>().is_some_and(wrapped)
}

fn innermost(error: &reqwest::Error) -> String {
    chain(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}
