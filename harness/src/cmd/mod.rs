//! The verbs, one file each: options, one call, and what is printed.

pub mod artifact;
pub mod audit;
pub mod check;
pub mod clean;
pub mod compare;
pub mod data;
pub mod dev;
pub mod doctor;
pub mod init;
pub mod list;
pub mod map;
pub mod plan;
pub mod prices;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scaffold;
mod selection;
mod spending;
pub mod validate;

pub use selection::Selection;
pub use spending::Spending;
