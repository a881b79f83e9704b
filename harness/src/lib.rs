//! The harness of `epochcost`: from an experiment to a plan, a platform, the
//! events of its trials, results on disk, an analysis and a report.
//!
//! It never links a model: workers are processes of their own, and every run
//! measures what would be deployed.
//!
//! # Crates
//!
//! A crate imports from those below it in this table.
//!
//! | crate | what it is |
//! | --- | --- |
//! | `epochcost` | the command line ([`cli`]); the verbs ([`cmd`]); runs and reproductions of many ([`run`]); schemas; downloads |
//! | `epochcost-planner` | plans and validations in virtual time; compute profiles of this machine; every error of a verb |
//! | `epochcost-report` | pages and tables from results |
//! | `epochcost-experiment` | experiments from YAML to rows |
//! | `epochcost-judge` | figures and verdicts; the papers' statements by their own figures |
//! | `epochcost-record` | run directories |
//! | `epochcost-platform` | where trials run |
//! | `epochcost-spec` | rows, papers, formulas, metrics, prices: what all others speak of |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
pub mod cmd;
pub mod download;
pub mod run;
pub mod schemas;
