//! AllReduce, ScatterReduce and the GPU baseline against their closed forms,
//! one process, and each other.

mod absence;
mod common;
mod overlap;
mod steps;
mod traffic;
mod vectors;
