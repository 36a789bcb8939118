//! What the content side promises, room by room.

// Identifiers: every spelling has one form, and that form reads back as itself.
mod identifiers;
