//! Instances in virtual time: booted once, then a process for each task.

use std::sync::Arc;

use async_trait::async_trait;
use epochcost_systems::{Functions, Host, InvokeError, Outcome, Task};

use super::{Trial, failed};
use crate::model::Invocation;
use crate::network::Network;
use crate::station::StationSpec;

/// Instances, one per worker.
pub(crate) struct Instances {
    pub(crate) trial: Arc<Trial>,
}

impl Instances {
    /// Returns the vCPUs of each instance: its own, or its share of the shared host's
    /// in whole cores.
    fn vcpus(&self, workers: usize) -> f64 {
        let profile = self.trial.profile();
        let vcpus = profile.instance.vcpus;
        match profile.host {
            Some(_) => (vcpus / workers.max(1) as f64).floor().max(1.0),
            None => vcpus,
        }
    }
}

#[async_trait]
impl Functions for Instances {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let trial = &self.trial;
        let profile = trial.profile();
        let model = &profile.instance;
        // The instance boots.
        trial.engine.seconds(model.boot_s).await;
        let started = trial.engine.now();
        let spec = StationSpec {
            vcpus: self.vcpus(task.job.workers),
            arithmetic_bytes_per_s: model.arithmetic_bytes_per_s,
            device: trial.device_memory(false),
            bytes_per_s: model.bytes_per_s,
            network: Arc::new(Network::new(None, started)),
            interpreted: profile.interpreted(),
            has_codec: true,
            compute_spread: None,
            shares_gpu: false,
            is_function: false,
        };
        // Its process runs the task.
        let invoked = trial
            .world(task.clone(), spec, Arc::default())
            .map_err(|error| failed(&task, error))?;
        let station = invoked.station.clone();
        let ended = trial.run(invoked).await;
        // It is billed for the boot as for an init.
        trial.record(Invocation {
            id: trial.next_id(),
            task: (&task).into(),
            host: Host::Instance,
            sandbox: trial.next_id(),
            started_s: started as f64 * 1e-9,
            duration_s: (trial.engine.now() - started) as f64 * 1e-9,
            init_s: Some(model.boot_s),
            memory_mb: None,
            peak_memory_mb: trial.peak_mb(&task, &station.held),
            error: ended.as_ref().err().map(ToString::to_string),
            alike: 1,
        });
        ended.map_err(|error| failed(&task, error))
    }
}
