//! Measurements that are worth making: those that narrow what a profile predicts.

use epochcost_simulator::profile::{Constant, Profile};
use epochcost_simulator::{Operation, Probe, ProbeClient};
use epochcost_spec::cost::{PriceBook, PriceBookError};
use serde::Serialize;

use super::super::cells::{IDENTITY, Setting, Statistic};
use super::super::rounds::Prices;
use super::super::score::word;
use super::belief::Belief;
use super::fit::{Days, Fitted, MODEL};
use super::linear::{Row, What, linear};

/// Measurements that are proposed.
const PROPOSED: usize = 3;
/// A measurement is worth making if it narrows this share of what the best one does: of these, the
/// cheapest is taken.
const NEARLY: f64 = 0.9;
/// Sizes of objects, bytes.
const SIZES: [u64; 4] = [1 << 16, 1 << 23, 1 << 26, 1 << 28];
/// Memory sizes of functions, MB.
const MEMORY: [u32; 3] = [512, 1769, 3008];
/// Repetitions.
const COUNTS: [usize; 3] = [3, 10, 30];
/// Name of the day in the lines to fill in.
const DAY: &str = "today";

/// Measurements worth making.
#[derive(Serialize)]
pub(super) struct Proposals {
    /// Mean deviation of the logarithm of the figures that are considered, without them.
    pub(super) deviation: f64,
    pub(super) measurements: Vec<Proposed>,
}

/// A measurement to make.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Proposed {
    #[serde(skip)]
    probe: Probe,
    /// The operation and its setting.
    pub(super) setting: String,
    /// Repetitions, one after another.
    pub(super) count: usize,
    /// Mean deviation of the logarithm of a figure of all candidates, with the measurements so far.
    pub(super) deviation: f64,
    /// What it costs: seconds of functions, and requests, dollars.
    pub(super) usd: f64,
}

/// Returns three measurements, each the cheapest of those that narrow predictions nearly as much as
/// the best one, and the mean deviation before them. A greedy choice is within 1 - 1/e of the best
/// three where each narrows less the more is known (Nemhauser et al. 1978).
///
/// # Errors
/// When the price book lacks a price.
pub(super) fn propose(
    profile: &Profile<Constant>,
    known: &Fitted,
    client: ProbeClient,
    prices: &Prices,
    book: &PriceBook,
) -> Result<Proposals, PriceBookError> {
    let probes = candidates(client);
    let rows: Vec<Row> = probes.iter().map(row).collect();
    let lines = linear(profile, &known.parameters, &rows, prices, None);
    let days = Days::new(profile, &known.parameters, &rows);
    let mut belief = days.after(known);
    let mean = |belief: &Belief| {
        let known = lines.iter().flatten();
        let deviations = known.map(|line| {
            let mut slopes = line.slopes.clone();
            slopes.resize(belief.mean.len(), 0.0);
            belief.variance(&slopes).sqrt()
        });
        deviations.sum::<f64>() / lines.iter().flatten().count().max(1) as f64
    };
    let deviation = mean(&belief);
    let mut measurements = Vec::new();
    for _ in 0..PROPOSED {
        let now = mean(&belief);
        let mut tried = Vec::new();
        for ((probe, row), line) in probes.iter().zip(&rows).zip(&lines) {
            let Some(line) = line else { continue };
            for count in COUNTS {
                let mut belief = belief.clone();
                let variance = MODEL.powi(2) + line.noise.powi(2) / count as f64;
                belief.see(&days.slopes(&known.parameters, row, line), 0.0, variance);
                let one = Proposed {
                    probe: *probe,
                    setting: Setting::Operation(*probe).to_string(),
                    count,
                    deviation: mean(&belief),
                    usd: price(probe, line.log.exp(), count, prices, book)?,
                };
                tried.push((one, belief));
            }
        }
        let narrows = |one: &Proposed| now - one.deviation;
        let best = tried.iter().map(|(one, _)| narrows(one));
        let best = best.fold(0.0, f64::max);
        tried.retain(|(one, _)| best > 0.0 && narrows(one) >= NEARLY * best);
        let cheapest =
            (tried.into_iter()).min_by(|(one, _), (other, _)| one.usd.total_cmp(&other.usd));
        let Some((one, taken_in)) = cheapest else {
            break;
        };
        belief = taken_in;
        measurements.push(one);
    }
    Ok(Proposals {
        deviation,
        measurements,
    })
}

/// Returns the row of a measurement.
fn row(probe: &Probe) -> Row {
    Row {
        series: DAY.to_owned(),
        what: What::Operation(*probe),
        statistic: Statistic::Mean,
        measured: 1.0,
        place: String::new(),
        constants: Default::default(),
    }
}

impl Proposed {
    /// Returns the header of a table of measurements.
    pub(super) fn header() -> String {
        format!("{},measured,n", IDENTITY.join(","))
    }

    /// Returns its line, in which `measured` is to be filled in, in seconds.
    pub(super) fn line(&self) -> String {
        let Probe {
            operation,
            client,
            memory_mb,
            functions,
            streams,
            bytes,
            ..
        } = self.probe;
        format!(
            "{DAY},{},{},{memory_mb},{functions},{streams},{bytes},,mean,,{}",
            word(&operation),
            word(&client),
            self.count
        )
    }
}

/// Returns every measurement that is considered: single reads and writes, calls and starts.
fn candidates(client: ProbeClient) -> Vec<Probe> {
    let objects = SIZES.into_iter().flat_map(|bytes| {
        // A client holds an object, and its program a copy.
        let large_enough = move |memory_mb: &u32| bytes >> 19 <= u64::from(*memory_mb);
        let memory = MEMORY.into_iter().filter(large_enough);
        memory.flat_map(move |memory_mb| {
            [Operation::Get, Operation::Put].map(|operation| (operation, memory_mb, bytes))
        })
    });
    let starts = MEMORY.into_iter().flat_map(|memory_mb| {
        [Operation::WarmStart, Operation::Init].map(|operation| (operation, memory_mb, 0))
    });
    let probe = |(operation, memory_mb, bytes)| Probe {
        operation,
        client,
        memory_mb,
        functions: 1,
        streams: 1,
        bytes,
        rounds: 1,
        is_new_connection: false,
    };
    objects.chain(starts).map(probe).collect()
}

/// Returns the price of measuring operations of `seconds` each, dollars: a call for each start, and one for
/// all requests, with one write of the object that is read.
fn price(
    probe: &Probe,
    seconds: f64,
    count: usize,
    functions: &Prices,
    book: &PriceBook,
) -> Result<f64, PriceBookError> {
    let usd = |dimension: &str| Ok::<f64, PriceBookError>(book.price(dimension)?.usd);
    let n = count as f64;
    let (calls, requests) = match probe.operation {
        Operation::Get => (1, usd("s3_put")? + n * usd("s3_get")?),
        Operation::Put => (1, n * usd("s3_put")?),
        _ => (count, 0.0),
    };
    Ok(requests + functions.of_functions(probe.memory_mb, n * seconds, calls))
}
