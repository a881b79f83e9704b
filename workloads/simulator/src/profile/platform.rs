//! The parts of a platform profile. Every struct is generic in its numbers:
//! [`Constant`](super::Constant) in a file, `f64` in a simulation.

use epochcost_kernels::hash;
use serde::{Deserialize, Serialize};

use super::Constant;

/// Declares the parts of a profile, each with a way to turn all its numbers.
macro_rules! parts {
    ($($(#[$about:meta])* struct $name:ident {
        $($(#[$field_about:meta])* $kind:ident $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name<T> {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl<T> $name<T> {
            /// Every number turned by `turn`, which is given its path.
            fn map<U>(&self, path: &str, turn: &mut dyn FnMut(&str, &T) -> U) -> $name<U> {
                $name {
                    $($field: parts!(@map $kind self.$field, format!("{path}.{}", stringify!($field)), turn),)*
                }
            }
        }
    )*};
    (@map number $value:expr, $path:expr, $turn:expr) => { $turn(&$path, &$value) };
    (@map optional $value:expr, $path:expr, $turn:expr) => {
        $value.as_ref().map(|value| $turn(&$path, value))
    };
    (@map service $value:expr, $path:expr, $turn:expr) => { $value.map(&$path, $turn) };
    (@map points $value:expr, $path:expr, $turn:expr) => {
        $value
            .iter()
            .map(|point| point.map(&format!("{}.{}", $path, point.memory_mb), $turn))
            .collect()
    };
}

parts! {
    /// What any service costs in time.
    struct ServiceModel {
        /// From a request to the moment the service acts on it, seconds.
        number request_latency_s: T,
        /// Bandwidth of one transfer, bytes a second.
        number stream_bytes_per_s: T,
        /// Bandwidth that all transfers of one server share; null: no limit
        /// that any experiment reaches.
        optional server_bytes_per_s: Option<T>,
        /// Core-seconds of a shared host that a request takes.
        number host_core_s_per_request: T,
        /// Core-seconds of a shared host that a transferred byte takes.
        number host_core_s_per_byte: T,
    }

    /// The object store.
    struct ObjectStoreModel {
        /// Requests and transfers.
        service service: ServiceModel<T>,
        /// Largest object of one PUT, bytes.
        number object_bytes_limit: T,
    }

    /// The tensor store, one server a peer.
    struct TensorStoreModel {
        /// Requests and transfers.
        service service: ServiceModel<T>,
        /// Bytes of operands that the store's one thread reduces or steps a
        /// second.
        number arithmetic_bytes_per_s: T,
        /// Bytes of JSON text that it parses a second.
        number json_bytes_per_s: T,
        /// Largest value, bytes.
        number value_bytes_limit: T,
    }

    /// The message queue.
    struct QueueModel {
        /// Requests and transfers; also from a message's arrival to a waiting
        /// consumer.
        service service: ServiceModel<T>,
        /// Largest message, bytes.
        number message_bytes_limit: T,
    }

    /// Functions: AWS Lambda, or what stands in for it.
    struct FunctionModel {
        /// From a call to a function that has a warm sandbox to its first
        /// instruction, and back, seconds.
        number invoke_latency_s: T,
        /// Placing and starting a sandbox before its init, not billed, seconds.
        number cold_start_s: T,
        /// Init of the worker, billed, seconds.
        number init_s: T,
        /// Network bandwidth of one function by its memory size, interpolated.
        points bandwidth: Vec<BandwidthPoint<T>>,
        /// MB of memory that buy one vCPU.
        number mb_per_vcpu: T,
        /// Most vCPUs of a function.
        number vcpus_limit: T,
        /// Bytes of vector operands that one vCPU reads and writes a second.
        number arithmetic_bytes_per_s: T,
        /// Resident memory of a worker before it holds a model, MB.
        number resident_mb: T,
        /// Smallest memory size, MB.
        number memory_mb_minimum: T,
        /// Largest memory size, MB.
        number memory_mb_limit: T,
        /// Longest invocation, seconds.
        number timeout_s_limit: T,
        /// Invocations of an account that run at the same time.
        number concurrency_limit: T,
        /// Sandboxes that a function may gain in ten seconds.
        number scaling_per_10_s: T,
        /// Largest unzipped package, MB.
        number package_mb_limit: T,
    }

    /// Workflows: AWS Step Functions, or what stands in for it.
    struct WorkflowModel {
        /// From the end of a state to the call of the next, seconds.
        number transition_latency_s: T,
        /// Iterations of a map state that run at the same time.
        number map_concurrency_limit: T,
    }

    /// Instances.
    struct InstanceModel {
        /// From the request for an instance to its first instruction, seconds.
        number boot_s: T,
        /// Network bandwidth of one instance, bytes a second.
        number bytes_per_s: T,
        /// vCPUs.
        number vcpus: T,
        /// Bytes of vector operands that it reads and writes a second.
        number arithmetic_bytes_per_s: T,
        /// Shortest time that is billed, seconds.
        number minimum_billed_s: T,
    }

    /// One machine that everything shares.
    struct HostModel {
        /// Its cores, in those that work alone.
        number cores: T,
        /// Standard deviation of a computation's core time, relative to its
        /// mean, where there are more workers than cores.
        number compute_spread: T,
    }
}

/// A function's bandwidth at one memory size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandwidthPoint<T> {
    /// The memory size, MB.
    pub memory_mb: u32,
    /// Bytes a second.
    pub bytes_per_s: T,
}

impl<T> BandwidthPoint<T> {
    fn map<U>(&self, path: &str, turn: &mut dyn FnMut(&str, &T) -> U) -> BandwidthPoint<U> {
        BandwidthPoint {
            memory_mb: self.memory_mb,
            bytes_per_s: turn(path, &self.bytes_per_s),
        }
    }
}

/// A platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile<T> {
    /// Version of this format: 1.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// What it describes, and what it does not.
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
    /// The one machine that everything shares; null: everyone has their own.
    pub host: Option<HostModel<T>>,
    /// What a second of a function costs, where it is not Lambda's memory
    /// price: a dimension of the price book.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_price: Option<String>,
    /// What functions compute on.
    #[serde(default)]
    pub function_device: FunctionDevice,
}

