//! The training step from outside: counts, determinism, descent, refusals.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroUsize;

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_models::{Device, ModelError, Trainer, models};

fn trainer(model: &str) -> Trainer {
    Trainer::new(model, Device::Cpu).unwrap()
}

/// Images of uniform noise around a mean of their class, so that there is something
/// to learn.
fn batch(trainer: &Trainer, size: usize, seed: u64) -> (Vec<f32>, Vec<u8>) {
    let values = trainer.info().image_values();
    let labels: Vec<u8> = (0..size).map(|index| (index % 10) as u8).collect();
    let images = (0..size * values)
        .map(|index| {
            let class = u64::from(labels[index / values]);
            let mean = unit_f32(mix(class, (index % values) as u64));
            2.0 * mean + unit_f32(mix(seed, index as u64)) - 1.5
        })
        .collect();
    (images, labels)
}

#[test]
fn the_table_holds_each_networks_own_counts() {
    let published = [
        ("mobilenet", 3_217_226),
        ("resnet18", 11_173_962),
        ("lenet5", 61_706),
    ];
    for (info, (name, parameters)) in models().iter().zip(published) {
        assert_eq!((info.name, info.parameters), (name, parameters));
        let trainer = trainer(name);
        assert_eq!(trainer.initial_parameters(1).len(), info.parameters);
        assert_eq!(trainer.initial_statistics().len(), info.statistics);
        let lengths = trainer.tensor_lengths();
        assert_eq!(lengths.len(), info.gradient_tensors);
        assert_eq!(lengths.iter().sum::<usize>(), parameters);
    }
}

#[test]
fn initial_parameters_depend_on_the_seed_alone() {
    let trainer = trainer("mobilenet");
    assert_eq!(trainer.initial_parameters(7), trainer.initial_parameters(7));
    assert_ne!(trainer.initial_parameters(7), trainer.initial_parameters(8));
    let stem = &trainer.initial_parameters(7)[..3 * 32 * 9];
    let bound = 1.0 / 27.0f32.sqrt();
    assert!(stem.iter().all(|weight| weight.abs() <= bound));
    assert!(stem.iter().any(|weight| weight.abs() > 0.95 * bound));
    let norm = &trainer.initial_parameters(7)[3 * 32 * 9..][..64];
    assert_eq!(norm, [[1.0; 32], [0.0; 32]].concat());
}

#[test]
fn equal_inputs_give_equal_bits() {
    for info in models() {
        let mut trainer = trainer(info.name);
        let parameters = trainer.initial_parameters(3);
        let (images, labels) = batch(&trainer, 2, 4);
        let mut step = || {
            let mut statistics = trainer.initial_statistics();
            let step = trainer
                .gradient(&parameters, &mut statistics, &images, &labels)
                .unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (step.loss.to_bits(), bits(&step.gradient), bits(&statistics))
        };
        assert_eq!(step(), step(), "{}", info.name);
    }
}

/// Work is cut by shapes alone, and its sums run in a fixed order.
#[test]
fn the_number_of_threads_changes_no_bit() {
    for (info, size) in models().iter().zip([40, 3, 200]) {
        let step = |threads: usize| {
            let mut trainer = trainer(info.name);
            let parameters = trainer.initial_parameters(3);
            let (images, labels) = batch(&trainer, size, 4);
            let mut statistics = trainer.initial_statistics();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let step = pool
                .unwrap()
                .install(|| trainer.gradient(&parameters, &mut statistics, &images, &labels))
                .unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (step.loss.to_bits(), bits(&step.gradient), bits(&statistics))
        };
        let one = step(1);
        for threads in [2, 3, 6] {
            assert!(one == step(threads), "{} on {threads} threads", info.name);
        }
    }
}

