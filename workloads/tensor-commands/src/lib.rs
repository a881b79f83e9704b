//! The tensor store's commands, `TENSOR.*`, apart from any
//! server: how their arguments are read, what is refused in which words, in
//! which order values are looked up, and what is computed of them.
//!
//! The embedded store and the Redis module both speak through this crate, so
//! that a reply or a bit that one gives, the other gives too. It holds no
//! values and knows no protocol.
//!
//! # Commands
//!
//! A **key** is UTF-8 text, possibly empty, an **integer** decimal digits. Clients send the shortest
//! text of a float that parses to the same f32.
//!
//! A value that is computed on has a length that is a multiple of 4. `TENSOR.*` stores tensors and
//! `SET` strings, which are two types of Redis: `TENSOR.*` reads both, `GET` and `STRLEN` refuse
//! tensors. Replies are OK, or as in parentheses.
//!
//! - `TENSOR.SET key blob`: stores the value, and replaces any other
//! - `TENSOR.GET key` (blob or nil)
//! - `TENSOR.GETRANGE key start count` (blob or nil): `count` elements (not bytes) from element
//!   `start`; must lie within the tensor; `count` may be 0
//! - `TENSOR.ACCUMULATE key blob`: adds the blob to the tensor, or stores it if there is none
//! - `TENSOR.MEAN destination count source…`: the mean
//! - `TENSOR.ROBUST destination MEDIAN count source…`: median of each coordinate
//! - `TENSOR.ROBUST destination TRIMMED trim count source…`: mean of each coordinate without its `trim`
//!   smallest and largest
//! - `TENSOR.ROBUST destination KRUM faulty count source…`: the source that Krum selects
//! - `TENSOR.ROBUST destination MULTIKRUM faulty kept count source…`: mean of the `kept` sources that
//!   Krum would select first
//! - `TENSOR.ROBUST destination GEOMETRIC iterations smoothing count source…`: geometric median
//! - `TENSOR.ROBUST destination CLIPPED radius iterations count source…`: centred clipping about the
//!   tensor at `destination`, which it replaces, or about 0 if there is none
//! - `TENSOR.ROBUST destination MIXED faulty RULE … count source…`: any of these rules, after each
//!   source is replaced by the mean of its `count - faulty` nearest
//! - `TENSOR.SGD parameters gradient learning-rate momentum weight-decay`: one step
//! - `TENSOR.MEANSGD parameters learning-rate momentum weight-decay count source…`: `TENSOR.MEAN` and
//!   `TENSOR.SGD` in turn, bit by bit, without storing the mean
//! - `TENSOR.JSONMEAN list count` (blob): the mean of the first `count` JSON texts of the list, as JSON
//!   text; divides by the number found
//!
//! `count` is the number of sources that follow, 1 to 4,096. Sources may repeat and may include the
//! destination; they are all read before anything is written.
//!
//! # Arithmetic
//!
//! In f32, each operation rounded on its own (no fused multiply-add), with `s` the sources in order:
//!
//! - mean: `a = s[0]; a += s[1]; …; a /= count` (no product with the reciprocal). `TENSOR.ACCUMULATE`:
//!   `tensor + blob`.
//! - step: with momentum 0, `w -= rate · (g + decay · w)`, without the velocity. Otherwise `v =
//!   momentum · v + (g + decay · w)`, then `w -= rate · v`, with `v` at `{parameters}:velocity`, at
//!   first zeros.
//! - median: of an even number the midpoint of the two middle values; values ordered by IEEE 754
//!   totalOrder.
//! - trimmed mean: kept values added from the smallest up, starting at 0, then divided by their number;
//!   `2 · trim < count`.
//! - Krum (Blanchard et al. 2017): squared distances added in f64, the sum over the `count - faulty -
//!   2` nearest others; a distance that is not a number counts as infinite; the first source wins a
//!   tie; `2 · faulty + 2 < count`. The result is a copy of that source's bytes, unless sources were
//!   mixed.
//! - Multi-Krum: the mean of the `kept` sources of the lowest scores, added in their order; `1 ≤ kept ≤
//!   count - faulty`.
//! - geometric median, by the smoothed Weiszfeld algorithm: from `z = 0`, `iterations` times `z = Σ
//!   βₖ·s[k] / Σ βₖ` with `βₖ = 1 / max(smoothing, ‖z - s[k]‖)`. Weights and sums in f64, z rounded
//!   once per iteration; a source at a distance that is not finite has no weight, and it is an error if
//!   all are.
//! - centred clipping: `iterations` times `v += (1/count) · Σ (s[k] - v) · min(1, radius / ‖s[k] -
//!   v‖)`, from the tensor at `destination`. Sums in f64, v rounded once per iteration; a source at a
//!   distance that is not finite counts as v. Iterations are 1 to 1,000; `smoothing` and `radius` are
//!   positive.
//! - mixing: the mean, as above, of the `count - faulty` sources that are nearest to a source, itself
//!   included, added in their order; the first win ties; `2 · faulty < count`.
//! - JSON mean: numbers parsed, added in order and divided as f64, printed as C's `%.14g`, `[a,b,c]`
//!   without spaces: the output of a Lua script with `cjson`.
//!
//! # Atomicity
//!
//! A command that fails changes nothing. Commands that write one key (a tensor and its velocity) run
//! one after another, others may run in parallel.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod command;
mod error;
mod operation;
mod rules;

pub use arguments::Arguments;
pub use command::{Command, MAX_SOURCES, NAMES, positions_of_keys};
pub use error::CommandError;
pub use operation::{
    Inputs, Operation, OperationKind, Outputs, Written, check_elements, compute, robust_mean,
};
pub use rules::{RobustMean, RobustRule, SgdStep};

/// Returns the key of the velocity of the parameters at `key`.
#[must_use]
pub fn velocity_key(key: &str) -> String {
    format!("{key}{VELOCITY_SUFFIX}")
}

/// Suffix of a velocity's key.
pub const VELOCITY_SUFFIX: &str = ":velocity";
