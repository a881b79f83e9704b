//! Places to train at: files that name a platform profile, what is rented there, its
//! price and how fast it is.

use std::collections::BTreeMap;
use std::path::Path;

use epochcost_experiment::platforms;
use epochcost_kernels::hash;
use epochcost_simulator::profile::{Client, Constant, FunctionDevice, ModelCost, Profile};
use epochcost_spec::cost::instances::memory_mb;
use epochcost_spec::cost::{self, CostModel, Price, PriceBook};
use epochcost_spec::profiles::hardware::{self, Hardware};
use epochcost_spec::profiles::{self, places};
use epochcost_spec::rows::{Row, STATED_BY_EXPERIMENT, Simulation, stated};
use epochcost_spec::shipped;
use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::yaml::schema::one_of;
use epochcost_spec::yaml::{self, Fault};
use epochcost_systems::{Device, Host};
use jiff::civil::Date;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Fraction of a range, by the seed of a draw and the name of what is drawn.
fn fraction(seed: u64, name: &str) -> f64 {
    let bytes = name.bytes();
    let mixed = bytes.fold(seed, |mixed, byte| hash::mix(mixed, byte.into()));
    f64::from(hash::unit_f32(mixed))
}

/// A price of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlacePrice {
    /// What is charged for, by a name that bills use.
    pub(super) dimension: String,
    /// Unit of the quantity; it must convert to that of the dimension (`hour`, `second`, `1,000 requests`).
    pub(super) unit: String,
    /// US dollars per unit.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub(super) usd: f64,
    /// Lowest price of the sources; absent where there is one price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub(super) low: Option<f64>,
    /// Highest price of the sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub(super) high: Option<f64>,
    /// What it is, in words.
    pub(super) about: String,
    /// Page, or who transcribed it.
    pub(super) source: String,
    /// Day on which the page was read, or that it states.
    pub(super) date: String,
    /// Whether a page was read for it; otherwise the source says what is to be checked.
    pub(super) is_read: bool,
}

impl PlacePrice {
    /// Converts the price, the entry `index` of `prices`, to the unit of its dimension.
    ///
    /// # Errors
    /// When the dimension is none of the place, the unit does not convert, or the date is later
    /// than `latest`.
    fn convert(
        &mut self,
        index: usize,
        instance_type: Option<&String>,
        latest: Option<Date>,
    ) -> Result<(), Fault> {
        let fault = |(field, problem, remedy): (&str, String, String)| Fault {
            path: format!("prices.{index}.{field}"),
            problem,
            remedy,
        };
        let (unit, factor) = cost::unit_of(&self.dimension, &self.unit).map_err(fault)?;
        let is_other = (self.dimension.strip_prefix("ec2/"))
            .is_some_and(|ty| instance_type.is_none_or(|own| own != ty));
        if is_other && PriceBook::shipped().is_ok_and(|book| book.price(&self.dimension).is_err()) {
            let own = instance_type.map_or_else(String::new, |own| cost::ec2(own));
            let problem = format!("nothing at this place is charged as `{}`", self.dimension);
            let remedy = format!("its `instance_type` is charged as `{own}`");
            return Err(fault(("dimension", problem, remedy)));
        }
        let wrong_date = match self.date.parse::<Date>() {
            Err(_) => Some(format!("{:?} is not a date", self.date)),
            Ok(date) => (latest.is_some_and(|latest| date > latest))
                .then(|| format!("{date} is later than today")),
        };
        if let Some(problem) = wrong_date {
            let remedy = "write the day of the price, as 2026-11-21".to_owned();
            return Err(fault(("date", problem, remedy)));
        }
        unit.clone_into(&mut self.unit);
        self.usd *= factor;
        for end in [&mut self.low, &mut self.high].into_iter().flatten() {
            *end *= factor;
        }
        Ok(())
    }
}

/// Head of what a second of a function with a GPU is charged as.
const GPU_PRICE: &str = "serverless_gpu/";