/// What functions compute on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionDevice {
    /// vCPUs by memory size.
    #[default]
    Cpu,
    /// A GPU of their own.
    Cuda,
}

impl<T> Profile<T> {
    /// The same profile with every number turned by `turn`, which is given its
    /// path (`object_store.service.request_latency_s`).
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
            function_price: self.function_price.clone(),
            function_device: self.function_device,
        }
    }
}

impl Profile<Constant> {
    /// The stated values.
    pub fn values(&self) -> Profile<f64> {
        self.map(&mut |_, constant| constant.value)
    }

    /// A sample of the constants' ranges: each drawn on its own, by `seed` and
    /// its path.
    pub fn sampled(&self, seed: u64) -> Profile<f64> {
        self.map(&mut |path, constant| {
            let path = path
                .bytes()
                .fold(seed, |mixed, byte| hash::mix(mixed, byte.into()));
            constant.at(f64::from(hash::unit_f32(path)))
        })
    }

    /// Paths and constants, in order.
    pub fn constants(&self) -> Vec<(String, Constant)> {
        let mut all = Vec::new();
        self.map(&mut |path, constant| all.push((path.to_owned(), constant.clone())));
        all
    }

    /// What is wrong with it: the path of the constant and the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let constants = self.constants();
        let faults = constants
            .iter()
            .filter_map(|(path, constant)| Some((path.clone(), constant.fault()?)));
        let mut faults: Vec<_> = faults.collect();
        if self.schema != 1 {
            faults.push(("schema".into(), "this program reads version 1".into()));
        }
        let sizes = self.function.bandwidth.iter().map(|point| point.memory_mb);
        if !sizes.is_sorted() || self.function.bandwidth.is_empty() {
            let reason = "give one point at least, by rising memory size";
            faults.push(("function.bandwidth".into(), reason.into()));
        }
        faults
    }
}

impl FunctionModel<f64> {
    /// vCPUs of a function of `memory_mb`.
    pub fn vcpus(&self, memory_mb: u32) -> f64 {
        (f64::from(memory_mb) / self.mb_per_vcpu).min(self.vcpus_limit)
    }

    /// Network bandwidth of a function of `memory_mb`, bytes a second.
    pub fn bytes_per_s(&self, memory_mb: u32) -> f64 {
        let points = &self.bandwidth;
        let above = points.iter().position(|point| point.memory_mb >= memory_mb);
        match above {
            Some(0) => points[0].bytes_per_s,
            Some(index) => {
                let (low, high) = (&points[index - 1], &points[index]);
                let share = f64::from(memory_mb - low.memory_mb)
                    / f64::from(high.memory_mb - low.memory_mb);
                low.bytes_per_s + share * (high.bytes_per_s - low.bytes_per_s)
            }
            None => points
                .last()
                .map_or(f64::INFINITY, |point| point.bytes_per_s),
        }
    }
}

impl Profile<f64> {
    /// A platform on which nothing takes time but computing, and which has no
    /// limits: the ground on which to study one constant at a time.
    pub fn ideal() -> Self {
        let service = ServiceModel {
            request_latency_s: 0.0,
            stream_bytes_per_s: f64::INFINITY,
            server_bytes_per_s: None,
            host_core_s_per_request: 0.0,
            host_core_s_per_byte: 0.0,
        };
        Self {
            schema: 1,
            name: "ideal".into(),
            about: "Nothing takes time but computing, and nothing is limited.".into(),
            object_store: ObjectStoreModel {
                service: service.clone(),
                object_bytes_limit: f64::INFINITY,
            },
            tensor_store: TensorStoreModel {
                service: service.clone(),
                arithmetic_bytes_per_s: f64::INFINITY,
                json_bytes_per_s: f64::INFINITY,
                value_bytes_limit: f64::INFINITY,
            },
            queue: QueueModel {
                service,
                message_bytes_limit: f64::INFINITY,
            },
            function: FunctionModel {
                invoke_latency_s: 0.0,
                cold_start_s: 0.0,
                init_s: 0.0,
                bandwidth: vec![BandwidthPoint {
                    memory_mb: 128,
                    bytes_per_s: f64::INFINITY,
                }],
                mb_per_vcpu: 1769.0,
                vcpus_limit: f64::INFINITY,
                arithmetic_bytes_per_s: f64::INFINITY,
                resident_mb: 0.0,
                memory_mb_minimum: 0.0,
                memory_mb_limit: f64::INFINITY,
                timeout_s_limit: f64::INFINITY,
                concurrency_limit: f64::INFINITY,
                scaling_per_10_s: f64::INFINITY,
                package_mb_limit: f64::INFINITY,
            },
            workflow: WorkflowModel {
                transition_latency_s: 0.0,
                map_concurrency_limit: f64::INFINITY,
            },
            instance: InstanceModel {
                boot_s: 0.0,
                bytes_per_s: f64::INFINITY,
                vcpus: 1.0,
                arithmetic_bytes_per_s: f64::INFINITY,
                minimum_billed_s: 0.0,
            },
            host: None,
            function_price: None,
            function_device: FunctionDevice::Cpu,
        }
    }
}