#[test]
fn micro_batches_are_steps_of_their_own_under_batch_norm() {
    for (model, exact) in [("lenet5", true), ("mobilenet", false)] {
        let mut whole = trainer(model);
        let mut split = trainer(model).with_micro_batch(NonZeroUsize::new(8).unwrap());
        let parameters = whole.initial_parameters(3);
        let (images, labels) = batch(&whole, 20, 4);
        let mut statistics = whole.initial_statistics();
        let ours = split
            .gradient(&parameters, &mut statistics, &images, &labels)
            .unwrap();
        let mut expected_statistics = whole.initial_statistics();
        let mut mean = vec![0.0; parameters.len()];
        let values = whole.info().image_values();
        for (images, labels) in images.chunks(8 * values).zip(labels.chunks(8)) {
            let step = whole.gradient(&parameters, &mut expected_statistics, images, labels);
            for (mean, slope) in mean.iter_mut().zip(step.unwrap().gradient) {
                *mean += slope * labels.len() as f32 / 20.0;
            }
        }
        assert_eq!(statistics, expected_statistics);
        let apart = |a: &[f32], b: &[f32]| {
            let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
            (squares.sum::<f64>() / b.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>()).sqrt()
        };
        assert!(apart(&ours.gradient, &mean) < 1e-6);
        let mut statistics = whole.initial_statistics();
        let together = whole.gradient(&parameters, &mut statistics, &images, &labels);
        assert_eq!(
            apart(&ours.gradient, &together.unwrap().gradient) < 1e-4,
            exact
        );
    }
}

#[test]
fn lenet5_gradient_is_the_slope_of_its_loss() {
    let mut trainer = trainer("lenet5");
    let mut parameters = trainer.initial_parameters(5);
    let (images, labels) = batch(&trainer, 16, 6);
    let gradient = trainer
        .gradient(&parameters, &mut [], &images, &labels)
        .unwrap()
        .gradient;
    let mut largest: Vec<usize> = (0..gradient.len()).collect();
    largest.sort_by(|&a, &b| gradient[b].abs().total_cmp(&gradient[a].abs()));
    // Large entries of every tensor, and of the loss's slope little is curvature.
    let starts = [
        0, 150, 156, 2_556, 2_572, 50_572, 50_692, 60_772, 60_856, 61_696,
    ];
    for (tensor, start) in starts.into_iter().enumerate() {
        let end = starts.get(tensor + 1).copied().unwrap_or(gradient.len());
        let index = *largest
            .iter()
            .find(|&&index| (start..end).contains(&index))
            .unwrap();
        let original = parameters[index];
        let mut loss = |value: f32| {
            parameters[index] = value;
            let evaluation = trainer.evaluate(&parameters, &[], &images, &labels);
            evaluation.unwrap().loss
        };
        let (above, below) = (original + 1e-3, original - 1e-3);
        let slope = (loss(above) - loss(below)) / f64::from(above - below);
        parameters[index] = original;
        let expected = f64::from(gradient[index]);
        let error = (slope - expected).abs() / expected.abs();
        assert!(
            error < 0.03,
            "entry {index}: slope {slope}, gradient {expected}"
        );
    }
}

#[test]
fn lenet5_learns_a_fixed_batch() {
    let mut trainer = trainer("lenet5");
    let mut parameters = trainer.initial_parameters(1);
    let (images, labels) = batch(&trainer, 30, 2);
    let before = trainer
        .evaluate(&parameters, &[], &images, &labels)
        .unwrap();
    for _ in 0..120 {
        let step = trainer
            .gradient(&parameters, &mut [], &images, &labels)
            .unwrap();
        for (parameter, slope) in parameters.iter_mut().zip(step.gradient) {
            *parameter -= 0.1 * slope;
        }
    }
    let after = trainer
        .evaluate(&parameters, &[], &images, &labels)
        .unwrap();
    assert!(after.loss < 0.5 * before.loss, "{before:?} {after:?}");
    assert!(after.correct > before.correct, "{before:?} {after:?}");
}