/// A place to train at: a platform profile, what is rented there, its price and how fast it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    pub(super) schema: u64,
    /// Name.
    pub(super) name: String,
    /// What it is.
    pub(super) about: String,
    /// Platform profile whose services, functions and instances it has.
    #[schemars(transform = platforms)]
    pub(super) profile: String,
    /// What workers run on.
    pub(super) host: Host,
    /// What computes there, a name of the table of hardware.
    #[schemars(transform = hardware_names)]
    pub(super) hardware: String,
    /// Type of its instances, as prices name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance_type: Option<String>,
    /// GPUs of one instance, or 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_024))]
    pub(super) devices: usize,
    /// Most machines that may train together; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) workers_limit: Option<usize>,
    /// Memory sizes of functions that a search tries, MB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(range(min = 1, max = 10_000_000)))]
    pub(super) memory_mb: Vec<u32>,
    /// Interruptions of an instance per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interruptions_per_h: Option<Constant>,
    /// Constants of the profile that differ here, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) constants: BTreeMap<String, Constant>,
    /// Prices that differ from the price book's, or are missing there.
    pub(super) prices: Vec<PlacePrice>,
}

fn hardware_names(schema: &mut Schema) {
    let table = hardware::shipped().unwrap_or_default();
    one_of(schema, table.iter().map(|known| known.name.as_str()));
}

fn one() -> usize {
    1
}

/// A place with its profile, ready to be simulated on.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The place.
    pub(super) place: Place,
    /// Its profile, with its own constants in place.
    profile: Profile<Constant>,
    /// Its hardware.
    pub(super) hardware: Hardware,
}

/// A draw of what has ranges, around the stated values; none stands for these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw(pub(super) Option<u64>);

impl Draw {
    fn of(self, name: &str, constant: &Constant) -> f64 {
        match self.0 {
            None => constant.value,
            Some(seed) => constant.at(fraction(seed, name)),
        }
    }
}

impl Site {
    /// Returns the place as an experiment's simulation has it: on the simulation's platform where it
    /// stands on the default profile, with the experiment's constants, its own in the place of
    /// these, and with the simulation's client.
    ///
    /// # Errors
    /// Why the place cannot be had so.
    fn under(self, stands: &Simulation) -> Result<Self, String> {
        let follows =
            [profiles::DEFAULT, &stands.profile.name].contains(&self.place.profile.as_str());
        if !follows {
            let stated = stated_by_experiment(&stands.profile);
            return self.with(&stated, stands.client);
        }
        let place = Place {
            profile: stands.profile.name.clone(),
            ..self.place
        };
        let moved = on_profile(place, stands.profile.clone(), self.hardware)?;
        moved.with(&BTreeMap::new(), stands.client)
    }

    /// Returns the place as a row has it that states a client or constants itself; `None` of any
    /// other row.
    ///
    /// # Errors
    /// Why the place cannot be had so.
    pub(super) fn of_row(&self, row: &Row) -> Result<Option<Self>, String> {
        if row.client.is_none() && row.constants.is_empty() {
            return Ok(None);
        }
        let of_row = stated(&self.profile, &row.constants);
        let mut constants: BTreeMap<String, Constant> = of_row.constants().into_iter().collect();
        constants.retain(|path, _| row.constants.contains_key(path));
        let is_known = |path: &&String| constants.contains_key(*path);
        if let Some(path) = row.constants.keys().find(|path| !is_known(path)) {
            return Err(self.lacks(path));
        }
        let client = row.client.unwrap_or(self.profile.client);
        self.clone().with(&constants, client).map(Some)
    }

    /// Returns the place with constants that an experiment states, but for those that it states
    /// itself, and with a client.
    ///
    /// # Errors
    /// When its profile does not have the constant or the client.
    fn with(
        mut self,
        constants: &BTreeMap<String, Constant>,
        client: Client,
    ) -> Result<Self, String> {
        if client != Client::Compiled && self.profile.interpreted.is_none() {
            let name = &self.profile.name;
            return Err(format!(
                "its profile {name} describes no interpreted client"
            ));
        }
        let known: BTreeMap<String, Constant> = self.profile.constants().into_iter().collect();
        if let Some(path) = constants.keys().find(|path| !known.contains_key(*path)) {
            return Err(self.lacks(path));
        }
        let own = &self.place.constants;
        self.profile = self.profile.map(&mut |path, constant| {
            let stated = constants.get(path).filter(|_| !own.contains_key(path));
            stated.unwrap_or(constant).clone()
        });
        self.profile.client = client;
        Ok(self)
    }

    fn lacks(&self, path: &str) -> String {
        format!("its profile {} has no constant `{path}`", self.profile.name)
    }

