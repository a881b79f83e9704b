//! Random commands: mostly meaningful, often wrong, sometimes nonsense.

use std::fmt;

use super::super::client::shown;

/// A command and its arguments.
pub type Words = Vec<Vec<u8>>;

/// Few keys, so that commands meet; some that a wire could spoil.
pub const KEYS: [&[u8]; 12] = [
    b"w",
    b"w:velocity",
    b"g0",
    b"g1",
    b"g2",
    b"g3",
    b"g4",
    b"list",
    b"",
    b"a b\r\n",
    "clé \"ü\"".as_bytes(),
    b"\0",
];
/// Keys that list commands may name.
pub const LIST_KEYS: [&[u8]; 3] = [b"list", b"g4", b"w:velocity"];
/// A key that is hardly ever there.
pub const NO_KEY: &[u8] = b"none";
/// A hash, set or stream in the module, a list in the embedded store: both are
/// of the wrong kind for every other command.
pub const OTHER_KEY: &[u8] = b"other";

/// What is done next.
pub enum Step {
    /// One command, in both stores.
    Both(Words),
    /// Several at once.
    Pipeline(Vec<Words>),
    /// Several commands in a transaction of the module.
    Transaction(Vec<Words>),
    /// One command in a script of the module.
    Script(Words),
    /// Different commands with the same effect.
    Translated {
        module: Vec<Words>,
        twin: Vec<Words>,
    },
    /// A value carried from one key to another.
    Carried {
        by: Carry,
        from: Vec<u8>,
        to: Vec<u8>,
    },
}

/// The commands of the module by which a value gets to another key: DUMP and RESTORE, COPY, or RENAME.
#[derive(Clone, Copy, Debug)]
pub enum Carry {
    Dump,
    Copy,
    Rename,
}

impl Step {
    /// Commands that the step sends to the module.
    pub fn commands(&self) -> usize {
        match self {
            Self::Both(_) | Self::Script(_) => 1,
            Self::Pipeline(commands) | Self::Transaction(commands) => commands.len(),
            Self::Translated { module, .. } => module.len(),
            Self::Carried { .. } => 2,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, commands) = match self {
            Self::Both(words) => ("", vec![shown(words)]),
            Self::Script(words) => ("script: ", vec![shown(words)]),
            Self::Pipeline(all) => ("pipeline: ", all.iter().map(|c| shown(c)).collect()),
            Self::Transaction(all) => ("transaction: ", all.iter().map(|c| shown(c)).collect()),
            Self::Translated { module, .. } => ("", module.iter().map(|c| shown(c)).collect()),
            Self::Carried { by, from, to } => {
                return write!(f, "{by:?} {}", shown(&[from, to]));
            }
        };
        write!(f, "{name}{}", commands.join("; "))
    }
}

