//! Jobs, platforms and costs for tests, and what a simulation states.
#![allow(dead_code, clippy::unwrap_used)]

use epochcost_channels::Traffic;
use epochcost_simulator::profile::{
    BandwidthPoint, Client, Constant, FunctionDevice, FunctionModel, InstanceModel, ModelCost,
    ObjectStoreModel, Profile, QueueModel, ServiceModel, TensorStoreModel, WorkflowModel,
};
use epochcost_simulator::{Options, Simulated, Simulation, simulate};
use epochcost_systems::testing;
use epochcost_systems::{
    DataPlan, Device, Evaluate, Fidelity, Host, Job, Record, Sizes, StepRecord, find,
};
use serde_json::{Map, Value, json};

pub const SYSTEMS: [&str; 7] = [
    "spirt",
    "mlless",
    "scatterreduce",
    "allreduce",
    "gpu_baseline",
    "p2p",
    "p2p_lambda",
];

/// A profile that is shipped.
pub fn shipped(name: &str) -> Profile<Constant> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../harness/profiles");
    let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Returns a platform on which only computing takes time, and which has no limits:
/// a base for studying one constant at a time.
pub fn ideal() -> Profile<f64> {
    let service = ServiceModel::unlimited();
    Profile {
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

/// Stores and the queue of a platform.
pub fn services(profile: &mut Profile<f64>) -> [&mut ServiceModel<f64>; 3] {
    [
        &mut profile.object_store.service,
        &mut profile.tensor_store.service,
        &mut profile.queue.service,
    ]
}

pub fn overrides(settings: Value) -> Map<String, Value> {
    serde_json::from_value(settings).unwrap()
}

pub fn sizes(parameters: usize) -> Sizes {
    Sizes {
        parameters,
        statistics: 100,
    }
}

/// One epoch of `batches` mini-batches.
pub fn job(system: &str, workers: usize, batches: usize, settings: Value) -> Job {
    job_of(system, Fidelity::Paper, workers, batches, settings)
}

pub fn job_of(
    system: &str,
    fidelity: Fidelity,
    workers: usize,
    batches: usize,
    settings: Value,
) -> Job {
    let found = find(system).unwrap();
    let job = testing::job(system, fidelity, workers, &overrides(settings)).unwrap();
    Job {
        model: "model".into(),
        data: DataPlan {
            record_bytes: 3073,
            train_samples: workers * batches * 4,
            test_samples: 10,
            ..job.data
        },
        batch_size: 4,
        batches_per_worker: batches,
        epochs: 1,
        seed: 1,
        optimizer: found.optimizer(Fidelity::Paper),
        evaluate: Evaluate::Never,
        device: if found.deployment().runs_on(Host::Function) {
            Device::Cpu
        } else {
            Device::Cuda
        },
        ..job
    }
}

/// A step takes `step_s`, however many samples.
pub fn cost(step_s: f64) -> ModelCost {
    let cost = json!({
        "model": "model", "device": "cuda", "fixed_s": step_s, "sample_s": 0.0, "parallel": 0.0,
        "evaluate_sample_s": 0.0, "build_s": 0.0, "fixed_mb": 100.0, "sample_mb": 1.0,
        "source": "a test", "date": "2026-11-21",
    });
    serde_json::from_value(cost).unwrap()
}

pub fn simulation(job: Job, parameters: usize, profile: &Profile<f64>, step_s: f64) -> Simulation {
    Simulation {
        job,
        sizes: sizes(parameters),
        memory_mb: 3008,
        function_memory_mb: Default::default(),
        timeout_s: 900.0,
        profile: profile.clone(),
        cost: cost(step_s),
        has_limits: false,
        faults: Vec::new(),
        jobs: 1,
    }
}

/// What comes of a simulation, with its steps.
pub fn kept(simulation: &Simulation) -> Simulated {
    let options = Options {
        keeps_steps: true,
        ..Options::default()
    };
    simulate(simulation, options).unwrap()
}

pub fn run(simulation: &Simulation) -> Simulated {
    let simulated = kept(simulation);
    assert_eq!(simulated.failure, None, "{}", simulation.job.system);
    simulated
}

pub fn outcome(simulation: &Simulation) -> Simulated {
    simulate(simulation, Options::default()).unwrap()
}

/// What the system states that it moves.
pub fn closed_form(simulation: &Simulation) -> Traffic {
    let job = &simulation.job;
    let bound = find(&job.system).unwrap().bind(job).unwrap();
    bound.traffic(simulation.sizes).unwrap()
}

/// What was moved.
pub fn exchanged(simulated: &Simulated) -> Traffic {
    simulated.totals.traffic.exchange.total().untimed()
}

/// Trains the model of tests in virtual time.
pub fn trained(simulation: &Simulation) -> Simulated {
    let data = &simulation.job.data;
    let records = |samples| testing::records(&simulation.job, 0, samples);
    let train = records(data.train_samples + data.validation_samples);
    let options = Options {
        data: Some((train, records(data.test_samples))),
        compute: Some(Box::new(|| Ok(testing::compute()))),
        keeps_steps: true,
        ..Options::default()
    };
    simulate(simulation, options).unwrap()
}

/// Counts that polls do not change, of all purposes.
pub fn counts(simulated: &Simulated) -> [Traffic; 3] {
    let traffic = simulated.totals.traffic;
    [traffic.exchange, traffic.dataset, traffic.state].map(|purpose| Traffic {
        polls: 0,
        missed_gets: 0,
        ..purpose.total()
    })
}

pub fn steps(simulated: &Simulated) -> impl Iterator<Item = &StepRecord> {
    simulated.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step.as_ref()),
        _ => None,
    })
}

#[track_caller]
pub fn assert_near(found: f64, expected: f64, within: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(off < within, "{what}: {found} and not {expected}");
}
