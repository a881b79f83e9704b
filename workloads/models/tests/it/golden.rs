//! Gradients against PyTorch's in float64 (`golden/`), beside PyTorch's own
//! distance from them in float32.

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_models::{Device, StepOutput, Trainer, models};
use serde::Deserialize;

// Seeds of the hash, each for one purpose, as in `golden/make.py`.
const PERTURBATION: u64 = 101;
const IMAGES: u64 = 102;
const LABELS: u64 = 103;
const SIGNS: u64 = 200;
const SAMPLES: u64 = 300;

const SIGN_WORDS: usize = 4;
const SAMPLE_COUNT: u64 = 64;

#[derive(Deserialize)]
struct Golden {
    model: String,
    batch: usize,
    /// Channels, height and width of the images.
    images: [usize; 3],
    /// Step between two entries of a gradient that are projected.
    stride: usize,
    seeds: Vec<SeedGolden>,
}

#[derive(Deserialize)]
struct SeedGolden {
    seed: u64,
    loss: f64,
    gradient_norm: f64,
    float32_distance: f64,
    projections: Vec<f64>,
    gradient_samples: Vec<f64>,
    statistics_samples: Vec<f64>,
}

/// How far one step is from its golden, each a relative distance.
#[derive(Debug)]
struct Distance {
    loss: f64,
    norm: f64,
    projections: f64,
    samples: f64,
    statistics: f64,
}

/// A model without a file fails: `golden/make.py` writes it.
#[test]
fn gradients_are_as_close_to_float64_as_pytorchs() {
    let failed: Vec<String> = models()
        .iter()
        .filter_map(|info| check(info.name).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// No file is left of a model that is gone, and the script has a definition of every model.
#[test]
fn every_golden_file_is_of_a_model_and_can_be_made_again() {
    let files = fs::read_dir(directory()).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())) {
        assert!(models().iter().any(|info| info.name == name), "{name}");
    }
    let script = fs::read_to_string(directory().join("make.py")).unwrap();
    for info in models() {
        let entry = format!("    \"{}\": Golden(", info.name);
        assert!(script.contains(&entry), "no {entry} in make.py");
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Largest ratio of our median distance to PyTorch's. Winograd's transforms round more than a
/// direct convolution, and ResNet-34 has 32 of them one after the other.
fn bound(model: &str) -> f64 {
    if model == "resnet34" { 3.0 } else { 2.0 }
}

/// Largest median distance, of models whose values keep their side of a ReLU.
fn limit(model: &str) -> f64 {
    if model == "lenet5" {
        1e-5
    } else {
        f64::INFINITY
    }
}

/// Compares a model's steps with its golden file.
///
/// A value that falls on the other side of a ReLU moves one seed's gradient by a
/// thousandth in any implementation, so the median over the seeds is compared.
fn check(model: &str) -> Result<(), String> {
    let (golden, mut trainer) = read(model)?;
    let mut ours = vec![];
    for seed in &golden.seeds {
        let (step, statistics) = step(&mut trainer, &golden, seed.seed);
        let distance = distance(&step, &statistics, seed, golden.stride);
        println!(
            "{model} seed {}: PyTorch's float32 {:.1e}, ours {distance:?}",
            seed.seed, seed.float32_distance
        );
        let is_near = distance.loss < 1e-4 && distance.statistics < 1e-4;
        if !(is_near && distance.norm < 0.05 && distance.samples < 0.2) {
            return Err(format!("{model}, seed {}: {distance:?}", seed.seed));
        }
        ours.push(distance.projections);
    }
    let theirs = median(golden.seeds.iter().map(|seed| seed.float32_distance));
    let ours = median(ours.into_iter());
    println!("{model}: median {ours:.1e}, PyTorch's {theirs:.1e}");
    if ours <= bound(model) * theirs && ours < limit(model) {
        Ok(())
    } else {
        Err(format!(
            "{model}: median {ours:.1e}, PyTorch's {theirs:.1e}"
        ))
    }
}

/// Returns a model's golden file, and a trainer of what it is of.
fn read(model: &str) -> Result<(Golden, Trainer), String> {
    let path = directory().join(format!("{model}.json"));
    let golden = fs::read_to_string(&path).map_err(|error| format!("{model}: {error}"))?;
    let golden: Golden = serde_json::from_str(&golden).unwrap();
    assert_eq!(golden.model, model);
    let trainer = Trainer::new(model, Device::Cpu).unwrap();
    let trainer = trainer.with_images(golden.images).unwrap();
    Ok((golden, trainer))
}

fn step(trainer: &mut Trainer, golden: &Golden, seed: u64) -> (StepOutput, Vec<f32>) {
    let batch = golden.batch;
    let perturbation = mix(PERTURBATION, seed);
    let parameters: Vec<f32> = trainer
        .initial_parameters(seed)
        .into_iter()
        .enumerate()
        .map(|(index, initial)| initial + symmetric(perturbation, index) / 32.0)
        .collect();
    let mut statistics = trainer.initial_statistics();
    let images: Vec<f32> = (0..batch * golden.images.iter().product::<usize>())
        .map(|index| 2.0 * symmetric(mix(IMAGES, seed), index))
        .collect();
    let labels: Vec<u8> = (0..batch as u64)
        .map(|index| (mix(mix(LABELS, seed), index) % 10) as u8)
        .collect();
    let step = trainer
        .gradient(&parameters, &mut statistics, &images, &labels, seed)
        .unwrap();
    (step, statistics)
}

fn symmetric(seed: u64, index: usize) -> f32 {
    2.0 * unit_f32(mix(seed, index as u64)) - 1.0
}

fn distance(step: &StepOutput, statistics: &[f32], golden: &SeedGolden, stride: usize) -> Distance {
    let norm = norm(step.gradient.iter().map(|&value| f64::from(value)));
    Distance {
        loss: (f64::from(step.loss) / golden.loss - 1.0).abs(),
        norm: (norm / golden.gradient_norm - 1.0).abs(),
        projections: relative(&projections(&step.gradient, stride), &golden.projections),
        samples: relative(&samples(&step.gradient), &golden.gradient_samples),
        statistics: relative(&samples(statistics), &golden.statistics_samples),
    }
}

/// Sums of every `stride`th entry under random signs: + where the hash's bit is set.
fn projections(gradient: &[f32], stride: usize) -> Vec<f64> {
    (0..SIGN_WORDS as u64)
        .flat_map(|word| {
            let mut sums = [0.0f64; 64];
            for (index, &value) in gradient.iter().enumerate().step_by(stride) {
                let signs = !mix(SIGNS + word, index as u64);
                let bits = f64::from(value).to_bits();
                for (bit, sum) in sums.iter_mut().enumerate() {
                    *sum += f64::from_bits(bits ^ (signs >> bit << 63));
                }
            }
            sums
        })
        .collect()
}

fn samples(values: &[f32]) -> Vec<f64> {
    if values.is_empty() {
        return vec![];
    }
    (0..SAMPLE_COUNT)
        .map(|sample| {
            let index = (u128::from(mix(SAMPLES, sample)) * values.len() as u128) >> 64;
            f64::from(values[index as usize])
        })
        .collect()
}

fn relative(ours: &[f64], golden: &[f64]) -> f64 {
    assert_eq!(ours.len(), golden.len());
    if golden.is_empty() {
        return 0.0;
    }
    let difference = norm(ours.iter().zip(golden).map(|(ours, golden)| ours - golden));
    difference / norm(golden.iter().copied())
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
