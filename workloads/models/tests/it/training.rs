//! The training step from outside: counts, determinism, descent, refusals.

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_kernels::optimizer::{Adam, Optimizer, OptimizerSpec};
use epochcost_models::{Device, ModelError, ModelInfo, Precision, Trainer, models};

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

/// Most parameters of a model whose steps take no seconds: VGG-11 with its three linear
/// layers has more, and its golden gradients alone.
const SMALL: usize = 30_000_000;

fn small_models() -> impl Iterator<Item = &'static ModelInfo> {
    models().iter().filter(|info| info.parameters < SMALL)
}

/// The tests of the description compare its counts with torchvision's and the papers'.
#[test]
fn each_network_has_the_counts_of_its_description() {
    for info in models() {
        let parameters = info.parameters;
        let trainer = trainer(info.name);
        assert_eq!(trainer.initial_statistics().len(), info.statistics);
        if parameters < SMALL {
            assert_eq!(trainer.initial_parameters(1).len(), parameters);
        }
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
    for info in small_models() {
        let mut trainer = trainer(info.name);
        let parameters = trainer.initial_parameters(3);
        let (images, labels) = batch(&trainer, 2, 4);
        let mut step = || {
            let mut statistics = trainer.initial_statistics();
            let step = trainer
                .gradient(&parameters, &mut statistics, &images, &labels, 0)
                .unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (step.loss.to_bits(), bits(&step.gradient), bits(&statistics))
        };
        assert_eq!(step(), step(), "{}", info.name);
    }
}

#[test]
fn recomputed_outputs_change_no_bit() {
    for model in ["mobilenet", "mobilenet_v3_small"] {
        let step = |recomputes| {
            let mut trainer = trainer(model).with_recomputation(recomputes);
            let parameters = trainer.initial_parameters(3);
            let (images, labels) = batch(&trainer, 4, 4);
            let mut statistics = trainer.initial_statistics();
            let step = trainer.gradient(&parameters, &mut statistics, &images, &labels, 5);
            (step.unwrap(), statistics)
        };
        assert!(step(true) == step(false), "{model}");
    }
}

/// Cuts of a gradient need not follow its tensors, and do not change its bits.
#[test]
fn parts_come_once_and_are_the_whole() {
    for info in small_models() {
        let mut trainer = trainer(info.name);
        let parameters = trainer.initial_parameters(3);
        let (images, labels) = batch(&trainer, 4, 4);
        let start = trainer.initial_statistics();
        let (mut statistics, mut moved) = (start.clone(), start);
        let whole = trainer
            .gradient(&parameters, &mut statistics, &images, &labels, 5)
            .unwrap();
        let cuts: Vec<_> = (0..7)
            .map(|part| part * info.parameters / 7..(part + 1) * info.parameters / 7)
            .collect();
        let mut given = vec![];
        let mut ready = |part: usize, values: &[f32]| given.push((part, values.to_vec()));
        let step = trainer
            .gradient_in_parts(
                &parameters,
                &mut moved,
                &images,
                &labels,
                5,
                &cuts,
                &mut ready,
            )
            .unwrap();
        assert!(step == whole && moved == statistics, "{}", info.name);
        let mut order: Vec<usize> = given.iter().map(|(part, _)| *part).collect();
        // From the last layer to the first; parts of one tensor come together, the earlier
        // first. Others have shortcuts, or biases that stand side by side in one tensor.
        if ["lenet5", "mobilenet"].contains(&info.name) {
            assert!(order[0] >= 5 && order[6] == 0, "{}: {order:?}", info.name);
        }
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6], "{}", info.name);
        for (part, values) in given {
            assert!(
                values == whole.gradient[cuts[part].clone()],
                "{}",
                info.name
            );
        }
    }
}

