//! Models behind the interface of training systems.

use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use epochcost_datasets::DatasetInfo;
use epochcost_kernels::hash;
use epochcost_models::{
    GPU_STAND_IN, Gpu, ModelError, Precision, StepOutput, Trainer, gpus, input,
};
use epochcost_systems::{
    Batch, Compute, DataPlan, Device, Evaluation, GradientOutput, Job, Result, SystemError, Vector,
};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;

/// Stream of the seeds of augmentation, apart from others drawn from the job's: the
/// bytes "augment".
const AUGMENT_STREAM: u64 = 0x61_7567_6d65_6e74;

/// Stream of the seeds of dropout: the bytes "dropout".
const DROPOUT_STREAM: u64 = 0x64_726f_706f_7574;

/// Description of a worker (`--describe`).
#[derive(Debug, Serialize)]
pub struct Description {
    /// Devices that this build and this machine can compute on.
    pub devices: Vec<Device>,
    /// The reason why CUDA is not among them, if it is not.
    pub no_cuda: Option<String>,
    /// Whether it was built with CUDA, whether or not this machine has a GPU.
    pub built_with_cuda: bool,
    /// GPUs that workers are dealt out over.
    pub gpus: Vec<Gpu>,
}

impl Description {
    /// Tries every device.
    pub fn here() -> Self {
        let cuda = model_device(Device::Cuda).available();
        let devices = match cuda {
            Ok(()) => vec![Device::Cpu, Device::Cuda],
            Err(_) => vec![Device::Cpu],
        };
        Self {
            gpus: if cuda.is_ok() { gpus() } else { Vec::new() },
            devices,
            no_cuda: cuda.err().map(|error| error.to_string()),
            built_with_cuda: cfg!(feature = "cuda"),
        }
    }
}

/// Returns `device` as the models name it.
fn model_device(device: Device) -> epochcost_models::Device {
    match device {
        Device::Cpu => epochcost_models::Device::Cpu,
        Device::Cuda => epochcost_models::Device::Cuda,
    }
}

/// A model with its trainers, which a warm worker keeps between invocations.
#[derive(Clone)]
pub struct Model {
    /// Makes what training starts from.
    host: Arc<Mutex<Trainer>>,
    on_device: Arc<Mutex<OnDevice>>,
    name: String,
    /// Dataset whose images the model takes.
    dataset: String,
    /// Device that the job asks for.
    device: Device,
    parameters: usize,
    statistics: usize,
}

/// The trainer on the job's device, which the first computation makes: a function that computes
/// nothing has nothing on a GPU.
struct OnDevice {
    name: String,
    images: [usize; 3],
    device: Device,
    precision: Precision,
    cpu_fallback: bool,
    trainer: Option<Trainer>,
    /// Why it is not on the device that the job asks for, until it is reported.
    warning: Option<String>,
    is_on_gpu: bool,
}

impl OnDevice {
    fn trainer(&mut self) -> Result<&mut Trainer, ModelError> {
        let trainer = match self.trainer.take() {
            Some(trainer) => trainer,
            None => self.open()?,
        };
        Ok(self.trainer.insert(trainer))
    }

    /// Makes the trainer on the device, or on the CPU if it may fall back.
    fn open(&mut self) -> Result<Trainer, ModelError> {
        let wanted = Trainer::new(&self.name, model_device(self.device));
        let trainer = match wanted.and_then(|trainer| trainer.with_precision(self.precision)) {
            Ok(trainer) => {
                self.is_on_gpu = self.device == Device::Cuda;
                let stand_in = GPU_STAND_IN.filter(|_| self.is_on_gpu);
                self.warning =
                    stand_in.map(|name| format!("gradients were computed on the CPU, by {name}"));
                trainer
            }
            Err(error) if self.cpu_fallback && error.lacks_device() => {
                let text = format!("gradients were computed on the CPU in fp32: {error}");
                self.warning = Some(text);
                Trainer::new(&self.name, epochcost_models::Device::Cpu)?
            }
            Err(error) => return Err(error),
        };
        trainer.with_images(self.images)
    }
}

