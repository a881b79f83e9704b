//! Training systems in virtual time.
//!
//! The code that trains runs here over modelled channels, functions and instances:
//! every request takes the latency and the share of bandwidth that a [`profile`]
//! states, every step the time that a compute profile states. One thread polls all
//! futures and lets time jump from event to event, so that the same input gives the
//! same output, bit for bit. Values are sizes only, unless a real model computes; then
//! losses and accuracies are real, and times are still the profile's.
//!
//! Imports go one way: `engine` (time), `resource` and `notify` (sharing, waiting),
//! `gpus` (who computes on which), `services` (what a trial's services hold), `station` (the machine of an
//! invocation), `channels` (services reached from a station), `functions`, `trial`.

mod channels;
mod compute;
mod draws;
mod engine;
mod error;
mod functions;
mod gpus;
mod limits;
mod model;
mod network;
mod notify;
mod population;
mod probe;
pub mod profile;
mod recorded;
mod refusal;
mod resource;
mod services;
mod station;
mod trial;

pub use error::SimulationError;
pub use limits::{Infeasible, Limit};
pub use model::{Invocation, MakeCompute, Options, Simulated, Simulation};
pub use population::simulated_workers;
pub use probe::{Aggregated, Operation, Probe, ProbeClient, Round, RoundTimes, aggregate, probe};
pub use recorded::Recorded;
pub use refusal::refused;
pub use trial::{admit, simulate};
