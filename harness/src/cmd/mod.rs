//! The verbs, one file each: options, one call, and what is printed.

pub mod audit;
pub mod aws;
pub mod check;
pub mod compare;
pub mod dev;
pub mod doctor;
mod fetch;
mod findings;
pub mod list;
pub mod plan;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod run;
mod selection;
mod spending;

pub use fetch::Fetch;
pub use selection::Selection;
pub use spending::Spending;
