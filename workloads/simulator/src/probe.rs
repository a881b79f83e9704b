//! Single operations in virtual time, for comparison with measurements of them: the
//! stations, channels and starts are those of a simulated trial.

mod round;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use epochcost_channels::Payload;
use epochcost_kernels::hash;
use epochcost_systems::ArithmeticMeter;
use futures_util::future::{join, join_all};
use serde::{Deserialize, Serialize};

use crate::channels::{objects_of, queue_of};
use crate::draws::Draws;
use crate::engine::{Engine, Handle, locked};
use crate::functions::Starts;
use crate::network::{Direction, Network, Peer};
use crate::population::Population;
use crate::profile::{Client, Profile, ServiceModel};
use crate::services::{Backend, Services};
use crate::station::{Chance, Station, StationSpec, Work};

pub use self::round::{Aggregated, Round, RoundTimes, aggregate};

const BUCKET: &str = "probe";

/// Time between two messages, in which the consumer begins to wait.
const BETWEEN_MESSAGES: Duration = Duration::from_secs(1);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A read from the object store by a function.
    Get,
    /// A write to the object store by a function.
    Put,
    /// A read from the object store by an instance.
    InstanceGet,
    /// A message over the queue from one instance to another that waits for it.
    Deliver,
    /// Bulk data to a function, from peers that are never the limit.
    Download,
    /// Bulk data to a function in a VPC.
    VpcDownload,
    /// Bulk data from a function.
    Upload,
    /// Calls to warm sandboxes: from the first call to the start of each.
    WarmStart,
    /// A call to a sandbox that has to be made.
    ColdStart,
    /// Placing and starting a sandbox, without its init.
    Sandbox,
    /// Init of a sandbox.
    Init,
    /// A computation of one second.
    Compute,
}

/// The client of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeClient {
    /// A compiled program.
    Compiled,
    /// An interpreted program that makes vectors of what it reads.
    Interpreted,
    /// An interpreted program that never holds what passes through it.
    Streaming,
}

/// Operations to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    /// What is timed.
    pub operation: Operation,
    /// The client.
    pub client: ProbeClient,
    /// Memory size of the functions, MB.
    pub memory_mb: u32,
    /// Functions or instances at the same time.
    pub functions: usize,
    /// Streams of each at the same time; bulk data is divided between them.
    pub streams: usize,
    /// Bytes of a payload.
    pub bytes: u64,
    /// Operations of each stream, one after another.
    pub rounds: usize,
    /// Whether the first operation of a function, which opens a connection, counts.
    pub is_new_connection: bool,
}

/// Returns the seconds of every operation of `probe` on `profile`. Draws follow from the
/// profile's seed.
pub fn probe(profile: &Profile<f64>, probe: &Probe) -> Vec<f64> {
    let timing = Arc::new(Timing::new(profile, probe));
    let engine = timing.engine.clone();
    let functions = (0..probe.functions).map(|function| {
        let timing = timing.clone();
        engine.spawn(async move { timing.function(function as u64).await })
    });
    let functions: Vec<Handle<()>> = functions.collect();
    // Nothing waits for another: the run cannot come to a standstill.
    let _ = engine.run(join_all(functions));
    std::mem::take(&mut locked(&timing.seconds))
}

/// A probe under way.
struct Timing {
    services: Services,
    starts: Starts,
    engine: Engine,
    profile: Profile<f64>,
    probe: Probe,
    seconds: Mutex<Vec<f64>>,
}

impl Timing {
    /// Makes the services and starts of a probe, with one object in the store.
    fn new(profile: &Profile<f64>, probe: &Probe) -> Self {
        let profile = Profile {
            // Nothing else takes cores of a host.
            host: None,
            functions_in_vpc: probe.operation == Operation::VpcDownload,
            client: match probe.client {
                ProbeClient::Compiled => Client::Compiled,
                ProbeClient::Interpreted | ProbeClient::Streaming => Client::Interpreted,
            },
            ..profile.clone()
        };
        let engine = Engine::default();
        let timing = Self {
            services: Services::new(&engine, &profile, 1, 1, false, Population::everyone(1)),
            starts: Starts::new(&engine, &profile, true),
            engine: engine.clone(),
            profile,
            probe: *probe,
            seconds: Mutex::default(),
        };
        let body = Payload::Phantom { bytes: probe.bytes };
        let objects = &timing.services.objects;
        objects.store.store(BUCKET, "object", body);
        timing
    }

    fn now_s(&self) -> f64 {
        self.engine.now() as f64 * 1e-9
    }

    fn note(&self, seconds: f64) {
        locked(&self.seconds).push(seconds);
    }

