//! Scholarly works: their names, the locations of their files, and the judgement of what arrives.
//!
//! In the order in which a work passes through:
//!
//! - [`input`] reads lists of works; [`identifier`] and [`work`] describe their names.
//! - [`resolver`] queries the services that know where files are, in steps of [`docstokg_lookup`],
//!   and returns [`location`]s.
//! - [`landing_page`] and [`bot_challenge`] read publishers' pages.
//! - [`sniff`] judges a file by its bytes, and [`names`] gives the file its name on disk.

mod artifact;
pub mod bot_challenge;
mod bounded_json;
mod charset;
pub mod config;
mod digest;
pub mod evidence;
pub mod export;
pub mod identifier;
pub mod input;
pub mod landing_page;
pub mod layout;
pub mod location;
mod manifest;
pub mod metadata;
pub mod names;
mod pdf_structure;
pub mod reason;
pub mod request_failure;
pub mod resolver;
pub mod results;
pub mod run;
pub mod run_status;
pub mod sniff;
pub mod titles;
pub mod work;
pub mod work_history;
pub mod work_sender;
pub mod work_state;