/// The words of a command.
fn of(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Draws steps from a seed.
pub struct Generator(u64);

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn step(&mut self) -> Step {
        match self.below(100) {
            0..70 => Step::Both(self.command()),
            70..78 => Step::Pipeline(self.several()),
            78..86 => Step::Transaction(self.several()),
            86..93 => Step::Script(self.command()),
            93..96 => Step::Carried {
                by: self.pick(&[Carry::Dump, Carry::Copy, Carry::Rename]),
                from: self.value_key(),
                to: self.value_key(),
            },
            _ => self.translated(),
        }
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn several(&mut self) -> Vec<Words> {
        let count = 1 + self.below(6);
        (0..count).map(|_| self.command()).collect()
    }

    /// A key that never holds a list or anything else that is no value.
    fn value_key(&mut self) -> Vec<u8> {
        self.pick(&[b"w".as_slice(), b"g0", b"g1", b"g2", b"g3", b"", b"\0"])
            .to_vec()
    }

    fn key(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => OTHER_KEY.to_vec(),
            1 => NO_KEY.to_vec(),
            2..30 => self.pick(&KEYS[..7]).to_vec(),
            _ => self.pick(&KEYS).to_vec(),
        }
    }

    /// Mostly tensors of one length; some of any bits, shorter, ragged or large.
    fn blob(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => (0..5)
                .flat_map(|_| (self.next() as u32).to_le_bytes())
                .collect(),
            1 => {
                let infinite = f32::INFINITY;
                let odd = [f32::NAN, infinite, -infinite, -0.0, f32::MAX, 1e-45];
                (0..5).flat_map(|_| self.pick(&odd).to_le_bytes()).collect()
            }
            2..4 => {
                let length = self.below(12);
                (0..length).map(|_| self.next() as u8).collect()
            }
            4 => b"12345678".to_vec(),
            5 if self.below(10) == 0 => self.floats(100_000),
            5..8 => self.floats(75),
            _ => self.floats(5),
        }
    }

    fn floats(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|_| {
                let unit = self.next() as f64 / u64::MAX as f64;
                ((unit * 16.0 - 8.0) as f32).to_le_bytes()
            })
            .collect()
    }

    fn setting(&mut self) -> Vec<u8> {
        let ordinary = ["0", "0", "0.1", "-0.5", "1e-3", "0.9", "-0"];
        let wild = ["1e-45", "3.4e38", "-40000000"];
        let wrong = ["nan", "inf", "1e999", "", "x", "0x1"];
        match self.below(60) {
            0 => self.pick(&wild).into(),
            1 | 2 => self.pick(&wrong).into(),
            _ => self.pick(&ordinary).into(),
        }
    }

    fn settings(&mut self) -> Words {
        vec![self.setting(), self.setting(), self.setting()]
    }

    /// Sources, mostly few; now and then so many that the work is long.
    fn sources(&mut self) -> Words {
        let count = match self.below(200) {
            0 => 130 + self.below(70),
            1 => 4_000,
            _ => self.below(7),
        };
        let mut words = vec![Vec::new()];
        // One length, so that most reductions succeed.
        let steady = self.below(4) > 0;
        let few = [b"g0".as_slice(), b"g1", b"g2", b"g3", b"w"];
        words.extend((0..count).map(|_| {
            if steady {
                self.pick(&few).to_vec()
            } else {
                self.key()
            }
        }));
        words[0] = match self.below(40) {
            0 => b"18446744073709551615".to_vec(),
            1 => b"-1".to_vec(),
            2 => b"4097".to_vec(),
            3 => self.below(9).to_string().into_bytes(),
            _ => count.to_string().into_bytes(),
        };
        words
    }

    fn command(&mut self) -> Words {
        let mut words = match self.below(100) {
            0..16 => self.words("TENSOR.SET", |g| vec![g.key(), g.blob()]),
            16..20 => self.words("SET", |g| vec![g.key(), g.blob()]),
            20..22 => self.words("TENSOR.GET", |g| vec![g.key()]),
            22..25 => self.words("TENSOR.GETRANGE", |g| {
                let numbers = ["0", "1", "4", "5", "18446744073709551615", "-1"];
                vec![g.key(), g.pick(&numbers).into(), g.pick(&numbers).into()]
            }),
            25..35 => self.words("TENSOR.ACCUMULATE", |g| vec![g.key(), g.blob()]),
            35..47 => self.words("TENSOR.MEAN", |g| [vec![g.key()], g.sources()].concat()),
            47..60 => self.words("TENSOR.ROBUST", |g| {
                [vec![g.key()], g.rule(), g.sources()].concat()
            }),
            60..72 => self.words("TENSOR.SGD", |g| {
                [vec![g.key(), g.key()], g.settings()].concat()
            }),
            72..82 => self.words("TENSOR.MEANSGD", |g| {
                [vec![g.key()], g.settings(), g.sources()].concat()
            }),
            82..86 => self.words("RPUSH", |g| {
                let text = g.pick(&["[1,2.5]", "[1e-3,7]", "[]", "[1]", "x", "[[1]]"]);
                vec![g.pick(&LIST_KEYS).to_vec(), text.into()]
            }),
            86..89 => self.words("TENSOR.JSONMEAN", |g| {
                let count = g.pick(&["0", "1", "2", "9", "18446744073709551615"]);
                vec![g.pick(&LIST_KEYS).to_vec(), count.into()]
            }),
            89..93 => {
                let name = self.pick(&["DEL", "UNLINK", "EXISTS"]);
                self.words(name, |g| (0..=g.below(2)).map(|_| g.key()).collect())
            }
            93..95 => self.words("STRLEN", |g| vec![g.key()]),
            95..97 => self.words("GET", |g| vec![g.key()]),
            97 => self.words("LLEN", |g| vec![g.pick(&LIST_KEYS).to_vec()]),
            _ => return self.nonsense(),
        };
        if self.below(60) == 0 && words[0].starts_with(b"TENSOR.") {
            words.pop();
        } else if self.below(60) == 0 && words[0].starts_with(b"TENSOR.") {
            words.push(b"extra".to_vec());
        }
        words
    }

    fn words(&mut self, name: &str, arguments: impl FnOnce(&mut Self) -> Words) -> Words {
        let mut words = vec![name.as_bytes().to_vec()];
        words.extend(arguments(self));
        words
    }

    fn rule(&mut self) -> Words {
        let setting = self.below(4).to_string().into_bytes();
        let other = self.below(4).to_string().into_bytes();
        let mut words = match self.below(8) {
            0 => vec![b"mixed".to_vec(), self.below(3).to_string().into_bytes()],
            _ => Words::new(),
        };
        words.extend(match self.below(22) {
            0..5 => vec![b"median".to_vec()],
            5..10 => vec![b"TRIMMED".to_vec(), setting],
            10..15 => vec![b"Krum".to_vec(), setting],
            15..17 => vec![b"MultiKrum".to_vec(), setting, other],
            17..19 => vec![b"GEOMETRIC".to_vec(), setting, self.setting()],
            19..21 => vec![b"CLIPPED".to_vec(), self.setting(), setting],
            _ => vec![b"mode".to_vec()],
        });
        words
    }

    /// A command of the table with any words behind it.
    fn nonsense(&mut self) -> Words {
        let names = "SET GET GETRANGE ACCUMULATE MEAN ROBUST SGD MEANSGD JSONMEAN";
        let names: Vec<&str> = names.split(' ').collect();
        let name = format!("TENSOR.{}", self.pick(&names));
        let count = self.below(8);
        self.words(&name, |g| {
            (0..count)
                .map(|_| match g.below(5) {
                    0 => g.key(),
                    // Not UTF-8, and never one of the keys that are compared.
                    1 => vec![0xff, g.next() as u8],
                    2 => g.pick(&["1", "2", "KRUM", "TRIMMED", "-1", "0.5"]).into(),
                    3 => g.setting(),
                    _ => vec![b'9'; 1 + g.below(30) as usize],
                })
                .collect()
        })
        .into_iter()
        .map(|word| if word == OTHER_KEY { b"w".into() } else { word })
        .collect()
    }

    /// Returns a step that only the module has commands for.
    fn translated(&mut self) -> Step {
        let (from, to) = (self.value_key(), self.value_key());
        let same = |words: Words| Step::Translated {
            module: vec![words],
            twin: Vec::new(),
        };
        match self.below(9) {
            0 => Step::Translated {
                module: vec![of(&[b"PEXPIREAT", &to, b"1"])],
                twin: vec![of(&[b"DEL", &to])],
            },
            // Expired but still there when the next command meets it.
            1 => Step::Translated {
                module: vec![
                    of(&[b"PEXPIRE", &to, b"1"]),
                    of(&[b"DEBUG", b"SLEEP", b"0.003"]),
                ],
                twin: vec![of(&[b"DEL", &to])],
            },
            2 | 3 => same(of(&[b"PEXPIRE", &to, b"100000000"])),
            4 => same(of(&[b"PERSIST", &to])),
            5 => same(of(&[b"DEBUG", b"RELOAD"])),
            6 => same(of(&[b"MEMORY", b"USAGE", &from])),
            7 => same([of(&[b"COMMAND", b"GETKEYS"]), self.command()].concat()),
            _ => {
                let other: [&[&[u8]]; 4] = [
                    &[b"HSET", OTHER_KEY, b"f", b"v"],
                    &[b"SADD", OTHER_KEY, b"m"],
                    &[b"ZADD", OTHER_KEY, b"1", b"m"],
                    &[b"XADD", OTHER_KEY, b"*", b"f", b"v"],
                ];
                let gone = of(&[b"DEL", OTHER_KEY]);
                Step::Translated {
                    module: vec![gone.clone(), of(self.pick(&other))],
                    twin: vec![gone, of(&[b"RPUSH", OTHER_KEY, b"x"])],
                }
            }
        }
    }
}
