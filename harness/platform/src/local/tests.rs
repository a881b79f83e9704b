//! Functions of a real worker, called one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::{Fault, FaultKind, Row};
use epochcost_systems::{
    DataPlan, Evaluate, Fidelity, FollowUps, Functions, Job, Task, find, requests, testing,
};
use serde_json::{Map, json};

use super::account::{Admission, Caller};
use super::clock::TrialClock;
use super::collector::Collector;
use super::gate::Gates;
use super::host::Host;
use super::lambda::{FunctionSpec, Lambda};
use super::limits::Limits;
use super::runtime_api::RuntimeApi;
use super::services::{Provider, Services};
use super::{control, worker};
use crate::TrialData;

const RECORD_BYTES: usize = 785;
const BATCHES: usize = 4;
const BATCH_SIZE: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(2);

/// One peer of SPIRT, whose functions are called by hand.
struct Peer {
    job: Job,
    lambda: Lambda,
    collector: Arc<Collector>,
    _services: Services,
    _control: (control::ControlApi, FollowUps),
}

pub(super) fn job() -> Job {
    let spirt = testing::job("spirt", Fidelity::Paper, 1, &Map::new()).unwrap();
    Job {
        trial: "sandboxes".into(),
        model: "lenet5".into(),
        data: DataPlan {
            dataset: "synthetic-mnist".into(),
            record_bytes: RECORD_BYTES,
            train_samples: BATCHES * BATCH_SIZE,
            test_samples: 1,
            ..spirt.data.clone()
        },
        batch_size: BATCH_SIZE,
        batches_per_worker: BATCHES,
        epochs: 1,
        evaluate: Evaluate::Never,
        ..spirt
    }
}

pub(super) fn row(job: &Job) -> Row {
    serde_json::from_value(json!({
        "id": "sandboxes", "job": job, "memory_mb": 512, "timeout_s": TIMEOUT.as_secs(),
        "instance_type": "g4dn.xlarge", "cpu_fallback": false, "faults": [],
    }))
    .unwrap()
}

impl Peer {
    async fn start(faults: &[Fault], environment: &[(&str, &str)]) -> Self {
        let job = job();
        let data = TrialData {
            train: vec![1; BATCHES * BATCH_SIZE * RECORD_BYTES].into(),
            test: vec![1; RECORD_BYTES].into(),
            record_bytes: RECORD_BYTES,
        };
        let layout = find("spirt").unwrap().bind(&job).unwrap().data_layout();
        let row = row(&job);
        let services = Provider::Embedded.start(&row, layout, &data).await;
        let services = services.unwrap();
        let (requests, follow_ups) = requests();
        let gates = Gates::before(&mut [], &[]).await.unwrap();
        let control = control::serve(requests, Arc::new(gates)).await.unwrap();
        let mut common = services.environment(0);
        common.push(("EPOCHCOST_CONTROL".into(), control.endpoint()));
        let faults = serde_json::to_string(faults).unwrap();
        common.push(("EPOCHCOST_FAULTS".into(), faults));
        let collector = Arc::new(Collector::default());
        let host = Arc::new(Host {
            root: None,
            program: worker::find_or_build().unwrap().path,
            environment: common,
            limits: Arc::new(Limits::detect()),
            collector: collector.clone(),
            clock: TrialClock::start(),
            logs: None,
            ends: Default::default(),
        });
        let own = environment.iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let spec = FunctionSpec {
            function_memory_mb: BTreeMap::new(),
            memory_mb: 512,
            timeout: TIMEOUT,
            storage_mb: 512,
            environment: own.collect(),
        };
        let api = RuntimeApi::start().await.unwrap();
        let account = Admission::new(Default::default());
        Self {
            job,
            lambda: Lambda::new(host, api, spec, account, Caller::Workflow),
            collector,
            _services: services,
            _control: (control, follow_ups),
        }
    }

    /// Calls a function; what is known of the invocation.
    async fn call(&self, function: &str, batch: Option<usize>) -> Invocation {
        let task = Task {
            job: self.job.clone(),
            function: function.into(),
            rank: 0,
            epoch: 0,
            batch,
            round: 0,
        };
        let result = self.lambda.invoke(task).await;
        let (_, mut invocations, unreadable) = self.collector.take();
        assert_eq!((invocations.len(), unreadable), (1, None));
        let invocation = invocations.remove(0);
        assert_eq!(invocation.error.is_some(), result.is_err());
        invocation
    }
}

/// A gradient of batch 3 ends well; those of the others do not.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_sandbox_died_the_next_call_is_cold() {
    const EXITED: &str = "Runtime.ExitError: Runtime exited with error: exit status 1";
    const TIMED_OUT: &str = "Task timed out after 2.00 seconds";
    let ends = [
        (FaultKind::OutOfMemory, "Runtime.OutOfMemory"),
        (FaultKind::Crash, EXITED),
        (FaultKind::StragglerMs(600_000), TIMED_OUT),
    ];
    let faults: Vec<Fault> = (0..)
        .zip(ends)
        .map(|(batch, (kind, _))| Fault::at_gradient(0, 0, batch, kind))
        .collect();
    let peer = Peer::start(&faults, &[]).await;
    assert_eq!(peer.call("init_peer", None).await.error, None);
    let mut before = peer.call("compute_gradients", Some(3)).await;
    assert!(before.error.is_none() && before.cold, "{before:?}");
    for (batch, (_, words)) in ends.iter().enumerate() {
        let died = peer.call("compute_gradients", Some(batch)).await;
        let why = died.error.as_deref().unwrap();
        assert!(why.contains(words), "no {words:?} in {why}");
        // It died in the warm sandbox that served the call before.
        assert!(!died.cold && died.sandbox == before.sandbox, "{died:?}");
        assert!(died.billed_ms <= 2_000, "{died:?}");
        before = peer.call("compute_gradients", Some(3)).await;
        assert!(before.error.is_none() && before.cold, "{before:?}");
        assert_ne!(before.sandbox, died.sandbox);
    }
    let warm = peer.call("compute_gradients", Some(3)).await;
    assert!(!warm.cold && warm.sandbox == before.sandbox);
}

/// An error that a function returns leaves its sandbox alive.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_error_the_sandbox_serves_on() {
    let fault = Fault::at_gradient(0, 0, 0, FaultKind::Error);
    let peer = Peer::start(&[fault], &[("RUST_LOG", "off")]).await;
    assert_eq!(peer.call("init_peer", None).await.error, None);
    let failed = peer.call("compute_gradients", Some(0)).await;
    let why = failed.error.as_deref().unwrap();
    assert!(why.contains("injected fault: error"), "{why}");
    let next = peer.call("compute_gradients", Some(3)).await;
    assert!(next.error.is_none() && !next.cold && next.sandbox == failed.sandbox);
}
