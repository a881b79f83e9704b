//! What a command must have computed, worked out again in f64 and by other
//! means than the kernels.

use std::collections::HashMap;

use super::client::floats;

/// What lay at a key: tensors and strings.
pub type Values = HashMap<Vec<u8>, Vec<u8>>;

/// The elements that must be at a key, each with how far off it may be.
pub struct Expected {
    pub key: Vec<u8>,
    pub elements: Vec<(f64, f64)>,
}

/// Roundings of one f32 operation, with room for a few.
const UNIT: f64 = f32::EPSILON as f64;

/// What `words` must have written, of the values `before` it; `None` if that is
/// not the oracle's to decide: another command, or inputs that are not ordinary
/// numbers.
pub fn expected(words: &[Vec<u8>], before: &Values) -> Option<Expected> {
    let key = words.get(1)?.clone();
    let name = words[0].to_ascii_uppercase();
    let elements = match name.as_slice() {
        b"TENSOR.ACCUMULATE" => accumulate(before.get(&key), words.get(2)?)?,
        b"TENSOR.MEAN" => mean(&vectors(words.get(3..)?, before)?)?,
        b"TENSOR.ROBUST" => robust(words, before)?,
        b"TENSOR.SGD" => {
            let gradient = vectors(words.get(2..3)?, before)?;
            step(&key, words.get(3..6)?, &gradient, before)?
        }
        b"TENSOR.MEANSGD" => {
            let gradients = vectors(words.get(6..)?, before)?;
            step(&key, words.get(2..5)?, &gradients, before)?
        }
        _ => return None,
    };
    Some(Expected { key, elements })
}

/// Numbers whose sums neither overflow nor underflow in f32.
fn ordinary(bytes: &[u8]) -> Option<Vec<f64>> {
    let values: Vec<f64> = floats(bytes).into_iter().map(f64::from).collect();
    (bytes.len().is_multiple_of(4) && values.iter().all(is_ordinary)).then_some(values)
}

fn is_ordinary(x: &f64) -> bool {
    *x == 0.0 || (1e-12..1e12).contains(&x.abs())
}

fn vectors(keys: &[Vec<u8>], before: &Values) -> Option<Vec<Vec<f64>>> {
    keys.iter().map(|key| ordinary(before.get(key)?)).collect()
}

fn columns(vectors: &[Vec<f64>]) -> impl Iterator<Item = Vec<f64>> + '_ {
    let length = vectors.first().map_or(0, Vec::len);
    (0..length).map(|j| vectors.iter().map(|vector| vector[j]).collect())
}

fn accumulate(base: Option<&Vec<u8>>, sent: &[u8]) -> Option<Vec<(f64, f64)>> {
    let sent = ordinary(sent)?;
    let base = match base {
        Some(base) => ordinary(base)?,
        None => vec![0.0; sent.len()],
    };
    let sums = base.iter().zip(&sent).map(|(a, b)| {
        let sum = a + b;
        (sum, UNIT * sum.abs())
    });
    Some(sums.collect())
}

fn mean_of(column: &[f64]) -> (f64, f64) {
    let count = column.len() as f64;
    let size: f64 = column.iter().map(|x| x.abs()).sum();
    (column.iter().sum::<f64>() / count, UNIT * size)
}

fn mean(vectors: &[Vec<f64>]) -> Option<Vec<(f64, f64)>> {
    Some(columns(vectors).map(|column| mean_of(&column)).collect())
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn robust(words: &[Vec<u8>], before: &Values) -> Option<Vec<(f64, f64)>> {
    let rule = words.get(2)?.to_ascii_uppercase();
    if rule == b"MEDIAN" {
        let vectors = vectors(words.get(4..)?, before)?;
        return Some(columns(&vectors).map(median).collect());
    }
    // The other rules, and mixing, are compared with the embedded store alone.
    if rule != b"TRIMMED" && rule != b"KRUM" {
        return None;
    }
    let setting: usize = number(words.get(3)?)?;
    let vectors = vectors(words.get(5..)?, before)?;
    if rule == b"TRIMMED" {
        let trimmed = columns(&vectors).map(|mut column| {
            column.sort_by(f64::total_cmp);
            mean_of(&column[setting..column.len() - setting])
        });
        return Some(trimmed.collect());
    }
    Some(
        krum(&vectors, setting)?
            .into_iter()
            .map(|x| (x, 0.0))
            .collect(),
    )
}

fn median(mut column: Vec<f64>) -> (f64, f64) {
    column.sort_by(f64::total_cmp);
    let (low, high) = (column[(column.len() - 1) / 2], column[column.len() / 2]);
    let middle = f64::midpoint(low, high);
    (middle, UNIT * (low.abs() + high.abs()))
}

/// The vector with the smallest sum of distances to its nearest; `None` if two
/// are too close to call.
fn krum(vectors: &[Vec<f64>], faulty: usize) -> Option<Vec<f64>> {
    let nearest = vectors.len() - faulty - 2;
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum();
    let mut scores: Vec<(f64, usize)> = (0..vectors.len())
        .map(|i| {
            let others = (0..vectors.len()).filter(|j| *j != i);
            let mut distances: Vec<f64> =
                others.map(|j| distance(&vectors[i], &vectors[j])).collect();
            distances.sort_by(f64::total_cmp);
            (distances[..nearest].iter().sum(), i)
        })
        .collect();
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    let clear = |a: f64, b: f64| b - a > 1e-9 * b;
    let winner = &vectors[scores[0].1];
    let rival = scores.iter().find(|(_, i)| vectors[*i] != *winner);
    rival
        .is_none_or(|rival| clear(scores[0].0, rival.0))
        .then(|| winner.clone())
}

fn step(
    key: &[u8],
    settings: &[Vec<u8>],
    gradients: &[Vec<f64>],
    before: &Values,
) -> Option<Vec<(f64, f64)>> {
    let settings: Vec<f64> = settings
        .iter()
        .map(|word| number::<f32>(word).map(f64::from))
        .collect::<Option<_>>()?;
    let [rate, momentum, decay] = settings[..] else {
        return None;
    };
    if !settings.iter().all(is_ordinary) {
        return None;
    }
    let parameters = ordinary(before.get(key)?)?;
    let velocity_key = [key, b":velocity"].concat();
    let velocity = match before.get(&velocity_key).filter(|bytes| !bytes.is_empty()) {
        Some(bytes) if momentum != 0.0 => ordinary(bytes)?,
        _ => vec![0.0; parameters.len()],
    };
    let means = columns(gradients).map(|column| mean_of(&column));
    let stepped = parameters.iter().zip(&velocity).zip(means);
    Some(
        stepped
            .map(|((w, v), (g, g_error))| {
                let moved = momentum * v + g + decay * w;
                let size = (momentum * v).abs() + g.abs() + (decay * w).abs() + g_error / UNIT;
                let tolerance = UNIT * 4.0 * (w.abs() + rate.abs() * size);
                (w - rate * moved, tolerance)
            })
            .collect(),
    )
}