#[test]
fn a_step_and_an_evaluation_agree_without_batch_norm() {
    let mut trainer = trainer("lenet5");
    let parameters = trainer.initial_parameters(1);
    let (images, labels) = batch(&trainer, 300, 2);
    let step = trainer
        .gradient(&parameters, &mut [], &images, &labels)
        .unwrap();
    let evaluation = trainer
        .evaluate(&parameters, &[], &images, &labels)
        .unwrap();
    assert_eq!(
        (evaluation.correct, evaluation.samples),
        (step.correct, 300)
    );
    assert!((evaluation.loss - f64::from(step.loss)).abs() < 1e-5);
}

/// At fixed parameters, each step moves the statistics a tenth of the way to the
/// batch's own; evaluation by those sees what training saw, but for the variance's
/// bias.
#[test]
fn evaluation_normalises_by_the_statistics_it_is_given() {
    let mut trainer = trainer("resnet18");
    let parameters = trainer.initial_parameters(1);
    let (images, labels) = batch(&trainer, 16, 2);
    let initial = trainer.initial_statistics();
    let mut statistics = initial.clone();
    let mut step = || {
        let step = trainer.gradient(&parameters, &mut statistics, &images, &labels);
        (step.unwrap().loss, statistics.clone())
    };
    let (trained, once) = step();
    let (_, twice) = step();
    let batch_statistics: Vec<f32> = initial
        .iter()
        .zip(&once)
        .map(|(start, once)| start + (once - start) / 0.1)
        .collect();
    for ((once, batch), twice) in once.iter().zip(&batch_statistics).zip(&twice) {
        let expected = once + 0.1 * (batch - once);
        assert!((twice - expected).abs() <= 1e-5 * (1.0 + batch.abs()));
    }
    let mut difference = |statistics: &[f32]| {
        let evaluation = trainer.evaluate(&parameters, statistics, &images, &labels);
        (evaluation.unwrap().loss - f64::from(trained)).abs()
    };
    let (batchs, initials) = (difference(&batch_statistics), difference(&initial));
    assert!(batchs < 0.05 * initials, "{batchs} {initials}");
}

#[test]
fn a_diverged_loss_is_returned() {
    let mut trainer = trainer("lenet5");
    let parameters = vec![f32::NAN; trainer.info().parameters];
    let (images, labels) = batch(&trainer, 2, 1);
    let step = trainer
        .gradient(&parameters, &mut [], &images, &labels)
        .unwrap();
    assert!(!step.loss.is_finite());
    let evaluation = trainer.evaluate(&parameters, &[], &images, &labels);
    assert!(!evaluation.unwrap().loss.is_finite());
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(matches!(
        Trainer::new("alexnet", Device::Cpu).err(),
        Some(ModelError::UnknownModel { .. })
    ));
    assert_eq!(
        Trainer::new("lenet5", Device::Cuda).err(),
        Some(ModelError::NoCuda)
    );
    assert!("tpu".parse::<Device>().is_err());
    assert_eq!("cuda".parse(), Ok(Device::Cuda));

    let mut trainer = trainer("lenet5");
    let parameters = trainer.initial_parameters(1);
    let (images, labels) = batch(&trainer, 2, 1);
    let mut refused =
        |parameters: &[f32], statistics: &mut [f32], images: &[f32], labels: &[u8]| {
            trainer
                .gradient(parameters, statistics, images, labels)
                .unwrap_err()
        };
    let length = |error, vector| matches!(error, ModelError::Length { what, .. } if what == vector);
    assert!(length(
        refused(&parameters[1..], &mut [], &images, &labels),
        "parameters"
    ));
    assert!(length(
        refused(&parameters, &mut [0.0], &images, &labels),
        "statistics"
    ));
    assert!(length(
        refused(&parameters, &mut [], &images[1..], &labels),
        "images"
    ));
    assert_eq!(
        refused(&parameters, &mut [], &[], &[]),
        ModelError::EmptyBatch
    );
    assert_eq!(
        refused(&parameters, &mut [], &images, &[0, 10]),
        ModelError::Label {
            index: 1,
            label: 10,
            classes: 10
        }
    );
}
