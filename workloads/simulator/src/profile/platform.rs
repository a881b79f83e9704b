//! A platform profile: its parts, its values and its draws.

use epochcost_kernels::hash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{
    FunctionModel, HostModel, InstanceModel, InterpretedModel, LevelModel, ObjectStoreModel,
    QueueModel, TensorStoreModel, WorkflowModel,
};
use super::{Constant, Spread, levels};
use crate::draws::seed_of;

/// A platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile<T> {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    pub schema: u32,
    /// Name of the profile.
    pub name: String,
    /// Description: what is modelled, and what is not.
    pub about: String,
    /// The object store.
    pub object_store: ObjectStoreModel<T>,
    /// The tensor store.
    pub tensor_store: TensorStoreModel<T>,
    /// The message queue.
    pub queue: QueueModel<T>,
    /// Functions.
    pub function: FunctionModel<T>,
    /// Workflows.
    pub workflow: WorkflowModel<T>,
    /// Instances.
    pub instance: InstanceModel<T>,
    /// The machine that all workers and services share; null if each has its own.
    pub host: Option<HostModel<T>>,
    /// What an interpreted client takes in addition; none if only a compiled one is
    /// described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreted: Option<InterpretedModel<T>>,
    /// Differences between runs, which draws of the ranges add; none if the ranges hold them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<LevelModel<T>>,
    /// The client that functions use, set by an experiment or a row.
    #[serde(default, skip_serializing_if = "Client::is_default")]
    pub client: Client,
    /// Seed of the draws of single requests; none: each takes the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = u64::MAX))]
    pub draws: Option<u64>,
    /// Dimension of the price book for a second of a function, where it is not
    /// Lambda's price of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_price: Option<String>,
    /// Device of functions.
    #[serde(default)]
    pub function_device: FunctionDevice,
    /// Whether functions are in a VPC, where they share `function.vpc_bytes_per_s`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub functions_in_vpc: bool,
}

/// How the program of a function is executed, which decides what it does with each
/// request and byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Client {
    /// Machine code: the service's latency and bandwidth are the client's.
    #[default]
    Compiled,
    /// An interpreter, such as Python with boto3 and NumPy.
    Interpreted,
    /// As `interpreted`, in a program that makes a client of the object store, and so a
    /// connection, for every read, list and delete, and deletes one object per request.
    InterpretedPerRequest,
}

impl Client {
    /// Returns whether it is the default one.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The device on which functions compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FunctionDevice {
    /// vCPUs by memory size.
    #[default]
    Cpu,
    /// One GPU per function.
    Cuda,
}

impl<T> Profile<T> {
    /// Returns the profile with every number converted by `turn`, which receives the
    /// number's path (`object_store.service.request_latency_s`).
    pub fn map<U>(&self, turn: &mut dyn FnMut(&str, &T) -> U) -> Profile<U> {
        Profile {
            schema: self.schema,
            name: self.name.clone(),
            about: self.about.clone(),
            object_store: self.object_store.map("object_store", turn),
            tensor_store: self.tensor_store.map("tensor_store", turn),
            queue: self.queue.map("queue", turn),
            function: self.function.map("function", turn),
            workflow: self.workflow.map("workflow", turn),
            instance: self.instance.map("instance", turn),
            host: self.host.as_ref().map(|host| host.map("host", turn)),
            interpreted: (self.interpreted.as_ref()).map(|model| model.map("interpreted", turn)),
            levels: (self.levels.as_ref()).map(|model| model.map("levels", turn)),
            client: self.client,
            draws: self.draws,
            function_price: self.function_price.clone(),
            function_device: self.function_device,
            functions_in_vpc: self.functions_in_vpc,
        }
    }
}

impl Profile<Constant> {
    /// Returns the profile of the stated values.
    pub fn values(&self) -> Profile<f64> {
        self.map(&mut |_, constant| constant.value)
    }

    /// Returns the profile of the stated values, on which every request is drawn from
    /// its spread by `seed`.
    pub fn drawn(&self, seed: u64) -> Profile<f64> {
        Profile {
            draws: Some(seed),
            ..self.values()
        }
    }

