//! Tests of the simulator: closed forms, published communication times, functions and profiles, in one binary.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod alike;
mod closed_forms;
mod communication;
mod convoys;
mod faults;
mod functions;
mod gpus;
mod membership;
mod profiles;
mod properties;
mod refinements;
mod rounds;
mod storage;
mod support;
mod timed_again;
mod waits;
