//! A map of where training is cheapest, and where it is fastest: by the size of a model
//! and the operations of a sample, under a deadline.

mod shifts;
mod svg;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use epochcost_experiment::{Document, Experiment, Options, named};
use epochcost_judge::analysis::titles::model_title;
use epochcost_record::SchemaVersion;
use epochcost_spec::cost::{CostModel, PriceBook};
use epochcost_spec::format::count;
use epochcost_spec::rows::Simulation;
use epochcost_systems::{Fidelity, Host, find_model};
use serde::Serialize;

use super::answer::{Bench, Goal, Point, Searched, asked, describe, points, priced};
use super::places::{Draw, Laid, Site, laid, stale};
use super::{alone, misses, on_simulator, parallel, simulation_of, work};
use crate::error::{Error, Result};

pub use self::shifts::{Shift, Shifts, shifts};

/// Version of the format of a map.
const MAP_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 2 };

/// Trainable scalars of the columns: steps of half an order of magnitude.
const PARAMETERS: [f64; 9] = [1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9];

/// Operations of a forward pass of the rows.
const OPERATIONS: [f64; 9] = [1e5, 1e6, 1e7, 3e7, 1e8, 3e8, 1e9, 1e10, 1e11];

/// Numbers of workers that the map tries beside one: it compares kinds of places, and is no search.
const WORKERS: [usize; 3] = [4, 8, 16];

/// Memory sizes of functions that the map tries, MB.
const MEMORY_MB: [u32; 3] = [1769, 10_240, 16_384];

/// Systems on functions that the map tries.
const SYSTEMS: &str = "[scatterreduce, allreduce]";

/// Draws by which a cell counts as certain.
const DRAWS: u64 = 10;

/// Operations per second that a described model reaches on the reference GPU.
const REFERENCE_FLOPS_PER_S: f64 = 2.7e12;

/// Models of the papers, which are drawn as points.
const MODELS: [&str; 6] = [
    "squeezenet1_1",
    "mobilenet_v3_small",
    "mobilenet",
    "resnet18",
    "resnet50",
    "vgg11",
];

/// What a map is about.
#[derive(Clone, Debug)]
pub struct MapRequest<'a> {
    /// Places, by name or file; all shipped ones if empty.
    pub places: &'a [String],
    /// Deadline, and budget if there is one.
    pub goal: Goal,
    /// Samples of the whole training.
    pub samples: u64,
    /// Cells of the map along each side at most; all without it.
    pub cells: Option<usize>,
    /// Experiment whose own model is drawn as a point.
    pub model: Option<&'a Path>,
}

/// Kind of a place and system, which decides a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One function, or several that exchange over a store.
    Functions,
    /// One machine alone, with one GPU or with none.
    OneMachine,
    /// One machine alone with several GPUs.
    SeveralGpus,
    /// Several machines that exchange over the network.
    Ring,
}

/// The best setting of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Best {
    /// What it is.
    pub kind: Kind,
    /// The setting in words.
    pub what: String,
    /// Name of the place.
    pub place: String,
    /// Seconds of the whole.
    pub seconds: f64,
    /// US dollars of the whole.
    pub usd: f64,
    /// Whether another kind is the best in a draw of the ranges.
    pub is_uncertain: bool,
}

/// A model size and an amount of compute.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Trainable scalars.
    pub parameters: f64,
    /// Operations of a forward pass of a sample.
    pub flops_per_sample: f64,
    /// The cheapest in time; null if nothing is.
    pub cheapest: Option<Best>,
    /// The fastest; null if nothing is possible.
    pub fastest: Option<Best>,
}

/// A model that is drawn as a point.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// Name of the model.
    pub model: String,
    /// Trainable scalars.
    pub parameters: f64,
    /// Operations that take as long as its step on the reference GPU.
    pub flops_per_sample: f64,
    /// The best settings of the user's own model; null for models of the papers, which have those
    /// of the nearest cell.
    pub own: Option<Cell>,
}