    /// Times the operations of one function.
    async fn function(&self, function: u64) {
        match self.probe.operation {
            Operation::Get | Operation::Put | Operation::InstanceGet => {
                self.requests(function).await;
            }
            Operation::Deliver => self.messages(function).await,
            Operation::Download | Operation::VpcDownload | Operation::Upload => {
                self.bulk(function).await;
            }
            Operation::WarmStart if self.probe.functions > 1 => {
                self.starts.call(&self.profile, 1).await;
                self.note(self.now_s());
            }
            Operation::WarmStart => {
                for _ in 0..self.probe.rounds {
                    let began = self.now_s();
                    self.starts.call(&self.profile, 1).await;
                    self.note(self.now_s() - began);
                }
            }
            Operation::ColdStart | Operation::Sandbox | Operation::Init => {
                for _ in 0..self.probe.rounds {
                    self.cold_start().await;
                }
            }
            Operation::Compute => {
                for _ in 0..self.probe.rounds {
                    let station = self.station(function);
                    let began = self.now_s();
                    station.compute(1.0, 1.0).await;
                    self.note(self.now_s() - began);
                }
            }
        }
    }

    async fn cold_start(&self) {
        let (placed_s, init_s) = self.starts.sandbox_s(&self.profile);
        match self.probe.operation {
            Operation::Sandbox => self.note(placed_s),
            Operation::Init => self.note(init_s),
            _ => {
                let began = self.now_s();
                self.starts.call(&self.profile, 1).await;
                self.note(self.now_s() - began + placed_s + init_s);
            }
        }
    }

    /// Times requests to the object store.
    async fn requests(&self, function: u64) {
        let station = Arc::new(self.station(function));
        let objects = objects_of(&station);
        if !self.probe.is_new_connection {
            let _ = objects.get(BUCKET, "none").await;
        }
        let streams = (0..self.probe.streams).map(|stream| {
            let objects = objects.clone();
            async move {
                for _ in 0..self.probe.rounds {
                    let began = self.now_s();
                    let body = Payload::Phantom {
                        bytes: self.probe.bytes,
                    };
                    // Sizes in memory are never refused.
                    let _ = match self.probe.operation {
                        Operation::Put => {
                            let key = format!("put-{stream}");
                            objects.put(BUCKET, &key, body).await
                        }
                        _ => objects.get(BUCKET, "object").await.map(drop),
                    };
                    self.note(self.now_s() - began);
                }
            }
        });
        join_all(streams).await;
    }

    /// Times messages from the beginning of their publish until their consumer has them.
    async fn messages(&self, pair: u64) {
        let queue_of = |instance: u64| queue_of(&Arc::new(self.station(2 * pair + instance)));
        let (publisher, consumer) = (queue_of(0), queue_of(1));
        let name = format!("probe-{pair}");
        for _ in 0..self.probe.rounds {
            let begins = self.now_s() + BETWEEN_MESSAGES.as_secs_f64();
            let message = Payload::Phantom {
                bytes: self.probe.bytes,
            };
            // Sizes in memory are never refused.
            let publishing = async {
                self.engine.sleep(BETWEEN_MESSAGES).await;
                let _ = publisher.publish(&name, message).await;
            };
            let consuming = async {
                let _ = consumer.consume(&name, Duration::MAX).await;
                self.note(self.now_s() - begins);
            };
            join(publishing, consuming).await;
        }
    }

    /// Times bulk data over all streams of a function.
    async fn bulk(&self, function: u64) {
        let station = self.station(function);
        let unlimited = Arc::new(ServiceModel::unlimited());
        let server = Backend::new(&self.engine, Peer::Objects, unlimited);
        let direction = match self.probe.operation {
            Operation::Upload => Direction::Write,
            _ => Direction::Read,
        };
        let began = self.now_s();
        let each = self.probe.bytes / self.probe.streams as u64;
        let streams = 0..self.probe.streams;
        join_all(streams.map(|_| station.transfer(&server, 1, each, direction))).await;
        self.note(self.now_s() - began);
    }

    /// Makes the station of a function, or of an instance.
    fn station(&self, function: u64) -> Station {
        let credit = self.profile.function.network_credit.as_ref();
        let credit = credit.filter(|_| !self.is_instance());
        self.station_on(function, Arc::new(Network::new(credit, 0)))
    }

    fn is_instance(&self) -> bool {
        matches!(
            self.probe.operation,
            Operation::InstanceGet | Operation::Deliver
        )
    }

    /// Makes a station on a sandbox whose network is `network`.
    fn station_on(&self, function: u64, network: Arc<Network>) -> Station {
        let (profile, probe) = (&self.profile, &self.probe);
        let (model, memory_mb) = (&profile.function, probe.memory_mb);
        let is_instance = self.is_instance();
        let interpreted = profile.interpreted();
        let (vcpus, bytes_per_s) = if is_instance {
            (profile.instance.vcpus, profile.instance.bytes_per_s)
        } else {
            (model.vcpus(memory_mb), model.bytes_per_s(memory_mb))
        };
        let spec = StationSpec {
            vcpus,
            arithmetic_bytes_per_s: model.arithmetic_bytes_per_s,
            device: None,
            bytes_per_s,
            network,
            interpreted: interpreted.filter(|_| probe.client != ProbeClient::Compiled),
            has_codec: probe.client == ProbeClient::Interpreted,
            shares_gpu: false,
            is_function: !is_instance,
            compute_spread: model.compute_spread.clone(),
        };
        let draws = Draws::new(profile.draws, hash::mix(1, function));
        Station::new(
            &self.engine,
            &self.services,
            &ArithmeticMeter::default(),
            spec,
            Chance::of(draws),
            Work::default(),
        )
    }
}
