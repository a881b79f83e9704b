//! Conversion of a row's fields to a job that some system can run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use epochcost_datasets::{self as datasets, DatasetInfo};
use epochcost_kernels::KernelError;
use epochcost_platform::Site;
use epochcost_simulator::profile::Client;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::hash::sha256_hex;
use epochcost_spec::rows::{
    OneMachine, OwnModel, Row, Simulation, StatedConstant, TensorStoreChoice,
};
use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::yaml::schema;
use epochcost_systems::{self as systems, Attack, DataPlan, Evaluate, Job, ModelSizes, System};

use super::bounds::LONGEST_ID;
use super::data::Data;
use super::decode::decode;
use super::document::{self, Document, Node};
use super::error::ExperimentError;
use super::expand::RawRow;
use super::raw::Training;
use super::{of_settings, simulation};

/// What a row is checked against.
pub struct Checker<'a> {
    /// The file.
    pub document: &'a Document,
    /// Price book that was given; none: the shipped one.
    pub prices: Option<&'a PriceBook>,
    /// The data.
    pub data: &'a Data,
    /// The experiment's seed.
    pub seed: u64,
    /// Models of the experiment's own.
    pub models: &'a [OwnModel],
    /// What its simulation stands on, if it is simulated.
    pub simulation: Option<&'a Simulation>,
    /// Whether the channels are real servers.
    pub has_servers: bool,
    /// Where trials run: on a rented machine as on this one.
    pub site: Site,
    /// The rented machine that runs them by the local platform, if one does.
    pub one_machine: Option<OneMachine>,
}

/// A row while it is checked.
pub(super) struct RowChecker<'a> {
    /// What rows are checked against.
    pub(super) all: &'a Checker<'a>,
    /// Fields of the row, with their places.
    pub(super) fields: &'a Node,
    /// The same fields, by their types.
    pub(super) row: &'a Training,
    /// System of the row.
    pub(super) system: &'static dyn System,
}

/// A row with valid fields.
#[derive(Debug)]
pub struct CheckedRow {
    /// The row.
    pub row: Row,
    /// The reason why it cannot be run, if it cannot.
    pub impossible: Option<ExperimentError>,
}