impl Model {
    /// Loads the job's model, whose gradients are computed on its device, or on the CPU if it may
    /// fall back.
    ///
    /// # Errors
    /// [`SystemError::Compute`] when the model or dataset is missing.
    pub fn load(job: &Job, cpu_fallback: bool, precision: Precision) -> Result<Self> {
        let format = dataset(job)?.format;
        let images = [format.channels, format.height, format.width];
        let host = Trainer::new(&job.model, epochcost_models::Device::Cpu);
        let host = host
            .and_then(|trainer| trainer.with_images(images))
            .map_err(failed)?;
        let info = host.info();
        Ok(Self {
            on_device: Arc::new(Mutex::new(OnDevice {
                name: job.model.clone(),
                images,
                device: job.device,
                precision,
                cpu_fallback,
                trainer: None,
                warning: None,
                is_on_gpu: false,
            })),
            name: job.model.clone(),
            dataset: job.data.dataset.clone(),
            device: job.device,
            parameters: info.parameters,
            statistics: info.statistics,
            host: Arc::new(Mutex::new(host)),
        })
    }

    /// Returns whether the model has computed on a GPU.
    pub fn is_on_gpu(&self) -> bool {
        locked(&self.on_device).is_on_gpu
    }

    /// Returns once why the model has not computed on the device that the job asks for.
    pub fn take_warning(&self) -> Option<String> {
        locked(&self.on_device).warning.take()
    }

    /// Returns whether this is the model that `job` trains.
    pub fn suits(&self, job: &Job) -> bool {
        (&self.name, &self.dataset, self.device) == (&job.model, &job.data.dataset, job.device)
    }

    /// Runs `work` on the device, on a thread that may block.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Trainer) -> Result<T, ModelError> + Send + 'static,
    ) -> Result<T> {
        let on_device = self.on_device.clone();
        let work = move || locked(&on_device).trainer().and_then(work);
        spawn_blocking(work).await.map_err(failed)?.map_err(failed)
    }
}

/// Locks a model or its trainer, also after a panic: they keep no state between two steps.
pub fn locked<T>(trainer: &Mutex<T>) -> MutexGuard<'_, T> {
    trainer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dataset(job: &Job) -> Result<&'static DatasetInfo> {
    epochcost_datasets::find(&job.data.dataset).map_err(failed)
}

fn failed(error: impl Display) -> SystemError {
    SystemError::Compute(error.to_string())
}

/// A model on the data of one job.
pub struct JobModel {
    model: Model,
    dataset: &'static DatasetInfo,
    augment: bool,
    seed: u64,
}

impl JobModel {
    /// Makes the model of a job on its dataset.
    ///
    /// # Errors
    /// [`SystemError::Compute`] when the dataset's records have another size than the
    /// job states.
    pub fn new(model: Model, job: &Job) -> Result<Self> {
        let DataPlan { record_bytes, .. } = &job.data;
        let dataset = dataset(job)?;
        let expected = dataset.format.record_bytes();
        if *record_bytes != expected {
            return Err(SystemError::Compute(format!(
                "records of {} have {expected} bytes, not {record_bytes}",
                dataset.name
            )));
        }
        Ok(Self {
            model,
            dataset,
            augment: job.data.augment,
            seed: job.seed,
        })
    }

    fn decode(&self, batch: &Batch, augment: Option<u64>) -> Result<(Vec<f32>, Vec<u8>)> {
        input::decode(batch.records.bytes()?, self.dataset, augment).map_err(failed)
    }

    /// Collects the arguments of a training step.
    fn step(&self, parameters: &Vector, statistics: &Vector, batch: &Batch) -> Result<Step> {
        let augment = self.augment.then(|| self.seed(AUGMENT_STREAM, batch));
        let (images, labels) = self.decode(batch, augment)?;
        Ok(Step {
            parameters: real(parameters)?.to_vec(),
            statistics: real(statistics)?.to_vec(),
            images,
            labels,
            seed: self.seed(DROPOUT_STREAM, batch),
        })
    }

