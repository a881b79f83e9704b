//! A platform without costs and limits.

use super::{
    BandwidthPoint, Client, FunctionDevice, FunctionModel, InstanceModel, ObjectStoreModel,
    Profile, QueueModel, ServiceModel, TensorStoreModel, WorkflowModel,
};

impl Profile<f64> {
    /// Returns a platform on which only computing takes time, and which has no limits:
    /// a base for studying one constant at a time.
    pub fn ideal() -> Self {
        let service = ServiceModel::unlimited();
        Self {
            schema: 1,
            name: "ideal".into(),
            about: "Nothing takes time but computing, and nothing is limited.".into(),
            object_store: ObjectStoreModel {
                service: service.clone(),
                object_bytes_limit: f64::INFINITY,
                reads_per_s: None,
                writes_per_s: None,
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
                call_spacing_s: None,
                invoke_spread: None,
                cold_start_spread: None,
                init_spread: None,
                compute_spread: None,
                bandwidth: vec![BandwidthPoint {
                    memory_mb: 128,
                    bytes_per_s: f64::INFINITY,
                }],
                gpu: None,
                network_credit: None,
                vpc_bytes_per_s: None,
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
                definition_bytes_limit: None,
                history_events_limit: None,
            },
            instance: InstanceModel {
                boot_s: 0.0,
                bytes_per_s: f64::INFINITY,
                vcpus: 1.0,
                arithmetic_bytes_per_s: f64::INFINITY,
                minimum_billed_s: 0.0,
            },
            host: None,
            interpreted: None,
            client: Client::Compiled,
            levels: None,
            draws: None,
            function_price: None,
            function_device: FunctionDevice::Cpu,
            functions_in_vpc: false,
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