impl Checker<'_> {
    /// Checks one row. A row whose fields are valid, but which cannot be run, comes
    /// with the reason.
    ///
    /// # Errors
    /// The first field that is invalid.
    pub fn row(&self, raw: &RawRow) -> Result<CheckedRow, ExperimentError> {
        let fields = &raw.fields;
        let training: Training = decode(self.document, fields)?;
        let system = self.system(fields, &training)?;
        let row = RowChecker {
            all: self,
            fields,
            row: &training,
            system,
        };
        let own_model = row.own_model()?;
        let (stored, sizes) = match own_model {
            Some(own) => (row.stored(own)?, own.sizes()),
            None => {
                let model = row.model()?;
                let classes = training.classes;
                let sizes = classes.map_or(model.sizes, |classes| model.with_classes(classes));
                (row.images(model).iter().product(), sizes)
            }
        };
        row.classes(own_model.is_some())?;
        row.memory()?;
        row.function_sizes()?;
        let instance_type = row.instance_type()?;
        let settings = row.settings()?;
        let device = row.device()?;
        let optimizer = training.optimizer;
        let optimizer = optimizer.unwrap_or_else(|| system.optimizer(training.fidelity));
        if let Err(error) = optimizer.validate() {
            return Err(row.optimizer(&error));
        }
        let mut job = Job {
            trial: String::new(),
            system: training.system.clone(),
            fidelity: training.fidelity,
            settings,
            model: training.model.clone(),
            data: DataPlan {
                dataset: self.data.name.clone(),
                record_bytes: self.data.bytes_per_sample.unwrap_or(1 + stored),
                train_samples: self.data.train,
                validation_samples: self.data.validation,
                test_samples: self.data.test,
                augment: training.augment,
            },
            workers: training.workers,
            batch_size: training.batch_size,
            batches_per_worker: training.batches_per_worker.unwrap_or(1),
            last_batch: None,
            epochs: training.epochs,
            seed: self.seed,
            optimizer,
            evaluate: training.evaluate.unwrap_or(match own_model {
                Some(_) => Evaluate::Never,
                None => Evaluate::Last,
            }),
            device: device.kind,
            attack: row.attack()?,
        };
        let mut impossible = None;
        let asked = row.asked_batches()?;
        match row.batches(&job, asked) {
            Ok(cut) => (job.batches_per_worker, job.last_batch) = cut,
            Err(reason) => impossible = Some(reason),
        }
        if self.has_phantoms() {
            let used = job.workers * job.samples_per_worker();
            job.data.train_samples = job.data.train_samples.max(used);
        }
        let asked = row.runnable(&job, sizes);
        let asked = asked.and_then(|()| row.links());
        let asked = asked.and_then(|()| row.joins(&job));
        let asked = asked.and_then(|()| row.gpus(&job, &instance_type));
        impossible = impossible.or(asked.err());
        if impossible.is_none() {
            row.faults(&job, sizes)?;
            row.exchange(&job, sizes)?;
        }
        let (sandbox, constants) = row.sandbox()?;
        let row = Row {
            id: row_id(&training, &raw.swept),
            job,
            memory_mb: u32::try_from(training.memory_mb).unwrap_or(u32::MAX),
            function_memory_mb: training.function_memory_mb.clone(),
            timeout_s: training.timeout_s,
            instance_type,
            cpu_fallback: device.fallback,
            precision: device.precision,
            faults: training.faults.clone(),
            own_model: own_model.cloned(),
            classes: training.classes,
            constants: row.constants(constants)?,
            client: row.client()?,
            tensor_store: row.tensor_store()?,
            jobs: row.jobs()?,
            one_machine: self.one_machine,
            sandbox,
        };
        Ok(CheckedRow { row, impossible })
    }

    /// Returns the id of a row that may be invalid otherwise.
    ///
    /// # Errors
    /// When a field has the wrong type.
    pub fn id(&self, raw: &RawRow) -> Result<String, ExperimentError> {
        Ok(row_id(&decode(self.document, &raw.fields)?, &raw.swept))
    }

    /// Whether the data are sizes only: as many samples as are wanted.
    pub(super) fn has_phantoms(&self) -> bool {
        let simulation = self.simulation;
        simulation.is_some_and(|simulation| !simulation.real_compute)
    }

    fn system(
        &self,
        fields: &Node,
        row: &Training,
    ) -> Result<&'static dyn System, ExperimentError> {
        let system = systems::find(&row.system).ok_or_else(|| {
            let known = systems::systems().iter().map(|system| system.name());
            let remedy = did_you_mean(&row.system, &known.collect::<Vec<_>>());
            let problem = format!("unknown system `{}`", row.system);
            (self.document).error(fields.origin_of("system"), problem, remedy)
        })?;
        let reason = system.deployment().not_on_cloud;
        if let Some(reason) = reason.filter(|_| self.site.is_cloud()) {
            let problem = format!("{} does not run on AWS: {reason}", system.title());
            let remedy = "run it with --platform local or sim";
            return Err((self.document).error(fields.origin_of("system"), problem, remedy));
        }
        Ok(system)
    }

    /// Returns the price book that was given, or else the shipped one.
    pub(super) fn prices(&self) -> Option<Cow<'_, PriceBook>> {
        let given = self.prices.map(Cow::Borrowed);
        given.or_else(|| PriceBook::shipped().ok().map(Cow::Owned))
    }
}

