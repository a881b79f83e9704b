//! Tests of the simulator: closed forms, published communication times, functions and profiles, in one binary.
#![allow(clippy::unwrap_used)]

mod alike;
mod closed_forms;
mod communication;
mod convoys;
mod faults;
mod functions;
mod gpus;
mod profiles;
mod properties;
mod refinements;
mod support;
mod timed_again;
mod waits;
