//! A round of aggregation by functions, alone: their inputs are in the object store, and the functions
//! are warm.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use epochcost_channels::Payload;
use futures_util::future::join_all;

use super::{BUCKET, Operation, Probe, ProbeClient, Timing};
use crate::channels::objects_of;
use crate::engine::locked;
use crate::network::Network;
use crate::profile::Profile;

/// Passes over a vector that adding another takes: two are read, one is written.
const ADD_PASSES: f64 = 3.0;
/// Passes over a vector that dividing it takes.
const DIVIDE_PASSES: f64 = 2.0;

/// Time between the rounds that a sandbox serves: the one that warms it, and the one that counts.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(10);

/// Functions that average objects, level by level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// Number of inputs of each function, by level.
    pub levels: Vec<Vec<usize>>,
    /// Bytes of an object.
    pub bytes: u64,
    /// Memory size of the functions, MB.
    pub memory_mb: u32,
    /// The client.
    pub client: ProbeClient,
}

/// Seconds of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aggregated {
    /// Gets of all inputs, one after another, over a connection that the sandbox has.
    pub read_s: f64,
    /// Additions, and the division.
    pub compute_s: f64,
    /// The put.
    pub write_s: f64,
}

impl Aggregated {
    /// Returns the function's duration, seconds.
    pub fn seconds(self) -> f64 {
        self.read_s + self.compute_s + self.write_s
    }
}

/// Times of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTimes {
    /// The functions, by level.
    pub levels: Vec<Vec<Aggregated>>,
    /// Seconds from the first call to the last function's end.
    pub wall_s: f64,
}

/// Runs a round of `round` on `profile`. Draws follow from the profile's seed.
///
/// Functions add with the profile's rate of vector arithmetic. Every function of a level is called at once,
/// by one caller, when the last of the level before has ended.
pub fn aggregate(profile: &Profile<f64>, round: &Round) -> RoundTimes {
    let probe = Probe {
        operation: Operation::Get,
        client: round.client,
        memory_mb: round.memory_mb,
        functions: 1,
        streams: 1,
        bytes: round.bytes,
        rounds: 1,
        is_new_connection: true,
    };
    let timing = Timing::new(profile, &probe);
    let most = round.levels.iter().map(Vec::len).max().unwrap_or_default();
    let credit = timing.profile.function.network_credit.clone();
    let networks = (0..most).map(|_| Arc::new(Network::new(credit.as_ref(), 0)));
    let networks: Arc<[Arc<Network>]> = networks.collect();
    let times: Arc<Mutex<Option<RoundTimes>>> = Arc::default();
    let (engine, noted, round) = (timing.engine.clone(), times.clone(), round.clone());
    let running = engine.spawn(async move {
        timing.round(&round, &networks, 0).await;
        timing.engine.sleep(BETWEEN_ROUNDS).await;
        let times = timing.round(&round, &networks, 1).await;
        *locked(&noted) = Some(times);
    });
    // Nothing waits for another round: the run cannot come to a standstill.
    let _ = engine.run(running);
    let times = locked(&times).take();
    times.unwrap_or_else(|| RoundTimes {
        levels: Vec::new(),
        wall_s: f64::NAN,
    })
}

impl Timing {
    /// Runs round number `number` on sandboxes with these networks.
    async fn round(&self, round: &Round, networks: &[Arc<Network>], number: u64) -> RoundTimes {
        let began = self.now_s();
        let mut levels = Vec::with_capacity(round.levels.len());
        for (level, functions) in round.levels.iter().enumerate() {
            let functions = functions.iter().zip(networks).enumerate();
            let functions = functions.map(|(index, (inputs, network))| {
                let stream = (number << 40) | ((level as u64) << 20) | index as u64;
                self.aggregate(round, *inputs, network, stream)
            });
            levels.push(join_all(functions).await);
        }
        RoundTimes {
            levels,
            wall_s: self.now_s() - began,
        }
    }

    /// Calls one function, and times it.
    async fn aggregate(
        &self,
        round: &Round,
        inputs: usize,
        network: &Arc<Network>,
        stream: u64,
    ) -> Aggregated {
        self.starts.call(&self.profile, 1).await;
        let station = Arc::new(self.station_on(stream, network.clone()));
        let objects = objects_of(&station);
        let mut times = Aggregated::default();
        let vcpus = station.vcpus().min(1.0);
        let rate = self.profile.function.arithmetic_bytes_per_s;
        let passes = |passes: f64| passes * round.bytes as f64 / rate;
        for input in 0..inputs {
            let began = self.now_s();
            // Sizes in memory are never refused.
            let _ = objects.get(BUCKET, "object").await;
            times.read_s += self.now_s() - began;
            let last = if input + 1 == inputs {
                DIVIDE_PASSES
            } else {
                0.0
            };
            let core_s = passes(ADD_PASSES + last);
            let began = self.now_s();
            station.compute(core_s, core_s / vcpus).await;
            times.compute_s += self.now_s() - began;
        }
        let body = Payload::Phantom { bytes: round.bytes };
        let began = self.now_s();
        let _ = objects.put(BUCKET, &format!("mean-{stream}"), body).await;
        times.write_s = self.now_s() - began;
        times
    }
}
