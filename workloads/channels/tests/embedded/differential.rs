//! The same commands on a store directly and through server and client must
//! leave and answer the same bits.

use std::sync::Arc;

use epochcost_channels::client::{RedisTensors, S3Objects};
use epochcost_channels::embedded::{ObjectServer, TensorServer};
use epochcost_channels::memory::{MemoryObjects, MemoryTensors};
use epochcost_channels::{
    ChannelError, ObjectStore, Payload, Result, RobustMean, RobustRule, SgdStep, TensorStore,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Outcome of a command. An error of a kernel arrives as a refusal with the
/// kernel's words; the missing key is compared.
fn outcome(result: Result<Option<Payload>>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(ChannelError::Missing { key, .. }) => format!("no {key:?}"),
        Err(ChannelError::Unreachable { reason, .. }) => panic!("connection lost: {reason}"),
        Err(_) => "refused".to_owned(),
    }
}

#[derive(Clone, Debug)]
enum Command {
    Set(String, Vec<u8>),
    Get(String),
    GetRange(String, u64, u64),
    Accumulate(String, Vec<u8>),
    Mean(String, Vec<String>),
    Robust(String, RobustMean, Vec<String>),
    Sgd(String, String, SgdStep),
    MeanSgd(String, Vec<String>, SgdStep),
    Push(String, String),
    JsonMean(String, u64),
    Delete(Vec<String>),
}

impl Command {
    async fn run(&self, store: &dyn TensorStore) -> String {
        let nothing = |result: Result<()>| result.map(|()| None);
        outcome(match self {
            Self::Set(key, value) => nothing(store.set(key, value.clone().into()).await),
            Self::Get(key) => store.get(key).await,
            Self::GetRange(key, start, end) => store.get_range(key, *start..*end).await,
            Self::Accumulate(key, value) => {
                nothing(store.accumulate(key, value.clone().into()).await)
            }
            Self::Mean(key, sources) => nothing(store.mean(key, sources).await),
            Self::Robust(key, rule, sources) => {
                nothing(store.robust_mean(key, *rule, sources).await)
            }
            Self::Sgd(key, gradient, step) => nothing(store.sgd(key, gradient, *step).await),
            Self::MeanSgd(key, sources, step) => nothing(store.mean_sgd(key, sources, *step).await),
            Self::Push(key, text) => {
                nothing(store.push(key, text.clone().into_bytes().into()).await)
            }
            Self::JsonMean(key, count) => store.json_mean(key, *count).await.map(Some),
            Self::Delete(keys) => nothing(store.delete(keys).await),
        })
    }
}

/// Few keys, so that commands meet; some that a wire could spoil.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["w", "w:velocity", "g0", "g1", "g2", "g3", "list"]),
        1 => prop::sample::select(vec!["", "a b\r\n", "clé \"ü\"", "\u{0}"]),
    ]
    .prop_map(str::to_owned)
}

/// Mostly tensors of one length, any bits; some shorter or ragged.
fn blob() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(-8.0_f32..8.0, 5).prop_map(|values| epochcost_kernels::codec::encode_f32(&values)),
        1 => vec(any::<u32>().prop_map(u32::to_le_bytes), 5).prop_map(|words| words.concat()),
        1 => vec(any::<u8>(), 0..9),
    ]
}

fn step() -> impl Strategy<Value = SgdStep> {
    let setting = || prop_oneof![Just(0.0_f32), Just(1e-45), Just(0.1), -3.0_f32..3.0];
    (setting(), setting(), setting()).prop_map(|(learning_rate, momentum, weight_decay)| SgdStep {
        learning_rate,
        momentum,
        weight_decay,
    })
}

