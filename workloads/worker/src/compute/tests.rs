//! Models behind the systems' interface: the synchronous systems take the training
//! steps of one process.

use epochcost_kernels::hash;
use epochcost_kernels::optimizer::Optimizer;
use epochcost_models::{GPU_STAND_IN, Precision, Trainer, input};
use epochcost_systems::testing::{self, Data};
use epochcost_systems::{Batch, Compute, Device, Fidelity, Job, Vector};
use serde_json::Map;

use super::{Description, JobModel, Model};

const SYSTEMS: [&str; 3] = ["allreduce", "scatterreduce", "gpu_baseline"];

/// Largest distance of training on the union of the workers' batches from training
/// on the mean of their gradients, relative to the distance trained: only the order of
/// additions differs.
const UNION_BOUND: f64 = 1e-5;

struct Shape {
    model: &'static str,
    dataset: &'static str,
    workers: usize,
    batch_size: usize,
    batches_per_worker: usize,
    epochs: usize,
}

const LENET5: Shape = Shape {
    model: "lenet5",
    dataset: "synthetic-mnist",
    workers: 4,
    batch_size: 8,
    batches_per_worker: 2,
    epochs: 2,
};

const MOBILENET: Shape = Shape {
    model: "mobilenet",
    dataset: "synthetic-cifar10",
    workers: 2,
    batch_size: 4,
    batches_per_worker: 2,
    epochs: 1,
};

fn job(system: &str, shape: &Shape) -> Job {
    let mut job = testing::job(system, Fidelity::Paper, shape.workers, &Map::new()).unwrap();
    let dataset = epochcost_datasets::find(shape.dataset).unwrap();
    job.model = shape.model.into();
    job.data.dataset = dataset.name.into();
    job.data.record_bytes = dataset.format.record_bytes();
    job.batch_size = shape.batch_size;
    job.batches_per_worker = shape.batches_per_worker;
    job.epochs = shape.epochs;
    job
}

/// Makes arbitrary pixels with labels 0 to 9.
fn data(job: &Job) -> Data {
    let records = |first, count| {
        let mut records = testing::records(job, first, count).to_vec();
        for record in records.chunks_exact_mut(job.data.record_bytes) {
            record[0] %= 10;
        }
        records.into()
    };
    let train = job.workers * job.batches_per_worker * job.batch_size;
    Data {
        train: records(0, train),
        test: records(train, job.data.test_samples),
    }
}

/// Returns mini-batch `index` of the shard of worker `rank`, shuffled by seed, rank and epoch.
fn batch(job: &Job, data: &Data, rank: usize, epoch: usize, index: usize) -> Vec<u8> {
    let share = job.batches_per_worker * job.batch_size;
    let seed = hash::mix(hash::mix(job.seed, rank as u64), epoch as u64);
    let order = hash::permutation(share as u32, seed);
    let wanted = &order[index * job.batch_size..][..job.batch_size];
    let record = |&sample: &u32| {
        let size = job.data.record_bytes;
        &data.train[(rank * share + sample as usize) * size..][..size]
    };
    wanted.iter().flat_map(record).copied().collect()
}

fn first_batch(records: bytes::Bytes) -> Batch {
    Batch {
        rank: 0,
        epoch: 0,
        index: 0,
        records: records.into(),
    }
}

/// The training of one process.
struct Reference {
    initial: Vec<f32>,
    parameters: Vec<f32>,
    /// Statistics of the first sub-batch's batch norms alone.
    statistics: Vec<f32>,
    /// Digests of the parameters, after each step.
    digests: Vec<String>,
}

