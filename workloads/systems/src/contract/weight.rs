//! How many a record stands for, in files that state it only where it is not one.

/// Returns the weight of what states none.
pub fn one() -> u64 {
    1
}

/// Returns whether a record stands for itself alone.
pub fn is_one(alike: &u64) -> bool {
    *alike == 1
}
