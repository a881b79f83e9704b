//! Rows with valid fields that cannot be run: by their system, their data, or
//! their instances.

use epochcost_spec::cost::instances::{gpus, lacks_gpus, with_gpus};
use epochcost_spec::cost::is_ec2;
use epochcost_systems::{Device, Host, Job, Machines, Sizes, System, SystemError};

use super::check::Checker;
use super::document::{Node, Place};
use super::error::ExperimentError;
use super::raw::Training;

/// What computes without a GPU.
const CPU: &str = "`device: {kind: cpu}`";

impl Checker<'_> {
    /// Returns the mini-batches per worker and epoch that the row asks for: their number,
    /// or as many as its share of `samples` needs.
    ///
    /// # Errors
    /// When the row gives both.
    pub(super) fn asked_batches(
        &self,
        fields: &Node,
        row: &Training,
    ) -> Result<Option<usize>, ExperimentError> {
        match (row.samples, row.batches_per_worker) {
            (None, asked) => Ok(asked),
            (Some(samples), None) => {
                let step = row.workers.saturating_mul(row.batch_size);
                let round = step.saturating_mul(row.epochs).max(1);
                // Sizes have no end; data that are read end with the last whole mini-batch.
                let batches = if self.has_phantoms() {
                    samples.div_ceil(round)
                } else {
                    (samples / round).max(1)
                };
                Ok(Some(batches))
            }
            (Some(_), Some(_)) => Err(self.error(
                fields,
                "samples",
                "`samples` and `batches_per_worker` both state how much is trained",
                "give one of them: with `samples`, all workers share the work",
            )),
        }
    }

    /// Returns the mini-batches of an epoch, as asked for, or as many full ones as the share has, and
    /// the samples of the last, where it is the rest of the share.
    pub(super) fn batches(
        &self,
        fields: &Node,
        system: &dyn System,
        job: &Job,
        asked: Option<usize>,
    ) -> Result<(usize, Option<usize>), ExperimentError> {
        let share = self.data.train / job.workers;
        let fit = share / job.batch_size;
        let rest = share % job.batch_size;
        let rest = (system
            .bind(job)
            .is_ok_and(|bound| bound.trains_on_the_rest())
            && rest > 0)
            .then_some(rest);
        let most = fit + usize::from(rest.is_some());
        let fit_at_most = match most {
            1 => "at most one batch fits".to_owned(),
            most => format!("at most {most} batches fit"),
        };
        let held = format!(
            "{} {} training samples, {share} for each of {} workers",
            self.data.holds(),
            self.data.train,
            job.workers
        );
        match asked {
            Some(asked) if rest.is_some() && asked == most => Ok((asked, rest)),
            Some(asked) if asked <= fit || self.has_phantoms() => Ok((asked, None)),
            None if fit > 0 => Ok((fit, None)),
            Some(asked) if most > 0 => Err(self.error(
                fields,
                asked_for(fields, "batches_per_worker"),
                format!(
                    "{asked} batches of {} are more than the data holds: {held}",
                    job.batch_size
                ),
                format!(
                    "{fit_at_most}: set batches_per_worker to {most}, or leave it out for \
                     one pass over the data in full batches"
                ),
            )),
            _ => Err(self.error(
                fields,
                asked_for(fields, "batch_size"),
                format!("not one batch of {} fits: {held}", job.batch_size),
                "use a smaller batch, fewer workers or more data",
            )),
        }
    }

    /// Asks the system everything that it will be asked in the run.
    pub(super) fn runnable(
        &self,
        fields: &Node,
        system: &dyn System,
        job: &Job,
        sizes: Sizes,
    ) -> Result<(), ExperimentError> {
        let answers = system
            .bind(job)
            .and_then(|bound| bound.traffic(sizes).map(drop));
        answers.map_err(|error| self.unsuitable(fields, "system", &error))
    }

    fn unsuitable(&self, fields: &Node, field: &str, error: &SystemError) -> ExperimentError {
        let remedy = "change this row's settings or fields, or leave the system out";
        let field = match error {
            SystemError::Settings(error)
                if super::schema::of_rows()
                    .iter()
                    .any(|field| field == error.field()) =>
            {
                error.field()
            }
            _ => field,
        };
        self.error(fields, field, error.to_string(), remedy)
    }

    /// Refuses a system whose workers connect to each other where they cannot.
    pub(super) fn links(&self, fields: &Node, system: &dyn System) -> Result<(), ExperimentError> {
        if !self.site.is_cloud() || !system.deployment().has_links {
            return Ok(());
        }
        Err(self.error(
            fields,
            "system",
            format!(
                "the workers of {} connect to each other, and no rule of this platform's network \
                 lets them",
                system.name()
            ),
            "run it with --platform local or sim",
        ))
    }

    /// Refuses peers that join where nothing follows what other peers start.
    pub(super) fn joins(
        &self,
        fields: &Node,
        system: &dyn System,
        job: &Job,
    ) -> Result<(), ExperimentError> {
        let joins = system
            .bind(job)
            .is_ok_and(|bound| bound.first_peers() < job.workers);
        if !joins || !self.site.is_cloud() {
            return Ok(());
        }
        Err(self.error(
            fields,
            "settings",
            "peers that join are started by others, and this platform follows the first ones alone",
            "run it with --platform local or sim",
        ))
    }

    /// Refuses replicas of one machine that would share a GPU, since each is stated to have one of its
    /// own, and GPUs of an instance type that has none.
    pub(super) fn gpus(
        &self,
        fields: &Node,
        system: &dyn System,
        job: &Job,
        instance_type: &str,
    ) -> Result<(), ExperimentError> {
        let is_shared = system.deployment().machines == Machines::Shared;
        let has = gpus(instance_type);
        let on_instances = !system.deployment().runs_on(Host::Function);
        let needs = match (is_shared, on_instances) {
            (true, _) => job.workers,
            (false, true) if is_ec2(instance_type) => 1,
            _ => 0,
        };
        if job.device != Device::Cuda || needs <= has {
            return Ok(());
        }
        let field = match fields.get("instance_type") {
            Some(_) => "instance_type",
            None if is_shared => "workers",
            None => "device",
        };
        let book = self.prices();
        let known = book.as_ref().map(|book| with_gpus(book, needs));
        let suitable = match known.unwrap_or_default().as_slice() {
            [] => String::new(),
            types => format!("set `instance_type` to {}, ", types.join(" or ")),
        };
        Err(self.error(
            fields,
            field,
            lacks_gpus(job, instance_type).unwrap_or_else(|| {
                format!("workers compute on a GPU, and {instance_type} has none")
            }),
            if is_shared {
                format!("{suitable}use fewer workers, or compute on the CPU: {CPU}")
            } else {
                format!("{suitable}or compute on the CPU: {CPU}")
            },
        ))
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
