//! Experiments: from a YAML file to checked rows that a platform can run.
//!
//! A file is read into a tree that knows where each value was written
//! ([`document`]), options of the command line are laid over it
//! ([`epochcost_spec::yaml::overrides`]), systems and sweeps are multiplied out ([`expand`]), and
//! each row is given types ([`mod@decode`]) and checked (`check`, `bounds`).
//!
//! It imports `epochcost-spec` and `epochcost-platform`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod begun;
mod beside;
mod bounds;
mod check;
pub mod data;
mod describe;
mod device;
mod excluded;
pub mod expand;
mod files;
mod forms;
mod idle;
pub mod named;
mod names;
mod own;
mod possible;
pub mod raw;
mod sandbox;
mod schema;
mod setups;
mod simulation;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;

use epochcost_kernels::hash;

pub use bounds::is_idle;
pub use data::Data;
pub use describe::{describe, expanded};
pub use files::{UnreadableDirectory, validation_files, yaml_files};
pub use forms::{Form, FormName, Forms};
pub use names::platforms;
pub use raw::Services;
pub use schema::{of_experiment, of_settings, rows_alone};
pub use setups::{Left, deviations};
pub use simulation::SimulationChoice;

pub use epochcost_spec::yaml::document::{self, Document};
pub use epochcost_spec::yaml::error::{self, ExperimentError};
use epochcost_spec::yaml::overrides::Given;

pub use epochcost_platform::PlatformKind;

use bounds::MOST_TRIALS_OF_ALL;
use check::{CheckedRow, Checker};
use epochcost_platform::{Figures, Site, site_of};
use epochcost_spec::claims::Claim;
use epochcost_spec::claims::Lost;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::rows::{OwnModel, Row, Simulation, TrialPlan};
use epochcost_spec::shipped;
use epochcost_spec::yaml::decode::{self, decode_with};
use epochcost_spec::yaml::document::Value;
use raw::{Header, SCHEMA};

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The platform to run on.
    pub platform: PlatformKind,
    /// What serves the channels.
    pub services: Services,
    /// Everything random is drawn from this.
    pub seed: u64,
    /// Repetitions of each row.
    pub trials: usize,
    /// Repetitions of a row at most, where a claim cannot be decided after `trials`.
    pub most_trials: usize,
    /// What to train on.
    pub data: Data,
    /// What to train: one for each system and combination of swept values.
    pub rows: Vec<Row>,
    /// Models of the experiment's own.
    pub models: Vec<OwnModel>,
    /// Rows that cannot be run, where these are kept.
    pub impossible: Vec<ImpossibleRow>,
    /// Claims that the results are compared with.
    pub claims: Vec<Claim>,
    /// Claims with a recorded verdict that the experiment no longer makes.
    pub lost: Vec<Lost>,
    /// What a simulation of it stands on; none where it is not simulated.
    pub simulation: Option<Simulation>,
    /// Forms that reproductions make of it.
    pub forms: Forms,
    /// Price book that was given; none: the shipped one.
    pub prices: Option<PriceBook>,
    /// The file, for messages.
    pub document: Document,
}

/// A row that cannot be run: its system, its data or its instances do not allow it.
#[derive(Clone, Debug)]
pub struct ImpossibleRow {
    /// Index of the row among all rows of the experiment.
    pub index: usize,
    /// The row.
    pub row: Row,
    /// The reason, and what to do.
    pub reason: String,
}

/// What the command line adds to the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--set` assignments, in order.
    pub set: Vec<String>,
    /// `--trials`.
    pub trials: Option<usize>,
    /// `--platform`.
    pub platform: Option<PlatformKind>,
    /// `--services`.
    pub services: Option<Services>,
    /// Price book of `--prices`; none: the shipped one.
    pub prices: Option<PriceBook>,
    /// Form that is laid over the experiment, before all else.
    pub form: Option<FormName>,
    /// Whether rows that cannot be run are kept apart; otherwise the first of them
    /// is an error, as it is where no row can be run.
    pub keeps_impossible: bool,
}

/// Trials of a row at most, as a multiple of `trials`: they are doubled twice.
const MOST_TRIALS_FACTOR: usize = 4;

impl Experiment {
    /// Reads and checks an experiment, its quotations included: the file of that path or
    /// name, or the shipped experiment of that name.
    ///
    /// # Errors
    /// Names the file, the line or option, the field and the remedy.
    pub fn load(named: &Path, options: &Options) -> Result<Self, ExperimentError> {
        Self::from_beside(named::read(named)?, options)
    }

    /// Returns whether it is one that this program brings along.
    pub fn is_shipped(&self) -> bool {
        shipped::is_shipped(&self.document.file)
    }

