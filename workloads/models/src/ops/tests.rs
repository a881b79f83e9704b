//! The kernels against the same operations in burn's own terms.
