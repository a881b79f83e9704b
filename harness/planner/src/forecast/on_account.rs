//! What an item of a paper needs of an account on a cloud, is expected to cost there, and costs at most.

use std::collections::BTreeMap;
use std::path::Path;

use epochcost_experiment::{Experiment, FormName, Options, named};
use epochcost_platform::aws_plan::{
    NEW_ACCOUNT_MEMORY_MB, Needs, Share, Training, bound, bounds, training,
};
use epochcost_platform::{RowUsage, simulator};
use epochcost_spec::cost::{PriceBook, ec2};
use epochcost_spec::rows::Row;
use epochcost_spec::ui::Output;
use epochcost_systems::SystemError;
use serde::Serialize;

use super::estimate::has_functions;
use super::rows::{Candidate, PlannedRow};
use super::uncertainty::{Percentiles, draws};
use super::{Sampling, planned, simulation_of, usage};
use crate::error::{Error, Result};

/// An experiment in its form for a cloud: figures are of all its trials.
#[derive(Debug, Serialize)]
pub struct OnAccount {
    /// Rows that can be run.
    pub rows: usize,
    /// Trials of these rows.
    pub trials: usize,
    /// Rows that cannot be run, with the reasons: they refuse the others.
    pub impossible: BTreeMap<String, String>,
    /// Quotas that the most demanding row needs.
    pub needs: Needs,
    /// Smallest and largest memory of a function, MB; none without functions.
    pub memory_mb: Option<[u32; 2]>,
    /// Most instances of each type at once, hosts of services among them.
    pub instances: BTreeMap<String, u64>,
    /// Rows that a new account can run.
    pub new_account_rows: usize,
    /// Seconds of all trials, one after another.
    pub seconds: Option<Percentiles>,
    /// US dollars with everything counted.
    pub usd: Option<Percentiles>,
    /// Draws in which a row fails, which the percentiles leave out.
    pub failing_draws: usize,
    /// US dollars at most, as a run announces them.
    pub at_most_usd: f64,
    /// The same by dimension of the price book.
    pub at_most_by: BTreeMap<String, f64>,
    /// US dollars at most of what all trials share and the dearest of them.
    pub trial_at_most_usd: f64,
}

/// Forecasts a form of the experiment in `file`: what it needs and costs at most as a run in that
/// form computes them, and what it is expected to cost over draws of all ranges.
///
/// # Errors
/// When the form cannot be read or simulated, or something has no price.
pub fn on_account(
    file: &Path,
    form: FormName,
    prices: &PriceBook,
    sampling: Sampling,
) -> Result<OnAccount> {
    let options = Options {
        form: Some(form),
        keeps_impossible: true,
        prices: Some(prices.clone()),
        ..Options::default()
    };
    let (mut used, mut impossible) = used(file, &options, prices)?;
    // The same rows in virtual time, with the constants that the form drops on the platform.
    let simulated = Options {
        platform: Some(simulator()),
        ..options
    };
    let mut document = named::read(file)?;
    if document.root.get("simulation").is_some() {
        document.set_option("plan", "simulation.real_compute", "false")?;
    }
    let simulated = Experiment::from_document(document, &simulated)?;
    let stands = simulation_of(&simulated)?;
    let (mut candidates, planned) = planned(&simulated, stands, prices)?;
    let refused = planned.iter();
    let refused = refused.filter_map(|row| Some((row.id.clone(), refusal(row)?)));
    impossible.extend(refused);
    used.retain(|row| !impossible.contains_key(&row.row.id));
    candidates.retain(|one| used.iter().any(|row| row.row.id == one.row.id));
    let machines = candidates.iter().map(|one| {
        let row = used.iter().find(|row| row.row.id == one.row.id);
        row.map_or(Ok(None), |row| Machine::of(&row.row, one, prices))
    });
    let machines = machines.collect::<Result<Vec<_>>>()?;
    let drawn = draws(&candidates, stands, sampling, prices)?;
    let trials = simulated.trials as f64;
    let (mut seconds, mut usd) = (Vec::new(), Vec::new());
    for draw in 0..sampling.samples as usize {
        let of_draw = drawn.iter().map(|row| row.get(draw)?.as_ref().ok());
        let Some(of_draw) = of_draw.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let of_rows = of_draw.into_iter().zip(&machines);
        let of_rows = of_rows.map(|(row, machine)| match machine {
            Some(machine) => machine.takes(row.seconds),
            None => (row.seconds, row.cost_full_usd),
        });
        let (of_seconds, of_usd): (Vec<f64>, Vec<f64>) = of_rows.unzip();
        seconds.push(trials * of_seconds.iter().sum::<f64>());
        usd.push(trials * of_usd.iter().sum::<f64>());
    }
    let failing_draws = sampling.samples as usize - usd.len();
    let unusable = |error: SystemError| {
        Error::NothingSelected(format!("a row is none of its system: {error}"))
    };
    let trainings: Vec<Training> = used.iter().map(training).collect();
    let mut at_most_by = BTreeMap::new();
    for line in bound(&used, prices).map_err(Error::no_price)? {
        *at_most_by.entry(line.dimension).or_default() += line.usd;
    }
    let shares = bounds(&used, prices).map_err(Error::no_price)?;
    let all = |share: &Share| share.values().sum::<f64>();
    let dearest_usd = shares.trials.iter().map(all).fold(0.0, f64::max);
    let mut account = OnAccount {
        rows: used.len(),
        trials: used.len() * simulated.trials,
        impossible,
        needs: Needs::of(&trainings).map_err(unusable)?,
        memory_mb: None,
        instances: BTreeMap::new(),
        new_account_rows: 0,
        seconds: Percentiles::of(seconds),
        usd: Percentiles::of(usd),
        failing_draws,
        at_most_usd: at_most_by.values().sum(),
        at_most_by,
        trial_at_most_usd: all(&shares.run) + dearest_usd,
    };
    for row in &trainings {
        account.count(row).map_err(unusable)?;
    }
    Ok(account)
}

