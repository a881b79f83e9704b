//! Predictions of rounds of aggregation whose measured values are not known.
//!
//! A line of the data names a round and one quantity of it. Its prediction is the median of simulations at
//! the stated constants, and its range the 5th to the 95th percentile of draws of the constants' ranges.

use std::path::Path;
use std::sync::Arc;

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Aggregated, ProbeClient, Round, RoundTimes, aggregate};
use epochcost_spec::chain::chain;
use epochcost_spec::cost::{self, PriceBook};
use epochcost_spec::published::{PublishedError, Row, Table};
use epochcost_systems::PaperAccount;
use epochcost_systems::aggregation::levels;

use super::calibrate::{self, What};
use super::cells::Statistic;
use super::file::File;
use super::predict::{Predictor, REPETITIONS, simulated};
use super::score::Predicted;
use crate::error::Result;

/// Most clients, functions or inputs of a line.
const MOST: usize = 100_000;

/// A quantity of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Read,
    Compute,
    Write,
    Wall,
    Cost,
}

/// A line of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    id: String,
    role: String,
    quantity_name: String,
    round: Round,
    /// Level of the functions of the role.
    level: usize,
    quantity: Quantity,
}

/// Predicts every line of the data of `file`, as CSV: `id`, `role`, `quantity`, `value`, `low`, `high`.
///
/// # Errors
/// When the file, a line or the profile cannot be used.
pub(super) fn predict(file: &File, draws: u32) -> Result<String> {
    let lines = read(&file.beside(&file.data)).map_err(|error| file.error(&chain(&error)))?;
    let predictor = Predictor::new(file)?;
    let prices = Prices::shipped()?;
    let rounds = lines.iter().map(|line| &line.round);
    let times = simulated(rounds, REPETITIONS, draws, |round, draw| {
        Ok(aggregate(&predictor.drawn(draw), round))
    })?;
    // Predictions, in the lines' order.
    let mut text = "id,role,quantity,value,low,high\n".to_owned();
    for line in &lines {
        let times = times.get(&line.round).map_or(&[][..], Vec::as_slice);
        let figures = times.iter().map(|times| line.of(times, &prices));
        let Predicted { value, low, high } = Predicted::of(figures.collect(), REPETITIONS);
        let [low, high] = [low, high].map(|end| end.unwrap_or(f64::NAN));
        let [value, low, high] = [value, low, high].map(|figure| format!("{figure:.4e}"));
        let of = [&*line.id, &line.role, &line.quantity_name].join(",");
        text += &format!("{of},{value},{low},{high}\n");
    }
    Ok(text)
}

/// Prices of functions, dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prices {
    /// Of a second of a function of one MB.
    mb_second: f64,
    call: f64,
}

impl Prices {
    /// Reads the shipped price book.
    ///
    /// # Errors
    /// When it lacks a price.
    pub(super) fn shipped() -> Result<Self> {
        let book = PriceBook::shipped()?;
        Ok(Self {
            mb_second: cost::function_rate_usd(PaperAccount::Comparison, 1, None, &book)?,
            call: book.price("lambda_request")?.usd,
        })
    }

    /// Returns the price of calls of so many seconds together.
    pub(super) fn of_functions(self, memory_mb: u32, seconds: f64, calls: usize) -> f64 {
        seconds * f64::from(memory_mb) * self.mb_second + calls as f64 * self.call
    }
}

/// Column that only tables of rounds have.
pub(super) const ARCHITECTURE: &str = "architecture";

/// Reads lines with their measured values, of the day of their series: the file if no column names it.
///
/// # Errors
/// When the file cannot be read, or a line describes no quantity.
pub(super) fn measured(file: &Path) -> Result<Vec<calibrate::Row>, PublishedError> {
    let table = Table::read(file)?;
    table.refuse_repeated(&["id", "role", "quantity"])?;
    let read = table.rows().map(|row| {
        let measured = row.number("measured")?.value;
        if measured <= 0.0 {
            return Err(unknown(row, "measured", "a value above 0"));
        }
        let series = row.optional("series").filter(|name| !name.is_empty());
        Ok(calibrate::Row {
            series: series.map_or_else(|| file.display().to_string(), str::to_owned),
            what: What::Round(line(row)?),
            statistic: Statistic::Mean,
            measured,
            place: row.cell("measured"),
            constants: Arc::default(),
        })
    });
    read.collect()
}

