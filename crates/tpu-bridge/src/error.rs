//! The one map from errors to the kinds that the shim and Python raise.
