//! All samples are used, whatever the number of mini-batches per epoch.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use epochcost_systems::testing::{self, Data};
use epochcost_systems::{DataLayout, Fidelity, Job, System, find, systems};
use proptest::prelude::*;
use serde_json::{Map, json};

use crate::support::{hooked, job_of};

/// A job of as many epochs as its share takes, with waiting shortened.
fn job(system: &str, fidelity: Fidelity, [workers, share, batch_size, batches]: [usize; 4]) -> Job {
    let mut job = job_of(system, fidelity, workers, json!({}));
    job.data.train_samples = workers * share;
    (job.batch_size, job.batches_per_worker) = (batch_size, batches);
    // Workers that each hold the whole archive have all of it as their share.
    let layout = find(system).unwrap().bind(&job).unwrap().data_layout();
    let is_per_worker =
        layout == DataLayout::Whole && ["allreduce", "scatterreduce"].contains(&system);
    let copies = if is_per_worker { workers } else { 1 };
    job.epochs = (copies * share).div_ceil(batches * batch_size);
    job
}

/// The published barriers of peers may stay closed for ever, so that of these systems the
/// code is left out.
fn fidelities(system: &str) -> &'static [Fidelity] {
    match system {
        "spirt" | "p2p" | "p2p_lambda" => &[Fidelity::Paper, Fidelity::Tuned],
        _ => &Fidelity::ALL,
    }
}

/// The records that gradients were computed of, each as often as it was, and all of the data.
fn seen_by(job: &Job) -> (Vec<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let data = Data::new(job);
    let all = data.train.chunks_exact(3).map(<[u8]>::to_vec).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = seen.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ran = testing::run_on(job, &data, move || {
        let noting = noting.clone();
        hooked(move |batch| {
            let records = batch.records.bytes().unwrap();
            // A test's record has three bytes.
            let records = records.chunks_exact(3).map(<[u8]>::to_vec);
            noting.lock().unwrap().extend(records);
            Ok(())
        })
    });
    runtime.block_on(ran).unwrap();
    let seen = seen.lock().unwrap().clone();
    (seen, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// ⌈share / (B·b)⌉ epochs visit every sample of every share, in every system and layout.
    #[test]
    fn every_sample_is_visited(
        workers in 1usize..4, batch_size in 1usize..4, batches in 1usize..4, extra in 0usize..9,
    ) {
        let share = batch_size * batches + extra;
        for system in systems() {
            for fidelity in fidelities(system.name()) {
                let job = job(system.name(), *fidelity, [workers, share, batch_size, batches]);
                let (seen, all) = seen_by(&job);
                let seen: BTreeSet<_> = seen.into_iter().collect();
                prop_assert_eq!(
                    seen.len(), all.len(), "{} {:?} in {} epochs", system.name(), fidelity, job.epochs,
                );
            }
        }
    }

    /// Where the last mini-batch is the rest of the share, each epoch visits every sample once.
    #[test]
    fn an_epoch_may_end_with_the_rest(
        workers in 1usize..4, batch_size in 2usize..5, full in 0usize..3, rest in 1usize..5, epochs in 1usize..3,
    ) {
        let rest = rest.min(batch_size - 1);
        let share = full * batch_size + rest;
        let of_the_rest = |system: &&&dyn System| {
            let job = testing::job(system.name(), Fidelity::Paper, 1, &Map::new()).unwrap();
            system.bind(&job).unwrap().trains_on_the_rest()
        };
        let named: Vec<&str> = systems().iter().filter(of_the_rest).map(|system| system.name()).collect();
        prop_assert_eq!(&named, &["p2p", "p2p_lambda"]);
        for system in named {
            let mut job = job(system, Fidelity::Paper, [workers, share, batch_size, full + 1]);
            (job.last_batch, job.epochs) = (Some(rest), epochs);
            prop_assert_eq!(job.samples_per_worker(), share);
            let (mut seen, all) = seen_by(&job);
            prop_assert_eq!(seen.len(), epochs * workers * share, "{}", system);
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), all.len());
        }
    }
}
