//! Measured cells: a statistic of an operation in one setting.

use std::fmt;
use std::path::Path;

use epochcost_simulator::{Operation, Probe, ProbeClient};
use epochcost_spec::claims::ratio::percentile;
use epochcost_spec::profiles::misses::Scope;
use epochcost_spec::published::{PublishedError, Row, Table};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as Unknown, StrDeserializer};

use super::file::Repeat;

/// Largest object of a small request, bytes.
const SMALL_BYTES: u64 = 1_000_000;

/// Figures of a row; stages are means per worker and epoch.
pub(super) const FIGURES: [&str; 12] = [
    "wall s",
    "fetch dataset s",
    "compute gradients s",
    "synchronise s",
    "update model s",
    "detect convergence s",
    "billed ms",
    "paper $",
    "full $",
    "requests",
    "bytes up",
    "bytes down",
];

/// Place of the wall time among [`FIGURES`].
pub(super) const WALL: usize = 0;
/// Place of the time of synchronisation.
const SYNCHRONISE: usize = 3;

/// A measured figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Measurements that belong together: a run, or an author.
    pub(super) series: String,
    /// What was measured.
    pub(super) setting: Setting,
    /// The figure that was taken from the repetitions.
    pub(super) statistic: Statistic,
    /// The measured figure: seconds, or a share of them.
    pub(super) measured: f64,
    /// Where it stands: file and line.
    pub(super) place: String,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    /// A single operation.
    Operation(Probe),
    /// An experiment's row, by its id.
    Row(String),
}

impl Cell {
    /// Returns what it is of.
    pub(super) fn scope(&self) -> Scope {
        use Operation::*;
        match (&self.setting, self.statistic) {
            (_, Statistic::ExcessOverMedian(_) | Statistic::ExcessOverMean(_)) => Scope::Spread,
            (Setting::Operation(probe), _)
                if matches!(probe.operation, Get | Put | InstanceGet | Deliver)
                    && probe.bytes <= SMALL_BYTES =>
            {
                Scope::Small
            }
            _ => Scope::Whole,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(probe) => write!(
                formatter,
                "{:?} {:?} {} MB, {} × {} × {} B",
                probe.operation,
                probe.client,
                probe.memory_mb,
                probe.functions,
                probe.streams,
                probe.bytes
            ),
            Self::Row(id) => write!(formatter, "{id}"),
        }
    }
}

/// A figure of repeated operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Quantile, by its share.
    Quantile(f64),
    /// Excess of a quantile over the median, as a share of the median.
    ExcessOverMedian(f64),
    /// Excess of a quantile over the mean, as a share of the mean.
    ExcessOverMean(f64),
    /// Figure of a row, by its place among all.
    Row(usize),
}

impl fmt::Display for Statistic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| (share * 100.0).round();
        match self {
            Self::Mean => write!(formatter, "mean"),
            Self::Quantile(share) => write!(formatter, "p{}", percent(*share)),
            Self::ExcessOverMedian(share) => write!(formatter, "p{} over p50 - 1", percent(*share)),
            Self::ExcessOverMean(share) => write!(formatter, "p{} over mean - 1", percent(*share)),
            Self::Row(place) => formatter.write_str(FIGURES[*place]),
        }
    }
}

impl Statistic {
    /// Returns the statistic of that name in a data file.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "mean" => Self::Mean,
            "max" => Self::Quantile(1.0),
            "max_excess" => Self::ExcessOverMedian(1.0),
            "p95_excess" => Self::ExcessOverMedian(0.95),
            "p99_excess" => Self::ExcessOverMean(0.99),
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                let is_share = (0.0..=100.0).contains(&percent);
                return is_share.then_some(Self::Quantile(percent / 100.0));
            }
        })
    }

    /// Returns the figure of `values`, which must not be empty.
    pub(super) fn of(self, values: &[f64]) -> f64 {
        if let Self::Row(place) = self {
            return values[place];
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        match self {
            Self::Mean | Self::Row(_) => mean,
            Self::Quantile(share) => percentile(&sorted, share),
            Self::ExcessOverMedian(share) => {
                percentile(&sorted, share) / percentile(&sorted, 0.5) - 1.0
            }
            Self::ExcessOverMean(share) => percentile(&sorted, share) / mean - 1.0,
        }
    }
}