impl RowChecker<'_> {
    /// The client that the row names itself.
    fn client(&self) -> Result<Option<Client>, ExperimentError> {
        let Some(client) = self.row.client else {
            return Ok(None);
        };
        let Some(simulation) = self.all.simulation else {
            let problem = "a client is chosen in a simulation, and this platform is real";
            let remedy = "leave `client` out, or run it with --platform sim";
            return Err(self.error("client", problem, remedy));
        };
        simulation::check_client(self.all.document, self.fields, &simulation.profile, client)?;
        Ok(Some(client))
    }

    /// The constants that the row states itself.
    fn constants(
        &self,
        stated: BTreeMap<String, StatedConstant>,
    ) -> Result<BTreeMap<String, StatedConstant>, ExperimentError> {
        if let Some(simulation) = self.all.simulation {
            let (document, profile) = (self.all.document, &simulation.profile);
            simulation::check_constants(document, self.fields, profile, &stated)?;
        } else if !stated.is_empty() {
            let problem = "constants are of a simulated platform, and this one is real";
            let remedy = "leave `constants` out, or run it with --platform sim";
            return Err(self.error("constants", problem, remedy));
        }
        Ok(stated)
    }

    /// Returns the Redis variant that holds the tensors, where there is one.
    fn tensor_store(&self) -> Result<Option<TensorStoreChoice>, ExperimentError> {
        let stated = self.row.tensor_store;
        if stated.is_some() && !self.all.has_servers {
            let problem = "a tensor store is chosen of real services, and these are none";
            let remedy =
                "leave `tensor_store` out, or run it with --platform local --services real";
            return Err(self.error("tensor_store", problem, remedy));
        }
        Ok(self.all.has_servers.then(|| stated.unwrap_or_default()))
    }

    /// The experiment's own model of that name, which can only be simulated.
    fn own_model(&self) -> Result<Option<&OwnModel>, ExperimentError> {
        let own = self
            .all
            .models
            .iter()
            .find(|model| model.name == self.row.model);
        if own.is_none() || self.all.has_phantoms() {
            return Ok(own);
        }
        let name = &self.row.model;
        let problem = format!("`{name}` is described here, and there is no code that trains it");
        let remedy = "simulate it: --platform sim, without `real_compute`";
        Err(self.error("model", problem, remedy))
    }

    /// Refuses a head of other classes where the model is trained, or described by its sizes.
    fn classes(&self, is_own: bool) -> Result<(), ExperimentError> {
        let why = match self.row.classes {
            None => return Ok(()),
            Some(_) if is_own => "its `parameters` are stated here, its head among them",
            Some(_) if !self.all.has_phantoms() => "a head of other classes exists as sizes alone",
            Some(_) => return Ok(()),
        };
        let remedy = "leave it out, or simulate a model of this program: --platform sim, without `real_compute`";
        Err(self.error("classes", format!("`{}`: {why}", self.row.model), remedy))
    }

    fn model(&self) -> Result<&'static ModelSizes, ExperimentError> {
        let model = systems::find_model(&self.row.model).ok_or_else(|| {
            let own = self.all.models.iter().map(|model| model.name.as_str());
            let known = systems::models().iter().map(|model| model.name).chain(own);
            let remedy = did_you_mean(&self.row.model, &known.collect::<Vec<_>>());
            let problem = format!("unknown model `{}`", self.row.model);
            self.error("model", problem, remedy)
        })?;
        let Ok(info) = datasets::find(&self.all.data.name) else {
            return Ok(model);
        };
        let taken = |set: &DatasetInfo| model.takes(images(set), usize::from(set.classes));
        if taken(info) {
            return Ok(model);
        }
        let fitting = datasets::DATASETS.iter().filter(|set| taken(set));
        let fitting: Vec<&str> = fitting.map(|set| set.name).collect();
        let (takes, has) = (shape(model.input), shape(images(info)));
        let (model, set) = (model.name, info.name);
        let problem = format!("{model} takes images of {takes}, and {set} has {has}");
        let fitting = fitting.join(", ");
        let remedy = format!("name another model, or one of the datasets {fitting}");
        Err(self.error("model", problem, remedy))
    }

    /// The images that a row of that model reads.
    fn images(&self, model: &ModelSizes) -> [usize; 3] {
        datasets::find(&self.all.data.name).map_or(model.input, images)
    }

    /// Returns the bytes of a stored sample without its label: of the model's input, unless
    /// the data state their own.
    fn stored(&self, model: &OwnModel) -> Result<usize, ExperimentError> {
        let bytes = model.input.map(|input| input.iter().product());
        bytes.or(self.all.data.bytes_per_sample).ok_or_else(|| {
            let name = &model.name;
            let problem = format!("nothing says how many bytes a sample of `{name}` has");
            let remedy = "give the model's `input`, or the dataset's `bytes_per_sample`";
            self.error("model", problem, remedy)
        })
    }

    fn settings(&self) -> Result<serde_json::Value, ExperimentError> {
        let settings = self.row.settings.iter();
        let settings = settings.map(|(name, value)| (name.clone(), with_whole_numbers(value)));
        let settings = self
            .system
            .settings(self.row.fidelity, &settings.collect())
            .map_err(|error| {
                let node = self.fields.get("settings").unwrap_or(self.fields);
                let origin = node.origin_of(error.field());
                let name = self.system.name();
                let remedy = match &error {
                    systems::SettingsError::Unknown { field, known, .. } => {
                        let known: Vec<&str> = known.iter().map(String::as_str).collect();
                        did_you_mean(field, &known)
                    }
                    systems::SettingsError::Value { .. } => {
                        format!("`epochcost list systems --json` shows {name}'s settings")
                    }
                };
                self.all.document.error(origin, error.to_string(), remedy)
            })?;
        if let Some(node) = self.fields.get("settings") {
            schema::check(self.all.document, of_settings(self.system.name()), node)?;
        }
        Ok(settings)
    }

    fn optimizer(&self, error: &KernelError) -> ExperimentError {
        let variant = (self.fields.get("optimizer")).and_then(|node| node.entries().first());
        let origin = match (error, variant) {
            (KernelError::OptimizerSetting { name, .. }, Some(variant)) => {
                variant.node.origin_of(name)
            }
            _ => self.fields.origin_of("optimizer"),
        };
        let remedy = "give a value in that domain";
        self.all.document.error(origin, error.to_string(), remedy)
    }

    /// A type without a price would only be found out once the bill is made.
    fn instance_type(&self) -> Result<String, ExperimentError> {
        let Some(asked) = &self.row.instance_type else {
            return Ok(self.system.deployment().instance_type.to_owned());
        };
        let Some(book) = self.all.prices() else {
            return Ok(asked.clone());
        };
        let priced: Vec<&str> = book.instance_types().collect();
        if priced.contains(&asked.as_str()) {
            return Ok(asked.clone());
        }
        let (region, date) = (book.region(), book.date());
        let problem = format!("the price book of {region}, {date}, has no `ec2/{asked}`");
        let similar = did_you_mean(asked, &priced);
        let remedy =
            format!("{similar}; or add its price to a book and give that with `--prices FILE`");
        Err(self.error("instance_type", problem, remedy))
    }

    /// An attack changes values, and needs a platform that has some.
    fn attack(&self) -> Result<Option<Attack>, ExperimentError> {
        if self.row.attack.is_none() || !self.all.has_phantoms() {
            return Ok(self.row.attack.clone());
        }
        let problem = "an attack changes gradients, and this simulation has only their sizes";
        let remedy = "leave `attack` out, or train for real: `simulation: {real_compute: true}`";
        Err(self.error("attack", problem, remedy))
    }

    pub(super) fn error(
        &self,
        field: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ExperimentError {
        let origin = self.fields.origin_of(field);
        self.all.document.error(origin, problem, remedy)
    }
}

