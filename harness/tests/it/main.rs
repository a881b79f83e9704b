//! Tests of the program and its library, in one binary: every further one would link the whole
//! harness again.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod audit;
mod aws;
mod bad_input;
mod browser;
mod causes;
mod claims;
mod compare;
mod compare_recorded;
mod doctor;
mod draws;
mod evidence;
mod experiments;
mod fixture;
mod floors;
mod formats;
mod further_trials;
mod grids;
mod impossible;
mod interrupt;
mod ledger;
mod local_platform;
mod models;
mod own_models;
mod plan;
mod platform_names;
mod profile;
mod published;
mod real_services;
mod replay;
mod report;
mod reproduce;
mod sim_platform;
mod support;
mod verdict_rules;
