//! The language of claims: which rows a claim speaks of, which figure it
//! observes there, and what that figure is compared with.

mod cause;
mod cell;
mod check;
mod claim;
mod estimate;
mod explanation;
mod kind;
mod metric;
pub mod own;
mod policy;
mod prediction;
pub mod ratio;
mod scale;
mod selector;
mod verdict;

pub use cause::Cause;
pub use cell::Cell;
pub use check::ClaimError;
pub use claim::{Band, Claim, paper_of};
pub use estimate::Estimate;
pub use explanation::{Audited, Computed, Evidence, Explanation, Observed};
pub use kind::ClaimKind;
pub use metric::{COLUMNS, COMPARED, Format, Metric, MetricColumn, Quantity};
pub use policy::{Conditions, tolerance};
pub use prediction::{Known, Prediction};
pub use scale::{RATIO_UNITS, Scale};
pub use selector::{Selector, fill, matches};
pub use verdict::VerdictKind;
