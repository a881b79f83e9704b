//! Redis, RabbitMQ and an S3-compatible server: started once per run, or external,
//! with separate names for each trial.

mod external;
mod programs;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::client::{clear, create_bucket, open_objects};
use epochcost_channels::{ChannelError, Endpoint, Scope};
use epochcost_environment::worker as variable;
use epochcost_spec::chain::chain;
use epochcost_spec::metering::Server;
use epochcost_spec::rows::Row;
use epochcost_systems::{DATASET_BUCKET, DataLayout, dataset_objects};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::sleep;
use uuid::Uuid;

use self::servers::{Addresses, Servers};
use super::failed;
use crate::{PlatformError, TrialData};

pub(in crate::local) use self::programs::check;
pub use self::programs::{object_server, redis_module, requirements};

/// Polling interval of whether a server has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The real services of a run.
#[derive(Debug)]
pub(in crate::local) struct Real {
    servers: Arc<Mutex<Servers>>,
}

/// The services of one trial.
pub(in crate::local) struct Trial {
    row: Row,
    /// Of each training.
    scopes: Vec<Scope>,
    addresses: Addresses,
    servers: OwnedMutexGuard<Servers>,
}

impl Real {
    /// Finds or builds what the rows need, and starts what every trial needs.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] with what is missing and how to get it;
    /// [`PlatformError::Service`] when a server does not start.
    pub(in crate::local) async fn start(rows: &[Row]) -> Result<Self, PlatformError> {
        let rows = rows.to_vec();
        let servers = blocking(move || {
            let mut servers = Servers::prepare(&rows)?;
            servers.start_shared()?;
            Ok(servers)
        })
        .await?;
        Ok(Self {
            servers: Arc::new(Mutex::new(servers)),
        })
    }

    /// Returns the servers that trials use.
    pub(in crate::local) async fn used(&self) -> Vec<Server> {
        let servers = self.servers.clone().lock_owned().await;
        let used = blocking(move || Ok(servers.used())).await;
        used.unwrap_or_default()
    }

    /// Returns the services of one trial, with its dataset stored in `layout`.
    pub(super) async fn trial(
        &self,
        row: &Row,
        layout: DataLayout,
        data: &TrialData,
    ) -> Result<Trial, PlatformError> {
        // Part of every name, so that no trial meets what another one left.
        let scope = |_| format!("epochcost-{}", Uuid::new_v4().simple()).parse();
        let scopes = (0..row.jobs).map(scope).collect::<Result<_, _>>();
        let scopes = scopes.map_err(failed("name the trial's keys"))?;
        let mut servers = self.servers.clone().lock_owned().await;
        let wanted = row.clone();
        let (servers, addresses) = blocking(move || {
            let addresses = servers.start(&wanted)?;
            Ok((servers, addresses))
        })
        .await?;
        let trial = Trial {
            row: row.clone(),
            scopes,
            addresses,
            servers,
        };
        trial.put(layout, data).await?;
        Ok(trial)
    }
}

impl Trial {
    /// Puts the dataset into the object store, over the wire.
    async fn put(&self, layout: DataLayout, data: &TrialData) -> Result<(), PlatformError> {
        let endpoint: Endpoint = self.addresses.objects.parse().map_err(failed(OBJECTS))?;
        create_bucket(&endpoint).await.map_err(failed(OBJECTS))?;
        let objects = dataset_objects(&self.row.job, layout, &data.train, &data.test);
        let objects = objects.map_err(failed(OBJECTS))?;
        for scope in &self.scopes {
            let store = open_objects(&endpoint, scope).map_err(failed(OBJECTS))?;
            for (key, object) in &objects {
                let put = store.put(DATASET_BUCKET, key, object.clone().into());
                put.await.map_err(failed(OBJECTS))?;
            }
        }
        Ok(())
    }

    /// Returns their addresses and the scope of a training as environment variables of workers.
    pub(super) fn environment(&self, training: usize) -> Vec<(String, String)> {
        let scope = self.scopes.get(training).map(Scope::to_string);
        [
            (variable::OBJECTS, self.addresses.objects.clone()),
            (variable::TENSORS, self.addresses.tensors.join(",")),
            (variable::QUEUE, self.addresses.queue.clone()),
            (variable::SCOPE, scope.unwrap_or_default()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Waits until a server has ended and returns a message; for ever where none does.
    pub(super) async fn broken(&mut self) -> String {
        loop {
            if let Some(which) = self.servers.ended(&self.row) {
                return which;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Deletes what the trial left in the stores. Its queues are deleted by the
    /// broker when they have been unused for a while. A server that does not answer is left
    /// out: the next trial gets another one.
    pub(super) async fn end(self) -> Result<(), String> {
        let (row, servers) = (self.row, self.servers);
        let silent = blocking(move || Ok(servers.silent(&row))).await;
        let silent = silent.map_err(|error| chain(&error))?;
        let Addresses {
            objects, tensors, ..
        } = self.addresses;
        let mut cleared = match silent.as_slice() {
            [] => Ok(()),
            [server, ..] => Err(format!("{} does not answer", server.name)),
        };
        for address in tensors.into_iter().chain([objects]) {
            if silent.iter().any(|server| server.address == address) {
                continue;
            }
            // A store that has ended does not keep the others from being cleared.
            let clearing = async {
                let endpoint: Endpoint = address.parse()?;
                for scope in &self.scopes {
                    clear(&endpoint, scope).await?;
                }
                Ok(())
            };
            let clearing: Result<(), ChannelError> = clearing.await;
            cleared = cleared.and(clearing.map_err(|error| chain(&error)));
        }
        cleared
    }
}

const OBJECTS: &str = "the object store";

/// Starting servers and building programs takes seconds.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PlatformError> + Send + 'static,
) -> Result<T, PlatformError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(failed("the servers"))?
}
