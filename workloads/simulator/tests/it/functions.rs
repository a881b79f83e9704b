//! Functions in virtual time: cold starts, limits, what a step costs.

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Limit, Simulated, Simulation, refused};
use epochcost_systems::Device;
use serde_json::json;

use crate::support::*;

fn limited(simulation: Simulation) -> Simulation {
    Simulation {
        has_limits: true,
        ..simulation
    }
}

fn limit_of(simulation: &Simulation) -> (Limit, String) {
    let hit = outcome(simulation).infeasible.unwrap();
    (hit.limit, hit.reason)
}

fn refusal(simulation: &Simulation) -> (Limit, String) {
    let refusal = refused(simulation, 20.0).unwrap().unwrap();
    (refusal.limit, refusal.reason)
}

/// Runs to its end within all limits, and returns its time.
fn wall_s(simulation: &Simulation) -> f64 {
    let simulated = outcome(simulation);
    assert_eq!((simulated.failure, simulated.infeasible), (None, None));
    simulated.wall_s
}

#[test]
fn a_cold_sandbox_is_billed_for_its_init_and_serves_again() {
    let mut profile = ideal();
    profile.function.cold_start_s = 2.0;
    profile.function.init_s = 0.5;
    let simulation = simulation(job("spirt", 1, 1, json!({})), 1_000, &profile, 1.0);
    let mut two_epochs = simulation.clone();
    two_epochs.job.epochs = 2;
    let one = run(&simulation);
    let two = run(&two_epochs);
    // Nine functions; the second epoch finds them warm.
    assert_eq!(one.invocations.len(), 9);
    assert!(one.invocations.iter().all(|call| call.init_s == Some(0.5)));
    let cold = two.invocations.iter().filter(|call| call.init_s.is_some());
    assert_eq!((two.invocations.len(), cold.count()), (17, 9));
    assert_near(one.wall_s, 9.0 * 2.5 + 1.0, 1e-6, "one epoch");
    assert_near(two.wall_s - one.wall_s, 1.0, 1e-6, "the second");
}

#[test]
fn memory_buys_cores() {
    let job = job("allreduce", 1, 1, json!({}));
    let mut simulation = simulation(job, 1_000, &ideal(), 1.0);
    simulation.cost.device = Device::Cpu;
    simulation.cost.parallel = 0.5;
    let mut seconds = |memory_mb| {
        simulation.memory_mb = memory_mb;
        run(&simulation).wall_s
    };
    let (half, one, two) = (seconds(1769 / 2), seconds(1769), seconds(2 * 1769));
    assert_near(one, 1.0, 1e-6, "one core");
    assert_near(half, 2.0, 0.01, "half a core");
    // Half of the step is serial.
    assert_near(two, 0.75, 1e-6, "two cores");
}

/// An inline Map state runs so many iterations at a time; a Parallel state runs all
/// of its branches, but no more than functions may run.
#[test]
fn batches_wait_for_their_turn_where_few_may_run() {
    for (system, fan_out, map, functions, seconds) in [
        ("spirt", "map", 2.0, f64::INFINITY, 30.0),
        ("spirt", "parallel", 2.0, f64::INFINITY, 10.0),
        ("spirt", "parallel", f64::INFINITY, 2.0, 30.0),
        ("p2p_lambda", "map", 2.0, f64::INFINITY, 30.0),
        ("p2p_lambda", "parallel", 2.0, f64::INFINITY, 10.0),
    ] {
        let mut profile = ideal();
        profile.workflow.map_concurrency_limit = map;
        profile.function.concurrency_limit = functions;
        let settings = match system {
            "spirt" => json!({ "fan_out": fan_out }),
            _ => json!({"fan_out": fan_out, "status_poll_ms": 10}),
        };
        let job = job(system, 1, 6, settings);
        let simulation = limited(simulation(job, 1_000, &profile, 10.0));
        // Six gradients of ten seconds, two or all at a time.
        let late = wall_s(&simulation) - seconds;
        assert!((0.0..0.1).contains(&late), "{system} {fan_out}: {late}");
        // Without limits there is none.
        let mut unlimited = simulation;
        unlimited.has_limits = false;
        assert!(outcome(&unlimited).wall_s < 10.1);
    }
}

/// Asynchronous workers need not run at the same time.
#[test]
fn workers_that_wait_for_no_other_are_not_refused() {
    let mut profile = ideal();
    profile.function.concurrency_limit = 3.0;
    for (system, is_refused) in [("lambdaml_allreduce", true), ("lambdaml_async", false)] {
        let job = job(system, 4, 2, json!({}));
        let simulation = limited(simulation(job, 1_000, &profile, 5.0));
        let refusal = refused(&simulation, 20.0).unwrap();
        assert_eq!(refusal.is_some(), is_refused, "{system}");
        if !is_refused {
            // The fourth begins when another ends.
            assert_near(wall_s(&simulation), 20.0, 0.1, system);
        }
    }
}