fn rule() -> impl Strategy<Value = RobustMean> {
    let rule = prop_oneof![
        Just(RobustRule::CoordinateMedian),
        (0_usize..3).prop_map(|trim| RobustRule::TrimmedMean { trim }),
        (0_usize..2).prop_map(|faulty| RobustRule::Krum { faulty }),
        (0_usize..2, 0_usize..4).prop_map(|(faulty, kept)| RobustRule::MultiKrum { faulty, kept }),
        (0_usize..4, 0.0_f32..1.0).prop_map(|(iterations, smoothing)| {
            RobustRule::GeometricMedian {
                iterations,
                smoothing,
            }
        }),
        (0_usize..4, 0.0_f32..9.0)
            .prop_map(|(iterations, radius)| RobustRule::CentredClipping { radius, iterations }),
    ];
    let mixed = prop_oneof![2 => Just(None), 1 => (0_usize..3).prop_map(Some)];
    (mixed, rule).prop_map(|(mixed, rule)| RobustMean { mixed, rule })
}

fn command() -> impl Strategy<Value = Command> {
    let keys = || vec(key(), 0..6);
    prop_oneof![
        6 => (key(), blob()).prop_map(|(k, v)| Command::Set(k, v)),
        3 => key().prop_map(Command::Get),
        1 => (key(), 0_u64..4, 0_u64..8).prop_map(|(k, a, b)| Command::GetRange(k, a, b)),
        2 => (key(), blob()).prop_map(|(k, v)| Command::Accumulate(k, v)),
        2 => (key(), keys()).prop_map(|(k, s)| Command::Mean(k, s)),
        2 => (key(), rule(), keys()).prop_map(|(k, r, s)| Command::Robust(k, r, s)),
        2 => (key(), key(), step()).prop_map(|(k, g, s)| Command::Sgd(k, g, s)),
        2 => (key(), keys(), step()).prop_map(|(k, g, s)| Command::MeanSgd(k, g, s)),
        1 => (key(), "(\\[-?[0-9]{1,3}(\\.[0-9]{1,9})?,1e-3\\]|[a-z]{3})")
            .prop_map(|(k, t)| Command::Push(k, t)),
        1 => (key(), 0_u64..4).prop_map(|(k, n)| Command::JsonMean(k, n)),
        1 => keys().prop_map(Command::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tensor_commands_do_the_same_over_the_wire(commands in vec(command(), 1..80)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let direct = MemoryTensors::default();
            let server = TensorServer::start(Arc::default()).await.unwrap();
            let client = RedisTensors::connect(&server.endpoint()).await.unwrap();
            for (i, command) in commands.iter().enumerate() {
                let (here, there) = (command.run(&direct).await, command.run(&client).await);
                assert_eq!(here, there, "command {i}: {command:?}");
            }
            for key in ["w", "w:velocity", "g0", "g1", "g2", "g3", "list"] {
                let get = Command::Get(key.to_owned());
                assert_eq!(get.run(&direct).await, get.run(&client).await, "{key} at the end");
            }
        });
    }

    #[test]
    fn object_requests_do_the_same_over_the_wire(
        requests in vec(("[bp]", "(a|b c|d\\+é|%41)(/(&<|\"'>))?", 0_u8..6, vec(any::<u8>(), 0..20),
            0_u64..8, 0_u64..24), 1..60),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let direct = MemoryObjects::default();
            let server = ObjectServer::start(Arc::default()).await.unwrap();
            let client = S3Objects::new(&server.endpoint()).unwrap();
            for (bucket, key, kind, body, start, end) in requests {
                let mut answers = Vec::new();
                for store in [&direct as &dyn ObjectStore, &client] {
                    answers.push(match kind {
                        0 | 1 => outcome(store.put(&bucket, &key, body.clone().into()).await.map(|()| None)),
                        2 => outcome(store.get(&bucket, &key).await),
                        3 => outcome(store.get_range(&bucket, &key, start..end).await),
                        4 => outcome(store.delete(&bucket, std::slice::from_ref(&key)).await.map(|()| None)),
                        _ => format!("{:?}", store.list(&bucket, &key[..1], None).await.unwrap()),
                    });
                }
                assert_eq!(answers[0], answers[1], "{kind} {bucket}/{key} {start}..{end}");
            }
        });
    }
}