/// The map.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    schema_version: SchemaVersion,
    /// Deadline and budget.
    pub goal: Goal,
    /// Samples of the whole training.
    pub samples: u64,
    /// Trainable scalars of the columns.
    pub parameters: Vec<f64>,
    /// Operations of a sample of the rows.
    pub operations: Vec<f64>,
    /// Cells, columns within rows.
    pub cells: Vec<Cell>,
    /// Models of the papers.
    pub models: Vec<Mark>,
    /// The map in sentences.
    pub sentences: Vec<String>,
    /// What the platform profiles miss by, in sentences.
    pub misses: Vec<String>,
}

/// Returns the map.
///
/// # Errors
/// When a place or the experiment of an own model cannot be used, or something has no price.
pub fn map(request: &MapRequest<'_>) -> Result<Map> {
    let field = Field::new(request)?;
    let stands = simulation_of(&field.experiment)?;
    let mut models: Vec<Mark> = (MODELS.iter())
        .filter_map(|name| mark(stands, name))
        .collect();
    let mut of_own = Vec::new();
    if let Some(path) = request.model {
        let (own, notes) = field.own(path)?;
        models.push(own);
        of_own = notes;
    }
    let mut map = Map {
        schema_version: MAP_VERSION,
        goal: request.goal,
        samples: request.samples,
        parameters: thinned(&PARAMETERS, request),
        operations: thinned(&OPERATIONS, request),
        cells: field.cells(1.0)?,
        models,
        sentences: Vec::new(),
        misses: Vec::new(),
    };
    map.sentences = sentences(&map);
    map.sentences.extend(of_own);
    let old = stale(request.places, &field.sites).into_iter();
    (map.sentences).extend(old.map(|old| format!("Warning: {old}.")));
    map.misses = field.misses(&map)?;
    Ok(map)
}

/// Everything that cells are simulated with.
struct Field<'a> {
    request: &'a MapRequest<'a>,
    experiment: Experiment,
    prices: PriceBook,
    sites: Vec<Site>,
}

impl<'a> Field<'a> {
    fn new(request: &'a MapRequest<'a>) -> Result<Self> {
        Self::of(request, experiment(request.samples)?).map(|(field, _)| field)
    }

    /// Returns the field of an experiment, and the places that its simulation leaves out.
    fn of(request: &'a MapRequest<'a>, experiment: Experiment) -> Result<(Self, Vec<String>)> {
        let Laid { sites, left_out } = laid(request.places, simulation_of(&experiment)?)?;
        let field = Self {
            request,
            prices: experiment
                .prices
                .clone()
                .map_or_else(PriceBook::shipped, Ok)?,
            sites,
            experiment,
        };
        Ok((field, left_out))
    }

    /// Returns what the profiles under the map's places miss by.
    fn misses(&self, map: &Map) -> Result<Vec<String>> {
        let best = map
            .cells
            .iter()
            .flat_map(|cell| [&cell.cheapest, &cell.fastest]);
        let shown: BTreeSet<&str> = best.flatten().map(|best| best.place.as_str()).collect();
        let shown = (self.sites.iter()).filter(|site| shown.contains(&*site.place.name));
        Ok(misses::sentences(simulation_of(&self.experiment)?, shown))
    }

