//! The training step from outside: determinism, descent, refusals.

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_kernels::optimizer::{Adam, Optimizer, OptimizerSpec};
use epochcost_models::{
    Device, Evaluation, ModelError, ModelInfo, Precision, StepOutput, Trainer, models,
};

fn trainer(model: &str) -> Trainer {
    Trainer::new(model, Device::Cpu).unwrap()
}

/// A trainer, and what its steps are taken from.
struct Training {
    trainer: Trainer,
    parameters: Vec<f32>,
    statistics: Vec<f32>,
    images: Vec<f32>,
    labels: Vec<u8>,
}

impl Training {
    /// Training on images of uniform noise around a mean of their class, so that there is something to
    /// learn.
    fn new(model: &str, size: usize) -> Self {
        let trainer = trainer(model);
        let values = trainer.info().image_values();
        let labels: Vec<u8> = (0..size).map(|index| (index % 10) as u8).collect();
        let images = (0..size * values)
            .map(|index| {
                let class = u64::from(labels[index / values]);
                let mean = unit_f32(mix(class, (index % values) as u64));
                2.0 * mean + unit_f32(mix(2, index as u64)) - 1.5
            })
            .collect();
        Self {
            parameters: trainer.initial_parameters(1),
            statistics: trainer.initial_statistics(),
            trainer,
            images,
            labels,
        }
    }

    fn step(&mut self) -> Result<StepOutput, ModelError> {
        let (statistics, seed) = (&mut self.statistics, 5);
        let (parameters, images) = (&self.parameters, &self.images);
        self.trainer
            .gradient(parameters, statistics, images, &self.labels, seed)
    }

    fn evaluate(&mut self) -> Evaluation {
        let evaluation = self.trainer.evaluate(
            &self.parameters,
            &self.statistics,
            &self.images,
            &self.labels,
        );
        evaluation.unwrap()
    }
}

/// Most parameters of a model whose steps take no seconds: VGG-11 with its three linear
/// layers has more, and its golden gradients alone.
const SMALL: usize = 30_000_000;

fn small_models() -> impl Iterator<Item = &'static ModelInfo> {
    models().iter().filter(|info| info.parameters < SMALL)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
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
fn recomputed_outputs_change_no_bit() {
    for model in ["mobilenet", "mobilenet_v3_small"] {
        let step = |recomputes| {
            let mut training = Training::new(model, 4);
            training.trainer = training.trainer.with_recomputation(recomputes);
            (training.step().unwrap(), training.statistics)
        };
        assert!(step(true) == step(false), "{model}");
    }
}

/// Equal inputs give equal bits, and cuts of a gradient, which need not follow its tensors, do not
/// change them.
#[test]
fn parts_come_once_and_are_the_whole() {
    for info in small_models() {
        let mut training = Training::new(info.name, 4);
        let mut moved = training.statistics.clone();
        let whole = training.step().unwrap();
        let cuts: Vec<_> = (0..7)
            .map(|part| part * info.parameters / 7..(part + 1) * info.parameters / 7)
            .collect();
        let mut given = vec![];
        let mut ready = |part: usize, values: &[f32]| given.push((part, values.to_vec()));
        let step = training
            .trainer
            .gradient_in_parts(
                &training.parameters,
                &mut moved,
                &training.images,
                &training.labels,
                5,
                &cuts,
                &mut ready,
            )
            .unwrap();
        assert!(step == whole, "{}", info.name);
        assert!(
            bits(&step.gradient) == bits(&whole.gradient),
            "{}",
            info.name
        );
        assert!(bits(&moved) == bits(&training.statistics), "{}", info.name);
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
            let mut training = Training::new(model, size);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let step = pool.unwrap().install(|| training.step()).unwrap();
            let (gradient, statistics) = (bits(&step.gradient), bits(&training.statistics));
            (step.loss.to_bits(), gradient, statistics)
        };
        let one = step(1);
        for threads in [2, 3, 6] {
            assert!(one == step(threads), "{model} on {threads} threads");
        }
    }
}