    /// Checks a document that was read already, its quotations included: it lies
    /// beside the published tables.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn from_beside(document: Document, options: &Options) -> Result<Self, ExperimentError> {
        let file = document.clone();
        let mut experiment = Self::from_document(document, options)?;
        beside::add(&mut experiment, options)?;
        excluded::mark(&mut experiment, file, options)?;
        // Options and forms leave rows out that formulas name.
        if options.is_whole() {
            let impossible = experiment.impossible.iter().map(|other| &other.row);
            let rows: Vec<&Row> = experiment.rows.iter().chain(impossible).collect();
            own::check(&experiment.document, &experiment.claims, &rows)?;
        }
        Ok(experiment)
    }

    /// Checks a document that was read already. What it quotes is left alone:
    /// the copy of a run directory no longer lies beside the published tables.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn from_document(
        mut document: Document,
        options: &Options,
    ) -> Result<Self, ExperimentError> {
        let forms = Forms::take(&mut document)?;
        if options.form.is_none() {
            // A file is valid in all its forms or not at all.
            for form in forms.changing() {
                let form = Options {
                    keeps_impossible: options.keeps_impossible,
                    form: Some(form),
                    ..Options::default()
                };
                Self::of_forms(document.clone(), forms.clone(), &form)?;
            }
        }
        Self::of_forms(document, forms, options)
    }

    /// Checks a document whose forms were taken out of it.
    fn of_forms(
        mut document: Document,
        forms: Forms,
        options: &Options,
    ) -> Result<Self, ExperimentError> {
        let form = options.form.and_then(|name| forms.get(name));
        if let Some(form) = form {
            form.apply(&mut document)?;
        }
        options.apply(&mut document)?;
        if let Some(form) = form {
            form.drop_from(&mut document)?;
        }
        begun::complete_all(&mut document)?;
        document.refuse_repeated()?;
        let header = header(&document)?;
        let most_trials = most_trials(&header);
        let data = Data::check(&document, header.dataset)?;
        let simulation = match header.platform.site().figures() {
            Figures::Simulated => Some(simulation::check(&document, &header.simulation)?),
            Figures::Measured => None,
        };
        if (simulation.as_ref()).is_none_or(|simulation| simulation.real_compute) {
            data.refuse_described(&document)?;
        }
        own_models(&document, &header.models)?;
        let one_machine = header
            .one_machine
            .filter(|_| header.platform.site().is_cloud());
        let checker = Checker {
            document: &document,
            prices: options.prices.as_ref(),
            data: &data,
            seed: header.seed,
            models: &header.models,
            simulation: simulation.as_ref(),
            site: one_machine.map_or(header.platform.site(), |_| Site::ThisMachine),
            one_machine,
            has_servers: header.platform.has_services() && header.services == Services::Real,
        };
        let (rows, impossible) = rows(&checker, form, options.keeps_impossible)?;
        schema::check_parts(&document)?;
        let mut claims = Vec::new();
        own::read(&document, &mut claims)?;
        let (trials, count) = (header.trials, rows.len());
        let all = trials * count;
        if all > MOST_TRIALS_OF_ALL {
            let problem =
                format!("{trials} trials of {count} rows are {all}, more than this program runs");
            let remedy = format!("give fewer: {MOST_TRIALS_OF_ALL} in all");
            return Err(document.error(document.root.origin_of("trials"), problem, remedy));
        }
        Ok(Self {
            name: header.name,
            description: header.description,
            platform: header.platform,
            services: header.services,
            seed: header.seed,
            trials: header.trials,
            most_trials,
            data,
            rows,
            models: header.models,
            impossible,
            claims,
            lost: Vec::new(),
            simulation,
            forms,
            prices: options.prices.clone(),
            document,
        })
    }

    /// Whether its records are needed, and not only their sizes.
    pub fn needs_data(&self) -> bool {
        let trains = (self.simulation.as_ref()).is_none_or(|simulation| simulation.real_compute);
        trains && !self.rows.is_empty()
    }

    /// The seed of a trial: the same for every row, so that systems start from
    /// the same weights and see the same order of samples.
    pub fn trial_seed(&self, trial: usize) -> u64 {
        hash::mix(self.seed, trial as u64)
    }

    /// Every trial, in the order in which they run: first the first of every
    /// row, then the second, so that a drift of the machine meets all systems.
    pub fn trial_plans(&self) -> Vec<TrialPlan> {
        self.plans_of(0..self.trials)
    }

    /// Returns the trials of these numbers, in the order in which they run.
    pub fn plans_of(&self, trials: std::ops::Range<usize>) -> Vec<TrialPlan> {
        trials
            .flat_map(|trial| self.rows.iter().map(move |row| self.plan(row, trial)))
            .collect()
    }

    fn plan(&self, row: &Row, trial: usize) -> TrialPlan {
        let mut row = row.clone();
        row.job.trial = format!("{}-t{trial}", row.id);
        row.job.seed = self.trial_seed(trial);
        let sizes = row.sizes();
        TrialPlan { row, trial, sizes }
    }
}

impl Options {
    /// Returns the options that lay something over the file, as they are given.
    pub fn given(&self) -> Vec<String> {
        let set = self.set.iter().map(|set| format!("--set {set}"));
        let fields = self.fields().into_iter();
        let fields = fields.filter(|(field, _)| *field != "trials");
        set.chain(fields.map(|(field, value)| format!("--{field} {value}")))
            .collect()
    }

