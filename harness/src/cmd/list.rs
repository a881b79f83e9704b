//! `list`: systems, models, datasets and experiments.

mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use epochcost_datasets::{DATASETS, Origin};
use epochcost_experiment::{Experiment, Options, of_settings, yaml_files};
use epochcost_planner::error::Error;
use epochcost_spec::chain::chain;
use epochcost_spec::exit::Exit;
use epochcost_spec::format::{count, wrapped};
use epochcost_spec::shipped;
use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::ui::{Output, columns, table_of};
use epochcost_spec::yaml::schema::{Field, fields};
use epochcost_systems::{Fidelity, Host, models, systems};
use serde::Serialize;
use serde_json::{Map, Value};

use super::cut;
use crate::schemas::{KINDS, Kind};

/// `list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to show.
    #[arg(value_enum, required_unless_present = "write")]
    what: Option<What>,
    /// Systems or files to show in detail, by id or title.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Directory that `list experiments` searches: by default `experiments`, or, where there
    /// is none, those that this program brings along.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write out the experiments, profiles, places and prices inside this program, with their schemas,
    /// to read, change and run. Overwrites nothing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["what", "names", "directory"])]
    write: Option<PathBuf>,
}

impl Args {
    /// Refuses what would be dropped.
    fn check(&self, what: What) -> Result<(), Error> {
        let has_details = matches!(what, What::Systems | What::Fields);
        if let Some(name) = self.names.first().filter(|_| !has_details) {
            return Err(Error::usage(
                format!("`{name}` cannot be shown in detail"),
                "leave it out; `list systems NAME` and `list fields NAME` show one",
            ));
        }
        if self.directory.is_some() && !matches!(what, What::Experiments) {
            return Err(Error::usage(
                "--directory is searched for experiments",
                "list experiments, or leave it out",
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Training systems and their settings.
    Systems,
    /// Models and their sizes.
    Models,
    /// Datasets and where they come from.
    Datasets,
    /// Experiments under a directory.
    Experiments,
    /// Fields of the files that users write, and of the settings of systems.
    Fields,
}

/// Shows what there is.
///
/// # Errors
/// [`Error::NothingSelected`] where there is nothing to list.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(directory) = &args.write {
        return write::run(directory, output);
    }
    let Some(what) = args.what else {
        return Ok(Exit::Done);
    };
    args.check(what)?;
    match what {
        What::Systems => list_systems(&args.names, output)?,
        What::Models => list_models(output),
        What::Datasets => list_datasets(output),
        What::Fields => list_fields(&args.names, output)?,
        What::Experiments => {
            let directory = args.directory.clone().unwrap_or_else(shipped::experiments);
            list_experiments(&directory, output)?;
        }
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct SystemLine {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// What its workers run on.
    host: Host,
    /// What each of its functions runs on.
    functions: BTreeMap<&'static str, Host>,
    /// The settings of each fidelity; null where the system has no such fidelity.
    settings: Map<String, Value>,
}

fn list_systems(names: &[String], output: Output) -> Result<(), Error> {
    let lines: Vec<SystemLine> = systems()
        .iter()
        .map(|system| SystemLine {
            name: system.name(),
            title: system.title(),
            about: system.about(),
            host: system.deployment().worker_host(),
            functions: (system.deployment().functions.iter())
                .map(|function| (function.name, function.host))
                .collect(),
            settings: (Fidelity::ALL.into_iter())
                .map(|fidelity| {
                    let settings = system.settings(fidelity, &Map::new());
                    (
                        fidelity.as_str().to_owned(),
                        settings.unwrap_or(Value::Null),
                    )
                })
                .collect(),
        })
        .collect();
    if !names.is_empty() {
        return detail(&lines, names, output);
    }
    let room = output.width().map(|width| width.saturating_sub(ABOUT_AT));
    // With hardly any room the table is one of several lines to a system.
    let room = room.filter(|room| *room >= LEAST_ABOUT);
    let row = |line: &SystemLine| {
        let about = shortened(line.about, room);
        [line.name.to_owned(), line.title.to_owned(), about]
    };
    output.text(table_of(["name", "title", "about"], &lines, row));
    output.message("epochcost list systems NAME shows one with its settings, epochcost list fields NAME what they mean");
    output.json(&lines);
    Ok(())
}

/// Columns of a terminal that name and title take.
const ABOUT_AT: usize = 50;

/// What is said of a system is cut to no less than this.
const LEAST_ABOUT: usize = 24;

/// Returns the name with its source, and no more of it than there is room.
fn shortened(about: &str, room: Option<usize>) -> String {
    let fidelities = [". paper:", ". code:", ". tuned:", "). "];
    let ends = fidelities.iter().filter_map(|end| about.find(end));
    let first = ends.min().map_or(about, |end| &about[..=end]);
    cut(first.trim_end_matches('.'), room)
}

/// Shows the named systems with their settings.
fn detail(lines: &[SystemLine], names: &[String], output: Output) -> Result<(), Error> {
    let known: Vec<&str> = lines.iter().map(|line| line.name).collect();
    let mut found = Vec::new();
    for name in names {
        let is_it = |line: &&SystemLine| {
            line.name.eq_ignore_ascii_case(name) || line.title.eq_ignore_ascii_case(name)
        };
        let line = lines.iter().find(is_it).ok_or_else(|| {
            Error::usage(
                format!("there is no system `{name}`"),
                format!(
                    "{}; a new one is known after a build",
                    did_you_mean(name, &known)
                ),
            )
        })?;
        found.push(line);
    }
    let texts: Vec<String> = found.iter().map(|line| describe(line)).collect();
    output.text(texts.join("\n\n"));
    output.json(&found);
    Ok(())
}

fn describe(line: &SystemLine) -> String {
    let (title, name, about) = (line.title, line.name, wrapped("  ", line.about));
    let mut text = format!("{title} ({name})\n{about}");
    for (host, first) in [
        (Host::Function, "  on functions: "),
        (Host::Instance, "  on instances: "),
    ] {
        let functions = line.functions.iter().filter(|(_, on)| **on == host);
        let functions: Vec<&str> = functions.map(|(name, _)| *name).collect();
        if !functions.is_empty() {
            text.push_str(&format!("\n{}", wrapped(first, &functions.join(", "))));
        }
    }
    for (fidelity, settings) in &line.settings {
        let Value::Object(settings) = settings else {
            text.push_str(&format!("\n  {fidelity}: not available"));
            continue;
        };
        let settings = settings
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        let settings: Vec<String> = settings.collect();
        let first = format!("  {fidelity}: ");
        text.push_str(&format!("\n{}", wrapped(&first, &settings.join(", "))));
    }
    text
}

#[derive(Serialize)]
struct ModelLine {
    name: &'static str,
    about: &'static str,
    /// Channels, height, width.
    input: [usize; 3],
    classes: usize,
    parameters: usize,
    statistics: usize,
    tensors: usize,
}

fn list_models(output: Output) {
    let lines: Vec<ModelLine> = models()
        .iter()
        .map(|model| ModelLine {
            name: model.name,
            about: model.about,
            input: model.input,
            classes: model.classes,
            parameters: model.sizes.parameters,
            statistics: model.sizes.statistics,
            tensors: model.tensors,
        })
        .collect();
    let row = |line: &ModelLine| {
        [
            line.name.into(),
            line.input.map(|size| size.to_string()).join("x"),
            line.classes.to_string(),
            count(line.parameters as f64),
            count(line.statistics as f64),
            line.about.into(),
        ]
    };
    let heading = [
        "name",
        "input",
        "classes",
        "parameters",
        "batch-norm statistics",
        "about",
    ];
    output.text(table_of(heading, &lines, row));
    output.json(&lines);
}

#[derive(Serialize)]
struct DatasetLine {
    name: &'static str,
    description: &'static str,
    classes: u8,
    /// Whether accuracies on it may be compared with published ones.
    published: bool,
    train: usize,
    test: usize,
    url: Option<&'static str>,
}

fn list_datasets(output: Output) {
    let lines: Vec<DatasetLine> = DATASETS
        .iter()
        .map(|info| {
            let (train, test, url) = match info.origin {
                Origin::Published {
                    url, train, test, ..
                } => (train, test, Some(url)),
                Origin::Generated { default } => (default.train, default.test, None),
            };
            DatasetLine {
                name: info.name,
                description: info.description,
                classes: info.classes,
                published: info.published(),
                train,
                test,
                url,
            }
        })
        .collect();
    let row = |line: &DatasetLine| {
        [
            line.name.into(),
            line.train.to_string(),
            line.test.to_string(),
            line.description.into(),
            line.url.unwrap_or("generated by runs").into(),
        ]
    };
    let heading = ["name", "train", "test", "description", "from"];
    output.text(table_of(heading, &lines, row));
    output.json(&lines);
}

#[derive(Serialize)]
struct ExperimentLine {
    file: PathBuf,
    name: Option<String>,
    description: Option<String>,
    rows: Option<usize>,
    error: Option<String>,
}

fn list_experiments(directory: &Path, output: Output) -> Result<(), Error> {
    let unreadable = |error| Error::unreadable(&error, Some("--directory"));
    let files = yaml_files(directory).map_err(unreadable)?;
    if files.is_empty() {
        return Err(Error::NothingSelected(format!(
            "there is no .yaml file under {}",
            directory.display()
        )));
    }
    let lines: Vec<ExperimentLine> = files.into_iter().map(experiment_line).collect();
    let row = |line: &ExperimentLine| {
        let about = (line.description.as_deref()).unwrap_or("not valid: see `epochcost check`");
        let rows = line.rows.map_or("-".to_owned(), |rows| rows.to_string());
        let shipped = shipped::is_shipped(&line.file);
        let name = shipped.then(|| shipped::id(&line.file)).flatten();
        let file = name.map_or_else(|| line.file.display().to_string(), str::to_owned);
        [file, rows, about.to_owned()]
    };
    output.text(table_of(["file", "rows", "description"], &lines, row));
    if shipped::is_shipped(directory) {
        output.message("shipped with this program: epochcost list --write DIR writes them out");
    }
    output.json(&lines);
    Ok(())
}

fn experiment_line(file: PathBuf) -> ExperimentLine {
    let loaded = Experiment::load(&file, &Options::default());
    let (experiment, error) = match &loaded {
        Ok(experiment) => (Some(experiment), None),
        Err(error) => (None, Some(chain(error))),
    };
    ExperimentLine {
        file,
        name: experiment.map(|experiment| experiment.name.clone()),
        description: experiment.map(|experiment| experiment.description.trim().to_owned()),
        rows: experiment.map(|experiment| experiment.rows.len()),
        error,
    }
}

/// Shows the kinds of files, or the fields of those named, and of settings of systems.
///
/// # Errors
/// When there is no such kind or system.
fn list_fields(names: &[String], output: Output) -> Result<(), Error> {
    if names.is_empty() {
        let row = |kind: &Kind| [kind.name.to_owned(), kind.about.to_owned()];
        output.text(table_of(["file", "about"], &KINDS, row));
        output.message(
            "epochcost list fields NAME shows the fields of one, or the settings of a system",
        );
        output.json(&KINDS.map(|kind| kind.name));
        return Ok(());
    }
    for name in names {
        let known = KINDS.iter().find(|kind| kind.name == *name);
        let schema = match known {
            Some(kind) => (kind.schema)(),
            None => of_settings(name).clone(),
        };
        if schema.is_null() {
            let systems = systems().iter().map(|system| system.name());
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).chain(systems).collect();
            return Err(Error::usage(
                format!("there is no file or system `{name}`"),
                did_you_mean(name, &known),
            ));
        }
        let mut all = fields(&schema);
        if known.is_some_and(|kind| kind.name == "experiment") {
            keep_once(&mut all);
        }
        for field in &all {
            let (path, form) = (&field.path, &field.form);
            // In a pipe a field has one line.
            output.text(match columns() {
                Some(_) => wrapped(&format!("{path} "), &format!("({form})")),
                None => format!("{path} ({form})"),
            });
            for line in field.about.lines().filter(|line| !line.is_empty()) {
                match line.strip_prefix("- ") {
                    Some(variant) => output.text(wrapped("    - ", variant)),
                    None => output.text(wrapped("    ", line)),
                }
            }
        }
        output.json(&schema);
    }
    Ok(())
}

/// Leaves out fields of systems' entries that are at the top, too, and settings, which each system
/// has its own.
fn keep_once(all: &mut Vec<Field>) {
    const ENTRY: &str = "systems[].";
    let top: Vec<String> = all.iter().map(|field| field.path.clone()).collect();
    all.retain(|field| {
        let own = field.path.strip_prefix(ENTRY).unwrap_or(&field.path);
        let is_repeated = own != field.path && top.iter().any(|path| path == own);
        !is_repeated && !own.starts_with("settings.")
    });
    for field in all.iter_mut().filter(|field| field.path == "settings") {
        "map".clone_into(&mut field.form);
    }
}