/// Channels, height and width of a dataset's images.
fn images(set: &DatasetInfo) -> [usize; 3] {
    [set.format.channels, set.format.height, set.format.width]
}

fn shape([channels, height, width]: [usize; 3]) -> String {
    format!("{channels}x{height}x{width}")
}

/// A name from the system, model and fidelity, or the row's own, and the swept values.
fn row_id(row: &Training, swept: &[(String, String)]) -> String {
    let mut id = match &row.name {
        Some(name) => name.clone(),
        None => format!("{}-{}-{}", row.system, row.model, row.fidelity.as_str()),
    };
    for (path, value) in swept {
        let field = path.rsplit('.').next().unwrap_or(path);
        if row.name.is_some() || !matches!(field, "system" | "model" | "fidelity") {
            id.push_str(&format!("-{field}-{value}"));
        }
    }
    // Ids become parts of names of files, keys and queues.
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let mut short: String = id.chars().map(|c| if safe(c) { c } else { '-' }).collect();
    if short.len() > LONGEST_ID {
        let hash = sha256_hex(short.as_bytes());
        short.truncate(LONGEST_ID - 17);
        short = format!("{short}-{}", &hash[..16]);
    }
    short
}

/// Returns a setting with whole numbers in the place of decimal ones that are whole, as `8.0` is.
fn with_whole_numbers(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().and_then(document::whole);
            whole.map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, _)| (name.clone(), with_whole_numbers(value));
            Value::Object(fields.iter().map(field).collect())
        }
        _ => value.clone(),
    }
}