#[test]
fn a_function_gains_sandboxes_at_the_stated_rate() {
    let mut profile = ideal();
    profile.function.scaling_per_10_s = 4.0;
    let job = job("spirt", 1, 8, json!({}));
    let simulated = outcome(&limited(simulation(job, 1_000, &profile, 100.0)));
    let gradients = simulated.invocations.iter();
    let mut starts: Vec<f64> = gradients
        .filter(|call| call.task.function == "compute_gradients")
        .map(|call| call.started_s)
        .collect();
    starts.sort_by(f64::total_cmp);
    for (found, late) in starts.iter().zip([0.0, 0.0, 0.0, 0.0, 2.5, 5.0, 7.5, 10.0]) {
        assert_near(*found, starts[0] + late, 1e-6, &format!("{starts:?}"));
    }
}

#[test]
fn each_limit_is_named() {
    let base = |profile: &Profile<f64>| {
        let job = job("allreduce", 4, 2, json!({}));
        limited(simulation(job, 1_000_000, profile, 5.0))
    };
    let ideal = ideal();

    let mut slow = base(&ideal);
    slow.timeout_s = 8.0;
    assert_eq!(limit_of(&slow).0, Limit::Duration);

    let mut small = base(&ideal);
    small.memory_mb = 128;
    small.cost.fixed_mb = 500.0;
    let (limit, reason) = limit_of(&small);
    assert_eq!(limit, Limit::Memory);
    assert!(reason.contains("128 MB"), "{reason}");

    let mut narrow = ideal.clone();
    narrow.object_store.object_bytes_limit = 3e6;
    let (limit, reason) = limit_of(&base(&narrow));
    assert_eq!(limit, Limit::MessageSize);
    assert!(reason.contains("object store"), "{reason}");

    let mut few = ideal.clone();
    few.function.concurrency_limit = 3.0;
    assert_eq!(refusal(&base(&few)).0, Limit::Concurrency);
    // MLLess's supervisor is one more.
    few.function.concurrency_limit = 4.0;
    let mut mlless = base(&few);
    assert_eq!(refused(&mlless, 20.0).unwrap(), None);
    mlless.job = job("mlless", 4, 2, json!({}));
    assert_eq!(refusal(&mlless).0, Limit::Concurrency);

    let mut fat = ideal.clone();
    fat.function.package_mb_limit = 10.0;
    assert_eq!(refusal(&base(&fat)).0, Limit::PackageSize);
}

/// A state machine has the size that Step Functions takes, whichever way it fans out.
#[test]
fn workflows_beyond_step_functions_are_refused_by_the_limits_name() {
    let limits = |settings, batches| {
        let mut profile = ideal();
        profile.workflow.definition_bytes_limit = Some(1_048_576.0);
        profile.workflow.history_events_limit = Some(25_000.0);
        let mut simulation = simulation(job("spirt", 2, 1, settings), 1_000, &profile, 1.0);
        simulation.job.batches_per_worker = batches;
        let refusal = refused(&limited(simulation), 20.0).unwrap();
        refusal.map(|refusal| refusal.limit)
    };
    // An epoch in rounds is as many executions; rounds of unequal numbers are maps.
    for (fan_out, rounds, batches, expected) in [
        ("parallel", 1, 1_800, None),
        ("parallel", 1, 2_000, Some(Limit::WorkflowDefinition)),
        ("parallel", 1, 6_000, Some(Limit::WorkflowHistory)),
        ("map", 1, 3_500, None),
        ("map", 1, 4_100, Some(Limit::WorkflowHistory)),
        ("parallel", 2, 3_600, None),
        ("parallel", 2, 3_801, None),
        ("map", 2, 8_000, Some(Limit::WorkflowHistory)),
    ] {
        let settings = json!({"fan_out": fan_out, "rounds_per_epoch": rounds});
        assert_eq!(limits(settings, batches), expected, "{fan_out} {batches}");
    }
}

