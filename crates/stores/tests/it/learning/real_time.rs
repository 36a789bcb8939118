//! Real
