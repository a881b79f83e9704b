//! Attackers: workers that send something else than their gradient.
//!
//! An attack is part of the [`Job`], so that every system meets the same one on every
//! platform. It is applied where gradients leave the model ([`AttackedCompute`]), or by a
//! system whose attackers can see more ([`Compute::leave_attack_to_system`]): SPIRT, where an attacker
//! replaces its average, and its reads of others count as state. Elsewhere it replaces the gradient of
//! every mini-batch.
//!
//! # What attackers know
//!
//! [`AttackKind::InnerProduct`], [`AttackKind::LittleIsEnough`] and
//! [`AttackKind::MinMax`] are made of the honest workers' gradients. Where a system lets a
//! worker read them before it sends its own, as SPIRT does, attackers are omniscient, and
//! wait for them. Elsewhere each attacker estimates: it takes its own latest gradients,
//! at most [`KNOWN`], for those of honest workers, as Baruch et al. (2019) let corrupted
//! workers do. An estimate begins anew with each invocation.

mod compute;

use epochcost_channels::Payload;
use epochcost_kernels::{attack, hash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use compute::AttackedCompute;

use crate::{Batch, Compute, Job, Result, SettingsError};

/// Own gradients that an attacker takes for those of honest workers, where it cannot read
/// these.
pub const KNOWN: usize = 4;

/// Stream of the seed from which noise is drawn.
const NOISE_STREAM: u64 = 0x6174_7461_636b;

/// An attack of some workers of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// What attackers send.
    pub kind: AttackKind,
    /// The attackers.
    pub workers: Attackers,
    /// First epoch of the attack.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub from_epoch: usize,
    /// Strength, whose default is that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub strength: Option<f64>,
}

/// The workers that attack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Attackers {
    /// That many workers, those of the highest ranks.
    Last(#[schemars(range(max = 100_000))] usize),
    /// The workers of these ranks.
    Ranks(#[schemars(inner(range(max = 100_000)))] Vec<usize>),
}

/// What an attacker sends instead of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttackKind {
    /// Its gradient times −strength (default 1).
    SignFlip,
    /// Its gradient of samples whose label y is C − 1 − y, of C classes.
    LabelFlip,
    /// Noise of mean 0 and standard deviation strength (default 1).
    Gaussian,
    /// The mean of honest gradients times −strength (default 0.1; Xie et al. 2019).
    InnerProduct,
    /// The mean of honest gradients plus strength standard deviations; by default as many
    /// as hide it (Baruch et al. 2019, "a little is enough").
    LittleIsEnough,
    /// The mean of honest gradients less as many standard deviations as leave it no farther
    /// from them than they are from each other (Shejwalkar and Houmansadr 2021).
    MinMax,
    /// The gradient of the first honest worker.
    Mimic,
    /// Its gradient of the step before.
    Stale,
    /// Its first gradient under attack, again and again.
    Replayed,
    /// Its gradient without the last element.
    WrongShape,
    /// A value that is not a number, in every element.
    Nan,
    /// Infinity in every element.
    Infinite,
    /// Its own gradient, signed with another key than its own.
    WrongKey,
}

impl AttackKind {
    /// Whether it is made of honest workers' gradients.
    pub fn needs_honest(self) -> bool {
        matches!(
            self,
            Self::InnerProduct | Self::LittleIsEnough | Self::MinMax | Self::Mimic
        )
    }

    /// Whether strength has a meaning.
    fn has_strength(self) -> bool {
        matches!(
            self,
            Self::SignFlip | Self::Gaussian | Self::InnerProduct | Self::LittleIsEnough
        )
    }
}

/// What an attacker makes its message of.
pub(crate) struct Known<'a> {
    /// Its own gradient.
    pub(crate) own: &'a [f32],
    /// Gradients of honest workers, or what it takes for them.
    pub(crate) honest: &'a [&'a [f32]],
    /// An earlier gradient of its own, where the kind sends one.
    pub(crate) earlier: Option<&'a [f32]>,
    /// Rank, epoch, and number of the gradient in the epoch: what noise depends on.
    pub(crate) at: [usize; 3],
}

impl Attack {
    /// Returns the ranks of the attackers of `workers`, in order.
    pub fn ranks(&self, workers: usize) -> Vec<usize> {
        match &self.workers {
            Attackers::Last(count) => (workers.saturating_sub(*count)..workers).collect(),
            Attackers::Ranks(ranks) => {
                let mut ranks = ranks.clone();
                ranks.sort_unstable();
                ranks
            }
        }
    }

    /// Returns the ranks of the others.
    pub(crate) fn honest(&self, workers: usize) -> Vec<usize> {
        let attackers = self.ranks(workers);
        (0..workers)
            .filter(|rank| !attackers.contains(rank))
            .collect()
    }

