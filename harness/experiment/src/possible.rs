//! Rows with valid fields that cannot be run: by their system, their data, or
//! their instances.

use epochcost_spec::cost::instances::{gpus, lacks_gpus, with_gpus};
use epochcost_spec::cost::is_ec2;
use epochcost_systems::{Device, Host, Job, Machines, Sizes, SystemError};

use super::check::RowChecker;
use super::document::{Node, Place};
use super::error::ExperimentError;

/// What computes without a GPU.
const CPU: &str = "`device: {kind: cpu}`";

impl RowChecker<'_> {
    /// Returns the mini-batches per worker and epoch that the row asks for: their number,
    /// or as many as its share of `samples` needs.
    ///
    /// # Errors
    /// When the row gives both.
    pub(super) fn asked_batches(&self) -> Result<Option<usize>, ExperimentError> {
        match (self.row.samples, self.row.batches_per_worker) {
            (None, asked) => Ok(asked),
            (Some(samples), None) => {
                let step = self.row.workers.saturating_mul(self.row.batch_size);
                let round = step.saturating_mul(self.row.epochs).max(1);
                // Sizes have no end; data that are read end with the last whole mini-batch.
                Ok(Some(if self.all.has_phantoms() {
                    samples.div_ceil(round)
                } else {
                    (samples / round).max(1)
                }))
            }
            (Some(_), Some(_)) => {
                let problem = "`samples` and `batches_per_worker` both state how much is trained";
                let remedy = "give one of them: with `samples`, all workers share the work";
                Err(self.error("samples", problem, remedy))
            }
        }
    }

    /// Returns the mini-batches of an epoch, as asked for, or as many full ones as the share has, and
    /// the samples of the last, where it is the rest of the share.
    pub(super) fn batches(
        &self,
        job: &Job,
        asked: Option<usize>,
    ) -> Result<(usize, Option<usize>), ExperimentError> {
        let (train, workers, batch_size) = (self.all.data.train, job.workers, job.batch_size);
        let share = train / workers;
        let (fit, rest) = (share / batch_size, share % batch_size);
        let bound = self.system.bind(job);
        let takes_rest = bound.is_ok_and(|bound| bound.trains_on_the_rest()) && rest > 0;
        let rest = takes_rest.then_some(rest);
        let most = fit + usize::from(takes_rest);
        let has = self.all.data.holds();
        let held = format!("{has} {train} training samples, {share} for each of {workers} workers");
        match asked {
            Some(asked) if takes_rest && asked == most => Ok((asked, rest)),
            Some(asked) if asked <= fit || self.all.has_phantoms() => Ok((asked, None)),
            None if fit > 0 => Ok((fit, None)),
            Some(asked) if most > 0 => {
                let problem =
                    format!("{asked} batches of {batch_size} are more than the data holds: {held}");
                let fit_at_most = match most {
                    1 => "at most one batch fits".to_owned(),
                    most => format!("at most {most} batches fit"),
                };
                let remedy = format!(
                    "{fit_at_most}: set batches_per_worker to {most}, or leave it out for \
                     one pass over the data in full batches"
                );
                let field = asked_for(self.fields, "batches_per_worker");
                Err(self.error(field, problem, remedy))
            }
            _ => {
                let problem = format!("not one batch of {batch_size} fits: {held}");
                let remedy = "use a smaller batch, fewer workers or more data";
                let field = asked_for(self.fields, "batch_size");
                Err(self.error(field, problem, remedy))
            }
        }
    }

    /// Asks the system everything that it will be asked in the run.
    pub(super) fn runnable(&self, job: &Job, sizes: Sizes) -> Result<(), ExperimentError> {
        let answers = self.system.bind(job).and_then(|bound| bound.traffic(sizes));
        let Err(error) = answers else {
            return Ok(());
        };
        let known = super::schema::of_rows();
        let field = match &error {
            SystemError::Settings(error) => known.iter().find(|field| *field == error.field()),
            _ => None,
        };
        let remedy = "change this row's settings or fields, or leave the system out";
        Err(self.error(
            field.map_or("system", String::as_str),
            error.to_string(),
            remedy,
        ))
    }

    /// Refuses a system whose workers connect to each other where they cannot.
    pub(super) fn links(&self) -> Result<(), ExperimentError> {
        if !self.all.site.is_cloud() || !self.system.deployment().has_links {
            return Ok(());
        }
        let name = self.system.name();
        let problem = format!(
            "the workers of {name} connect to each other, and no rule of this platform's network \
             lets them"
        );
        let remedy = "run it with --platform local or sim";
        Err(self.error("system", problem, remedy))
    }

    /// Refuses peers that join where nothing follows what other peers start.
    pub(super) fn joins(&self, job: &Job) -> Result<(), ExperimentError> {
        let bound = self.system.bind(job);
        let joins = bound.is_ok_and(|bound| bound.first_peers() < job.workers);
        if !joins || !self.all.site.is_cloud() {
            return Ok(());
        }
        let problem =
            "peers that join are started by others, and this platform follows the first ones alone";
        let remedy = "run it with --platform local or sim";
        Err(self.error("settings", problem, remedy))
    }

    /// Refuses replicas of one machine that would share a GPU, since each is stated to have one of its
    /// own, and GPUs of an instance type that has none.
    pub(super) fn gpus(&self, job: &Job, instance_type: &str) -> Result<(), ExperimentError> {
        let is_shared = self.system.deployment().machines == Machines::Shared;
        let has = gpus(instance_type);
        let on_instances = !self.system.deployment().runs_on(Host::Function);
        let needs = match (is_shared, on_instances) {
            (true, _) => job.workers,
            (false, true) if is_ec2(instance_type) => 1,
            _ => 0,
        };
        if job.device != Device::Cuda || needs <= has {
            return Ok(());
        }
        let field = match self.fields.get("instance_type") {
            Some(_) => "instance_type",
            None if is_shared => "workers",
            None => "device",
        };
        let book = self.all.prices();
        let known = book.as_ref().map(|book| with_gpus(book, needs));
        let suitable = match known.unwrap_or_default().as_slice() {
            [] => String::new(),
            types => format!("set `instance_type` to {}, ", types.join(" or ")),
        };
        let problem = lacks_gpus(job, instance_type)
            .unwrap_or_else(|| format!("workers compute on a GPU, and {instance_type} has none"));
        let fewer = if is_shared { "use fewer workers, " } else { "" };
        let remedy = format!("{suitable}{fewer}or compute on the CPU: {CPU}");
        Err(self.error(field, problem, remedy))
    }
}

/// Returns which of the fields that share the data out an option of the command has set;
/// without one, `written`, which the file states.
fn asked_for<'a>(fields: &Node, written: &'a str) -> &'a str {
    let is_option = |field: &&str| {
        let node = fields.get(field);
        node.is_some_and(|node| matches!(node.origin.place, Place::Option(_)))
    };
    let shared = ["batches_per_worker", "batch_size", "workers"];
    shared.into_iter().find(is_option).unwrap_or(written)
}
