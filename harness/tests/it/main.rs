//! Tests of the program and its library, in one binary: every further one would link the whole
//! harness again.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

mod alike;
mod audit;
mod bad_input;
mod beside;
mod browser;
mod calibrate;
mod campaign;
mod commands;
mod compare;
mod compare_recorded;
mod constants;
mod coverage;
mod doctor;
mod downloads;
mod draws;
mod elsewhere;
mod excluded;
mod experiments;
mod findings;
mod fixture;
mod formats;
mod forms;
mod further_trials;
mod grids;
mod impossible;
mod installed;
mod interrupt;
mod local_platform;
mod mangled;
mod models;
mod mutations;
mod names;
mod out_of_the_page;
mod own_models;
mod plan;
mod platform_names;
mod predictions;
mod preloaded;
mod profile;
mod ranges;
mod readme;
mod real_services;
mod recorded;
mod reliability;
mod report;
mod reproduce;
mod schemas;
mod sim_platform;
mod support;
#[path = "../../testing.rs"]
mod testing;
mod validate;
mod verbs;
