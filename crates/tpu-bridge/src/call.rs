//! Calls from the dispatcher.
