//! Workers that run ahead of the slowest.

use super::*;

/// Notes who begins which step. Worker 0 begins its first when worker 1 begins the last that
/// the slack lets it.
struct Ahead {
    job: Job,
    slack: usize,
    begun: Arc<Mutex<Vec<(usize, usize)>>>,
}

#[async_trait]
impl ComputeHook for Ahead {
    async fn before_gradient(&mut self, batch: &Batch) -> epochcost_systems::Result<()> {
        // In the first epoch the list of mini-batches is in order.
        let listed = batch.rank * self.job.batches_per_worker + batch.index;
        let own = (listed % self.job.workers, listed / self.job.workers);
        let last = (1, self.slack);
        let is_held = || !self.begun.lock().unwrap().contains(&last);
        while own == (0, 0) && is_held() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if own == (0, 0) {
            // Time for others to run further ahead, if something let them.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        self.begun.lock().unwrap().push(own);
        Ok(())
    }
}

/// Worker 1 begins as many further steps as the slack says while worker 0 is in its first,
/// and nobody ever begins one more.
#[tokio::test]
async fn workers_run_ahead_of_the_slowest_by_the_slack_and_no_further() {
    for slack in [1, 2, 4] {
        let mut job = job(Fidelity::Paper, 3, json!({"slack": slack}));
        (job.epochs, job.batches_per_worker) = (1, 6);
        job.data.train_samples = 3 * 6 * job.batch_size;
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (hooked, noted) = (job.clone(), begun.clone());
        let compute = move || {
            let (job, begun) = (hooked.clone(), noted.clone());
            let ahead = Ahead { job, slack, begun };
            HookedCompute::boxed(ahead, testing::compute())
        };
        let trial = tokio::time::timeout(Duration::from_secs(60), testing::run_with(&job, compute));
        let trial = trial.await.unwrap().unwrap();
        assert_eq!(trial.exchange(), form_of(&job, &trial));
        let begun = begun.lock().unwrap();
        assert_eq!(begun.len(), 3 * 6);
        for (place, (worker, step)) in begun.iter().enumerate() {
            // All have reported the step that the barrier of its last one was of.
            let Some(behind) = step.checked_sub(1 + slack) else {
                continue;
            };
            for other in 0..3 {
                let reported = begun[..place].contains(&(other, behind));
                assert!(reported, "{worker} began {step} before {other} {behind}");
            }
        }
    }
}

/// Updates that are sent whole and added late are added all the same: replicas end as the sum
/// of all updates, up to the order of addition.
#[tokio::test]
async fn with_slack_every_update_is_added_in_the_end() {
    for slack in [1, 4] {
        let settings = json!({"slack": slack, "filter": "none"});
        let job = long_job(3, settings);
        let trial = run(&job).await;
        let (first, second) = (model(&job, &trial, 1).await, model(&job, &trial, 2).await);
        for (one, other) in first.iter().zip(&second) {
            assert!((one - other).abs() < 1e-4, "{one} is not {other}");
        }
    }
}

/// A worker deletes an update when all have read it.
#[tokio::test]
async fn with_slack_updates_are_deleted_once_read() {
    let job = long_job(2, json!({"slack": 3, "filter": "none"}));
    let trial = run(&job).await;
    let steps = (job.epochs * job.batches_per_worker) as u64;
    for step in 0..steps {
        let key = format!("{}_up_w1_i{step}", job.trial);
        let found = trial.channels.objects.get("updates", &key).await.unwrap();
        // Those that nobody's report says are read: of the last 1 + 3 steps.
        assert_eq!(found.is_some(), step >= steps - 4, "{step} of {steps}");
    }
}
