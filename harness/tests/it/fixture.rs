//! A small run, made up: five systems, two trials each, one of which failed.

use std::fs;
use std::path::Path;

use epochcost_record::{NewRun, PlannedRow, RunDirectory};
use epochcost_spec::claims::Claim;
use epochcost_spec::hash::sha256_hex;
use epochcost_spec::metering::{Invocation, TrialOutcome};
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_systems::{
    Fidelity, Host, Job, PurposeTraffic, Record, Sizes, StageSeconds, StepRecord, find, find_model,
    testing,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub const SYSTEMS: [&str; 5] = [
    "spirt",
    "mlless",
    "scatterreduce",
    "allreduce",
    "gpu_baseline",
];
/// What the rows are held against: every kind of claim.
pub const CLAIMS: &str = r#"[
  {"kind": "published", "claim": "total_usd[ScatterReduce]", "metric": "cost_paper_usd",
   "printed": {"row": "scatterreduce-paper", "value": 0.0422, "half_digit": 0.00005, "unit": "USD", "cell": "t.csv:2:total_usd"},
   "source": "Barrak et al. 2025, Table 2"},
  {"kind": "published", "claim": "epoch_s[ScatterReduce]", "metric": "seconds_per_epoch",
   "printed": {"row": "scatterreduce-paper", "value": 344.23, "half_digit": 0.005, "unit": "s", "cell": "t.csv:2:epoch_s"},
   "source": "Barrak et al. 2025, Table 2"},
  {"kind": "published", "claim": "AllReduce moves more than ScatterReduce", "statement": "moves", "metric": "bytes",
   "formula": "bytes[allreduce-paper] > bytes[scatterreduce-paper]", "source": "Barrak et al. 2025, §2"},
  {"kind": "published", "claim": "accuracy[SPIRT]", "metric": "accuracy",
   "printed": {"row": "spirt-paper", "value": 0.832, "half_digit": 0.0005, "unit": "", "cell": "t.csv:2:accuracy"},
   "source": "Barrak et al. 2025, Table 3"},
  {"kind": "own", "claim": "every system learns something", "metric": "accuracy", "target": 0.3, "formula": "accuracy >= 0.3"},
  {"kind": "own", "claim": "KubeML is fast", "metric": "seconds_per_epoch", "formula": "seconds_per_epoch[kubeml] <= 1"}
]"#;

const WORKERS: usize = 4;
const EPOCHS: usize = 2;
const BATCHES: usize = 3;

/// What JSON says.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn sizes() -> Sizes {
    find_model("mobilenet").unwrap().sizes
}

pub fn row(system: &str) -> Row {
    let usual = testing::job(system, Fidelity::Paper, WORKERS, &Map::new()).unwrap();
    let job = Job {
        trial: String::new(),
        model: "mobilenet".into(),
        data: of(
            json!({"dataset": "synthetic-cifar10", "record_bytes": 3073, "train_samples": 2048,
                        "validation_samples": 0, "test_samples": 512, "augment": false}),
        ),
        batch_size: 32,
        batches_per_worker: BATCHES,
        epochs: EPOCHS,
        seed: 1,
        ..usual
    };
    let row = json!({
        "id": format!("{system}-paper"), "job": job, "memory_mb": 2048, "timeout_s": 900,
        "instance_type": "g4dn.xlarge", "cpu_fallback": true, "faults": [],
    });
    of(row)
}

pub fn plan(system: &str, trial: usize) -> TrialPlan {
    let mut row = row(system);
    row.job.seed = 100 + trial as u64;
    row.job.trial = format!("{}-{trial}", row.id);
    TrialPlan {
        row,
        trial,
        sizes: sizes(),
    }
}

pub fn planned(trials: usize) -> Vec<PlannedRow> {
    SYSTEMS
        .map(|system| PlannedRow {
            row: row(system),
            trials,
            most_trials: trials,
            infeasible: None,
            compute: None,
        })
        .into()
}

