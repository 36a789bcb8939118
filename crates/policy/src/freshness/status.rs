//! What the cache knows about status codes.

use http::StatusCode;

/// Says whether a response of this status may have a heuristic lifetime, and may be stored without
/// a stated one (RFC 9110 section 15.1). 206 is not among them, because no partial content is
/// stored.
pub(super) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Says whether the cache understands a status as `must-understand` asks (RFC 9111 section
/// 5.2.2.3): the final ones of RFC 9110 that can be stored.
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

/// Says whether a response of this status can answer another request. The others are about the
/// request that they answer: its ranges and preconditions (206, 304, 412, 416), or the client and
/// its network (428, 429, 431, 511: RFC 6585 forbids to store them).
pub(super) fn can_answer_others(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=599)
        && !matches!(
            status.as_u16(),
            206 | 304 | 412 | 416 | 428 | 429 | 431 | 511
        )
}

/// Says whether a status is an error for which a stale answer may be served (RFC 5861 section 4).
#[must_use]
pub fn is_stale_if_error_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
