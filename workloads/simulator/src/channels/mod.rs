//! Channels whose requests take virtual time: a station's latency and share of
//! bandwidth around stores in memory.

mod links;
mod objects;
mod queue;
mod tensors;

use std::sync::Arc;

use epochcost_channels::{Links, ObjectStore, Queue, TensorStore};
use epochcost_systems::{Channels, TensorStores};

use crate::services::Tensors;
use crate::station::Station;
use links::SimLinks;
use objects::SimObjects;
use queue::SimQueue;
use tensors::SimTensors;

/// Makes the channels over which `station` reaches the trial's services.
pub(crate) fn channels(station: &Arc<Station>) -> Channels {
    let services = &station.services;
    Channels {
        objects: objects_of(station),
        tensors: Arc::new(SimStores {
            tensors: services.tensors.clone(),
            station: station.clone(),
        }),
        queue: queue_of(station),
        links: Links::new(Arc::new(SimLinks {
            station: station.clone(),
        })),
    }
}

/// Makes the channel over which `station` reaches the object store.
pub(crate) fn objects_of(station: &Arc<Station>) -> ObjectStore {
    ObjectStore::new(Arc::new(SimObjects {
        objects: station.services.objects.clone(),
        station: station.clone(),
    }))
}

/// Makes the channel over which `station` reaches the queue.
pub(crate) fn queue_of(station: &Arc<Station>) -> Queue {
    Queue::new(Arc::new(SimQueue {
        queues: station.services.queues.clone(),
        station: station.clone(),
    }))
}

/// Every peer's tensor store, reached from one station.
struct SimStores {
    tensors: Arc<Vec<Arc<Tensors>>>,
    station: Arc<Station>,
}

impl TensorStores for SimStores {
    fn of(&self, rank: usize) -> Option<TensorStore> {
        Some(TensorStore::new(Arc::new(SimTensors {
            tensors: self.tensors.get(rank)?.clone(),
            station: self.station.clone(),
        })))
    }
}
