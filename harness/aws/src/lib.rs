//! Resources of runs on AWS: their creation, use and removal.
//!
//! Every creation needs an [`Approval`], a line in the [`Journal`] before it, and the run's
//! tags. [`tear_down`] and [`survey`] find resources by the journal and by the tags.

mod approval;
mod caller_policy;
pub mod calls;
mod clients;
pub mod deployment;
pub mod doctor;
mod error;
pub mod invoke;
mod journal;
pub mod logs;
pub mod metrics;
pub mod names;
mod network;
pub mod objects;
pub mod package;
pub mod permissions;
pub mod planned;
pub mod policy;
pub mod pricing;
mod provision;
mod removal;
pub mod resource;
mod run;
pub mod services;
pub mod user_data;
pub mod workers;

pub use approval::{Approval, Consent, SpendingLimit};
pub use caller_policy::caller_policy;
pub use clients::{Call, Clients, Identity, Observer, configuration};
pub use error::{AwsError, Cause};
pub use journal::{Event, Journal, WriteHook};
pub use provision::provision;
pub use removal::{
    HoldingPrices, LISTS_LAG, Removal, RunFilter, monthly_usd, remove, remove_all, survey,
    tear_down, tear_down_within,
};
pub use run::{EXPIRES_TAG, IAM_PATH, OwnerTags, PROJECT_TAG, RUN_TAG, RunId, Scope};