    /// Returns whether a simulation here is one at `other`: the places differ in prices alone.
    pub(super) fn is_twin(&self, other: &Self) -> bool {
        self.hardware == other.hardware && self.profile == other.profile
    }

    /// Returns whether it is the same platform as `other`, without interruptions, on hardware that is
    /// no faster.
    pub(super) fn is_no_faster(&self, other: &Self) -> bool {
        let (own, than) = (&self.hardware, &other.hardware);
        self.profile == other.profile
            && own.device == than.device
            && own.speed.value <= than.speed.value
            && other.place.interruptions_per_h.is_none()
    }

    /// Returns the name of its platform profile.
    pub(super) fn profile_name(&self) -> &str {
        &self.profile.name
    }

    /// Returns the device that workers compute on.
    pub(super) fn device(&self) -> Device {
        self.hardware.device
    }

    /// Returns the platform.
    pub(super) fn profile(&self, draw: Draw) -> Profile<f64> {
        match draw.0 {
            None => self.profile.values(),
            Some(seed) => self.profile.sampled(seed),
        }
    }

    /// Returns what a step costs on its hardware, from its cost on the reference.
    pub(super) fn cost(&self, reference: &ModelCost, draw: Draw) -> ModelCost {
        let name = format!("hardware.{}", self.hardware.name);
        let speed = draw.of(&name, &self.hardware.speed);
        let reference = match draw.0 {
            None => reference.clone(),
            Some(seed) => reference.sampled(seed),
        };
        ModelCost {
            fixed_s: reference.fixed_s / speed,
            sample_s: reference.sample_s / speed,
            evaluate_sample_s: reference.evaluate_sample_s / speed,
            vector_bytes_per_s: reference.vector_bytes_per_s.map(|rate| rate * speed),
            ..reference
        }
    }

    /// Returns `book` with the place's prices in it.
    pub(super) fn prices(&self, book: &PriceBook, draw: Draw) -> PriceBook {
        let prices: Vec<Price> = (self.place.prices.iter())
            .map(|price| {
                let name = format!("price.{}.{}", self.place.name, price.dimension);
                let ranged = Constant {
                    value: price.usd,
                    low: price.low,
                    high: price.high,
                    source: price.source.clone(),
                    date: price.date.clone(),
                    fitted_to: None,
                };
                Price {
                    dimension: price.dimension.clone(),
                    unit: price.unit.clone(),
                    usd: draw.of(&name, &ranged),
                    about: price.about.clone(),
                    source: price.source.clone(),
                }
            })
            .collect();
        book.with(&prices)
    }

    /// Returns the prices that no page was read for.
    pub(super) fn assumed_prices(&self) -> impl Iterator<Item = &PlacePrice> {
        self.place.prices.iter().filter(|price| !price.is_read)
    }

    /// Returns whether its functions are paid for by the GB-second, as Lambda's are.
    pub(super) fn is_lambda(&self) -> bool {
        self.place.host == Host::Function && self.profile.function_price.is_none()
    }

    /// Returns by what factor interruptions are expected to lengthen a training of
    /// `seconds`, an epoch of which takes `epoch_s`: each loses a boot and, with a
    /// checkpoint after every epoch, half an epoch.
    pub(super) fn interruptions(&self, epoch_s: f64, draw: Draw) -> f64 {
        let Some(rate) = &self.place.interruptions_per_h else {
            return 1.0;
        };
        let name = format!("interruptions.{}", self.place.name);
        let per_s = draw.of(&name, rate) / 3600.0;
        let boot_s = self.profile(draw).instance.boot_s;
        1.0 + per_s * (boot_s + epoch_s / 2.0)
    }

    /// Returns the memory of one instance, MB, where the text of its price says it in `book` or at the
    /// place; none of functions.
    pub(super) fn instance_memory_mb(&self, book: &PriceBook) -> Option<u32> {
        let own = self.place.instance_type.as_ref()?;
        let here = || memory_mb(&self.prices(book, Draw(None)), own);
        memory_mb(book, own).or_else(here)
    }

    /// Returns the US dollars by a cost model for keeping one instance for an hour; none of
    /// functions.
    pub(super) fn hourly_usd(&self, book: &PriceBook, account: CostModel) -> Option<f64> {
        let own = self.place.instance_type.as_ref()?;
        cost::hourly_usd(own, &self.prices(book, Draw(None)), account).ok()
    }
}

