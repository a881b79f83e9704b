//! The data of an experiment: what it is, and getting it from disk.

use std::path::{Path, PathBuf};

use epochcost_datasets::{self as datasets, Dataset, DatasetInfo, Generate, Origin as Source};
use epochcost_spec::chain::chain;
use epochcost_spec::suggest::did_you_mean;
use serde::Serialize;

use super::document::{Document, Node, Origin};
use super::error::ExperimentError;
use super::raw::DatasetChoice;

/// Directory of the datasets unless an experiment names another one.
pub const DATA_DIRECTORY: &str = "data";

/// Name of described data that the experiment does not name.
const DESCRIBED: &str = "described";

/// The data that an experiment trains on.
#[derive(Clone, Debug, Serialize)]
pub struct Data {
    /// The dataset's name.
    pub name: String,
    /// Bytes of one stored sample, where the data are described and exist as sizes only.
    pub bytes_per_sample: Option<usize>,
    /// Directory of the files.
    pub directory: PathBuf,
    /// What to generate; none of a published set.
    pub generate: Option<Generate>,
    /// Samples that are trained on: the first of the training split.
    pub train: usize,
    /// Samples at the end of the training split that are held out. 0: none.
    pub validation: usize,
    /// Test samples.
    pub test: usize,
    /// Position of the data in the experiment.
    #[serde(skip)]
    origin: Origin,
}

impl Data {
    /// Returns the data with the verb of a sentence on what they hold.
    pub(super) fn holds(&self) -> String {
        if self.name == DESCRIBED {
            "the described data have".to_owned()
        } else {
            format!("{} has", self.name)
        }
    }

    /// Checks what an experiment states about its data; nothing is read yet.
    pub(super) fn check(
        document: &Document,
        choice: DatasetChoice,
    ) -> Result<Self, ExperimentError> {
        let node = document.root.get("dataset").unwrap_or(&document.root);
        if choice.samples.is_some() || choice.bytes_per_sample.is_some() {
            return Self::described(document, node, choice);
        }
        let Some(name) = &choice.name else {
            let remedy = "name a dataset, or describe yours: `dataset: {samples: 50000, test: 0, \
             bytes_per_sample: 3073}`";
            return Err(document.error(node.origin.clone(), "missing field `name`", remedy));
        };
        let info = datasets::find(name).map_err(|_| {
            let known: Vec<&str> = datasets::DATASETS.iter().map(|info| info.name).collect();
            let known = did_you_mean(name, &known);
            let problem = format!("unknown dataset `{name}`");
            let remedy =
                format!("{known}; describe others: `samples`, `test` and `bytes_per_sample`");
            document.error(node.origin_of("name"), problem, remedy)
        })?;
        let generate = generate(document, node, info, &choice)?;
        let (train, test) = match (info.origin, generate) {
            (_, Some(spec)) => (spec.train, spec.test),
            (Source::Published { train, test, .. }, _) => (train, test),
            (Source::Generated { default }, None) => (default.train, default.test),
        };
        let validation = held_out(document, node, info, train, choice.validation)?;
        let train = train - validation;
        let field = choice.directory.as_ref().map_or("name", |_| "directory");
        let directory = choice.directory.map(PathBuf::from);
        Ok(Self {
            name: info.name.to_owned(),
            bytes_per_sample: None,
            directory: directory.unwrap_or_else(|| default_directory(info.name, generate)),
            generate,
            train,
            validation,
            test,
            origin: node.origin_of(field),
        })
    }

    /// Checks data of which only sizes are stated.
    fn described(
        document: &Document,
        node: &Node,
        choice: DatasetChoice,
    ) -> Result<Self, ExperimentError> {
        let (Some(train), Some(bytes)) = (choice.samples, choice.bytes_per_sample) else {
            let problem = "data that are described need `samples` and `bytes_per_sample`";
            let remedy = "give both: `dataset: {samples: 50000, test: 0, bytes_per_sample: 3073}`";
            return Err(document.error(node.origin.clone(), problem, remedy));
        };
        let test = choice.test.unwrap_or(0);
        let of_files = [
            ("train", choice.train.is_some()),
            ("seed", choice.seed.is_some()),
            ("validation", choice.validation.is_some()),
            ("directory", choice.directory.is_some()),
        ];
        if let Some((field, _)) = of_files.into_iter().find(|(_, given)| *given) {
            let problem = format!("`{field}` is of data in files, and these are described");
            let remedy = format!("remove `{field}`, or name a dataset instead of `samples`");
            return Err(document.error(node.origin_of(field), problem, remedy));
        }
        Ok(Self {
            name: choice.name.unwrap_or_else(|| DESCRIBED.to_owned()),
            bytes_per_sample: Some(bytes),
            directory: PathBuf::new(),
            generate: None,
            train,
            validation: 0,
            test,
            origin: node.origin_of("samples"),
        })
    }