    /// Calls `work` with the bench of this field and the points that are tried.
    fn with<T>(&self, work: impl FnOnce(&Bench<'_>, &[Point]) -> Result<T>) -> Result<T> {
        let stands = simulation_of(&self.experiment)?;
        let mut points = points(&self.experiment, &self.sites)?;
        points.retain(|point| is_tried(point, &self.sites));
        priced(&points, &self.sites, &self.prices)?;
        let bench = Bench::new(&self.sites, stands, &self.prices, CostModel::Full);
        work(&bench, &points)
    }

    /// Returns the cells of the map, where a share of each model's parameters is trained and
    /// exchanged.
    fn cells(&self, exchanged: f64) -> Result<Vec<Cell>> {
        let columns = thinned(&PARAMETERS, self.request);
        let grid: Vec<(f64, f64)> = (thinned(&OPERATIONS, self.request).iter())
            .flat_map(|flops| columns.iter().map(move |n| (*n, *flops)))
            .collect();
        self.with(|bench, points| {
            parallel::try_map(&grid, |(parameters, flops)| {
                let trained = (parameters * exchanged).round().max(1.0);
                let found = cell(bench, points, self.request.goal, trained, *flops)?;
                Ok(Cell {
                    parameters: *parameters,
                    ..found
                })
            })
        })
    }

    /// Returns the point of the own model of an experiment, with its best settings for what the
    /// experiment says of it, and notes on that.
    fn own(&self, path: &Path) -> Result<(Mark, Vec<String>)> {
        let options = Options {
            keeps_impossible: true,
            ..on_simulator()
        };
        let mut experiment = Experiment::from_document(named::read(path)?, &options)?;
        let own = experiment.rows.iter().find_map(|row| row.own_model.clone());
        let (Some(own), Some(stands)) = (own, experiment.simulation.clone()) else {
            return Err(Error::Usage {
                problem: format!("{} describes no model of its own", path.display()),
                remedy: "name an experiment with `models`, such as `epochcost profile` writes"
                    .to_owned(),
            });
        };
        let device = epochcost_systems::Device::Cuda;
        let profiled = stands.cost(&own.name, device, false);
        let profiled = profiled.map(|(_, cost)| cost.clone());
        let Some(cost) = profiled.or_else(|| own.cost(device)) else {
            return Err(Error::Usage {
                problem: format!(
                    "{} does not say the operations of {}, by which it has its place on the map",
                    path.display(),
                    own.name
                ),
                remedy: "state its `flops_per_sample`, or name a compute profile of it on a GPU"
                    .to_owned(),
            });
        };
        let parameters = own.parameters as f64;
        let flops_per_sample = operations(cost.sample_s);
        (experiment.rows).retain(|row| row.job.model == own.name);
        let mut notes: Vec<String> = trained(&experiment).into_iter().collect();
        // In the place of its systems and their settings are those that every cell is tried with.
        experiment.document.root.remove("settings");
        (experiment.document).set_option("plan map", "systems", SYSTEMS)?;
        let (field, left_out) = Self::of(self.request, experiment)?;
        let goal = self.request.goal;
        let best = field.with(|bench, points| {
            let mut searched = Searched::of(bench, points.to_vec());
            bests(&mut searched, goal, parameters, flops_per_sample)
        })?;
        let name = own.name;
        if !left_out.is_empty() {
            let left_out = left_out.join("; ");
            notes.push(format!("{name}: places left out: {left_out}."));
        }
        let misses = |stands| misses::sentences(stands, std::iter::empty());
        let own_misses = misses(&stands);
        if misses(simulation_of(&self.experiment)?) != own_misses {
            notes.extend(own_misses.into_iter().map(|said| format!("{name}: {said}")));
        }
        let mark = Mark {
            model: name,
            parameters,
            flops_per_sample,
            own: Some(best),
        };
        Ok((mark, notes))
    }
}

/// Returns what is trained of the own model of an experiment, in words.
fn trained(experiment: &Experiment) -> Option<String> {
    let row = asked(&experiment.rows)?;
    let epochs = row.job.epochs.max(1);
    let samples = work::asked(experiment, row).unwrap_or_else(|| work::samples(&row.job)) / epochs;
    Some(format!(
        "{}: trained as its file says, with {} samples x {epochs} epoch{} in batches of {}, and its file's \
         bytes and rates; cells of the map have their own.",
        row.job.model,
        count(samples as f64),
        if epochs == 1 { "" } else { "s" },
        row.job.batch_size
    ))
}

/// Returns the operations of a forward pass whose step takes so long per sample on the
/// reference GPU.
fn operations(sample_s: f64) -> f64 {
    sample_s * REFERENCE_FLOPS_PER_S / 3.0
}

impl Map {
    /// Returns the map as a picture that stands alone.
    pub fn svg(&self) -> String {
        svg::picture(self)
    }

