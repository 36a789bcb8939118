//! What went wrong on the wire, told from the chain of causes.

use std::error::Error;
use std::io::ErrorKind;

use docstokg_policy::classify::Fault;
use rustix::io::Errno;

use super::SendError;
use super::addresses::{InternalAddress, NoAddress, ResolverUnreachable};
use super::dial::BlockedWhileDialling;

/// Reads a transport error. The message names the innermost cause and never the URL.
pub(super) fn read(error: &reqwest::Error) -> SendError {
    let causes = || chain(error);
    if let Some(blocked) = causes().find_map(|cause| cause.downcast_ref::<BlockedWhileDialling>()) {
        return SendError::Blocked(blocked.0.clone());
    }
    if let Some(internal) = causes().find_map(|cause| cause.downcast_ref::<InternalAddress>()) {
        return SendError::Internal {
            host: internal.name.clone(),
            address: internal.address,
        };
    }
    if error.is_builder() {
        return SendError::Unsendable(innermost(error));
    }
    let is_unprocessed = causes()
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(is_unprocessed)
        || (!error.is_connect()
            && causes()
                .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
                .any(hyper::Error::is_canceled));
    if is_unprocessed {
        return SendError::Unprocessed {
            message: innermost(error),
        };
    }
    let io = causes()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .last();
    let is_ours = io.is_some_and(is_lack_of_files);
    if !error.is_connect()
        && (io.is_some_and(is_closed)
            || causes()
                .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
                .any(hyper::Error::is_incomplete_message))
    {
        let fault = if io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe) {
            Fault::Write
        } else {
            Fault::Read
        };
        return SendError::Closed {
            fault,
            message: innermost(error),
        };
    }
    let fault = if causes().any(<dyn Error + 'static>::is::<NoAddress>) {
        Fault::Dns
    } else if causes().any(is_tls) {
        Fault::Tls
    } else if is_ours
        || causes().any(<dyn Error + 'static>::is::<ResolverUnreachable>)
        || io.is_some_and(|io| {
            matches!(
                io.kind(),
                ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
                    | ErrorKind::AddrNotAvailable
            )
        })
    {
        Fault::NoRoute
    } else if error.is_connect() {
        Fault::Connect
    } else if error.is_timeout() || io.is_some_and(|io| io.kind() == ErrorKind::TimedOut) {
        Fault::Timeout
    } else {
        Fault::Read
    };
    SendError::Fault {
        fault,
        message: innermost(error),
    }
}

/// Tells whether no more files can be opened: nothing left the machine, and no host is to blame.
pub(super) fn is_lack_of_files(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        [Errno::MFILE, Errno::NFILE]
            .map(Errno::raw_os_error)
            .contains(&code)
    })
}

/// Tells whether the origin has ended the connection in good order before it came to the request,
/// or would not look at it (RFC 9113, 8.7): such a request was not processed. Those that it came to
/// go on on the old connection.
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

/// Walks from an error to its innermost cause.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause| (*cause).source())
}

fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    // An io::Error hides what it wraps: its `source` is that of the inner error. There may be
    // several, one in the other.
    let wrapped = |error: &'_ std::io::Error| error.get_ref().is_some_and(|inner| is_tls(inner));
    cause.is::<rustls::Error>() || cause.downcast_ref::<std::io::Error>().is_some_and(wrapped)
}

fn innermost(error: &reqwest::Error) -> String {
    chain(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}
