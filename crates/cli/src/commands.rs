//! The commands, one file each.

pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod fetch;
pub(crate) mod limits;
