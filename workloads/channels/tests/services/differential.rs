//! Random operations on every tensor store that computes as the kernels do,
//! against the one in memory: the same outcome and the same bits after each.

use std::sync::Arc;

use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{
    ChannelError, Payload, Result, RobustMean, RobustRule, SgdStep, TensorStore,
};

use super::tensors::backends;
use super::{keys, vector};

const SEED: u64 = 20_260_101;
const OPERATIONS: usize = 3_000;

/// Few keys, so that operations meet; some that a wire could spoil.
const KEYS: [&str; 8] = [
    "w",
    "w:velocity",
    "g0",
    "g1",
    "g2",
    "list",
    "a b\r\n",
    "clé \"ü\"",
];

/// Draws operations from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn key(&mut self) -> String {
        KEYS[self.below(KEYS.len())].to_owned()
    }

    /// Mostly the parameters, their velocity and gradients.
    fn sources(&mut self) -> Vec<String> {
        let count = self.below(6);
        (0..count).map(|_| KEYS[self.below(5)].to_owned()).collect()
    }

    /// Mostly five numbers of many sizes; now and then something else.
    fn value(&mut self) -> Payload {
        const ODD: [f32; 5] = [
            f32::NAN,
            f32::INFINITY,
            -0.0,
            f32::MIN_POSITIVE / 2.0,
            f32::MAX,
        ];
        let length = [5, 5, 5, 5, 5, 5, 5, 5, 4, 0][self.below(10)];
        let numbers: Vec<f32> = (0..length)
            .map(|_| match self.below(40) {
                0 => ODD[self.below(ODD.len())],
                _ => (self.below(2_001) as f32 - 1_000.0) * 10_f32.powi(self.below(9) as i32 - 6),
            })
            .collect();
        if self.below(40) == 0 {
            return vec![1_u8; 5].into();
        }
        vector(&numbers)
    }

    fn step(&mut self) -> SgdStep {
        SgdStep {
            learning_rate: [0.01, 0.5, 0.0][self.below(3)],
            momentum: [0.0, 0.9][self.below(2)],
            weight_decay: [0.0, 1e-4][self.below(2)],
        }
    }

    fn operation(&mut self) -> Operation {
        match self.below(12) {
            0..3 => Operation::Set(self.key(), self.value()),
            3 => Operation::GetRange(self.key(), self.below(4) as u64, self.below(7) as u64),
            4..6 => Operation::Accumulate(self.key(), self.value()),
            6 => Operation::Mean(self.key(), self.sources()),
            7 => {
                let rule = [
                    RobustRule::CoordinateMedian,
                    RobustRule::TrimmedMean { trim: 1 },
                    RobustRule::Krum { faulty: 1 },
                    RobustRule::MultiKrum { faulty: 0, kept: 2 },
                    RobustRule::GeometricMedian {
                        iterations: 3,
                        smoothing: 0.1,
                    },
                    RobustRule::CentredClipping {
                        radius: 2.0,
                        iterations: 2,
                    },
                ][self.below(6)];
                let mixed = [None, Some(1)][self.below(2)];
                Operation::Robust(self.key(), RobustMean { mixed, rule }, self.sources())
            }
            8 => Operation::Sgd(self.key(), self.key(), self.step()),
            9 => Operation::MeanSgd(self.key(), self.sources(), self.step()),
            10 => Operation::Push(self.below(30) == 0, self.below(9)),
            _ => Operation::Delete(self.key()),
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Set(String, Payload),
    GetRange(String, u64, u64),
    Accumulate(String, Payload),
    Mean(String, Vec<String>),
    Robust(String, RobustMean, Vec<String>),
    Sgd(String, String, SgdStep),
    MeanSgd(String, Vec<String>, SgdStep),
    /// Append to the list: nonsense or not, and the number.
    Push(bool, usize),
    Delete(String),
}

/// Outcome of an operation, as far as stores must agree on it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done(Option<Payload>),
    Missing(String),
    Refused,
}

fn outcome(result: Result<Option<Payload>>) -> Outcome {
    match result {
        Ok(value) => Outcome::Done(value),
        Err(ChannelError::Missing { key, .. }) => Outcome::Missing(key),
        Err(ChannelError::Refused { .. } | ChannelError::Kernel(_)) => Outcome::Refused,
        Err(error) => panic!("{error}"),
    }
}

async fn carry_out(store: &dyn TensorStore, operation: Operation) -> Outcome {
    let done = |result: Result<()>| outcome(result.map(|()| None));
    match operation {
        Operation::Set(key, value) => done(store.set(&key, value).await),
        Operation::GetRange(key, start, count) => {
            outcome(store.get_range(&key, start..start + count).await)
        }
        Operation::Accumulate(key, value) => done(store.accumulate(&key, value).await),
        Operation::Mean(key, sources) => done(store.mean(&key, &sources).await),
        Operation::Robust(key, rule, sources) => {
            done(store.robust_mean(&key, rule, &sources).await)
        }
        Operation::Sgd(key, gradient, step) => done(store.sgd(&key, &gradient, step).await),
        Operation::MeanSgd(key, sources, step) => done(store.mean_sgd(&key, &sources, step).await),
        Operation::Push(nonsense, number) => {
            let text = if nonsense {
                "x".into()
            } else {
                format!("[{number}, 0.1]")
            };
            let pushed = store.push("list", text.into_bytes().into()).await;
            if pushed.is_err() {
                return done(pushed);
            }
            outcome(store.json_mean("list", 3).await.map(Some))
        }
        Operation::Delete(key) => done(store.delete(&[key]).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_store_gives_the_same_bits() {
    for backend in backends().await {
        if backend.is_lua() {
            continue;
        }
        let (name, store) = (backend.name, backend.store);
        let twin: Arc<dyn TensorStore> = Arc::new(MemoryTensors::default());
        let mut draws = Draws(SEED);
        let (mut done, mut computed) = (0, 0);
        for number in 0..OPERATIONS {
            let operation = draws.operation();
            let found = carry_out(&*store, operation.clone()).await;
            let expected = carry_out(&*twin, operation.clone()).await;
            assert_eq!(found, expected, "{name}, {number}: {operation:?}");
            done += usize::from(matches!(found, Outcome::Done(_)));
            let computes = !matches!(
                operation,
                Operation::Set(..)
                    | Operation::GetRange(..)
                    | Operation::Push(..)
                    | Operation::Delete(_)
            );
            computed += usize::from(computes && matches!(found, Outcome::Done(_)));
            for key in keys(&KEYS) {
                let found = outcome(store.get(&key).await);
                let expected = outcome(twin.get(&key).await);
                assert_eq!(
                    found, expected,
                    "{name}, {key:?} after {number}: {operation:?}"
                );
            }
        }
        assert!(
            done > OPERATIONS / 2,
            "only {done} of {OPERATIONS} operations succeeded"
        );
        assert!(
            computed > OPERATIONS / 8,
            "only {computed} computed anything"
        );
    }
}
