//! Parts of a platform profile. Every struct is generic in its numbers:
//! [`Constant`](super::Constant) in a file, `f64` in a simulation.

use epochcost_kernels::hash;
use serde::{Deserialize, Serialize};

use super::Constant;

/// Declares the parts of a profile, each with a `map` over all its numbers.
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
            /// Returns the part with every number converted by `turn`, which receives
            /// the number's path.
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
    /// Latencies and bandwidths of a service.
    struct ServiceModel {
        /// Time from a request to the moment the service acts on it, seconds.
        number request_latency_s: T,
        /// Bandwidth of one transfer, bytes per second.
        number stream_bytes_per_s: T,
        /// Bandwidth that all transfers of one server share, bytes per second; null
        /// where no experiment reaches the limit.
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

    /// The tensor store, one server per peer.
    struct TensorStoreModel {
        /// Requests and transfers.
        service service: ServiceModel<T>,
        /// Bytes of operands per second that the store's one thread reduces or steps.
        number arithmetic_bytes_per_s: T,
        /// Bytes of JSON text per second that the store parses.
        number json_bytes_per_s: T,
        /// Largest value, bytes.
        number value_bytes_limit: T,
    }

    /// The message queue.
    struct QueueModel {
        /// Requests and transfers; also the time from a message's arrival to a waiting
        /// consumer.
        service service: ServiceModel<T>,
        /// Largest message, bytes.
        number message_bytes_limit: T,
    }

    /// Functions: AWS Lambda, or its replacement.
    struct FunctionModel {
        /// Time from a call to the first instruction in a warm sandbox, and back,
        /// seconds.
        number invoke_latency_s: T,
        /// Time of placing and starting a sandbox before its init, not billed, seconds.
        number cold_start_s: T,
        /// Time of the worker's init, billed, seconds.
        number init_s: T,
        /// Network bandwidth of one function by its memory size, interpolated.
        points bandwidth: Vec<BandwidthPoint<T>>,
        /// Memory per vCPU, MB.
        number mb_per_vcpu: T,
        /// Most vCPUs of a function.
        number vcpus_limit: T,
        /// Bytes of vector operands per second that one vCPU reads and writes.
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

    /// Workflows: AWS Step Functions, or its replacement.
    struct WorkflowModel {
        /// Time from the end of a state to the call of the next, seconds.
        number transition_latency_s: T,
        /// Iterations of a map state that run at the same time.
        number map_concurrency_limit: T,
    }

    /// Instances.
    struct InstanceModel {
        /// Time from the request for an instance to its first instruction, seconds.
        number boot_s: T,
        /// Network bandwidth of one instance, bytes per second.
        number bytes_per_s: T,
        /// vCPUs.
        number vcpus: T,
        /// Bytes of vector operands per second that an instance reads and writes.
        number arithmetic_bytes_per_s: T,
        /// Shortest time that is billed, seconds.
        number minimum_billed_s: T,
    }

    /// One machine that all workers and services share.
    struct HostModel {
        /// Number of cores, in units of a core that works alone.
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
    /// Bandwidth, bytes per second.
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
    /// Dimension of the price book for a second of a function, where it is not
    /// Lambda's price of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_price: Option<String>,
    /// Device of functions.
    #[serde(default)]
    pub function_device: FunctionDevice,
}

/// The device on which functions compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
            function_price: self.function_price.clone(),
            function_device: self.function_device,
        }
    }
}

impl Profile<Constant> {
    /// Returns the profile of the stated values.
    pub fn values(&self) -> Profile<f64> {
        self.map(&mut |_, constant| constant.value)
    }

    /// Returns a sample of the constants' ranges: each drawn on its own, by `seed` and
    /// its path.
    pub fn sampled(&self, seed: u64) -> Profile<f64> {
        self.map(&mut |path, constant| {
            let path = path
                .bytes()
                .fold(seed, |mixed, byte| hash::mix(mixed, byte.into()));
            constant.at(f64::from(hash::unit_f32(path)))
        })
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
        let sizes = self.function.bandwidth.iter().map(|point| point.memory_mb);
        if !sizes.is_sorted() || self.function.bandwidth.is_empty() {
            let reason = "give one point at least, by rising memory size";
            faults.push(("function.bandwidth".into(), reason.into()));
        }
        faults
    }
}

impl FunctionModel<f64> {
    /// Returns the vCPUs of a function of `memory_mb`.
    pub fn vcpus(&self, memory_mb: u32) -> f64 {
        (f64::from(memory_mb) / self.mb_per_vcpu).min(self.vcpus_limit)
    }

    /// Returns the network bandwidth of a function of `memory_mb`, bytes per second.
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
    /// Returns a platform on which only computing takes time, and which has no limits:
    /// a base for studying one constant at a time.
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
