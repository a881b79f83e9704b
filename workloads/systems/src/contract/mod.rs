//! The contract between a training system and whatever runs it: what a job and
//! a task say, what a [`System`](crate::System) answers, and the
//! [`World`](crate::World) that its code sees. It knows no system.

pub(crate) mod arithmetic;
pub(crate) mod attack;
pub(crate) mod bound;
pub(crate) mod compute_hook;
pub(crate) mod data;
pub(crate) mod dataset;
pub(crate) mod deployment;
pub(crate) mod drive;
pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod job;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod pause;
pub mod process;
pub(crate) mod record;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod running;
pub(crate) mod settings;
pub(crate) mod stage_hook;
pub(crate) mod state_dict;
pub mod states;
pub(crate) mod symmetry;
pub(crate) mod system;
pub(crate) mod technique;
pub(crate) mod totals;
pub(crate) mod training_system;
pub(crate) mod vector;
pub mod weight;
pub(crate) mod workflow;
pub(crate) mod world;
