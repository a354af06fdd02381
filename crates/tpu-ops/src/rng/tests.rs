//! Golden StableHLO, and the arithmetic of bounds.