/// Trains in one process, with the mean of the gradients of sub-batches: those of the
/// workers, or all of them as one.
fn reference(job: &Job, data: &Data, union: bool) -> Reference {
    let dataset = epochcost_datasets::find(&job.data.dataset).unwrap();
    let mut trainer = Trainer::new(&job.model, epochcost_models::Device::Cpu).unwrap();
    let initial = trainer.initial_parameters(job.seed);
    let mut parameters = initial.clone();
    let mut statistics = vec![trainer.initial_statistics(); job.workers];
    let mut optimizer = Optimizer::new(job.optimizer);
    let mut digests = Vec::new();
    for epoch in 0..job.epochs {
        for index in 0..job.batches_per_worker {
            let batch = |rank| batch(job, data, rank, epoch, index);
            let mut batches: Vec<Vec<u8>> = (0..job.workers).map(batch).collect();
            if union {
                batches = vec![batches.concat()];
            }
            let gradients: Vec<Vector> = batches
                .iter()
                .zip(&mut statistics)
                .map(|(records, statistics)| {
                    let (images, labels) = input::decode(records, dataset, None).unwrap();
                    let step = trainer.gradient(&parameters, statistics, &images, &labels, 0);
                    Vector::Real(step.unwrap().gradient)
                })
                .collect();
            let mean = Vector::mean(&gradients).unwrap();
            optimizer
                .step(&mut parameters, mean.real().unwrap())
                .unwrap();
            digests.push(Vector::Real(parameters.clone()).digest().unwrap());
        }
    }
    Reference {
        initial,
        parameters,
        statistics: statistics.swap_remove(0),
        digests,
    }
}

/// Runs shapes under every system and compares each step of each worker, and the final test result,
/// bit by bit. Batch norms normalise each sub-batch by itself and keep statistics of their own.
#[tokio::test]
async fn systems_take_the_steps_of_one_process() {
    for (shape, system) in [LENET5, MOBILENET]
        .iter()
        .flat_map(|shape| SYSTEMS.map(|system| (shape, system)))
    {
        let job = job(system, shape);
        let data = data(&job);
        let reference = reference(&job, &data, false);
        let make = job.clone();
        let compute = move || -> Box<dyn Compute> {
            let model = Model::load(&make, false, Precision::default()).unwrap();
            Box::new(JobModel::new(model, &make).unwrap())
        };
        let trial = testing::run_on(&job, &data, compute).await.unwrap();
        let steps = trial.steps();
        assert_eq!(steps.len(), job.workers * reference.digests.len());
        for step in steps {
            let number = step.epoch * job.batches_per_worker + step.batch.unwrap();
            assert_eq!(
                step.parameters_digest.as_ref(),
                Some(&reference.digests[number]),
                "{system}: step {number} of worker {}",
                step.rank
            );
        }
        let mut trainer = Trainer::new(&job.model, epochcost_models::Device::Cpu).unwrap();
        let dataset = epochcost_datasets::find(&job.data.dataset).unwrap();
        let (images, labels) = input::decode(&data.test, dataset, None).unwrap();
        let (parameters, statistics) = (&reference.parameters, &reference.statistics);
        let expected = trainer.evaluate(parameters, statistics, &images, &labels);
        let expected = expected.unwrap();
        let (epoch, found) = *trial.evaluations().last().unwrap();
        assert_eq!(epoch + 1, job.epochs, "{system}");
        assert_eq!(
            (found.loss.to_bits(), found.correct, found.samples),
            (expected.loss.to_bits(), expected.correct, expected.samples),
            "{system}"
        );
    }
}

/// The mean of the sub-batches' gradients is the gradient of the union without batch norms, and is not with
/// them: each normalises by its own sub-batch.
#[test]
fn lenet5_alone_takes_the_steps_of_one_large_batch() {
    let apart = |shape| {
        let job = job(SYSTEMS[0], shape);
        let data = data(&job);
        let (split, union) = (reference(&job, &data, false), reference(&job, &data, true));
        let way = distance(&split.parameters, &split.initial);
        distance(&split.parameters, &union.parameters) / way
    };
    let found = apart(&LENET5);
    assert!(found <= UNION_BOUND, "a relative {found:e} apart");
    assert!(apart(&MOBILENET) > 100.0 * UNION_BOUND);
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    a.iter().zip(b).map(square).sum::<f64>().sqrt()
}

