//! Scholarly works: how people name them, where their files are, and what arrived.
pub mod identifier;
