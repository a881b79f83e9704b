//! Tests of datasets: damaged files, generated sets, partitions, in one binary.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod damage;
mod generated;
mod linear_model;
