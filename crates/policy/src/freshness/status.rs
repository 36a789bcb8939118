//! The properties of status codes that concern the cache.

use http::StatusCode;

/// Returns whether a response of this status may have a heuristic lifetime, and may be stored
/// without a declared one (RFC 9110 section 15.1). 206 is excluded, because partial content is not
/// stored.
pub(super) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Returns whether the cache understands a status, for `must-understand` (RFC 9111 section
/// 5.2.2.3): the final statuses of RFC 9110 that can be stored.
pub(super) fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205
            | 300..=303
            | 305
            | 307
            | 308
            | 400..=411
            | 413..=415
            | 417
            | 421
            | 422
            | 426
            | 500..=505
    )
}

/// Returns whether a response of this status can serve another request. The excluded statuses
/// concern one request:
///
/// - its ranges and preconditions (206, 304, 412, 416),
/// - the client and its network (428, 429, 431, 511), because RFC 6585 forbids storing them.
pub(super) fn can_answer_others(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=599)
        && !matches!(
            status.as_u16(),
            206 | 304 | 412 | 416 | 428 | 429 | 431 | 511
        )
}

/// Returns whether a status is an error for which a stale response may be served (RFC 5861 section
/// 4).
#[must_use]
pub fn is_stale_if_error_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