pub fn new_run(claims: &str, trials: usize) -> NewRun {
    NewRun {
        prices: None,
        experiment: "fixture".into(),
        experiment_file: "fixture.yaml".into(),
        platform: "local".into(),
        services: "embedded".into(),
        experiment_yaml: "name: fixture\n".into(),
        rows: planned(trials),
        claims: serde_json::from_str::<Vec<Claim>>(claims).unwrap(),
        datasets: of(json!([{"name": "synthetic-cifar10", "generated": true,
                             "files": [{"name": "data_batch_1.bin", "sha256": "ab".repeat(32)}]}])),
        seeds: (0..trials as u64).map(|trial| 100 + trial).collect(),
        command: of(json!(["epochcost", "run", "fixture.yaml"])),
        worker: None,
        limits: of(json!([{"what": "cpu", "enforced": true, "how": "cgroup v1"}])),
        servers: Vec::new(),
        rehearsed: false,
        simulation: None,
    }
}

/// A trial that ended well. `slower` scales its times.
pub fn outcome(plan: &TrialPlan, slower: f64) -> TrialOutcome {
    let job = &plan.row.job;
    let system = find(&job.system).unwrap();
    let place = SYSTEMS.iter().position(|name| *name == job.system).unwrap() as f64;
    let mut outcome = TrialOutcome {
        started_s: 1000.0,
        wall_s: (20.0 + 4.0 * place) * slower,
        transitions: if job.system == "spirt" { 80 } else { 0 },
        ..TrialOutcome::default()
    };
    for rank in 0..WORKERS {
        for epoch in 0..EPOCHS {
            for batch in 0..BATCHES {
                let step = step(job, rank, epoch, batch, place, slower);
                outcome.records.push(Record::Step(Box::new(step)));
            }
            if rank == 0 {
                let correct = 200 + 120 * epoch + 20 * place as usize;
                outcome.records.push(Record::Evaluated {
                    rank,
                    epoch,
                    at_s: 1010.0,
                    evaluation: of(json!({"loss": 1.5, "correct": correct, "samples": 512})),
                    validation: None,
                });
            }
        }
        let host = system.deployment().worker_host();
        let invocation = invocation(rank, host, outcome.wall_s, place);
        outcome.invocations.push(invocation);
    }
    if let Some(Record::Step(first)) = outcome.records.first_mut() {
        let total = system.bind(job).unwrap().traffic(plan.sizes).unwrap();
        let mut traffic = PurposeTraffic::default();
        let messages = epochcost_channels::Traffic {
            messages: total.messages,
            deliveries: total.deliveries,
            ..Default::default()
        };
        traffic.exchange.queue = messages;
        let values = total - messages;
        if job.system == "spirt" {
            traffic.exchange.tensors = values;
        } else {
            traffic.exchange.objects = values;
        }
        traffic.dataset.objects.gets = 24;
        first.traffic = traffic;
    }
    outcome
}

fn step(job: &Job, rank: usize, epoch: usize, batch: usize, place: f64, slower: f64) -> StepRecord {
    let seconds = StageSeconds {
        fetch_dataset: 0.02,
        compute_gradients: 1.1 + 0.05 * rank as f64,
        serialise: 0.01,
        put: 0.08 + 0.02 * place,
        wait: 0.3 * place + 0.1,
        get: 0.2,
        aggregate: 0.05,
        update_model: 0.03,
        detect_convergence: if batch + 1 == BATCHES { 0.4 } else { 0.0 },
    };
    let scaled = StageSeconds {
        compute_gradients: seconds.compute_gradients * slower,
        wait: seconds.wait * slower,
        ..seconds
    };
    let done = (epoch * BATCHES + batch) as f64;
    StepRecord {
        function: "worker".into(),
        rank,
        alike: 1,
        epoch,
        batch: Some(batch),
        started_s: 1000.0 + done * (2.0 + place * 0.4) * slower,
        seconds: scaled,
        loss: Some(2.3 - 0.12 * done - 0.03 * place),
        // What MLLess sends whole; the other systems do not tell.
        update_density: (job.system == "mlless").then_some(1.0),
        parameters_digest: Some(format!("{}-{epoch}-{batch}", job.system)),
        ..StepRecord::default()
    }
}

