//! Claims: printed figures beside rows, and formulas over rows.

mod cause;
mod cell;
mod claim;
mod estimate;
mod kind;
mod metric;
pub mod own;
pub mod ratio;
mod scale;
mod selector;
mod verdict;

pub use cause::Cause;
pub use cell::Cell;
pub use claim::{Band, Claim, Printed, paper_of};
pub use estimate::Estimate;
pub use kind::ClaimKind;
pub use metric::{COLUMNS, COMPARED, Format, Metric, MetricColumn, Quantity};
pub use scale::{RATIO_UNIT, Scale};
pub use selector::{Selector, matches};
pub use verdict::{Lost, VerdictKind};
