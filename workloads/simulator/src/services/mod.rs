//! The services of a trial, which all its stations share.

mod backend;
mod objects;
mod queue;
mod tensors;

use std::sync::{Arc, Mutex};

use epochcost_channels::ChannelError;
use epochcost_systems::{BrokenServer, PollTarget, Server};

pub(crate) use backend::Backend;
pub(crate) use objects::Objects;
pub(crate) use queue::Queues;
pub(crate) use tensors::Tensors;

use crate::engine::{Engine, locked};
use crate::limits::{Infeasible, Limit};
use crate::notify::{Awaited, Notify};
use crate::population::Population;
use crate::profile::Profile;
use crate::resource::Resource;

/// The services of one trial. Clones share them.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) objects: Arc<Objects>,
    /// Stores of the peers, by rank.
    pub(crate) tensors: Arc<Vec<Arc<Tensors>>>,
    /// Number of them that the system uses, those of the lowest ranks.
    used_stores: usize,
    pub(crate) queues: Arc<Queues>,
    /// The cores of the host, if all stations share one.
    pub(crate) host: Option<Resource>,
    /// The network that all functions share, if they are in a VPC.
    pub(crate) vpc: Option<Resource>,
    notify: Notify,
    infeasible: Arc<Mutex<Option<Infeasible>>>,
    /// Whether polls that would find nothing may be left out.
    pub(crate) leaves_out_polls: bool,
    /// Workers that are simulated.
    pub(crate) population: Arc<Population>,
}

impl Services {
    /// Makes one object store, one queue, and a tensor store for each of `peers`. Stores of peers
    /// for which one stands have the same content, and a network of their own.
    pub(crate) fn new(
        engine: &Engine,
        profile: &Profile<f64>,
        peers: usize,
        used_stores: usize,
        simulates_every_poll: bool,
        population: Population,
    ) -> Self {
        let notify = Notify::default();
        let host = profile.host.as_ref();
        let host = host.map(|host| Resource::new(engine, host.cores));
        let model = Arc::new(profile.tensor_store.clone());
        let service = Arc::new(model.service.clone());
        let contents: Vec<_> = (0..peers)
            .map(|peer| (population.stands_for(peer) > 0).then(Arc::default))
            .collect();
        let tensors = (0..peers).map(|peer| {
            let content = contents.get(population.of_rank(peer)).cloned().flatten();
            let content = content.unwrap_or_default();
            Arc::new(Tensors::new(
                engine,
                host.as_ref(),
                &model,
                &service,
                content,
            ))
        });
        let shared = profile.shared_by_functions();
        Self {
            vpc: shared.map(|bytes_per_s| Resource::new(engine, bytes_per_s)),
            // On a shared host, polls that find nothing take cores from others.
            leaves_out_polls: host.is_none() && !simulates_every_poll,
            objects: Arc::new(Objects::new(engine, &profile.object_store, &notify)),
            tensors: Arc::new(tensors.collect()),
            used_stores,
            queues: Arc::new(Queues::new(engine, &profile.queue, &notify)),
            host,
            notify,
            infeasible: Arc::default(),
            population: Arc::new(population),
        }
    }

    /// Returns the same servers with names of another training; its workers are all simulated.
    pub(crate) fn beside(&self) -> Self {
        let notify = Notify::default();
        let tensors = self.tensors.iter();
        let tensors = tensors.map(|tensors| Arc::new(tensors.beside()));
        Self {
            objects: Arc::new(self.objects.beside(&notify)),
            tensors: Arc::new(tensors.collect()),
            queues: Arc::new(self.queues.beside(&notify)),
            notify,
            ..self.clone()
        }
    }

    /// Breaks a server; a tensor store is that of peer `rank`, modulo those that are used.
    pub(crate) fn suffer(&self, broken: BrokenServer, rank: usize, engine: &Engine) {
        let server = match broken.which {
            Server::ObjectStore => Some(&self.objects.server),
            Server::TensorStore => {
                let store = rank.checked_rem(self.used_stores);
                let store = store.and_then(|store| self.tensors.get(store));
                store.map(|store| &store.server)
            }
            Server::Queue => Some(&self.queues.server),
        };
        if let Some(server) = server {
            server.suffer(broken.does, engine);
        }
    }

    /// Records a limit that was hit; the first one counts.
    pub(crate) fn hit(&self, infeasible: Infeasible) {
        locked(&self.infeasible).get_or_insert(infeasible);
    }

    /// Returns the first limit that was hit.
    pub(crate) fn infeasible(&self) -> Option<Infeasible> {
        locked(&self.infeasible).clone()
    }

    /// Refuses a value above the service's limit, and records that limit.
    ///
    /// # Errors
    /// [`ChannelError::Refused`] when `bytes` are more than `limit`.
    pub(crate) fn check_size(
        &self,
        server: &Backend,
        bytes: u64,
        limit: f64,
    ) -> Result<(), ChannelError> {
        if bytes as f64 <= limit {
            return Ok(());
        }
        let service = server.peer.name();
        let reason = format!("{bytes} bytes are more than its limit of {limit:.0}");
        self.hit(Infeasible {
            limit: Limit::MessageSize,
            reason: format!("a value for the {service}: {reason}"),
        });
        Err(ChannelError::refused(service, "a write", reason))
    }

    /// Waits until what `watched` names exists.
    pub(crate) async fn wait_for(&self, watched: PollTarget<'_>) {
        match watched {
            PollTarget::Object { bucket, key } if !self.objects.store.has(bucket, key) => {
                let awaited = Awaited::Object(bucket.to_owned(), key.to_owned());
                self.notify.notified(awaited, 1).await;
            }
            PollTarget::Messages { queue, awaited } if self.queues.count(queue) < awaited => {
                let messages = Awaited::Messages(queue.to_owned());
                self.notify.notified(messages, awaited).await;
            }
            _ => {}
        }
    }
}
