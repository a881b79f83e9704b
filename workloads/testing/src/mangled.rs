//! Texts changed at random, for tests of what reads them.

use epochcost_kernels::hash;

/// What is written in the place of a number or a word.
const ODD: [&str; 20] = [
    "0",
    "-1",
    "0.1",
    "1e308",
    "-1e308",
    "1e-308",
    "1e19",
    ".nan",
    ".inf",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "1e400",
    "''",
    "[]",
    "{}",
    "~",
    "é\u{202e}",
    "&a [*a, *a]",
    "!!binary x",
];

/// Numbers drawn from a seed.
pub struct Drawn {
    seed: u64,
    number: u64,
}

impl Drawn {
    /// Returns the numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, number: 0 }
    }

    /// Returns the next number below `limit`, or 0 where that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.number += 1;
        (hash::mix(self.seed, self.number) % limit.max(1) as u64) as usize
    }
}

/// Changes a text in one to three places: cut, repeated, swapped, odd numbers and bytes in the place of words.
pub fn mangled(text: &str, drawn: &mut Drawn) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    for _ in 0..=drawn.below(3) {
        let place = drawn.below(text.len());
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
        let ends = |from: usize| {
            (from..text.len())
                .find(|at| !is_of_word(&text[*at]))
                .unwrap_or(text.len())
        };
        let word = (place..text.len())
            .find(|at| is_of_word(&text[*at]))
            .unwrap_or(place);
        let word = word..ends(word);
        let line = text[place..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |at| place + at + 1);
        let next = text[line..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |at| line + at + 1);
        match drawn.below(10) {
            0 => text.truncate(place),
            1 => drop(text.splice(place..place, [drawn.below(256) as u8])),
            2 => drop(text.splice(line..next, [])),
            3 => {
                let again = text[line..next].to_vec();
                drop(text.splice(line..line, again));
            }
            4 => {
                let from = drawn.below(text.len());
                let other = text[from..ends(from)].to_vec();
                drop(text.splice(word, other));
            }
            5 => {
                let many = text[word.clone()].repeat(1 << drawn.below(12));
                drop(text.splice(word, many));
            }
            _ => drop(text.splice(word, ODD[drawn.below(ODD.len())].bytes())),
        }
    }
    text
}