impl Line {
    /// Returns the quantity in a simulation on `profile`.
    pub(super) fn simulated(&self, profile: &Profile<f64>, prices: &Prices) -> f64 {
        self.of(&aggregate(profile, &self.round), prices)
    }

    /// Returns whether its client is interpreted.
    pub(super) fn is_interpreted(&self) -> bool {
        self.round.client != ProbeClient::Compiled
    }

    /// Returns the quantity in a simulated round; seconds of a function as the mean of its level.
    fn of(&self, times: &RoundTimes, prices: &Prices) -> f64 {
        let mean = |part: fn(&Aggregated) -> f64| {
            let level = times.levels.get(self.level).map_or(&[][..], Vec::as_slice);
            level.iter().map(part).sum::<f64>() / level.len() as f64
        };
        match self.quantity {
            Quantity::Read => mean(|function| function.read_s),
            Quantity::Compute => mean(|function| function.compute_s),
            Quantity::Write => mean(|function| function.write_s),
            Quantity::Wall => times.wall_s,
            Quantity::Cost => {
                // Durations are billed by the millisecond.
                let billed_s = |function: &Aggregated| (function.seconds() * 1e3).ceil() / 1e3;
                let functions = || times.levels.iter().flatten();
                let seconds: f64 = functions().map(billed_s).sum();
                prices.of_functions(self.round.memory_mb, seconds, functions().count())
            }
        }
    }
}

/// Reads the lines of the data.
fn read(file: &Path) -> Result<Vec<Line>, PublishedError> {
    let table = Table::read(file)?;
    table.refuse_repeated(&["id", "role", "quantity"])?;
    table.rows().map(line).collect()
}

fn line(row: Row<'_>) -> Result<Line, PublishedError> {
    let count = |column: &str| {
        let number = row.text(column)?.parse::<usize>().ok();
        let number = number.filter(|number| (1..=MOST).contains(number));
        number.ok_or_else(|| unknown(row, column, "a whole number from 1 to 100000"))
    };
    let clients = count("clients")?;
    let architecture = row.text(ARCHITECTURE)?;
    let whole = match architecture {
        "grads_sharding" => levels(clients, None, None),
        "lambda_fl" => levels(clients, Some(count("functions_at_once")?), None),
        "lifl" => levels(clients, None, Some(count("fan_in")?)),
        _ => {
            let known = "one of grads_sharding, lambda_fl, lifl";
            return Err(unknown(row, "architecture", known));
        }
    };
    let shards = match architecture {
        "grads_sharding" => count("functions_at_once")?,
        _ => 1,
    };
    let of_level = |level: Vec<std::ops::Range<usize>>| {
        let inputs: Vec<usize> = level.into_iter().map(|inputs| inputs.len()).collect();
        inputs.repeat(shards)
    };
    let role = row.text("role")?;
    let level = match (architecture, role) {
        ("grads_sharding", "shard") | ("lambda_fl", "leaf") | (_, "round") => 0,
        ("lambda_fl", "root") => 1,
        _ => return Err(unknown(row, "role", "shard, leaf, root or round")),
    };
    if level >= whole.len() {
        return Err(unknown(row, "role", "a role that the round has"));
    }
    let quantity_name = row.text("quantity")?;
    let quantity = match (quantity_name, role == "round") {
        ("read_s", false) => Quantity::Read,
        ("compute_s", false) => Quantity::Compute,
        ("write_s", false) => Quantity::Write,
        ("wall_s", true) => Quantity::Wall,
        ("cost_usd", true) => Quantity::Cost,
        _ => {
            let known = "read_s, compute_s or write_s of a function, wall_s or cost_usd of a round";
            return Err(unknown(row, "quantity", known));
        }
    };
    let values = row.text("float32_values_per_object")?.parse::<u64>();
    let values = values.ok().filter(|values| *values < 1 << 40);
    Ok(Line {
        id: row.text("id")?.to_owned(),
        role: role.to_owned(),
        quantity_name: quantity_name.to_owned(),
        round: Round {
            levels: whole.into_iter().map(of_level).collect(),
            bytes: 4 * values
                .ok_or_else(|| unknown(row, "float32_values_per_object", "a whole number"))?,
            memory_mb: count("memory_mb")? as u32,
            client: ProbeClient::Interpreted,
        },
        level,
        quantity,
    })
}

fn unknown(row: Row<'_>, column: &str, wanted: &str) -> PublishedError {
    PublishedError::Table {
        place: row.cell(column),
        reason: format!(
            "{:?} is no {column}: give {wanted}",
            row.text(column).unwrap_or_default()
        ),
    }
}
