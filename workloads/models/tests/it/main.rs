//! Tests of models: golden values and training, in one binary.
#![allow(clippy::unwrap_used)]

mod golden;
mod training;
