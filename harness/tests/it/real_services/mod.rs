//! Runs on real servers: the bits and counts of embedded services, no hang when
//! a server dies, nothing left behind, nothing met of an earlier run.
//!
//! Where something is missing these tests pass and say what they skipped; with
//! `EPOCHCOST_REQUIRE_SERVERS=1`, as in CI, that is a failure.
pub mod processes;
mod scene;
mod secrets;

use epochcost_record::RunDirectory;
use epochcost_servers::{ObjectServer, RabbitMq};
use epochcost_systems::StepRecord;

use self::processes::{descendants, is_gone, listening, named};
use self::scene::{Scene, module, redis};
use crate::support::{holds, signal, until};

/// The shipped experiment of every system, at the size at which it takes seconds.
const SMALL: &str = "--set workers=2 --set batch_size=4 --set batches_per_worker=2 \
     --set 'dataset={name: synthetic-cifar10, train: 32, test: 10, seed: 1}'";

/// What a trial must have in common on all services: of each step the digest of
/// the parameters and the traffic that does not depend on timing.
fn steps(run: &RunDirectory) -> Vec<(String, Vec<String>)> {
    let trials = run.trials().unwrap();
    let mut trials: Vec<_> = trials.iter().collect();
    trials.retain(|trial| trial.replicas_may_differ.is_none());
    let steps = trials.into_iter().map(|trial| {
        assert_eq!(trial.failure, None, "{}", trial.id);
        let mut steps: Vec<String> = run.steps(trial).unwrap().iter().map(told).collect();
        steps.sort();
        (trial.id.to_string(), steps)
    });
    steps.collect()
}

fn told(step: &StepRecord) -> String {
    let mut traffic = step.traffic;
    let all = &mut traffic;
    for purpose in [&mut all.exchange, &mut all.dataset, &mut all.state] {
        let (objects, tensors) = (&mut purpose.objects, &mut purpose.tensors);
        for channel in [objects, tensors, &mut purpose.queue] {
            // Whoever lists deletes by one request what one listing named.
            if channel.lists > 0 {
                channel.deletes = 0;
            }
            // How often something was looked for that was not there yet.
            (channel.polls, channel.missed_gets, channel.lists) = (0, 0, 0);
        }
    }
    format!(
        "rank {} epoch {} batch {:?}: {:?} {traffic:?}",
        step.rank, step.epoch, step.batch, step.parameters_digest
    )
}