    /// Returns a sample of the constants' ranges: each drawn about its stated value on its own, by
    /// `seed` and its path, and on top of it the levels of a run. Single requests are drawn from
    /// their spreads.
    pub fn sampled(&self, seed: u64) -> Profile<f64> {
        let sampled = self
            .map(&mut |path, constant| constant.at(f64::from(hash::unit_f32(seed_of(seed, path)))));
        let mut sampled = Profile {
            draws: Some(seed),
            ..sampled
        };
        levels::apply(&mut sampled, seed);
        sampled
    }

    /// Returns paths and constants, in order.
    pub fn constants(&self) -> Vec<(String, Constant)> {
        let mut all = Vec::new();
        self.map(&mut |path, constant| all.push((path.to_owned(), constant.clone())));
        all
    }

    /// Returns the mistakes in the profile: the path of the constant and the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let constants = self.constants();
        let faults = constants
            .iter()
            .filter_map(|(path, constant)| Some((path.clone(), constant.fault()?)));
        let mut faults: Vec<_> = faults.collect();
        if self.schema != 1 {
            faults.push(("schema".into(), "this program reads version 1".into()));
        }
        for (path, spread) in self.spreads() {
            faults.extend(spread.fault().map(|fault| (path.to_owned(), fault)));
        }
        for (path, constant) in &constants {
            faults.extend(too_slow(path, constant.range().0).map(|fault| (path.clone(), fault)));
        }
        let sizes = self.function.bandwidth.iter().map(|point| point.memory_mb);
        if !sizes.is_sorted() || self.function.bandwidth.is_empty() {
            let reason = "give one point at least, by rising memory size";
            faults.push(("function.bandwidth".into(), reason.into()));
        }
        faults
    }
}

/// Smallest bandwidth that a profile may state, bytes per second: slower than any network
/// that a system was run on, and far above what would never end.
const LEAST_BYTES_PER_S: f64 = 1000.0;

/// Returns why `value` cannot be the constant `path`, if that is a bandwidth: nothing
/// ends at 0 bytes per second.
pub fn too_slow(path: &str, value: f64) -> Option<String> {
    let is_rate = path.contains("bytes_per_s") || path.starts_with("function.bandwidth");
    (is_rate && value < LEAST_BYTES_PER_S).then(|| {
        format!(
            "{value} bytes per second never end: give at least {LEAST_BYTES_PER_S:.0}, or a \
             large value for what should take no time"
        )
    })
}

impl Profile<f64> {
    /// Returns the bandwidth that all functions share, if they are in a VPC.
    pub(crate) fn shared_by_functions(&self) -> Option<f64> {
        self.function
            .vpc_bytes_per_s
            .filter(|_| self.functions_in_vpc)
    }

    /// Returns what the client of functions takes in addition, if it is interpreted and the
    /// profile describes one.
    pub fn interpreted(&self) -> Option<InterpretedModel<f64>> {
        let model = self.interpreted.as_ref();
        let client_core_s = model.and_then(|model| model.client_core_s);
        let client_core_s = match self.client {
            Client::Compiled => return None,
            Client::Interpreted => None,
            Client::InterpretedPerRequest => Some(client_core_s.unwrap_or(0.0)),
        };
        model.map(|model| InterpretedModel {
            client_core_s,
            ..model.clone()
        })
    }
}

impl<T> Profile<T> {
    /// Returns the paths and spreads of requests, starts and computations.
    pub fn spreads(&self) -> Vec<(&'static str, &Spread)> {
        let (objects, function) = (&self.object_store.service, &self.function);
        let all = [
            ("object_store.service.read_spread", &objects.read_spread),
            ("object_store.service.write_spread", &objects.write_spread),
            (
                "object_store.service.read_stream_spread",
                &objects.read_stream_spread,
            ),
            (
                "object_store.service.write_stream_spread",
                &objects.write_stream_spread,
            ),
            (
                "interpreted.call_spread",
                match &self.interpreted {
                    Some(client) => &client.call_spread,
                    None => &None,
                },
            ),
            ("function.invoke_spread", &function.invoke_spread),
            ("function.cold_start_spread", &function.cold_start_spread),
            ("function.init_spread", &function.init_spread),
            ("function.compute_spread", &function.compute_spread),
        ];
        let known = all.into_iter();
        known
            .filter_map(|(path, spread)| Some((path, spread.as_ref()?)))
            .collect()
    }
}