/// The rented machine that runs a row's whole trials.
pub(super) struct Machine {
    hour_usd: f64,
    /// Seconds that it boots beside what the simulation has.
    boot_s: f64,
}

impl Machine {
    /// Returns the machine of `row`, which is `simulated`; none of rows that need none.
    pub(super) fn of(row: &Row, simulated: &Candidate, prices: &PriceBook) -> Result<Option<Self>> {
        if row.one_machine.is_none() {
            return Ok(None);
        }
        let price = prices.price(&ec2(&row.instance_type));
        let price = price.map_err(Error::no_price)?;
        // Instances boot in the simulation, too.
        let boot_s = if has_functions(row) {
            simulated.simulation.profile.instance.boot_s
        } else {
            0.0
        };
        Ok(Some(Self {
            hour_usd: price.usd,
            boot_s,
        }))
    }

    /// Returns the seconds and US dollars of a trial of so many seconds.
    pub(super) fn takes(&self, seconds: f64) -> (f64, f64) {
        let seconds = seconds + self.boot_s;
        (seconds, seconds / 3600.0 * self.hour_usd)
    }
}

/// Returns what the rows of a form use as a run computes it, and the rows that it refuses.
fn used(
    file: &Path,
    options: &Options,
    prices: &PriceBook,
) -> Result<(Vec<RowUsage>, BTreeMap<String, String>)> {
    let quiet = Output {
        json: false,
        verbosity: -1,
        wide: false,
    };
    let experiment = Experiment::load(file, options)?;
    let refused = experiment.impossible.iter();
    let refused = refused.map(|row| (row.row.id.clone(), row.reason.clone()));
    Ok((usage(&experiment, prices, quiet)?, refused.collect()))
}

/// Returns why a row cannot be run: its functions or its instances are too small for it, or it fails.
fn refusal(row: &PlannedRow) -> Option<String> {
    let infeasible = row.infeasible.as_ref().map(|limit| limit.reason.clone());
    let failure = row.failure.clone().or(row.impossible.clone());
    infeasible.or(failure)
}

impl OnAccount {
    /// Counts what a row needs of the account.
    fn count(&mut self, row: &Training) -> Result<(), SystemError> {
        let mut has_room = true;
        if !row.calls()?.is_empty() {
            let of_row = row.memory_mb;
            let [least, most] = self.memory_mb.unwrap_or([of_row, of_row]);
            self.memory_mb = Some([least.min(of_row), most.max(of_row)]);
            has_room = of_row <= NEW_ACCOUNT_MEMORY_MB;
        }
        for (kind, count) in row.instances_by_type()? {
            let most = self.instances.entry(kind.to_owned()).or_default();
            *most = count.max(*most);
        }
        let own = Needs::of(std::slice::from_ref(row))?;
        let mut quotas = own.quotas().into_iter();
        let fits = quotas.all(|(quota, needed)| needed <= quota.new_account);
        self.new_account_rows += usize::from(fits && has_room);
        Ok(())
    }
}
