//! The commands, one file each.

pub(crate) mod breaker;
pub(crate) mod config;
mod doctor;
pub(crate) mod explain;
pub(crate) mod fetch;
pub(crate) mod limits;
pub(crate) mod summary;
