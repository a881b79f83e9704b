//! The harness of `epochcost`: from an experiment to a plan, a platform, the
//! events of its trials, results on disk, an analysis and a report.
//!
//! It never links a model: workers are processes of their own, and every run
//! measures what would be deployed.
//!
//! # Floors
//!
//! A module imports from the floors below its own and from itself, never upwards
//! and never from another module of its floor; `tests/it/floors` reads this
//! table and checks every import.
//!
//! | floor | modules | what they are |
//! | --- | --- | --- |
//! | 9 | `cli` | the command line: parse and dispatch |
//! | 8 | `cmd` | the verbs: options, one call, and what is printed |
//! | 7 | `run`, `schemas` | runs from preparation to report, and reproductions of many; schemas of files |
//! | 6 | `forecast`, `profiling` | plans and validations in virtual time; compute profiles of this machine |
//! | 5 | `report`, `error` | pages and tables from results; every error of a verb |
//! | 4 | `analysis`, `audit`, `experiment` | figures and verdicts; the papers' statements by their own figures; experiments from YAML to rows |
//! | 3 | `results`, `published`, `format`, `platform` | run directories; papers and published tables; numbers as text; where trials run |
//! | 2 | `claims`, `cost`, `profiles` | the language of claims; prices and bills; shipped profiles |
//! | 1 | `rows`, `metering`, `exit`, `ui`, `hash`, `chain`, `download`, `yaml`, `capacity`, `formula` | rows and trials; what a trial reports; exit codes; output; hashes; causes of errors; downloads; YAML files with the place of each value; CPU time and memory of this process; the language of statements |
//! | 0 | `suggest`, `shipped` | nearest names; files inside this program |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod analysis;
pub mod audit;
pub mod capacity;
pub mod chain;
pub mod claims;
pub mod cli;
pub mod cmd;
pub mod cost;
pub mod download;
pub mod error;
pub mod exit;
pub mod experiment;
pub mod forecast;
pub mod format;
pub mod formula;
pub mod hash;
pub mod metering;
pub mod platform;
pub mod profiles;
pub mod profiling;
pub mod published;
pub mod report;
pub mod results;
pub mod rows;
pub mod run;
pub mod schemas;
pub mod shipped;
pub mod suggest;
pub mod ui;
pub mod yaml;