#[test]
fn real_services_give_the_bits_and_counts_of_embedded_ones() {
    let Some(scene) = Scene::ready() else { return };
    let run = |services, out: &str, jobs| {
        let arguments = format!("mobilenet --services {services} --set {jobs} {SMALL}");
        scene.run(out, &arguments, &[]);
        RunDirectory::open_whole(&scene.path(out)).unwrap()
    };
    let embedded = run("embedded", "embedded", "jobs=1");
    let real = run("real", "real", "jobs=1");
    let (expected, found) = (steps(&embedded), steps(&real));
    // A training meets nothing of another one on its servers.
    assert_eq!(found, steps(&run("real", "at-once", "jobs=2")));
    let trials: Vec<&str> = expected.iter().map(|(trial, _)| trial.as_str()).collect();
    for system in ["spirt", "scatterreduce", "allreduce", "gpu-baseline"] {
        let is_there = trials.iter().any(|trial| trial.starts_with(system));
        assert!(is_there, "{system} is not among {trials:?}");
    }
    for ((trial, expected), (_, found)) in expected.iter().zip(&found) {
        assert!(!expected.is_empty(), "{trial}");
        assert_eq!(expected, found, "{trial}");
    }
    assert_eq!(real.manifest().services, "real");
    let summary = std::fs::read_to_string(scene.path("real/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["rows"][0]["services"], "real");
    assert_eq!(summary["rows"][0]["tensor_store"]["kind"], "module");
    let names: Vec<&str> = real.machine().servers.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["Redis", "RabbitMQ", "S3"]);
    assert!(real.machine().servers.iter().all(|s| s.version.is_some()));
}

#[test]
fn a_server_that_dies_fails_its_trial_by_name_and_the_next_has_another() {
    let Some(scene) = Scene::ready() else { return };
    let mut run = scene.start("run", "waiting.yaml --services real", &[]);
    let mut seen = Vec::new();
    for (trial, program) in (0..).zip(["redis-server", "beam.smp", "epochcost-s3"]) {
        until(|| scene.finished_trials("run") == trial && scene.has_workers(run.id()));
        let servers = named(run.id(), program);
        assert!(!servers.is_empty(), "{program} runs");
        seen.extend(descendants(run.id()));
        signal("KILL", servers[0]);
    }
    assert_eq!(run.wait().unwrap().code(), Some(3), "three trials failed");
    let rows = RunDirectory::open_whole(&scene.path("run")).unwrap();
    let trials = rows.trials().unwrap().into_iter();
    let failures: Vec<Option<String>> = trials.map(|trial| trial.failure).collect();
    let servers = ["Redis of peer ", "RabbitMQ", "the S3 server"];
    for (failure, name) in failures.iter().zip(servers) {
        let failure = failure.as_deref().unwrap_or_default();
        holds(failure, &[name, "ended in the middle"]);
        assert!(!failure.contains("://:"), "a password: {failure}");
    }
    // A trial after that has servers again.
    assert_eq!(failures.get(3), Some(&None));
    until(|| seen.iter().all(|process| is_gone(*process)));
}

#[test]
fn a_server_that_hangs_is_replaced_before_the_next_trial() {
    let Some(scene) = Scene::ready() else { return };
    let mut run = scene.start("run", "hanging.yaml --services real", &[]);
    until(|| scene.has_workers(run.id()));
    let servers = named(run.id(), "redis-server");
    assert!(!servers.is_empty());
    signal("STOP", servers[0]);
    assert_eq!(run.wait().unwrap().code(), Some(3), "one trial failed");
    let rows = RunDirectory::open_whole(&scene.path("run")).unwrap();
    let trials = rows.trials().unwrap().into_iter();
    let failed: Vec<bool> = trials.map(|trial| trial.failure.is_some()).collect();
    assert_eq!(failed, [true, false, false]);
    assert!(is_gone(servers[0]));
}

/// A peer's server starts in the third trial, when another file is in the place of its module.
#[test]
fn a_module_that_is_replaced_during_a_run_is_loaded_as_it_was() {
    let Some(scene) = Scene::ready() else { return };
    let [copy, new] = ["module.so", "new"].map(|name| scene.path(name));
    std::fs::copy(module(), &copy).unwrap();
    std::fs::write(&new, "").unwrap();
    let given = [("EPOCHCOST_TENSORDB", copy.display().to_string())];
    let mut run = scene.start("run", "late.yaml --services real", &given);
    until(|| scene.finished_trials("run") == 1);
    std::fs::rename(&new, &copy).unwrap();
    assert_eq!(scene.finished_trials("run"), 1, "it was replaced too late");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    let Some(scene) = Scene::ready() else { return };
    let mut run = scene.start("run", "waiting.yaml --services real", &[]);
    until(|| scene.has_workers(run.id()));
    let (processes, ports) = (descendants(run.id()), listening(run.id()));
    // Two peers' Redis, RabbitMQ with its port mapper and Erlang's own port, S3.
    assert!(ports.len() >= 6, "{ports:?}");
    signal("KILL", run.id());
    run.wait().unwrap();
    until(|| processes.iter().all(|process| is_gone(*process)));
    for port in ports {
        let connected = std::net::TcpStream::connect(("127.0.0.1", port));
        assert!(connected.is_err(), "port {port} is served");
    }
}

#[test]
fn what_an_earlier_run_left_is_never_read_and_not_deleted() {
    let Some(scene) = Scene::ready() else { return };
    let redis = [(); 2].map(|()| redis());
    let rabbitmq = RabbitMq::start().unwrap();
    let s3 = ObjectServer::run(&scene::s3()).unwrap();
    let urls = format!("{},{}", redis[0].url(), redis[1].url());
    let given = [
        ("EPOCHCOST_REAL_REDIS", urls),
        ("EPOCHCOST_REAL_RABBITMQ", rabbitmq.url()),
        ("EPOCHCOST_REAL_S3", format!("{}/bucket", s3.url())),
    ];
    // A run is killed in the middle of a step, and its keys stay.
    let mut first = scene.start("first", "waiting.yaml --services real", &given);
    until(|| scene.keys(&redis[0]) > 0);
    signal("KILL", first.id());
    first.wait().unwrap();
    let left = scene.keys(&redis[0]);
    assert!(left > 0);
    // The same trials without faults, on the same servers and on embedded ones.
    scene.run("second", "calm.yaml --services real", &given);
    scene.run("embedded", "calm.yaml", &[]);
    let open = |out: &str| RunDirectory::open_whole(&scene.path(out)).unwrap();
    assert_eq!(steps(&open("second")), steps(&open("embedded")));
    assert_eq!(scene.keys(&redis[0]), left, "its own keys are gone");
    // Secrets are nowhere in the results.
    for server in &redis {
        assert!(!scene.holds("second", server.password()));
    }
    assert!(!scene.holds("second", rabbitmq.password()));
    assert!(!scene.holds("second", s3.secret_key()));
}