/// Work is cut by shapes alone, and its sums run in a fixed order.
#[test]
fn the_number_of_threads_changes_no_bit() {
    for (model, size) in [
        ("mobilenet", 40),
        ("resnet18", 3),
        ("lenet5", 200),
        ("resnet50", 24),
        ("squeezenet1_1", 150),
        ("mobilenet_v3_small", 90),
        ("vgg11_cifar", 6),
    ] {
        let step = |threads: usize| {
            let mut trainer = trainer(model);
            let parameters = trainer.initial_parameters(3);
            let (images, labels) = batch(&trainer, size, 4);
            let mut statistics = trainer.initial_statistics();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let step = pool
                .unwrap()
                .install(|| trainer.gradient(&parameters, &mut statistics, &images, &labels, 0))
                .unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (step.loss.to_bits(), bits(&step.gradient), bits(&statistics))
        };
        let one = step(1);
        for threads in [2, 3, 6] {
            assert!(one == step(threads), "{model} on {threads} threads");
        }
    }
}

#[test]
fn a_precision_that_no_cpu_has_is_refused() {
    let refused = trainer("lenet5").with_precision(Precision::Tf32);
    let error = refused.map(drop).unwrap_err();
    assert!(error.lacks_device());
    assert!(error.to_string().contains("tf32"), "{error}");
}

/// Trains by a few steps of Adam, whose length does not depend on how a network begins.
#[test]
fn every_small_model_learns_a_fixed_batch() {
    let adam = Adam {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
    };
    for info in small_models() {
        let mut trainer = trainer(info.name);
        let mut parameters = trainer.initial_parameters(1);
        let mut statistics = trainer.initial_statistics();
        let (images, labels) = batch(&trainer, 4, 2);
        let mut optimizer = Optimizer::new(OptimizerSpec::Adam(adam));
        let mut losses = vec![];
        for _ in 0..5 {
            let step = trainer.gradient(&parameters, &mut statistics, &images, &labels, 0);
            let step = step.unwrap();
            losses.push(step.loss);
            optimizer.step(&mut parameters, &step.gradient).unwrap();
        }
        assert!(losses[4] < 0.97 * losses[0], "{}: {losses:?}", info.name);
    }
}

#[test]
fn images_of_every_dataset_are_fitted() {
    for info in small_models() {
        for images in [[1, 28, 28], [3, 32, 32]] {
            let grey = info.input[0] == 1;
            let fitted = trainer(info.name).with_images(images);
            if grey && images[0] == 3 {
                assert!(matches!(fitted.err(), Some(ModelError::Images { .. })));
                continue;
            }
            let mut trainer = fitted.unwrap();
            let parameters = trainer.initial_parameters(1);
            let mut statistics = trainer.initial_statistics();
            let values: Vec<f32> = (0..2 * images.iter().product::<usize>())
                .map(|index| unit_f32(mix(9, index as u64)))
                .collect();
            let step = trainer.gradient(&parameters, &mut statistics, &values, &[3, 7], 0);
            assert!(step.unwrap().loss.is_finite(), "{}", info.name);
            let evaluation = trainer.evaluate(&parameters, &statistics, &values, &[3, 7]);
            assert!(evaluation.unwrap().loss.is_finite(), "{}", info.name);
        }
    }
}

#[test]
fn a_batch_norm_of_single_values_is_refused() {
    for model in ["resnet50", "mobilenet_v3_small", "vgg11_cifar"] {
        let mut trainer = trainer(model);
        let parameters = trainer.initial_parameters(1);
        let mut statistics = trainer.initial_statistics();
        let (images, labels) = batch(&trainer, 1, 2);
        let step = trainer.gradient(&parameters, &mut statistics, &images, &labels, 0);
        let fits = model == "vgg11_cifar";
        assert_eq!(
            step.err(),
            (!fits).then_some(ModelError::SingleValue),
            "{model}"
        );
    }
}

#[test]
fn lenet5_gradient_is_the_slope_of_its_loss() {
    let mut trainer = trainer("lenet5");
    let mut parameters = trainer.initial_parameters(5);
    let (images, labels) = batch(&trainer, 16, 6);
    let gradient = trainer
        .gradient(&parameters, &mut [], &images, &labels, 0)
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
            .gradient(&parameters, &mut [], &images, &labels, 0)
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
        .gradient(&parameters, &mut [], &images, &labels, 0)
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

/// Each step at fixed parameters moves the statistics a tenth of the way to the
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
        let step = trainer.gradient(&parameters, &mut statistics, &images, &labels, 0);
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
        .gradient(&parameters, &mut [], &images, &labels, 0)
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
                .gradient(parameters, statistics, images, labels, 0)
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