/// Trains by a few steps of Adam, whose length does not depend on how a network begins.
#[test]
fn every_small_model_learns_a_fixed_batch() {
    for info in small_models() {
        let mut training = Training::new(info.name, 4);
        let mut optimizer = Optimizer::new(OptimizerSpec::Adam(Adam::new(1e-3)));
        let mut losses = vec![];
        for _ in 0..5 {
            let step = training.step().unwrap();
            losses.push(step.loss);
            let parameters = &mut training.parameters;
            optimizer.step(parameters, &step.gradient).unwrap();
        }
        assert!(losses[4] < 0.97 * losses[0], "{}: {losses:?}", info.name);
    }
}

#[test]
fn a_batch_norm_of_single_values_is_refused() {
    for model in ["resnet50", "mobilenet_v3_small", "vgg11_cifar"] {
        let step = Training::new(model, 1).step();
        let refused = (model != "vgg11_cifar").then_some(ModelError::SingleValue);
        assert_eq!(step.err(), refused, "{model}");
    }
}

#[test]
fn a_step_and_an_evaluation_agree_without_batch_norm() {
    let mut training = Training::new("lenet5", 300);
    let (step, evaluation) = (training.step().unwrap(), training.evaluate());
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
    let mut training = Training::new("resnet18", 16);
    let initial = training.statistics.clone();
    let trained = training.step().unwrap().loss;
    let once = training.statistics.clone();
    training.step().unwrap();
    let batch_statistics: Vec<f32> = initial
        .iter()
        .zip(&once)
        .map(|(start, once)| start + (once - start) / 0.1)
        .collect();
    let twice = &training.statistics;
    for ((once, batch), twice) in once.iter().zip(&batch_statistics).zip(twice) {
        let expected = once + 0.1 * (batch - once);
        assert!((twice - expected).abs() <= 1e-5 * (1.0 + batch.abs()));
    }
    let mut difference = |statistics: Vec<f32>| {
        training.statistics = statistics;
        (training.evaluate().loss - f64::from(trained)).abs()
    };
    let (batchs, initials) = (difference(batch_statistics), difference(initial));
    assert!(batchs < 0.05 * initials, "{batchs} {initials}");
}

#[test]
fn a_diverged_loss_is_returned() {
    let mut training = Training::new("lenet5", 2);
    training.parameters.fill(f32::NAN);
    assert!(!training.step().unwrap().loss.is_finite());
    assert!(!training.evaluate().loss.is_finite());
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
    let colours = trainer("lenet5").with_images([3, 32, 32]);
    assert!(matches!(colours.err(), Some(ModelError::Images { .. })));
    let precise = trainer("lenet5").with_precision(Precision::Tf32);
    let error = precise.map(drop).unwrap_err();
    assert!(error.lacks_device());
    assert!(error.to_string().contains("tf32"), "{error}");
    assert!("tpu".parse::<Device>().is_err());
    assert_eq!("cuda".parse(), Ok(Device::Cuda));

    let refused = |change: fn(&mut Training)| {
        let mut training = Training::new("lenet5", 2);
        change(&mut training);
        training.step().unwrap_err()
    };
    for (vector, error) in [
        (
            "parameters",
            refused(|training| training.parameters.truncate(1)),
        ),
        (
            "statistics",
            refused(|training| training.statistics.push(0.0)),
        ),
        ("images", refused(|training| training.images.truncate(1))),
    ] {
        assert!(matches!(error, ModelError::Length { what, .. } if what == vector));
    }
    let nothing = refused(|training| {
        training.images.clear();
        training.labels.clear();
    });
    assert_eq!(nothing, ModelError::EmptyBatch);
    assert_eq!(
        refused(|training| training.labels[1] = 10),
        ModelError::Label {
            index: 1,
            label: 10,
            classes: 10
        }
    );
}
