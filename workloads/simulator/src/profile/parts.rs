//! Parts of a platform profile. Every struct is generic in its numbers:
//! [`Constant`](super::Constant) in a file, `f64` in a simulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Declares the parts of a profile, each with a `map` over all its numbers.
macro_rules! parts {
    ($($(#[$about:meta])* struct $name:ident {
        $($(#[$field_about:meta])* $kind:ident $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name<T> {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl<T> $name<T> {
            /// Returns the part with every number converted by `turn`, which receives
            /// the number's path.
            pub(super) fn map<U>(&self, path: &str, turn: &mut dyn FnMut(&str, &T) -> U) -> $name<U> {
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
    (@map plain $value:expr, $path:expr, $turn:expr) => { $value.clone() };
    (@map part $value:expr, $path:expr, $turn:expr) => {
        $value.as_ref().map(|value| value.map(&$path, $turn))
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
        /// Time from a request to the moment the service acts on it, seconds. A mean, if
        /// requests are drawn.
        number request_latency_s: T,
        /// The same of a write, where it differs.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional write_latency_s: Option<T>,
        /// Additional time of the first request of a sandbox, which opens a connection,
        /// seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional connection_s: Option<T>,
        /// Bandwidth of one transfer, bytes per second.
        number stream_bytes_per_s: T,
        /// The same of a write, where it differs.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional write_stream_bytes_per_s: Option<T>,
        /// Bytes of a read that arrive at the rate of the network, before the stream's
        /// bandwidth limits it.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional unlimited_bytes: Option<T>,
        /// Latencies of reads and of other requests without a payload, over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain read_spread: Option<Spread>,
        /// Latencies of writes over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain write_spread: Option<Spread>,
        /// Times of read payloads over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain read_stream_spread: Option<Spread>,
        /// Times of written payloads over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain write_stream_spread: Option<Spread>,
        /// Bandwidth that all transfers of one server share, bytes per second; null
        /// where no experiment reaches the limit.
        optional server_bytes_per_s: Option<T>,
        /// Core-seconds of a shared host that a request takes.
        number host_core_s_per_request: T,
        /// Core-seconds of a shared host that a transferred byte takes.
        number host_core_s_per_byte: T,
    }

    /// Differences between runs that the ranges of constants do not hold, as standard deviations
    /// of logarithms.
    struct LevelModel {
        /// Times of requests, and of starts: one level each per run.
        number time: T,
        /// Bandwidths: one level per run.
        number bandwidth: T,
        /// Times of starts, where they differ from those of requests: one level per run.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional starts: Option<T>,
        /// Widths of spreads: one level for each per run.
        number spread: T,
        /// Values of a constant between authors. Nothing draws it: it is the least deviation from which
        /// a calibration begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional author: Option<T>,
    }

    /// The object store.
    struct ObjectStoreModel {
        /// Requests and transfers.
        service service: ServiceModel<T>,
        /// Largest object of one PUT, bytes.
        number object_bytes_limit: T,
        /// Reads per second of one bucket, listings included; none: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional reads_per_s: Option<T>,
        /// Writes per second of one bucket, deletes included; none: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional writes_per_s: Option<T>,
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
        /// Time between the starts of two calls of one caller, seconds; none where calls
        /// leave at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional call_spacing_s: Option<T>,
        /// Times of calls over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain invoke_spread: Option<Spread>,
        /// Times of placing and starting a sandbox over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain cold_start_spread: Option<Spread>,
        /// Times of init over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain init_spread: Option<Spread>,
        /// Times of one computation over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain compute_spread: Option<Spread>,
        /// GPUs that functions share; none: each function has one of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        part gpu: Option<GpuModel<T>>,
        /// Network bandwidth of one function by its memory size, interpolated; with a
        /// credit, what is left after it.
        points bandwidth: Vec<BandwidthPoint<T>>,
        /// Credit of a sandbox's network; none: the bandwidth is constant.
        #[serde(skip_serializing_if = "Option::is_none")]
        part network_credit: Option<NetworkCredit<T>>,
        /// Bandwidth that all functions share in a VPC, bytes per second; none: no limit is known.
        /// It counts where the profile has its functions in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional vpc_bytes_per_s: Option<T>,
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

    /// A GPU that several functions share.
    struct GpuModel {
        /// Functions per GPU; 1: each has one of its own.
        number functions: T,
        /// Memory of the GPU, MB.
        number memory_mb: T,
        /// Memory that a process holds beside its model, MB.
        number context_mb: T,
    }

    /// Bytes that a sandbox may move faster than its bandwidth.
    struct NetworkCredit {
        /// Credit of downloads, bytes above the bandwidth.
        number download_bytes: T,
        /// Credit of uploads, bytes above the bandwidth.
        number upload_bytes: T,
        /// Bandwidth as long as credit lasts, bytes per second.
        number burst_bytes_per_s: T,
        /// Most credit that returns while the network is idle, bytes.
        number returned_bytes: T,
    }

    /// What an interpreted client takes in addition to a compiled one. Core times are
    /// those of a whole vCPU; a part of one takes proportionally longer.
    struct InterpretedModel {
        /// Core time of a request, seconds.
        number request_core_s: T,
        /// Time from a call of a function to its first instruction in a warm sandbox, and
        /// back, in the place of a compiled caller's, seconds.
        number call_s: T,
        /// Times of calls over their mean.
        #[serde(skip_serializing_if = "Option::is_none")]
        plain call_spread: Option<Spread>,
        /// Core time of a received byte, which overlaps with the transfer, seconds.
        number receive_core_s_per_byte: T,
        /// Core time of a sent byte, which overlaps with the transfer, seconds.
        number send_core_s_per_byte: T,
        /// Core time of turning a received byte into vectors, after the transfer, seconds.
        number decode_core_s_per_byte: T,
        /// Core time of turning vectors into a byte to send, before the transfer, seconds.
        number encode_core_s_per_byte: T,
        /// Core time of making a client of the object store, which a program that makes one
        /// per request takes each time, seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional client_core_s: Option<T>,
        /// Init with its libraries, in the place of the compiled worker's, seconds.
        number init_s: T,
    }

    /// Workflows: AWS Step Functions, or its replacement.
    struct WorkflowModel {
        /// Time from the end of a state to the call of the next, seconds.
        number transition_latency_s: T,
        /// Iterations of a map state that run at the same time.
        number map_concurrency_limit: T,
        /// Largest definition of a state machine, bytes; none: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional definition_bytes_limit: Option<T>,
        /// Most events in the history of one execution; none: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        optional history_events_limit: Option<T>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthPoint<T> {
    /// The memory size, MB.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub memory_mb: u32,
    /// Bandwidth, bytes per second.
    pub bytes_per_s: T,
}

impl<T> BandwidthPoint<T> {
    pub(super) fn map<U>(
        &self,
        path: &str,
        turn: &mut dyn FnMut(&str, &T) -> U,
    ) -> BandwidthPoint<U> {
        BandwidthPoint {
            memory_mb: self.memory_mb,
            bytes_per_s: turn(path, &self.bytes_per_s),
        }
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

impl ServiceModel<f64> {
    /// Returns a service whose requests and transfers take no time of their own.
    pub fn unlimited() -> Self {
        Self {
            request_latency_s: 0.0,
            write_latency_s: None,
            connection_s: None,
            stream_bytes_per_s: f64::INFINITY,
            write_stream_bytes_per_s: None,
            unlimited_bytes: None,
            read_spread: None,
            write_spread: None,
            read_stream_spread: None,
            write_stream_spread: None,
            server_bytes_per_s: None,
            host_core_s_per_request: 0.0,
            host_core_s_per_byte: 0.0,
        }
    }
}