/// Images of each dataset fit every model that may train on it; the largest models,
/// whose steps take seconds, are left out.
#[tokio::test]
async fn every_small_model_steps_on_every_dataset_that_it_takes() {
    let small = |model: &&epochcost_systems::ModelSizes| model.sizes.parameters < 30_000_000;
    for model in epochcost_systems::models().iter().filter(small) {
        for dataset in ["synthetic-mnist", "synthetic-cifar10"] {
            let format = epochcost_datasets::find(dataset).unwrap().format;
            let images = [format.channels, format.height, format.width];
            let shape = Shape {
                model: model.name,
                dataset,
                workers: 1,
                batch_size: 2,
                batches_per_worker: 1,
                epochs: 1,
            };
            let job = job(SYSTEMS[0], &shape);
            let loaded = Model::load(&job, false, Precision::default());
            assert_eq!(loaded.is_ok(), model.takes(images, 10), "{}", model.name);
            let Ok(loaded) = loaded else { continue };
            let mut compute = JobModel::new(loaded, &job).unwrap();
            let parameters = compute.initial_parameters(1).await.unwrap();
            let mut statistics = compute.initial_statistics();
            let batch = first_batch(data(&job).train);
            let mut step = async || {
                let step = compute.gradient(&parameters, &mut statistics, &batch).await;
                step.unwrap()
            };
            let first = step().await;
            assert!(first.loss.unwrap().is_finite(), "{}", model.name);
            assert_eq!(first.gradient.len(), model.sizes.parameters);
            // Dropout depends on the batch alone.
            assert_eq!(first.gradient, step().await.gradient, "{}", model.name);
        }
    }
}

/// A job whose records are not its dataset's is refused by name.
#[test]
fn records_of_another_size_are_refused() {
    let mut job = job(SYSTEMS[0], &LENET5);
    let model = Model::load(&job, false, Precision::default()).unwrap();
    job.data.record_bytes = 3073;
    let error = JobModel::new(model.clone(), &job).err().unwrap();
    assert!(error.to_string().contains("785 bytes, not 3073"), "{error}");
    job.data.dataset = "imagenet".into();
    let error = JobModel::new(model, &job).err().unwrap();
    assert!(error.to_string().contains("imagenet"), "{error}");
}

/// The harness plans with the systems' table and never links a model.
#[test]
fn the_systems_table_of_models_is_the_models_own() {
    let known = epochcost_systems::models();
    assert_eq!(known.len(), epochcost_models::models().len());
    for info in epochcost_models::models() {
        let model = epochcost_systems::find_model(info.name).unwrap();
        assert_eq!(
            (model.input, model.classes, model.tensors),
            (info.input, info.classes, info.gradient_tensors)
        );
        assert_eq!(
            (model.sizes.parameters, model.sizes.statistics),
            (info.parameters, info.statistics)
        );
    }
}

#[test]
fn the_cpu_is_always_there_and_a_missing_gpu_has_a_reason() {
    let Description {
        devices,
        no_cuda,
        built_with_cuda,
        gpus,
    } = Description::here();
    assert!(devices.contains(&Device::Cpu));
    assert_eq!(devices.contains(&Device::Cuda), no_cuda.is_none());
    assert!(built_with_cuda || GPU_STAND_IN.is_some() || no_cuda.is_some());
    assert_eq!(gpus.is_empty(), no_cuda.is_some());
}

/// What training starts from is the same on every device, and takes none.
#[tokio::test]
async fn a_gpu_is_opened_by_the_first_computation() {
    let mut job = job(SYSTEMS[0], &LENET5);
    let start = |job: &Job| {
        let model = Model::load(job, false, Precision::default()).unwrap();
        (model.clone(), JobModel::new(model, job).unwrap())
    };
    let (_, mut on_cpu) = start(&job);
    job.device = Device::Cuda;
    let (model, mut on_gpu) = start(&job);
    let parameters = on_gpu.initial_parameters(3).await.unwrap();
    assert_eq!(parameters, on_cpu.initial_parameters(3).await.unwrap());
    assert!(!model.is_on_gpu() && model.take_warning().is_none());
    let batch = first_batch(data(&job).test);
    let mut statistics = on_gpu.initial_statistics();
    let step = on_gpu.gradient(&parameters, &mut statistics, &batch).await;
    let Description { no_cuda, .. } = Description::here();
    assert_eq!(step.err().is_some(), no_cuda.is_some());
    assert_eq!(model.is_on_gpu(), no_cuda.is_none());
}
