//! What a forecast says of AWS. It needs the feature `aws`.

#[cfg(feature = "aws")]
mod plan;

use crate::cost::PriceBook;
use crate::error::Error;
use crate::rows::Row;

#[cfg(feature = "aws")]
pub(crate) use plan::training;

/// A row of a plan, as AWS needs it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "read with AWS only"))]
pub(crate) struct ToDeploy {
    /// The row.
    pub(crate) row: Row,
    /// Repetitions.
    pub(crate) trials: usize,
    /// Whether anything went over a tensor store.
    pub(crate) uses_tensor_store: bool,
    /// Whether anything went over a queue.
    pub(crate) uses_queue: bool,
    /// Objects written.
    pub(crate) puts: u64,
    /// Bytes of them.
    pub(crate) bytes_up: u64,
}

/// What a plan says of AWS.
#[derive(Debug)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "made with AWS only"))]
pub(crate) struct OnAws {
    /// For people.
    pub(crate) text: String,
    /// For machines.
    pub(crate) json: serde_json::Value,
}

/// Resources and the worst case of rows.
///
/// # Errors
/// When something has no price.
#[cfg(feature = "aws")]
pub(crate) fn plan(rows: &[ToDeploy], prices: &PriceBook) -> Result<OnAws, Error> {
    plan::plan(rows, prices)
}

/// Resources and the worst case of rows.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub(crate) fn plan(_: &[ToDeploy], _: &PriceBook) -> Result<OnAws, Error> {
    Err(Error::no_aws())
}
