//! Random commands on every tensor store that computes as the kernels do,
//! against the one in memory: the same outcome and the same bits after each.

use std::sync::Arc;

use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{
    ChannelError, Operation, OperationKind, Payload, Reply, RobustMean, RobustRule, SgdStep,
    TensorCommand, TensorStore,
};

use super::tensors::backends;
use super::{keys, vector};

const SEED: u64 = 20_260_101;
const COMMANDS: usize = 3_000;

/// Few keys, so that commands meet; some that a wire could spoil.
const KEYS: [&str; 10] = [
    "w",
    "w:velocity",
    "g0",
    "g1",
    "g2",
    "list",
    "",
    "\u{0}",
    "a b\r\n",
    "clé \"ü\"",
];

/// Draws commands from a seed.
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

    fn command(&mut self) -> TensorCommand {
        let kind = match self.below(13) {
            0..3 => {
                let (key, value) = (self.key(), self.value());
                return TensorCommand::Set { key, value };
            }
            3 => {
                let (key, start) = (self.key(), self.below(4) as u64);
                let elements = start..start + self.below(7) as u64;
                return TensorCommand::GetRange { key, elements };
            }
            4..6 => {
                let operation = Operation::accumulate(self.key());
                let sent = Some(self.value());
                return TensorCommand::Compute { operation, sent };
            }
            6 => OperationKind::Mean,
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
                OperationKind::Robust(RobustMean { mixed, rule })
            }
            8 | 9 => OperationKind::Step(self.step()),
            10 => {
                let nonsense = self.below(30) == 0;
                let text = match self.below(9) {
                    _ if nonsense => "x".to_owned(),
                    number => format!("[{number}, 0.1]"),
                };
                let (key, value) = ("list".to_owned(), text.into_bytes().into());
                return TensorCommand::Push { key, value };
            }
            11 => {
                let (key, count) = ("list".to_owned(), self.below(4) as u64);
                return TensorCommand::JsonMean { key, count };
            }
            _ => {
                let keys = (0..self.below(3)).map(|_| self.key()).collect();
                return TensorCommand::Delete { keys };
            }
        };
        let (target, sent) = (self.key(), None);
        let sources = match kind {
            // A step with one gradient is another command on the wire.
            OperationKind::Step(_) if self.below(2) == 0 => vec![self.key()],
            _ => self.sources(),
        };
        let operation = Operation::new(target, kind, sources);
        TensorCommand::Compute { operation, sent }
    }
}

/// Outcome of a command, as far as stores must agree on it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done(Reply),
    Missing(String),
    Refused,
}

async fn outcome(store: &TensorStore, command: TensorCommand) -> Outcome {
    match store.run(command).await {
        Ok(reply) => Outcome::Done(reply),
        Err(ChannelError::Missing { key, .. }) => Outcome::Missing(key),
        Err(ChannelError::Refused { .. } | ChannelError::Kernel(_)) => Outcome::Refused,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_store_gives_the_same_bits() {
    for backend in backends().await {
        if backend.is_lua() {
            continue;
        }
        let (name, store) = (backend.name, backend.store);
        let twin = TensorStore::new(Arc::new(MemoryTensors::default()));
        let mut draws = Draws(SEED);
        let (mut done, mut computed) = (0, 0);
        for number in 0..COMMANDS {
            let command = draws.command();
            let found = outcome(&store, command.clone()).await;
            let expected = outcome(&twin, command.clone()).await;
            assert_eq!(found, expected, "{name}, {number}: {command:?}");
            let is_done = matches!(found, Outcome::Done(_));
            done += usize::from(is_done);
            computed += usize::from(is_done && matches!(command, TensorCommand::Compute { .. }));
            for key in keys(&KEYS) {
                let get = TensorCommand::Get { key };
                let found = outcome(&store, get.clone()).await;
                let expected = outcome(&twin, get.clone()).await;
                assert_eq!(
                    found, expected,
                    "{name}, {get:?} after {number}: {command:?}"
                );
            }
        }
        assert!(done > COMMANDS / 2, "only {done} of {COMMANDS} succeeded");
        assert!(computed > COMMANDS / 8, "only {computed} computed anything");
    }
}
