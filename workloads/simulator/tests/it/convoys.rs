//! Peers that begin together and read from the same server one after another.

use epochcost_systems::Fidelity;
use serde_json::{Value, json};

use crate::support::*;

const PARAMETERS: usize = 1_000_000;

/// Seconds of `function` per peer in one epoch under `tuned`, where a database
/// serves one reader as fast as all together.
fn seconds(system: &str, function: &str, workers: usize, settings: Value) -> f64 {
    let mut profile = ideal();
    profile.tensor_store.service.server_bytes_per_s = Some(1e8);
    profile.tensor_store.service.stream_bytes_per_s = 1e8;
    let job = job_of(system, Fidelity::Tuned, workers, 1, settings);
    let simulated = run(&simulation(job, PARAMETERS, &profile, 1.0));
    simulated.totals.seconds[function].synchronise() / workers as f64
}

/// With more peers than reads at a time, those of one order share few servers and
/// leave the others idle. From the neighbour on, every server has as many readers.
#[test]
fn tuned_peers_of_spirt_spread_over_the_stores() {
    for workers in [4, 32, 64] {
        let of = |settings| seconds("spirt", "aggregate_gradients", workers, settings);
        let (rank, tuned) = (of(json!({"reading_order": "rank"})), of(json!({})));
        // Each store sends its average to every peer, and takes one in the end.
        let least = (workers + 1) as f64 * 4.0 * PARAMETERS as f64 / 1e8;
        println!(
            "{workers} peers: {rank:.3} s by rank, {tuned:.3} s from the neighbour on, {least:.3} s at least"
        );
        assert!(tuned < 1.01 * least, "{workers}: {tuned} and {least}");
        assert!(
            workers <= 16 || rank > 1.05 * tuned,
            "{workers}: {rank} and {tuned}"
        );
    }
}

/// Workers of ScatterReduce over as many stores as workers begin with different ones.
#[test]
fn tuned_workers_of_scatterreduce_spread_over_the_stores() {
    let workers = 64;
    let settings = json!({ "stores": workers });
    let found = seconds("scatterreduce", "train", workers, settings);
    // Each store takes a chunk from every worker, and sends the merged one to every worker.
    let least = 2.0 * 4.0 * PARAMETERS as f64 / 1e8;
    println!("{workers} workers: {found:.3} s, {least:.3} s at least");
    assert!(found < 1.2 * least, "{found} and {least}");
}
