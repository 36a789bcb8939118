//! The commands, one file each.

pub mod config;
pub mod explain;
pub mod fetch;
pub mod limits;
