//! What a platform on which trials cost money can do beside running them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_spec::cost::{Price, PriceBook};
use epochcost_spec::rows::Row;
use epochcost_spec::ui::Output;
use serde::Serialize;

use super::PlatformError;

pub use epochcost_aws_plan::Line as CostLine;

/// The account behind a platform: what rows would cost there at most, what runs
/// left there, and its prices.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Returns everything that the rows would create, and the most that it can
    /// cost. Needs no account.
    ///
    /// # Errors
    /// When something has no price.
    fn worst_case(&self, rows: &[RowUsage], prices: &PriceBook) -> Result<WorstCase, NoWorstCase>;

    /// Returns the policy, JSON, that a user or role needs for this program's calls. Needs no
    /// account.
    fn caller_policy(&self) -> serde_json::Value;

    /// Searches the account for what runs left.
    ///
    /// # Errors
    /// When a service could not be asked: a list with a gap would read as
    /// "nothing is left".
    async fn survey(
        &self,
        filter: &SurveyFilter,
        prices: &PriceBook,
        output: Output,
    ) -> Result<Box<dyn Survey>, PlatformError>;

    /// Returns today's prices of a region, for everything that `known` has a
    /// price for.
    ///
    /// # Errors
    /// When a price is not available or cannot be read.
    async fn prices(
        &self,
        region: &str,
        known: &PriceBook,
    ) -> Result<RefreshedPrices, PlatformError>;
}

/// What an invocation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Invoked {
    /// Seconds that its function runs; 0 of what runs on an instance.
    pub seconds: f64,
    /// Requests to the object store, of each kind.
    pub requests: Traffic,
}

/// Resources that a row will use, from a simulation of it.
#[derive(Clone, Debug)]
pub struct RowUsage {
    /// The row.
    pub row: Row,
    /// Repetitions.
    pub trials: usize,
    /// Whether anything goes over a tensor store.
    pub uses_tensor_store: bool,
    /// Whether anything goes over a queue.
    pub uses_queue: bool,
    /// Objects written.
    pub puts: u64,
    /// Bytes of the objects written.
    pub bytes_up: u64,
    /// Objects read, those of the dataset among them.
    pub gets: u64,
    /// Objects of the dataset that are read.
    pub data_gets: u64,
    /// What an invocation takes at most, by the function's name.
    pub most: BTreeMap<String, Invoked>,
    /// Seconds of a trial.
    pub seconds: f64,
    /// US dollars of a trial, by the cost model `full`.
    pub usd: f64,
}

/// Resources that all rows of an experiment will use, and their prices.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// Possible rows only.
    pub rows: Vec<RowUsage>,
    /// Price book of the run.
    pub prices: PriceBook,
}

/// Resources that rows would create in a cloud, and their maximum cost.
#[derive(Clone, Debug)]
pub struct WorstCase {
    /// Region of the prices.
    pub region: String,
    /// Resources, shared ones first.
    pub resources: Vec<PlannedResource>,
    /// Costs, one line per row and price.
    pub lines: Vec<CostLine>,
}

impl WorstCase {
    /// Returns the sum of all lines, US dollars before tax.
    pub fn usd(&self) -> f64 {
        self.lines.iter().map(|line| line.usd).sum()
    }
}

/// A resource that would be created.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedResource {
    /// Kind of the resource, as machines read it.
    pub kind: String,
    /// Kind of the resource, as prose has it.
    #[serde(skip)]
    pub title: String,
    /// Name; for several resources, the common prefix of their names.
    pub name: String,
    /// Number of such resources.
    pub count: u64,
    /// Properties that determine its price.
    pub detail: String,
    /// Row that it is for; none where all rows share it.
    pub row: Option<String>,
}

/// Reason why there is no worst case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no worst case: {0}")]
pub struct NoWorstCase(pub String);

/// Filter of an account's resources in a search.
#[derive(Clone, Debug, Default)]
pub struct SurveyFilter {
    /// Regions; all that the account has enabled, if empty.
    pub regions: Vec<String>,
    /// Run that they belong to, by the id in their names; every run, if none.
    pub run: Option<String>,
    /// Whether only what has expired counts.
    pub expired: bool,
}

/// Resources that were found in an account.
#[async_trait]
pub trait Survey: Send + Sync {
    /// Returns the resources, in the order in which they can be removed.
    fn resources(&self) -> &[Resource];

    /// Removes all of them; a refusal keeps nothing else from being removed.
    async fn remove(self: Box<Self>) -> Removal;
}

/// A resource that a run created.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resource {
    /// Kind of the resource, as prose has it.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Region that it is in.
    pub region: String,
    /// Id of its run.
    pub run: String,
    /// Expiry time from its tags, if it has one.
    pub expires: Option<String>,
    /// Cost of keeping it, US dollars per month; none where no price is known.
    pub usd_per_month: Option<f64>,
}

/// A resource that is still there.
#[derive(Clone, Debug, PartialEq)]
pub struct Leftover {
    /// The resource.
    pub resource: Resource,
    /// Reason why it could not be removed, where that was tried.
    pub refusal: Option<String>,
}

/// Result of a removal of resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removal {
    /// Resources that are gone.
    pub removed: Vec<Resource>,
    /// Resources that are still there.
    pub leftovers: Vec<Leftover>,
}

/// Prices as a cloud states them today.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RefreshedPrices {
    /// Prices of what the region offers.
    pub prices: Vec<Price>,
    /// Descriptions of what the region does not offer.
    pub missing: Vec<String>,
    /// Dimensions whose price is uncertain, each with the reason.
    pub uncertain: Vec<(String, String)>,
}
