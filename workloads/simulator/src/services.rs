//! The services of a trial, and what everyone shares.

use std::sync::{Arc, Mutex};

use epochcost_channels::{ChannelError, TensorStore};
use epochcost_systems::{Channels, PollTarget, TensorStores};

use crate::channels::{Objects, Queues, SimObjects, SimQueue, SimTensors, Tensors};
use crate::engine::{Engine, locked};
use crate::profile::Profile;
use crate::resource::Resource;
use crate::station::Station;
use crate::watch::{Awaited, Watch};
use crate::{Infeasible, Limit};

/// The services of one trial. Clones share them.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) objects: Arc<Objects>,
    tensors: Arc<Vec<Arc<Tensors>>>,
    queues: Arc<Queues>,
    /// The cores of the one host that everything shares, if it does.
    pub(crate) host: Option<Resource>,
    watch: Watch,
    infeasible: Arc<Mutex<Option<Infeasible>>>,
    /// Whether looks that would find nothing may be left out.
    pub(crate) leaves_out_looks: bool,
}

impl Services {
    /// One object store, one queue, and a tensor store for each of `peers`.
    pub(crate) fn new(
        engine: &Engine,
        profile: &Profile<f64>,
        peers: usize,
        makes_every_look: bool,
    ) -> Self {
        let watch = Watch::default();
        let host = profile.host.as_ref();
        let host = host.map(|host| Resource::new(engine, host.cores));
        let tensors = || Arc::new(Tensors::new(engine, host.as_ref(), &profile.tensor_store));
        Self {
            // On a shared host, looking in vain takes cores from others.
            leaves_out_looks: host.is_none() && !makes_every_look,
            objects: Arc::new(Objects::new(engine, &profile.object_store, &watch)),
            tensors: Arc::new((0..peers).map(|_| tensors()).collect()),
            queues: Arc::new(Queues::new(engine, &profile.queue, &watch)),
            host,
            watch,
            infeasible: Arc::default(),
        }
    }

    /// Notes the first limit that was hit.
    pub(crate) fn hit(&self, infeasible: Infeasible) {
        locked(&self.infeasible).get_or_insert(infeasible);
    }

    /// The first limit that was hit.
    pub(crate) fn infeasible(&self) -> Option<Infeasible> {
        locked(&self.infeasible).clone()
    }

    /// Refuses a value over the limit that the profile names.
    pub(crate) fn check_size(
        &self,
        service: &'static str,
        bytes: u64,
        limit: f64,
    ) -> Result<(), ChannelError> {
        if bytes as f64 <= limit {
            return Ok(());
        }
        let reason = format!("{bytes} bytes are more than its limit of {limit:.0}");
        self.hit(Infeasible {
            limit: Limit::MessageSize,
            reason: format!("a value for the {service}: {reason}"),
        });
        Err(ChannelError::Refused {
            service,
            operation: "a write".into(),
            reason,
        })
    }

    /// The channels as `station` reaches them.
    pub(crate) fn channels(&self, station: &Arc<Station>) -> Channels {
        Channels {
            objects: Arc::new(SimObjects {
                objects: self.objects.clone(),
                station: station.clone(),
            }),
            tensors: Arc::new(SimStores {
                tensors: self.tensors.clone(),
                station: station.clone(),
            }),
            queue: Arc::new(SimQueue {
                queues: self.queues.clone(),
                station: station.clone(),
            }),
        }
    }

    /// Waits until what is watched is there.
    pub(crate) async fn wait_for(&self, watched: PollTarget<'_>) {
        match watched {
            PollTarget::Object { bucket, key } if !self.objects.has(bucket, key) => {
                let awaited = Awaited::Object(bucket.to_owned(), key.to_owned());
                self.watch.wait(awaited, 1).await;
            }
            PollTarget::Messages { queue, awaited } if self.queues.count(queue) < awaited => {
                let messages = Awaited::Messages(queue.to_owned());
                self.watch.wait(messages, awaited).await;
            }
            _ => {}
        }
    }
}

/// Every peer's tensor store as one station reaches it.
struct SimStores {
    tensors: Arc<Vec<Arc<Tensors>>>,
    station: Arc<Station>,
}

impl TensorStores for SimStores {
    fn of(&self, rank: usize) -> Option<Arc<dyn TensorStore>> {
        Some(Arc::new(SimTensors {
            tensors: self.tensors.get(rank)?.clone(),
            station: self.station.clone(),
        }))
    }
}