/// Returns the places of these names or files; all shipped ones where none is named.
///
/// # Errors
/// When there is no such place, or it cannot be used.
pub(super) fn sites(names: &[String]) -> Result<Vec<Site>> {
    let table = hardware::shipped().map_err(|reason| unusable("the table of hardware", &reason))?;
    let mut places: Vec<Place> = places()
        .map(|text| parse("shipped", text))
        .collect::<Result<_, _>>()?;
    if !names.is_empty() {
        let named = names.iter().map(|name| {
            let known = places.iter().find(|place| place.name == *name);
            known.map_or_else(|| from_file(name, &places), |place| Ok(place.clone()))
        });
        places = named.collect::<Result<_, _>>()?;
    }
    let sites = places.into_iter().map(|place| site(place, &table));
    sites.collect()
}

/// Places as an experiment's simulation has them.
#[derive(Default)]
pub(super) struct Laid {
    /// Places that can be had so.
    pub(super) sites: Vec<Site>,
    /// Names of the others, each with the reason.
    pub(super) left_out: Vec<String>,
}

/// Returns the places of these names or files under an experiment's simulation; of all shipped ones
/// where none is named.
///
/// # Errors
/// When there is no such place, a named one cannot be had so, or none can.
pub(super) fn laid(names: &[String], stands: &Simulation) -> Result<Laid> {
    if stands.profile.host.is_some() {
        return Err(Error::Usage {
            problem: format!(
                "the profile {} is of one machine that everything shares, and places are of a cloud",
                stands.profile.name
            ),
            remedy: format!("name another: --profile {}", profiles::DEFAULT),
        });
    }
    let mut laid = Laid::default();
    for site in sites(names)? {
        let name = site.place.name.clone();
        match site.under(stands) {
            Ok(site) => laid.sites.push(site),
            Err(reason) => laid.left_out.push(format!("{name}: {reason}")),
        }
    }
    let is_kept = names.is_empty() && !laid.sites.is_empty();
    match laid.left_out.first().filter(|_| !is_kept) {
        None => Ok(laid),
        Some(reason) => Err(Error::Usage {
            problem: format!("the experiment's `simulation` cannot be had at the place {reason}"),
            remedy:
                "name other places, or change `simulation` (--profile, --set simulation.client=…)"
                    .to_owned(),
        }),
    }
}

/// Returns warnings of old prices of places, where places are named.
pub(super) fn stale(names: &[String], sites: &[Site]) -> Vec<String> {
    let today = jiff::Zoned::now().date();
    let named = sites.iter().filter(|_| !names.is_empty());
    let warnings = named.flat_map(|site| {
        let prices = site.place.prices.iter();
        prices.filter_map(|price| {
            let what = format!("the price of {} at {}", price.dimension, site.place.name);
            cost::stale(&what, price.date.parse().ok()?, today)
        })
    });
    warnings.collect()
}

/// Returns the constants of a profile that an experiment states.
fn stated_by_experiment(profile: &Profile<Constant>) -> BTreeMap<String, Constant> {
    let mut constants = profile.constants();
    constants.retain(|(_, constant)| constant.source.starts_with(STATED_BY_EXPERIMENT));
    constants.into_iter().collect()
}

fn from_file(name: &str, shipped: &[Place]) -> Result<Place> {
    if !name.contains(['/', '.']) || !Path::new(name).exists() {
        let known: Vec<&str> = shipped.iter().map(|place| place.name.as_str()).collect();
        return Err(Error::Usage {
            problem: format!("there is no place `{name}`"),
            remedy: format!("{}, or name a file", did_you_mean(name, &known)),
        });
    }
    let text = shipped::read_to_string(Path::new(name))
        .map_err(|error| unusable(name, &error.to_string()))?;
    parse(name, &text)
}

fn parse(name: &str, text: &str) -> Result<Place> {
    // Somewhere it is tomorrow already. Shipped dates do not depend on this machine's clock.
    let tomorrow = jiff::Zoned::now().date().tomorrow().ok();
    let latest = tomorrow.filter(|_| name != "shipped");
    let read = yaml::read(name, text, |place: &mut Place| {
        let (ty, mut prices) = (&place.instance_type, place.prices.iter_mut().enumerate());
        prices.try_for_each(|(index, price)| price.convert(index, ty.as_ref(), latest))
    });
    read.map_err(|(problem, remedy)| Error::Usage { problem, remedy })
}