/// A function with a memory size of its own is as fast, and may take as much, as that says.
#[test]
fn functions_have_memory_of_their_own() {
    let mut profile = ideal();
    profile.function.mb_per_vcpu = 1_000.0;
    let mut base = simulation(job("spirt", 2, 3, json!({})), 1_000, &profile, 1.0);
    // A GPU's time does not depend on a function's share of the processor.
    base.cost.device = Device::Cpu;
    let mut sized = base.clone();
    sized.function_memory_mb = [("update_model".to_owned(), 512)].into();
    let (one_size, own) = (run(&base), run(&sized));
    for call in &own.invocations {
        let function = call.task.function.as_str();
        let mb = if function == "update_model" {
            512
        } else {
            3008
        };
        assert_eq!(call.memory_mb, Some(mb), "{function}");
    }
    let all = one_size.invocations.iter();
    assert!(all.map(|call| call.memory_mb).all(|mb| mb == Some(3008)));
    assert_eq!(one_size.totals.traffic, own.totals.traffic);

    // Half of the processor is half of the speed, for that function alone.
    let mut slow = base.clone();
    slow.function_memory_mb = [("compute_gradients".to_owned(), 500)].into();
    let seconds = |simulated: &Simulated, name: &str| -> f64 {
        let calls = simulated.invocations.iter();
        let calls = calls.filter(|call| call.task.function == name);
        calls.map(|call| call.duration_s).sum()
    };
    let slow = run(&slow);
    assert!(seconds(&slow, "compute_gradients") > 1.9 * seconds(&one_size, "compute_gradients"));

    // A limit is that function's.
    let mut small = limited(base);
    small.profile.function.resident_mb = 100.0;
    small.function_memory_mb = [("check_heartbeat".to_owned(), 64)].into();
    let (limit, reason) = limit_of(&small);
    assert_eq!(limit, Limit::Memory);
    let is_named = reason.contains("check_heartbeat") && reason.contains("64 MB");
    assert!(is_named, "{reason}");
    small.profile.function.memory_mb_minimum = 128.0;
    let (_, reason) = refusal(&small);
    assert!(reason.contains("64 MB is outside"), "{reason}");
}

#[test]
fn what_waits_for_ever_is_a_failure_and_no_hang() {
    let settings = json!({"barrier": "exactly", "sync_queue": "shared"});
    let job = job("spirt", 2, 1, settings);
    let mut simulation = limited(simulation(job, 1_000, &ideal(), 1.0));
    simulation.profile.queue.service.request_latency_s = 0.002;
    simulation.job.epochs = 3;
    simulation.timeout_s = 30.0;
    let simulated = outcome(&simulation);
    // Either every peer saw the count that it waits for, or time was up.
    let ended = simulated.failure.is_none() && simulated.infeasible.is_none();
    assert!(ended || simulated.infeasible.unwrap().limit == Limit::Duration);
}

/// Systems, functions, samples beside those of a mini-batch and vectors of the gradient's size that the largest
/// function holds at once; `W ` stands before what it holds of every worker. They decide the smallest memory of a function.
const HELD: &str = "
scatterreduce | train | 4 | parameters, momentum, gradient, own chunk of all workers (one gradient together), \
    merged chunks, merged gradient
allreduce | train | 4 | parameters, momentum, W gradients, mean, mean sent
lambdaml_async | train | 4 | parameters, momentum, gradient, model sent, model received
mlless | worker | 0 | parameters, momentum, change, kept back, W updates, sum
mlless | supervisor | 0 |
spirt | aggregate_gradients | 0 | W averages, average received, mean
spirt | compute_gradients | 0 | parameters, gradient, gradient sent
p2p_lambda | compute_gradients | 0 | parameters, gradient, gradient sent";

#[test]
fn a_function_needs_memory_for_its_program_its_data_and_the_vectors_that_it_holds() {
    const WORKERS: usize = 4;
    const PARAMETERS: usize = 10_000_000;
    let mut profile = ideal();
    profile.function.resident_mb = 100.0;
    for line in HELD.trim().lines() {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [system, function, samples, held] = parts[..] else {
            panic!("{line}");
        };
        let job = job(system, WORKERS, 2, json!({}));
        let mut simulation = simulation(job, PARAMETERS, &profile, 1.0);
        (simulation.cost.fixed_mb, simulation.cost.sample_mb) = (0.0, 0.0);
        let held: Vec<&str> = held.split(", ").filter(|name| !name.is_empty()).collect();
        let of = |name: &&str| if name.starts_with("W ") { WORKERS } else { 1 };
        let vectors: usize = held.iter().map(of).sum();
        let vector_mb = sizes(PARAMETERS).gradient_bytes() as f64 / f64::from(1 << 20);
        let data_mb = samples.parse::<f64>().unwrap() * 3073.0 / f64::from(1 << 20);
        let expected = 100.0 + data_mb + vectors as f64 * vector_mb;
        let calls = run(&simulation).invocations;
        let peaks = calls.iter().filter(|call| call.task.function == function);
        let peak = peaks.map(|call| call.peak_memory_mb).fold(0.0, f64::max);
        assert_near(peak, expected, 1e-6, &format!("{system} {function}"));
        if held.len() > 3 {
            // One megabyte less is too little.
            let mut small = limited(simulation);
            small.memory_mb = expected.ceil() as u32;
            assert_eq!(outcome(&small).infeasible, None, "{system}");
            small.memory_mb -= 1;
            assert_eq!(limit_of(&small).0, Limit::Memory, "{system}");
        }
    }
}
