//! A thousand processes killed in the middle of anything, on every shared store: nothing breaks, nothing overshoots.
