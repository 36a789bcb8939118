//! The commands, one file each.

mod advise;
pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod demo;
mod doctor;
pub(crate) mod download;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fetch;
mod import;
pub(crate) mod limits;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod why;