    /// Derives a seed for one batch of one worker and epoch.
    fn seed(&self, stream: u64, batch: &Batch) -> u64 {
        let place = [batch.rank, batch.epoch, batch.index].map(|number| number as u64);
        [stream].into_iter().chain(place).fold(self.seed, hash::mix)
    }
}

/// The arguments of a training step.
struct Step {
    parameters: Vec<f32>,
    statistics: Vec<f32>,
    images: Vec<f32>,
    labels: Vec<u8>,
    seed: u64,
}

impl Step {
    /// Computes the step's output, and the statistics after it.
    fn gradient(mut self, trainer: &mut Trainer) -> Result<(StepOutput, Vec<f32>), ModelError> {
        let output = trainer.gradient(
            &self.parameters,
            &mut self.statistics,
            &self.images,
            &self.labels,
            self.seed,
        )?;
        Ok((output, self.statistics))
    }

    /// Computes [`Step::gradient`], and passes its parts to `ready` as soon as they are
    /// known.
    fn gradient_in_parts(
        mut self,
        trainer: &mut Trainer,
        cuts: &[Range<usize>],
        ready: &mut (dyn FnMut(usize, &[f32]) + Send),
    ) -> Result<(StepOutput, Vec<f32>), ModelError> {
        let output = trainer.gradient_in_parts(
            &self.parameters,
            &mut self.statistics,
            &self.images,
            &self.labels,
            self.seed,
            cuts,
            ready,
        )?;
        Ok((output, self.statistics))
    }
}

fn gradient_output(output: StepOutput) -> GradientOutput {
    GradientOutput {
        loss: Some(f64::from(output.loss)),
        gradient: Vector::Real(output.gradient),
    }
}

#[async_trait]
impl Compute for JobModel {
    fn parameters(&self) -> usize {
        self.model.parameters
    }

    fn statistics(&self) -> usize {
        self.model.statistics
    }

    async fn initial_parameters(&mut self, seed: u64) -> Result<Vector> {
        let host = self.model.host.clone();
        let drawn = spawn_blocking(move || locked(&host).initial_parameters(seed)).await;
        drawn.map(Vector::Real).map_err(failed)
    }

    fn initial_statistics(&self) -> Vector {
        Vector::Real(locked(&self.model.host).initial_statistics())
    }

    async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        let step = self.step(parameters, statistics, batch)?;
        let compute = move |trainer: &mut Trainer| step.gradient(trainer);
        let (output, moved) = self.model.compute(compute).await?;
        *statistics = Vector::Real(moved);
        Ok(gradient_output(output))
    }

    async fn gradient_in_parts(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<GradientOutput> {
        let step = self.step(parameters, statistics, batch)?;
        let cuts = cuts.to_vec();
        let compute = move |trainer: &mut Trainer| {
            step.gradient_in_parts(trainer, &cuts, &mut |part, values: &[f32]| {
                // The receiver is gone only after an error, which its task reports.
                let _ = ready.send((part, Vector::Real(values.to_vec())));
            })
        };
        let (output, moved) = self.model.compute(compute).await?;
        *statistics = Vector::Real(moved);
        Ok(gradient_output(output))
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        let (images, labels) = self.decode(test, None)?;
        let (parameters, statistics) = (real(parameters)?.to_vec(), real(statistics)?.to_vec());
        let found = self
            .model
            .compute(move |trainer| trainer.evaluate(&parameters, &statistics, &images, &labels))
            .await?;
        Ok(Some(Evaluation {
            loss: found.loss,
            correct: found.correct,
            samples: found.samples,
        }))
    }
}

fn real(vector: &Vector) -> Result<&[f32]> {
    vector
        .real()
        .ok_or_else(|| SystemError::Compute("a phantom has no values to compute with".into()))
}

#[cfg(test)]
mod tests;
