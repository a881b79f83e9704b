//! LambdaML's own variants (Jiang et al. 2021, and its published code).
//!
//! AllReduce and ScatterReduce are those of the comparison paper with
//! LambdaML's own optimizer (plain SGD) and, under `code`, its checkpoints
//! after so many epochs and its listings that stop at 1,000 keys. All take
//! `exchanges`: gradients in every step, or, as model averaging, parameters
//! once per epoch. Of the published S3 example, what cannot run at all is left
//! out: it calls an upload that its storage lacks when it should checkpoint.
//!
//! The asynchronous variant (published code) keeps one object that all share. A worker takes a
//! local step, puts its parameters there, gets the object back at once and goes
//! on with what it finds: its own, or what another put in between. The last
//! writer wins; nothing is averaged, and nothing bounds how old a model is.
//! Traffic per step: W puts, W gets and 2W·P bytes.
//!
//! # Objects and keys
//!
//! Asynchronous workers share `merged-params/w_b_`, a model. Model averaging uses the keys of an
//! epoch's last mini-batch.

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::published::{EPOCHS_PER_INVOCATION, plain_sgd};
use crate::mechanics::synchronous::{self, Exchange, Exchanged, FUNCTIONS, Iteration, LoopOptions};
use crate::mechanics::traffic;
use crate::{
    Bound, BoundSystem, Deployment, EarlyStopping, Fidelity, Job, Names, Outcome, ReduceOnPlateau,
    Replicas, Result, SettingsError, Sizes, Stage, Steps, TrainingSystem, Vector, World,
};

const NAME: &str = "lambdaml_async";
const BUCKET: &str = "merged-params";
/// The one object.
const KEY: &str = "w_b_";

/// The differences between paper and code.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Steps after which workers exchange their models.
    exchanges: Exchanged,
    /// Whether all replicas start from the same parameters.
    seeded_replicas: bool,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
    /// Epochs after which a worker re-invokes itself; null: never.
    #[schemars(range(min = 1, max = 100_000))]
    epochs_per_invocation: Option<usize>,
    /// Whether a worker re-invokes itself when its time is nearly over.
    continues_by_time: bool,
}

/// LambdaML's asynchronous variant.
pub(crate) struct Asynchronous;

struct SharedObject;

#[async_trait]
impl Exchange for SharedObject {
    async fn exchange(&mut self, world: &mut World, own: Vector, _: Iteration) -> Result<Vector> {
        let objects = world.exchange.objects.clone();
        world.enter(Stage::Serialise);
        let body = own.encode();
        world.enter(Stage::Put);
        objects.put(BUCKET, KEY, body).await?;
        world.enter(Stage::Get);
        let body = objects.expect(BUCKET, KEY).await?;
        world.enter(Stage::Serialise);
        Vector::decode(&body)
    }
}

#[async_trait]
impl TrainingSystem for Asynchronous {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Jiang et al. 2021: workers write their models over one shared object and go on with what \
         they read back. code: checkpoints after three epochs";
        Names::new(NAME, "LambdaML asynchronous", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment::new(&FUNCTIONS)
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        let code = fidelity == Fidelity::Code;
        Settings {
            exchanges: Exchanged::ModelEveryStep,
            seeded_replicas: true,
            reduce_on_plateau: None,
            early_stopping: None,
            epochs_per_invocation: code.then_some(EPOCHS_PER_INVOCATION),
            continues_by_time: fidelity == Fidelity::Tuned,
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        if settings.exchanges == Exchanged::Gradients {
            let reason = "a shared object holds a model; use model_every_step or model_every_epoch";
            return Err(SettingsError::value(NAME, "exchanges", reason));
        }
        Ok(())
    }

    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        plain_sgd()
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        let options = LoopOptions {
            exchanges: settings.exchanges,
            seeded_replicas: settings.seeded_replicas,
            epochs_per_invocation: settings.epochs_per_invocation,
            continues_by_time: settings.continues_by_time,
            ..LoopOptions::default()
        };
        synchronous::train(world, &mut SharedObject, options).await
    }
}

impl BoundSystem for Bound<'_, Asynchronous> {
    /// A worker goes on with what it finds, and waits for no other.
    fn waits(&self) -> bool {
        false
    }

    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        let models = self.settings.exchanges.rounds(job) * job.workers as u64;
        let bytes = sizes.gradient_bytes();
        Ok(traffic::sum([
            traffic::puts(models, bytes),
            traffic::gets(models, bytes),
        ]))
    }

    /// A replica's parameters and momentum, its gradient, the model as it is
    /// sent and as it comes.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        5
    }

    fn replicas(&self) -> Replicas {
        Replicas::Differ {
            reason: "every worker goes on with what it finds in the shared object",
        }
    }
}