fn unusable(name: &str, reason: &str) -> Error {
    Error::Usage {
        problem: format!("failed to use the place {name}: {reason}"),
        remedy: "docs/PLACES.md describes the format".to_owned(),
    }
}

/// Returns a place with its profile.
///
/// # Errors
/// When its profile, hardware, constants or prices cannot be used.
fn site(place: Place, table: &[Hardware]) -> Result<Site> {
    let name = place.name.clone();
    let wrong = |reason: String| unusable(&name, &reason);
    if place.schema != 1 {
        return Err(wrong("this program reads version 1".to_owned()));
    }
    let profile = profiles::platform(&place.profile)
        .map_err(|error| wrong(format!("{}; {}", error.problem, error.remedy)))?;
    let hardware = table.iter().find(|known| known.name == place.hardware);
    let hardware = hardware.cloned().ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|known| known.name.as_str()).collect();
        wrong(did_you_mean(&place.hardware, &known))
    })?;
    on_profile(place, profile, hardware).map_err(wrong)
}

/// Returns a place on a platform profile.
///
/// # Errors
/// When its constants or prices cannot be used, or the profile has not what it needs.
fn on_profile(
    place: Place,
    profile: Profile<Constant>,
    hardware: Hardware,
) -> Result<Site, String> {
    let constants = profile.constants();
    let known: Vec<&str> = constants.iter().map(|(path, _)| path.as_str()).collect();
    let is_known = |path: &String| known.contains(&path.as_str());
    if let Some(path) = place.constants.keys().find(|path| !is_known(path)) {
        let known = did_you_mean(path, &known);
        return Err(format!("the profile has no constant `{path}`; {known}"));
    }
    let mut profile =
        profile.map(&mut |path, constant| place.constants.get(path).unwrap_or(constant).clone());
    if let Some((path, reason)) = profile.faults().into_iter().next() {
        return Err(format!("{path}: {reason}"));
    }
    if let Some(rate) = &place.interruptions_per_h {
        let (low, high) = rate.range();
        if !(low >= 0.0 && low <= rate.value && rate.value <= high && high.is_finite()) {
            let value = rate.value;
            return Err(format!(
                "interruptions_per_h: {value} is not within {low}..={high}"
            ));
        }
    }
    // Functions of another provider on the same services have a price of their own.
    let mut charged = place.prices.iter().map(|price| &price.dimension);
    let own = charged.find(|dimension| dimension.starts_with(GPU_PRICE));
    if let (Some(price), Some(own)) = (&mut profile.function_price, own) {
        price.clone_from(own);
    }
    check(&place, &profile, &hardware)?;
    Ok(Site {
        place,
        profile,
        hardware,
    })
}

/// Checks what a place states about itself.
fn check(place: &Place, profile: &Profile<Constant>, hardware: &Hardware) -> Result<(), String> {
    let on_gpu = profile.function_device == FunctionDevice::Cuda;
    match (place.host, &place.instance_type) {
        (Host::Instance, None) => return Err("instances have an `instance_type`".to_owned()),
        (Host::Function, Some(_)) => return Err("functions have no `instance_type`".to_owned()),
        (Host::Function, None) if place.memory_mb.is_empty() => {
            return Err("functions have sizes to try: `memory_mb`".to_owned());
        }
        (Host::Function, None) if on_gpu != (hardware.device == Device::Cuda) => {
            let (functions, hardware) = (&profile.name, &hardware.name);
            return Err(format!(
                "functions of {functions} do not compute on {hardware}"
            ));
        }
        _ => {}
    }
    let own = profile.function_price.as_deref();
    for price in &place.prices {
        let (dimension, usd) = (&price.dimension, price.usd);
        if dimension.starts_with(GPU_PRICE) && own != Some(dimension) {
            return Err(format!(
                "nothing at this place is charged as `{dimension}`; its functions are charged as `{}`",
                own.unwrap_or("lambda_gb_second")
            ));
        }
        if !(price.low.unwrap_or(usd) <= usd && usd <= price.high.unwrap_or(usd)) {
            return Err(format!(
                "the price of {dimension} is no number in its range"
            ));
        }
        if price.source.trim().is_empty() {
            return Err(format!("the price of {dimension} has no source"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
