//! The language of claims: which rows a claim speaks of, which figure it
//! observes there, and what that figure is compared with.

mod cause;
mod cell;
mod claim;
mod estimate;
mod metric;
pub mod ratio;
mod scale;
mod selector;

pub use cause::Cause;
pub use cell::Cell;
pub use claim::{Band, Claim, ClaimError, VerdictKind};
pub use estimate::Estimate;
pub use metric::{COLUMNS, COMPARED, Column, Format, Metric, Quantity};
pub use scale::{RATIO_UNITS, Scale};
pub use selector::{Selector, fill, matches};