    /// Refuses described data where records are read.
    ///
    /// # Errors
    /// When the data are described.
    pub(super) fn refuse_described(&self, document: &Document) -> Result<(), ExperimentError> {
        if self.bytes_per_sample.is_none() {
            return Ok(());
        }
        let problem = "the data are described here, and there are no files of them";
        let remedy = "simulate it: --platform sim, without `real_compute`; or name a dataset";
        Err(document.error(self.origin.clone(), problem, remedy))
    }

    /// Checks that a published set is there: every file, with its size. A
    /// generated one may still be missing, since a run makes it.
    ///
    /// # Errors
    /// Names the file.
    pub fn inspect(&self, document: &Document) -> Result<(), ExperimentError> {
        if self.generate.is_some() && !self.directory.exists() {
            return Ok(());
        }
        datasets::inspect(&self.name, &self.directory)
            .map_err(|error| self.error(document, &error))?;
        Ok(())
    }

    /// Makes a generated set where it is missing, then reads and checks all of it.
    ///
    /// # Errors
    /// Names the file that is missing, truncated or corrupted.
    pub fn open(&self, document: &Document) -> Result<Dataset, ExperimentError> {
        if let Some(spec) = self.generate {
            datasets::ensure(&self.name, &self.directory, spec)
                .map_err(|error| self.error(document, &error))?;
        }
        datasets::open(&self.name, &self.directory).map_err(|error| self.error(document, &error))
    }

    fn error(&self, document: &Document, error: &datasets::DatasetError) -> ExperimentError {
        let text = chain(error);
        // Each message of the datasets crate ends in what to do, after a semicolon.
        let (problem, remedy) = text.rsplit_once("; ").unwrap_or((&text, ""));
        let remedy = match remedy {
            "" if matches!(error, datasets::DatasetError::Write { .. }) => {
                "name a directory that can be written to: `--set dataset.directory=DIR`".to_owned()
            }
            "" => format!("check the directory {}", self.directory.display()),
            remedy => remedy.to_owned(),
        };
        document.error(self.origin.clone(), problem, remedy)
    }
}

/// Returns the number of samples at the end of the training split that the experiment
/// holds out.
fn held_out(
    document: &Document,
    node: &Node,
    info: &DatasetInfo,
    train: usize,
    share: Option<f64>,
) -> Result<usize, ExperimentError> {
    let Some(share) = share else {
        return Ok(0);
    };
    let samples = (train as f64 * share).round() as usize;
    let classes = usize::from(info.classes);
    if share > 0.0 && share < 1.0 && samples >= classes && train - samples >= classes {
        return Ok(samples);
    }
    let problem =
        format!("a share of {share} of {train} training samples cannot be a validation split");
    let remedy =
        format!("give a share between 0 and 1 that leaves {classes} samples or more on each side");
    Err(document.error(node.origin_of("validation"), problem, remedy))
}

fn generate(
    document: &Document,
    node: &Node,
    info: &DatasetInfo,
    choice: &DatasetChoice,
) -> Result<Option<Generate>, ExperimentError> {
    match info.origin {
        Source::Generated { default } => {
            let spec = Generate {
                train: choice.train.unwrap_or(default.train),
                test: choice.test.unwrap_or(default.test),
                seed: choice.seed.unwrap_or(default.seed),
            };
            for (field, samples) in [("train", spec.train), ("test", spec.test)] {
                if samples < usize::from(info.classes) {
                    let problem = format!("{samples} samples cannot hold every class");
                    let remedy = format!("give {} or more", info.classes);
                    return Err(document.error(node.origin_of(field), problem, remedy));
                }
            }
            Ok(Some(spec))
        }
        Source::Published { .. } => {
            let given = [
                ("train", choice.train.is_some()),
                ("test", choice.test.is_some()),
                ("seed", choice.seed.is_some()),
            ];
            let Some((field, _)) = given.iter().find(|(_, given)| *given) else {
                return Ok(None);
            };
            let problem = format!("{} is a published dataset: its size is fixed", info.name);
            let remedy = format!("remove `{field}`, or name `synthetic-{}`", info.name);
            Err(document.error(node.origin_of(field), problem, remedy))
        }
    }
}

/// `data/<name>`; of a generated set, one directory for each specification.
pub fn default_directory(name: &str, generate: Option<Generate>) -> PathBuf {
    let leaf = match generate {
        None => name.to_owned(),
        Some(Generate { train, test, seed }) => format!("{name}-{train}-{test}-{seed}"),
    };
    Path::new(DATA_DIRECTORY).join(leaf)
}
