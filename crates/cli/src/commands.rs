//! The commands, one file each, and what several of them share: `known`, `services` and `stated`.

mod advise;
pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod demo;
mod doctor;
pub(crate) mod download;
pub(crate) mod explain;
pub(crate) mod fetch;
mod import;
mod known;
pub(crate) mod limits;
pub(crate) mod serve;
mod services;
mod stated;
pub(crate) mod summary;
