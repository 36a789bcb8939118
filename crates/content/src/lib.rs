//! Scholarly works: how people name them, where their files are, and what arrived.
//!
//! In the order in which a work passes through: [`input`] reads lists of them, [`identifier`] and
//! [`work`] say what each is called, [`resolver`] asks the services that know where files are,
//! in steps of [`docstokg_lookup`], and answers with a list of [`location`]s. [`landing_page`] and
//! [`bot_challenge`] read publishers' pages, [`sniff`] judges what arrived by its bytes, and
//! [`names`] says what a file is called on disk.

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
pub mod sniff;
pub mod titles;
pub mod work;
pub mod work_sender;
pub mod work_state;
