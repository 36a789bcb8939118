//! The contract of a store as functions, run against every store.