fn invocation(rank: usize, host: Host, wall_s: f64, place: f64) -> Invocation {
    let memory_mb = (host == Host::Function).then_some(2048);
    of(json!({
        "request_id": format!("request-{rank}"), "host": host, "function": "worker", "rank": rank, "epoch": 0,
        "batch": null, "sandbox": format!("sandbox-{rank}"), "started_s": 1000.0, "ended_s": 1000.0 + wall_s,
        "cold": true, "init_ms": 120.0, "duration_ms": wall_s * 1e3 - 120.0, "billed_ms": (wall_s * 1e3) as u64,
        "memory_mb": memory_mb, "peak_memory_mb": 310 + 10 * place as u32, "cpu_ms": wall_s * 700.0, "error": null,
    }))
}

/// A trial whose worker died.
pub fn failure() -> TrialOutcome {
    TrialOutcome {
        started_s: 1000.0,
        wall_s: 3.5,
        failure: Some("worker 2 exited with signal 9 at <epoch 1 | batch 2>".into()),
        warnings: vec!["worker 1 waited in vain".into()],
        ..TrialOutcome::default()
    }
}

/// A whole run in `path`: every system twice, MLLess's second trial failed.
pub fn finished(path: &Path, claims: &str) -> RunDirectory {
    let run = RunDirectory::create(Some(path), new_run(claims, 2)).unwrap();
    for trial in 0..2 {
        for system in SYSTEMS {
            let plan = plan(system, trial);
            let outcome = if system == "mlless" && trial == 1 {
                failure()
            } else {
                outcome(&plan, 1.0 + 0.05 * trial as f64)
            };
            run.append_trial(&plan, &outcome).unwrap();
        }
    }
    run
}

/// A trial's line without the hash of lines that were edited.
fn without_hash_of_invocations(line: &str) -> String {
    let Some((before, rest)) = line.split_once(",\"invocations_sha256\":\"") else {
        return line.to_owned();
    };
    let (_, after) = rest.split_once('"').unwrap();
    format!("{before}{after}")
}

/// Gives everything in a run that was edited by hand the checksum of what it is now, so that it is
/// judged by its content.
pub fn reseal(run: &Path) {
    for name in ["trials.jsonl", "invocations.jsonl", "draws.jsonl"] {
        let file = run.join(name);
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let lines = text.split_inclusive('\n').map(without_hash_of_invocations);
        let lines = lines.map(|line| {
            let line = line.as_str();
            let Some((own, _)) = line.rsplit_once(",\"sha256\":\"") else {
                return line.to_owned();
            };
            let hash = sha256_hex(format!("{own}}}").as_bytes());
            format!("{own},\"sha256\":\"{hash}\"}}\n")
        });
        fs::write(&file, lines.collect::<String>()).unwrap();
    }
    let manifest = run.join("manifest.json");
    let Ok(mut value) = serde_json::from_slice::<Value>(&fs::read(&manifest).unwrap()) else {
        return;
    };
    let fields = value.as_object_mut().unwrap();
    fields.remove("sha256");
    for file in fields["files"].as_array_mut().unwrap() {
        let content = fs::read(run.join(file["name"].as_str().unwrap())).unwrap();
        file["sha256"] = sha256_hex(&content).into();
    }
    let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
    let own = text.strip_suffix("\n}\n").unwrap();
    let hash = sha256_hex(text.as_bytes());
    fs::write(&manifest, format!("{own},\n  \"sha256\": \"{hash}\"\n}}\n")).unwrap();
}