/// Columns that identify a cell of a data file.
pub(super) const IDENTITY: [&str; 9] = [
    "series",
    "operation",
    "client",
    "memory_mb",
    "functions",
    "streams",
    "bytes",
    "new_connection",
    "statistic",
];

/// Reads the cells of a data file, of which `repeat` tells how often each is simulated.
///
/// # Errors
/// When it cannot be read, or a line describes no cell.
pub(super) fn read(
    file: &Path,
    repeat: impl Fn(Row<'_>) -> Result<Repeat, PublishedError>,
) -> Result<Vec<Cell>, PublishedError> {
    let table = Table::read(file)?;
    table.refuse_repeated(&IDENTITY)?;
    let read = table.rows().map(|row| cell(row, repeat(row)?));
    read.collect()
}

fn cell(row: Row<'_>, repeat: Repeat) -> Result<Cell, PublishedError> {
    let named = row.text("statistic")?;
    let (setting, statistic) = match named.strip_prefix("row:") {
        Some(id) => (Setting::Row(id.to_owned()), Statistic::Row(SYNCHRONISE)),
        None => {
            let statistic =
                Statistic::named(named).ok_or_else(|| unknown(row, "statistic", named))?;
            (Setting::Operation(probe(row, repeat)?), statistic)
        }
    };
    let measured = row.number("measured")?.value;
    if !(measured.is_finite() && measured > 0.0) {
        return Err(unknown(row, "measured", &measured.to_string()));
    }
    Ok(Cell {
        series: row.text("series")?.to_owned(),
        setting,
        statistic,
        measured,
        place: row.cell("measured"),
    })
}

fn probe(row: Row<'_>, repeat: Repeat) -> Result<Probe, PublishedError> {
    let count = |column: &str, absent: u64| {
        let text = row.text(column)?;
        if text.is_empty() {
            return Ok(absent);
        }
        text.parse().map_err(|_| unknown(row, column, text))
    };
    let functions = count("functions", 1)? as usize;
    Ok(Probe {
        operation: word::<Operation>(row, "operation")?,
        client: word::<ProbeClient>(row, "client")?,
        memory_mb: u32::try_from(count("memory_mb", 1769)?)
            .map_err(|_| unknown(row, "memory_mb", row.text("memory_mb").unwrap_or_default()))?,
        functions: repeat.functions.unwrap_or(functions).max(1),
        streams: count("streams", 1)?.max(1) as usize,
        bytes: count("bytes", 0)?,
        rounds: repeat.rounds,
        is_new_connection: match row.text("new_connection")? {
            "1" => true,
            "" | "0" => false,
            other => return Err(unknown(row, "new_connection", other)),
        },
    })
}

/// Reads a word of an enumeration.
fn word<'a, T: Deserialize<'a>>(row: Row<'a>, column: &str) -> Result<T, PublishedError> {
    let text: &'a str = row.text(column)?;
    let word: StrDeserializer<'a, Unknown> = text.into_deserializer();
    T::deserialize(word).map_err(|_| unknown(row, column, text))
}

pub(super) fn unknown(row: Row<'_>, column: &str, found: &str) -> PublishedError {
    PublishedError::Table {
        place: row.cell(column),
        reason: format!("{found:?} is no {column}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_named_and_computed() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let of = |name: &str| Statistic::named(name).map(|statistic| statistic.of(&values));
        assert_eq!(of("p5"), Some(5.0));
        assert_eq!(of("p50"), Some(50.0));
        assert_eq!(of("max"), Some(100.0));
        assert_eq!(of("mean"), Some(50.0));
        assert_eq!(of("max_excess"), Some(1.0));
        assert_eq!(of("p99_excess"), Some(0.98));
        for unknown in ["median", "p101", "p-1", "pnan"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
