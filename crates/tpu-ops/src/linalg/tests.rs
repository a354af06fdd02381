//! Golden StableHLO.