    /// Whether worker `rank` attacks in `epoch`.
    pub(crate) fn is_by(&self, rank: usize, epoch: usize, workers: usize) -> bool {
        epoch >= self.from_epoch && self.ranks(workers).contains(&rank)
    }

    /// Refuses an attack that cannot happen in `job`, by a system whose attackers do or do
    /// not see honest gradients.
    ///
    /// # Errors
    /// Names the defect.
    pub(crate) fn check(
        &self,
        system: &'static str,
        job: &Job,
        sees_honest: bool,
    ) -> Result<(), SettingsError> {
        let ranks = self.ranks(job.workers);
        let has_repeated = ranks.windows(2).any(|pair| pair[0] == pair[1]);
        let reason = if ranks.is_empty() || ranks.last() >= Some(&job.workers) || has_repeated {
            format!(
                "it names no worker, one twice, or one that is not there: of {} workers, give a \
                 number from 1 or different ranks from 0",
                job.workers
            )
        } else if matches!(self.workers, Attackers::Last(count) if count > job.workers) {
            format!("there are {} workers", job.workers)
        } else if self.kind.needs_honest() && ranks.len() >= job.workers {
            "no worker is honest, of whose gradients it could be made".into()
        } else if self.from_epoch >= job.epochs {
            format!("the last epoch is {}", job.epochs.saturating_sub(1))
        } else if self.strength.is_some_and(|strength| !strength.is_finite()) {
            "strength must be a finite number".into()
        } else if self.strength.is_some() && !self.kind.has_strength() {
            "strength has no meaning for this kind".into()
        } else if self.kind == AttackKind::WrongKey && !sees_honest {
            "nothing is signed by this system: spirt has signatures".into()
        } else if self.kind == AttackKind::Mimic && !sees_honest {
            "no worker sees the gradient of another before it sends its own".into()
        } else {
            return Ok(());
        };
        Err(SettingsError::value(system, "attack", reason))
    }

    /// Returns the batch that an attacker computes with: with flipped labels, where these are
    /// the attack.
    pub(crate) fn batch(&self, job: &Job, batch: &Batch) -> Result<Batch> {
        let mut batch = batch.clone();
        let classes = epochcost_datasets::find(&job.data.dataset).ok();
        if let (AttackKind::LabelFlip, Payload::Bytes(bytes), Some(set)) =
            (self.kind, &batch.records, classes)
        {
            let last = set.classes.saturating_sub(1);
            let mut records = bytes.to_vec();
            for record in records.chunks_mut(job.data.record_bytes.max(1)) {
                // A record is a label byte and its pixels.
                record[0] = last.saturating_sub(record[0]);
            }
            batch.records = records.into();
        }
        Ok(batch)
    }

    /// Returns what an attacker of `job` sends.
    ///
    /// # Errors
    /// When the gradients that it knows differ in length.
    pub(crate) fn sent(&self, job: &Job, known: &Known<'_>) -> Result<Vec<f32>> {
        let Known { own, honest, .. } = known;
        let strength = |default: f64| self.strength.unwrap_or(default);
        Ok(match self.kind {
            AttackKind::SignFlip => attack::scaled_mean(&[own], -strength(1.0))?,
            AttackKind::LabelFlip | AttackKind::WrongKey => own.to_vec(),
            AttackKind::Gaussian => {
                let stream = hash::mix(job.seed, NOISE_STREAM);
                let place = known.at.map(|at| at as u64);
                let seed = place.into_iter().fold(stream, hash::mix);
                attack::gaussian(own.len(), strength(1.0), seed)
            }
            AttackKind::InnerProduct => attack::scaled_mean(honest, -strength(0.1))?,
            AttackKind::LittleIsEnough => {
                let attackers = self.ranks(job.workers).len();
                let hidden = attack::little_is_enough_z(job.workers, attackers);
                attack::little_is_enough(honest, strength(hidden))?
            }
            AttackKind::MinMax => attack::min_max(honest)?,
            AttackKind::Mimic => honest.first().unwrap_or(own).to_vec(),
            AttackKind::Stale | AttackKind::Replayed => known.earlier.unwrap_or(own).to_vec(),
            AttackKind::WrongShape => own[..own.len().saturating_sub(1)].to_vec(),
            AttackKind::Nan => vec![f32::NAN; own.len()],
            AttackKind::Infinite => vec![f32::INFINITY; own.len()],
        })
    }
}

/// Returns the model of a worker of `job`: an attacker's, where there is an attack.
pub(crate) fn armed(job: &Job, model: Box<dyn Compute>) -> Box<dyn Compute> {
    match &job.attack {
        None => model,
        Some(attack) => Box::new(AttackedCompute::new(attack.clone(), job.clone(), model)),
    }
}
