//! Audit of the papers' own arithmetic, recomputed from their own inputs.
//!
//! Every check is a function from the published tables to findings. A finding
//! holds the inputs with the cells that they stand in, the formula, what it
//! gives, what is printed, and what the difference means for the paper's
//! conclusion, which is computed as well.

mod communication;
mod finding;
mod kubeml;
mod p2p;
mod p2p_costs;
mod p2p_sentences;
mod parameters;
mod published;
mod ranking;
mod sentences;
mod table2;
mod table2_costs;
mod table3;
pub mod text;

use clap::ValueEnum;
use serde::Serialize;

use crate::cost::{PriceBook, PriceBookError};
use crate::published::PublishedError;
use crate::results::SchemaVersion;

pub use finding::{Finding, Input, Outcome, Printed, Statement, TOLERANCE};
pub use published::Published;

/// The version of what `audit --json` prints.
pub const AUDIT_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 2 };

/// A paper, by the name of its directory under `experiments/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// Barrak et al. 2025, "Cost-Performance Analysis".
    CostPerformance,
    /// Barrak et al. 2023, "Exploring the Impact of Serverless Computing on
    /// Peer To Peer Training Machine Learning".
    P2p,
    /// Petrescu et al. 2023, "Toward Competitive Serverless Deep Learning".
    Kubeml,
}

impl Paper {
    /// Every paper.
    pub const ALL: [Self; 3] = [Self::CostPerformance, Self::P2p, Self::Kubeml];

    /// Returns authors and year.
    pub fn cited(self) -> &'static str {
        match self {
            Self::CostPerformance => "Barrak et al. 2025",
            Self::P2p => "Barrak et al. 2023",
            Self::Kubeml => "Petrescu et al. 2023",
        }
    }
}

/// What the checks work on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) published: &'a Published,
    /// List prices, for what the papers take from AWS without saying how much.
    pub(crate) prices: &'a PriceBook,
}

/// Why an audit could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The published figures are unusable.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A list price is missing.
    #[error(transparent)]
    Prices(#[from] PriceBookError),
    /// A system's closed form is needed and is not there.
    #[error("failed to count the requests of {0}")]
    ClosedForm(&'static str),
    /// A model is needed that no description exists of.
    #[error("failed to find the layers of {0}")]
    Model(&'static str),
}

type Findings = Result<Vec<Finding>, AuditError>;

/// Returns every check of a paper, in the order of the paper's items.
fn checks(paper: Paper) -> &'static [fn(Sources<'_>) -> Findings] {
    match paper {
        Paper::CostPerformance => &[
            parameters::cost_performance,
            table2::epoch,
            table2::totals,
            table2_costs::functions,
            table2_costs::multiples,
            table2_costs::requests,
            table2::parallel,
            table3::header,
            table3::epochs,
            communication::filter,
            communication::filter_against_table3,
            communication::in_database,
            communication::caption,
            sentences::accuracy,
            sentences::convergence,
            sentences::larger_models,
            sentences::more_workers,
            sentences::machines,
        ],
        Paper::P2p => &[
            parameters::p2p,
            parameters::p2p_small_models,
            parameters::p2p_sizes,
            p2p::cpu,
            p2p::updates,
            p2p::batch_times,
            p2p::batches,
            p2p_costs::rates,
            p2p_costs::serverless,
            p2p_costs::instances,
            p2p_costs::ratio,
            p2p::time_saved,
            p2p_sentences::stages,
            p2p_sentences::savings,
            p2p_sentences::drawn,
        ],
        Paper::Kubeml => &[
            kubeml::ratios,
            kubeml::small_batches,
            kubeml::merge,
            kubeml::drawn,
        ],
    }
}

/// Runs every check of these papers.
///
/// # Errors
/// When a published figure or a price that a check needs is missing or is no
/// number.
pub fn audit(
    papers: &[Paper],
    published: &Published,
    prices: &PriceBook,
) -> Result<Vec<Finding>, AuditError> {
    let sources = Sources { published, prices };
    let mut findings = Vec::new();
    for paper in papers {
        for check in checks(*paper) {
            findings.extend(check(sources)?);
        }
    }
    Ok(findings)
}
