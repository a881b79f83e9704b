//! Consent to a run's cost, and the description of a prepared platform for results.

use std::path::PathBuf;

use epochcost_spec::cost::PriceBook;
use epochcost_spec::metering::{Limit, Server};

/// Spending limit of a run, whether the user has agreed to its cost already, and its prices.
#[derive(Clone, Debug, Default)]
pub struct SpendingConsent {
    /// Whether the user agreed beforehand (`--yes`).
    pub yes: bool,
    /// Spending limit, US dollars (`--max-usd`).
    pub max_usd: Option<f64>,
    /// Directory of the runs that the limit is for; the run alone, if none.
    pub spent_in: Option<PathBuf>,
    /// Prices (`--prices`); the shipped ones, if none.
    pub prices: Option<PriceBook>,
}

/// A platform that is ready, as results describe it.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Path to hash the worker binary by, where trials start one.
    pub worker: Option<PathBuf>,
    /// Limits of functions, and how they are enforced.
    pub limits: Vec<Limit>,
    /// Servers that trials use.
    pub servers: Vec<Server>,
    /// Whether servers that stand in for the platform's answer.
    pub rehearsed: bool,
    /// Limits that make rows impossible; one entry per plan.
    pub infeasible: Vec<Option<String>>,
}