    /// Returns the cell that is nearest to a point.
    pub fn nearest(&self, mark: &Mark) -> Option<&Cell> {
        let distance = |cell: &Cell| {
            let across = (cell.parameters / mark.parameters).log10();
            let up = (cell.flops_per_sample / mark.flops_per_sample).log10();
            (across * across + up * up).sqrt()
        };
        let cells = self.cells.iter();
        cells.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// Kind and name of the best place of a cell.
fn owner(map: &Map, of: fn(&Cell) -> Option<&Best>, index: usize) -> Option<(Kind, &str)> {
    of(&map.cells[index]).map(|best| (best.kind, best.place.as_str()))
}

/// Returns the cells of one panel by region: neighbours with the same best place and kind.
fn regions(map: &Map, of: fn(&Cell) -> Option<&Best>) -> Vec<Vec<usize>> {
    let columns = map.parameters.len();
    let owner = |index: usize| owner(map, of, index);
    let mut is_seen = vec![false; map.cells.len()];
    let mut regions = Vec::new();
    for start in 0..map.cells.len() {
        if is_seen[start] {
            continue;
        }
        is_seen[start] = true;
        let mut region = vec![start];
        let mut next = 0;
        while let Some(index) = region.get(next).copied() {
            next += 1;
            let column = index % columns;
            let around = [
                (column > 0).then(|| index - 1),
                (column + 1 < columns).then_some(index + 1),
                index.checked_sub(columns),
                Some(index + columns).filter(|above| *above < map.cells.len()),
            ];
            for other in around.into_iter().flatten() {
                if !is_seen[other] && owner(other) == owner(start) {
                    is_seen[other] = true;
                    region.push(other);
                }
            }
        }
        regions.push(region);
    }
    regions
}

/// Returns the first and the last of some values and those between, as many as asked for.
fn thinned(values: &[f64], request: &MapRequest<'_>) -> Vec<f64> {
    let wanted = request.cells.unwrap_or(values.len()).clamp(2, values.len());
    let last = values.len() - 1;
    (0..wanted)
        .map(|place| values[place * last / (wanted - 1)])
        .collect()
}

/// Returns an experiment whose model every cell replaces.
fn experiment(samples: u64) -> Result<Experiment> {
    let text = format!(
        "schema: 1\nname: map\nplatform: sim\ndataset: {{samples: {samples}, test: 0, \
         bytes_per_sample: 3073}}\nmodels:\n  - {{name: any, parameters: 1000000, \
         flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1.0e+6}}\nmodel: any\nworkers: 4\n\
         batch_size: 128\nepochs: 1\nsystems: {SYSTEMS}\n"
    );
    let document = Document::parse(Path::new("map.yaml"), text)?;
    Ok(Experiment::from_document(document, &on_simulator())?)
}

fn is_tried(point: &Point, sites: &[Site]) -> bool {
    let row = &point.row;
    let on_functions = sites[point.site].place.host == Host::Function;
    if alone::is_one_machine(row) {
        return true;
    }
    let sized = !on_functions || MEMORY_MB.contains(&row.memory_mb);
    // Forms are tuned for exchanges between functions: of one, all are tried.
    if on_functions && alone::is_one_function(row) {
        return sized;
    }
    let is_best_form = !on_functions || row.job.fidelity == Fidelity::Tuned;
    sized && is_best_form && WORKERS.contains(&row.job.workers)
}

fn kind(point: &Point, sites: &[Site]) -> Kind {
    let place = &sites[point.site].place;
    match (alone::is_one_machine(&point.row), place.host) {
        (true, _) if point.row.job.workers > 1 => Kind::SeveralGpus,
        (true, _) => Kind::OneMachine,
        (false, Host::Function) => Kind::Functions,
        (false, Host::Instance) => Kind::Ring,
    }
}

/// Returns a point with another model.
fn with_model(point: &Point, parameters: f64, flops: f64) -> Point {
    let mut point = point.clone();
    if let Some(own) = &mut point.row.own_model {
        (own.parameters, own.flops_per_sample) = (parameters as usize, Some(flops));
    }
    point
}

fn cell(
    bench: &Bench<'_>,
    points: &[Point],
    goal: Goal,
    parameters: f64,
    flops: f64,
) -> Result<Cell> {
    let points: Vec<Point> = (points.iter())
        .map(|point| with_model(point, parameters, flops))
        .collect();
    bests(&mut Searched::of(bench, points), goal, parameters, flops)
}

/// Returns the cell of a model whose settings are searched.
fn bests(searched: &mut Searched<'_>, goal: Goal, parameters: f64, flops: f64) -> Result<Cell> {
    let fastest = Goal {
        deadline_s: None,
        budget_usd: Some(goal.budget_usd.unwrap_or(f64::INFINITY)),
    };
    Ok(Cell {
        parameters,
        flops_per_sample: flops,
        cheapest: best(searched, goal)?,
        fastest: best(searched, fastest)?,
    })
}

/// Returns the best point by a goal, and whether draws agree on its kind.
fn best(searched: &mut Searched<'_>, goal: Goal) -> Result<Option<Best>> {
    let bench = searched.bench;
    let all = searched.fits(|_| true);
    let Some(best) = searched.best(goal, &all)? else {
        return Ok(None);
    };
    let Some(price) = searched.figures(best).map(|figures| figures.price) else {
        return Ok(None);
    };
    // The best of each kind, which draws may bring to the top.
    let own = kind(&searched.points[best], bench.sites);
    let mut rivals = vec![best];
    for (other, ..) in svg::KINDS.into_iter().filter(|(other, ..)| *other != own) {
        let fits = searched.fits(|point| kind(point, bench.sites) == other);
        rivals.extend(searched.best(goal, &fits)?);
    }
    let mut is_uncertain = false;
    for draw in (0..DRAWS).map(|draw| Draw(Some(draw))) {
        let drawn = rivals.iter().map(|rival| {
            let found = bench.short(&searched.points[*rival], draw)?;
            Ok(found.ok().map(|figures| figures.price))
        });
        if goal.best(&drawn.collect::<Result<Vec<_>>>()?, |_| true) != Some(0) {
            is_uncertain = true;
            break;
        }
    }
    let point = &searched.points[best];
    let site = &bench.sites[point.site];
    Ok(Some(Best {
        kind: own,
        what: describe(point, site),
        place: site.place.name.clone(),
        seconds: price.seconds,
        usd: price.usd,
        is_uncertain,
    }))
}

/// Returns where a model of the papers lies: by the time of its step on the reference GPU.
fn mark(stands: &Simulation, name: &str) -> Option<Mark> {
    let sizes = find_model(name)?.sizes;
    let (_, cost) = stands.cost(name, epochcost_systems::Device::Cuda, false)?;
    Some(Mark {
        model: name.to_owned(),
        parameters: sizes.parameters as f64,
        flops_per_sample: operations(cost.sample_s),
        own: None,
    })
}

/// Returns what the map shows, in words.
fn sentences(map: &Map) -> Vec<String> {
    let share = |of: fn(&Cell) -> Option<&Best>, kind: Kind| {
        let known = map.cells.iter().filter_map(of);
        let (all, own) = known.fold((0, 0), |(all, own), best| {
            (all + 1, own + usize::from(best.kind == kind))
        });
        format!("{own} of {all}")
    };
    let cheapest: fn(&Cell) -> Option<&Best> = |cell| cell.cheapest.as_ref();
    let fastest: fn(&Cell) -> Option<&Best> = |cell| cell.fastest.as_ref();
    let mut sentences = vec![
        format!(
            "Cheapest {}: one machine alone in {} cells, functions in {}, several machines in {}.",
            map.goal.text(),
            share(cheapest, Kind::OneMachine),
            share(cheapest, Kind::Functions),
            share(cheapest, Kind::Ring)
        ),
        format!(
            "Fastest: one machine with one GPU in {} cells, with several in {}, functions in {}, \
             several machines in {}.",
            share(fastest, Kind::OneMachine),
            share(fastest, Kind::SeveralGpus),
            share(fastest, Kind::Functions),
            share(fastest, Kind::Ring)
        ),
    ];
    for mark in &map.models {
        let cell = mark.own.as_ref().or_else(|| map.nearest(mark));
        let best = cell.and_then(|cell| cell.cheapest.as_ref());
        sentences.push(match best {
            Some(best) => format!(
                "{}: cheapest is {}, {} and {}{}.",
                model_title(&mark.model),
                best.what,
                epochcost_spec::format::duration(best.seconds),
                epochcost_spec::format::usd(best.usd),
                if best.is_uncertain {
                    ", within the ranges no more than a tie"
                } else {
                    ""
                }
            ),
            None => {
                let (model, within) = (model_title(&mark.model), map.goal.text());
                format!("{model}: nothing is possible {within}.")
            }
        });
    }
    sentences
}