    /// Returns the fields that have an option of their own, with the values given.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("trials", self.trials.map(|trials| trials.to_string())),
            (
                "platform",
                self.platform.map(|kind| kind.as_str().to_owned()),
            ),
            (
                "services",
                self.services.map(|kind| kind.as_str().to_owned()),
            ),
        ];
        let given = fields.into_iter();
        given
            .filter_map(|(field, value)| Some((field, value?)))
            .collect()
    }

    /// Returns whether the experiment stays as its file has it.
    fn is_whole(&self) -> bool {
        self.given().is_empty() && self.form.is_none()
    }

    fn apply(&self, document: &mut Document) -> Result<(), ExperimentError> {
        let fields = self.fields();
        let mut given: Vec<Given> = self.set.iter().filter_map(|set| Given::set(set)).collect();
        let own = fields.iter().filter(|(field, _)| *field != "platform");
        given.extend(own.map(|(field, value)| Given {
            path: (*field).to_owned(),
            option: format!("--{field} {value}"),
        }));
        document.refuse_twice(&given)?;
        for assignment in &self.set {
            document.set(assignment)?;
        }
        for (field, value) in &fields {
            document.set_option(&format!("--{field} {value}"), field, value)?;
        }
        Ok(())
    }
}

fn header(document: &Document) -> Result<Header, ExperimentError> {
    let root = &document.root;
    let parts = schema::parts().iter().map(String::as_str);
    let elsewhere: Vec<&str> = schema::common_fields().chain(parts).collect();
    let mut node = root.clone();
    if let Value::Map(entries) = &mut node.value {
        entries.retain(|entry| !elsewhere.contains(&entry.key.as_str()));
    }
    let header: Header = decode_with(document, &node, &elsewhere)?;
    if header.schema != SCHEMA {
        let problem = format!("format {} is not known", header.schema);
        let remedy = format!("write `schema: {SCHEMA}`, or use an epochcost that knows the format");
        return Err(document.error(root.origin_of("schema"), problem, remedy));
    }
    if header.most_trials.is_some_and(|most| most < header.trials) {
        let problem = format!("fewer than the {} trials of every row", header.trials);
        let remedy = "give as many or more, or leave it out";
        return Err(document.error(root.origin_of("most_trials"), problem, remedy));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if header.name.is_empty() || !header.name.chars().all(plain) {
        let problem = format!("{:?} cannot be part of a directory's name", header.name);
        let remedy = "use letters, digits, `-`, `_` and `.`";
        return Err(document.error(root.origin_of("name"), problem, remedy));
    }
    Ok(header)
}

/// Returns how many trials of a row there may be. By default, only trials on this machine are
/// added to: they cost nothing but time. One trial has no interval that could be narrowed.
fn most_trials(header: &Header) -> usize {
    let adds = site_of(header.platform.as_str()) == Some(Site::ThisMachine) && header.trials > 1;
    let factor = if adds { MOST_TRIALS_FACTOR } else { 1 };
    header.most_trials.unwrap_or(header.trials * factor)
}

fn own_models(document: &Document, models: &[OwnModel]) -> Result<(), ExperimentError> {
    let is_own = |model: &OwnModel| epochcost_systems::find_model(&model.name).is_some();
    let Some(index) = models.iter().position(is_own) else {
        return Ok(());
    };
    let problem = format!("`{}` is a model of this program", models[index].name);
    let origin = document.root.origin_at(&format!("models.{index}.name"));
    Err(document.error(origin, problem, "give it another name"))
}

/// Returns the rows that can be run, and those that cannot.
fn rows(
    checker: &Checker<'_>,
    form: Option<&Form>,
    keeps_impossible: bool,
) -> Result<(Vec<Row>, Vec<ImpossibleRow>), ExperimentError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut impossible: Vec<ImpossibleRow> = Vec::new();
    let mut first_reason = None;
    let mut expanded = expand::expand(checker.document)?;
    if let Some(form) = form.filter(|form| !form.without.is_empty()) {
        let ids = expanded.iter().map(|raw| checker.id(raw));
        let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
        form.check_rows(checker.document, &ids)?;
        let mut ids = ids.iter();
        expanded.retain(|_| !ids.next().is_some_and(|id| form.leaves_out(id)));
    }
    for (index, raw) in expanded.iter().enumerate() {
        let CheckedRow {
            row,
            impossible: reason,
        } = checker.row(raw)?;
        let mut known = rows.iter().chain(impossible.iter().map(|other| &other.row));
        if known.any(|other| other.id == row.id) {
            let problem = format!("two rows are called `{}`", row.id);
            let remedy = "give each its own `name` where a system is listed more than once";
            return Err(checker
                .document
                .error(raw.fields.origin_of("name"), problem, remedy));
        }
        match reason {
            None => rows.push(row),
            Some(reason) if !keeps_impossible => return Err(reason),
            Some(error) => {
                let reason = error.brief();
                impossible.push(ImpossibleRow { index, row, reason });
                first_reason.get_or_insert(error);
            }
        }
    }
    match first_reason {
        Some(error) if rows.is_empty() => Err(error),
        _ => Ok((rows, impossible)),
    }
}
