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
        let own_model = self.own_model(fields, &training)?;
        let (stored, sizes) = match own_model {
            Some(own) => (self.stored(fields, own)?, own.sizes()),
            None => {
                let model = self.model(fields, &training)?;
                let sizes = training
                    .classes
                    .map_or(model.sizes, |classes| model.with_classes(classes));
                (self.images(model).iter().product(), sizes)
            }
        };
        self.classes(fields, &training, own_model.is_some())?;
        self.memory(fields, &training)?;
        self.function_sizes(fields, system, &training)?;
        let instance_type = self.instance_type(fields, system, &training)?;
        let settings = self.settings(fields, system, &training)?;
        let device = self.device(fields, system, &training)?;
        let optimizer = training
            .optimizer
            .unwrap_or_else(|| system.optimizer(training.fidelity));
        if let Err(error) = optimizer.validate() {
            return Err(self.optimizer(fields, &error));
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
            attack: self.attack(fields, &training)?,
        };
        let mut impossible = None;
        let asked = self.asked_batches(fields, &training)?;
        match self.batches(fields, system, &job, asked) {
            Ok(cut) => (job.batches_per_worker, job.last_batch) = cut,
            Err(reason) => impossible = Some(reason),
        }
        if self.has_phantoms() {
            let used = job.workers * job.samples_per_worker();
            job.data.train_samples = job.data.train_samples.max(used);
        }
        let asked = self.runnable(fields, system, &job, sizes);
        let asked = asked.and_then(|()| self.links(fields, system));
        let asked = asked.and_then(|()| self.joins(fields, system, &job));
        let asked = asked.and_then(|()| self.gpus(fields, system, &job, &instance_type));
        impossible = impossible.or(asked.err());
        if impossible.is_none() {
            self.faults(fields, &training, system, &job, sizes)?;
            self.exchange(fields, &job, sizes)?;
        }
        let (sandbox, constants) = self.sandbox(fields, &training, system)?;
        let row = Row {
            id: row_id(&training, &raw.swept),
            job,
            memory_mb: u32::try_from(training.memory_mb).unwrap_or(u32::MAX),
            function_memory_mb: training.function_memory_mb,
            timeout_s: training.timeout_s,
            instance_type,
            cpu_fallback: device.fallback,
            precision: device.precision,
            faults: training.faults,
            own_model: own_model.cloned(),
            classes: training.classes,
            constants: self.constants(fields, constants)?,
            client: self.client(fields, training.client)?,
            tensor_store: self.tensor_store(fields, training.tensor_store)?,
            jobs: self.jobs(fields, training.jobs)?,
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

    /// The client that the row names itself.
    fn client(
        &self,
        fields: &Node,
        stated: Option<Client>,
    ) -> Result<Option<Client>, ExperimentError> {
        let (Some(simulation), Some(client)) = (self.simulation, stated) else {
            let problem =
                "a client is chosen in a simulation, and this platform is real".to_owned();
            let remedy = "leave `client` out, or run it with --platform sim";
            return match stated {
                None => Ok(None),
                Some(_) => Err(self.error(fields, "client", problem, remedy)),
            };
        };
        simulation::check_client(self.document, fields, &simulation.profile, client)?;
        Ok(Some(client))
    }

    /// The constants that the row states itself.
    fn constants(
        &self,
        fields: &Node,
        stated: BTreeMap<String, StatedConstant>,
    ) -> Result<BTreeMap<String, StatedConstant>, ExperimentError> {
        let Some(simulation) = self.simulation else {
            let problem = "constants are of a simulated platform, and this one is real";
            let remedy = "leave `constants` out, or run it with --platform sim";
            return if stated.is_empty() {
                Ok(stated)
            } else {
                Err(self.error(fields, "constants", problem.to_owned(), remedy))
            };
        };
        simulation::check_constants(self.document, fields, &simulation.profile, &stated)?;
        Ok(stated)
    }

    /// Returns the Redis variant that holds the tensors, where there is one.
    fn tensor_store(
        &self,
        fields: &Node,
        stated: Option<TensorStoreChoice>,
    ) -> Result<Option<TensorStoreChoice>, ExperimentError> {
        match (self.has_servers, stated) {
            (true, stated) => Ok(Some(stated.unwrap_or_default())),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(self.error(
                fields,
                "tensor_store",
                "a tensor store is chosen of real services, and these are none",
                "leave `tensor_store` out, or run it with --platform local --services real",
            )),
        }
    }

    /// Whether the data are sizes only: as many samples as are wanted.
    pub(super) fn has_phantoms(&self) -> bool {
        self.simulation
            .is_some_and(|simulation| !simulation.real_compute)
    }

    /// The experiment's own model of that name, which can only be simulated.
    fn own_model(
        &self,
        fields: &Node,
        row: &Training,
    ) -> Result<Option<&OwnModel>, ExperimentError> {
        let own = self.models.iter().find(|model| model.name == row.model);
        if own.is_none() || self.has_phantoms() {
            return Ok(own);
        }
        Err(self.error(
            fields,
            "model",
            format!(
                "`{}` is described here, and there is no code that trains it",
                row.model
            ),
            "simulate it: --platform sim, without `real_compute`",
        ))
    }

    /// Refuses a head of other classes where the model is trained, or described by its sizes.
    fn classes(&self, fields: &Node, row: &Training, is_own: bool) -> Result<(), ExperimentError> {
        let why = match row.classes {
            None => return Ok(()),
            Some(_) if is_own => "its `parameters` are stated here, its head among them",
            Some(_) if !self.has_phantoms() => "a head of other classes exists as sizes alone",
            Some(_) => return Ok(()),
        };
        Err(self.error(
            fields,
            "classes",
            format!("`{}`: {why}", row.model),
            "leave it out, or simulate a model of this program: --platform sim, without `real_compute`",
        ))
    }

    fn system(
        &self,
        fields: &Node,
        row: &Training,
    ) -> Result<&'static dyn System, ExperimentError> {
        let system = systems::find(&row.system).ok_or_else(|| {
            let known: Vec<&str> = systems::systems()
                .iter()
                .map(|system| system.name())
                .collect();
            let remedy = did_you_mean(&row.system, &known);
            self.error(
                fields,
                "system",
                format!("unknown system `{}`", row.system),
                remedy,
            )
        })?;
        match system
            .deployment()
            .not_on_cloud
            .filter(|_| self.site.is_cloud())
        {
            None => Ok(system),
            Some(reason) => Err(self.error(
                fields,
                "system",
                format!("{} does not run on AWS: {reason}", system.title()),
                "run it with --platform local or sim",
            )),
        }
    }

    fn model(&self, fields: &Node, row: &Training) -> Result<&'static ModelSizes, ExperimentError> {
        let model = systems::find_model(&row.model).ok_or_else(|| {
            let own = self.models.iter().map(|model| model.name.as_str());
            let known: Vec<&str> = systems::models()
                .iter()
                .map(|model| model.name)
                .chain(own)
                .collect();
            let remedy = did_you_mean(&row.model, &known);
            self.error(
                fields,
                "model",
                format!("unknown model `{}`", row.model),
                remedy,
            )
        })?;
        let Ok(info) = datasets::find(&self.data.name) else {
            return Ok(model);
        };
        let taken = |set: &DatasetInfo| model.takes(images(set), usize::from(set.classes));
        if taken(info) {
            return Ok(model);
        }
        let fitting: Vec<&str> = datasets::DATASETS
            .iter()
            .filter(|set| taken(set))
            .map(|set| set.name)
            .collect();
        Err(self.error(
            fields,
            "model",
            format!(
                "{} takes images of {}, and {} has {}",
                model.name,
                shape(model.input),
                info.name,
                shape(images(info))
            ),
            format!(
                "name another model, or one of the datasets {}",
                fitting.join(", ")
            ),
        ))
    }

    /// The images that a row of that model reads.
    fn images(&self, model: &ModelSizes) -> [usize; 3] {
        datasets::find(&self.data.name).map_or(model.input, images)
    }

    /// Returns the bytes of a stored sample without its label: of the model's input, unless
    /// the data state their own.
    fn stored(&self, fields: &Node, model: &OwnModel) -> Result<usize, ExperimentError> {
        match (model.input, self.data.bytes_per_sample) {
            (Some(input), _) => Ok(input.iter().product()),
            (None, Some(bytes)) => Ok(bytes),
            (None, None) => Err(self.error(
                fields,
                "model",
                format!(
                    "nothing says how many bytes a sample of `{}` has",
                    model.name
                ),
                "give the model's `input`, or the dataset's `bytes_per_sample`",
            )),
        }
    }

    fn settings(
        &self,
        fields: &Node,
        system: &dyn System,
        row: &Training,
    ) -> Result<serde_json::Value, ExperimentError> {
        let settings = row.settings.iter();
        let settings = settings.map(|(name, value)| (name.clone(), with_whole_numbers(value)));
        let settings = system
            .settings(row.fidelity, &settings.collect())
            .map_err(|error| {
                let node = fields.get("settings").unwrap_or(fields);
                let origin = node.origin_of(error.field());
                let remedy = match &error {
                    systems::SettingsError::Unknown { field, known, .. } => {
                        let known: Vec<&str> = known.iter().map(String::as_str).collect();
                        did_you_mean(field, &known)
                    }
                    systems::SettingsError::Value { .. } => {
                        format!(
                            "`epochcost list systems --json` shows {}'s settings",
                            system.name()
                        )
                    }
                };
                self.document.error(origin, error.to_string(), remedy)
            })?;
        if let Some(node) = fields.get("settings") {
            schema::check(self.document, of_settings(system.name()), node)?;
        }
        Ok(settings)
    }

    fn optimizer(&self, fields: &Node, error: &KernelError) -> ExperimentError {
        let remedy = "give a value in that domain";
        match error {
            KernelError::OptimizerSetting { name, .. } => {
                let node = fields
                    .get("optimizer")
                    .and_then(|node| node.entries().first());
                let origin = node.map_or_else(
                    || fields.origin_of("optimizer"),
                    |variant| variant.node.origin_of(name),
                );
                self.document.error(origin, error.to_string(), remedy)
            }
            other => self.error(fields, "optimizer", other.to_string(), remedy),
        }
    }

    /// A type without a price would only be found out once the bill is made.
    fn instance_type(
        &self,
        fields: &Node,
        system: &dyn System,
        row: &Training,
    ) -> Result<String, ExperimentError> {
        let Some(asked) = &row.instance_type else {
            return Ok(system.deployment().instance_type.to_owned());
        };
        let Some(book) = self.prices() else {
            return Ok(asked.clone());
        };
        let priced: Vec<&str> = book.instance_types().collect();
        if priced.contains(&asked.as_str()) {
            return Ok(asked.clone());
        }
        Err(self.error(
            fields,
            "instance_type",
            format!(
                "the price book of {}, {}, has no `ec2/{asked}`",
                book.region(),
                book.date()
            ),
            format!(
                "{}; or add its price to a book and give that with `--prices FILE`",
                did_you_mean(asked, &priced)
            ),
        ))
    }

    /// Returns the price book that was given, or else the shipped one.
    pub(super) fn prices(&self) -> Option<Cow<'_, PriceBook>> {
        match self.prices {
            Some(book) => Some(Cow::Borrowed(book)),
            None => PriceBook::shipped().ok().map(Cow::Owned),
        }
    }

    /// An attack changes values, and needs a platform that has some.
    fn attack(&self, fields: &Node, row: &Training) -> Result<Option<Attack>, ExperimentError> {
        if row.attack.is_none() || !self.has_phantoms() {
            return Ok(row.attack.clone());
        }
        Err(self.error(
            fields,
            "attack",
            "an attack changes gradients, and this simulation has only their sizes",
            "leave `attack` out, or train for real: `simulation: {real_compute: true}`",
        ))
    }

    pub(super) fn error(
        &self,
        fields: &Node,
        field: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ExperimentError {
        self.document
            .error(fields.origin_of(field), problem, remedy)
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
    let base = match &row.name {
        Some(name) => name.clone(),
        None => format!("{}-{}-{}", row.system, row.model, row.fidelity.as_str()),
    };
    let mut id = base;
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
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), with_whole_numbers(value)));
            Value::Object(fields.collect())
        }
        _ => value.clone(),
    }
}
