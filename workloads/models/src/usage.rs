//! The GPUs, and what computing uses of them, where their driver reports it.

use serde::Serialize;

/// What computes in the place of the GPU, in a build with Vulkan alone.
pub const GPU_STAND_IN: Option<&str> = if cfg!(all(feature = "vulkan", not(feature = "cuda"))) {
    Some("a Vulkan device in software")
} else {
    None
};

/// Means of the samples that were taken while a [`GpuWatch`] ran.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuUsage {
    /// The GPU's name.
    pub name: String,
    /// The most memory that this process held, MB of 1,048,576 bytes; none where the driver
    /// does not distinguish processes, as in containers.
    pub memory_mb: Option<f64>,
    /// The most memory that all processes held together, MB of 1,048,576 bytes.
    pub device_memory_mb: f64,
    /// Share of the time in which any process computed on it, from 0 to 1: the mean of the
    /// samples.
    pub utilisation: f64,
    /// Number of samples.
    pub samples: usize,
}

/// A GPU that workers compute on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gpu {
    /// The GPU's name.
    pub name: String,
    /// Its memory, MB of 1,048,576 bytes; none of a device in software.
    pub memory_mb: Option<f64>,
}

#[cfg(feature = "cuda")]
pub use sampler::{GpuWatch, gpus};
#[cfg(not(feature = "cuda"))]
pub use without::{GpuWatch, gpus};

#[cfg(not(feature = "cuda"))]
mod without {
    use super::{Gpu, GpuUsage};

    /// Returns the GPUs that workers are dealt out over: in a build with Vulkan alone the
    /// device in software.
    #[must_use]
    pub fn gpus() -> Vec<Gpu> {
        let stand_in = super::GPU_STAND_IN.map(|name| Gpu {
            name: name.to_owned(),
            memory_mb: None,
        });
        stand_in.into_iter().collect()
    }

    /// Samples what is used of the GPU; in a build without CUDA, nothing.
    #[derive(Debug)]
    pub struct GpuWatch(std::convert::Infallible);

    impl GpuWatch {
        /// None: there is no GPU to watch.
        #[must_use]
        pub fn start() -> Option<Self> {
            None
        }

        /// Returns what was sampled.
        #[must_use]
        pub fn stop(self) -> Option<GpuUsage> {
            match self.0 {}
        }
    }
}

#[cfg(feature = "cuda")]
mod sampler {
    use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use nvml_wrapper::enums::device::UsedGpuMemory;
    use nvml_wrapper::error::NvmlError;
    use nvml_wrapper::{Device, Nvml};

    use super::{Gpu, GpuUsage};
    use crate::gpu::nvml;

    /// Interval between two samples. The driver's own are a sixth of a second to a second long.
    const INTERVAL: Duration = Duration::from_millis(200);

    const MB: f64 = 1_048_576.0;

    /// Samples what is used of the first GPU, by NVML, on a thread of its own.
    #[derive(Debug)]
    pub struct GpuWatch {
        end: Sender<()>,
        thread: JoinHandle<Option<GpuUsage>>,
    }

    impl GpuWatch {
        /// None where there is no NVIDIA driver, or no thread is left.
        #[must_use]
        pub fn start() -> Option<Self> {
            let nvml = nvml().ok()?;
            let (end, ended) = channel();
            let sampling = move || {
                let device = first(&nvml).ok()?;
                let mut samples = vec![];
                loop {
                    samples.extend(Sample::of(&device));
                    match ended.recv_timeout(INTERVAL) {
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return summary(device.name().ok()?, &samples),
                    }
                }
            };
            let thread = thread::Builder::new().spawn(sampling).ok()?;
            Some(Self { end, thread })
        }

        /// Returns what was sampled; `None` where the driver answered nothing.
        #[must_use]
        pub fn stop(self) -> Option<GpuUsage> {
            drop(self.end);
            self.thread.join().ok()?
        }
    }

    /// Returns the GPU that CUDA calls the first.
    fn first(nvml: &Nvml) -> Result<Device<'_>, NvmlError> {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        named(nvml, visible.split(',').next().unwrap_or_default().trim())
    }

    /// Returns the GPU of an entry of `CUDA_VISIBLE_DEVICES`; the first, if it is empty.
    fn named<'a>(nvml: &'a Nvml, name: &str) -> Result<Device<'a>, NvmlError> {
        match (name.is_empty(), name.parse()) {
            (true, _) => nvml.device_by_index(0),
            (false, Ok(index)) => nvml.device_by_index(index),
            (false, Err(_)) => nvml.device_by_uuid(name),
        }
    }

    /// Returns the GPUs that workers are dealt out over: those of `CUDA_VISIBLE_DEVICES`, or else
    /// the first. None where the driver does not answer.
    #[must_use]
    pub fn gpus() -> Vec<Gpu> {
        let Ok(nvml) = nvml() else {
            return Vec::new();
        };
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        let listed = visible.split(',').map(str::trim);
        let described = listed.filter_map(|name| {
            let device = named(&nvml, name).ok()?;
            Some(Gpu {
                name: device.name().ok()?,
                memory_mb: Some(device.memory_info().ok()?.total as f64 / MB),
            })
        });
        described.collect()
    }

    /// One moment.
    #[derive(Debug, Clone, Copy)]
    struct Sample {
        memory_mb: Option<f64>,
        device_memory_mb: f64,
        utilisation: f64,
    }

    impl Sample {
        fn of(device: &Device<'_>) -> Option<Self> {
            let own = device.running_compute_processes().ok().and_then(|all| {
                let own = all.into_iter().find(|one| one.pid == std::process::id())?;
                match own.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes as f64 / MB),
                    UsedGpuMemory::Unavailable => None,
                }
            });
            Some(Self {
                memory_mb: own,
                device_memory_mb: device.memory_info().ok()?.used as f64 / MB,
                utilisation: f64::from(device.utilization_rates().ok()?.gpu) / 100.0,
            })
        }
    }

    fn summary(name: String, samples: &[Sample]) -> Option<GpuUsage> {
        let most = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::max);
        let sum: f64 = samples.iter().map(|sample| sample.utilisation).sum();
        Some(GpuUsage {
            name,
            memory_mb: most(&mut samples.iter().filter_map(|sample| sample.memory_mb)),
            device_memory_mb: most(&mut samples.iter().map(|sample| sample.device_memory_mb))?,
            utilisation: sum / samples.len() as f64,
            samples: samples.len(),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn peaks_of_memory_and_the_mean_of_utilisation() {
            let sample = |memory_mb, device_memory_mb, utilisation| Sample {
                memory_mb,
                device_memory_mb,
                utilisation,
            };
            let samples = [
                sample(None, 500.0, 0.0),
                sample(Some(300.0), 900.0, 1.0),
                sample(Some(200.0), 800.0, 0.5),
            ];
            let usage = summary("T4".into(), &samples).unwrap();
            assert_eq!(
                (usage.memory_mb, usage.device_memory_mb),
                (Some(300.0), 900.0)
            );
            assert_eq!((usage.utilisation, usage.samples), (0.5, 3));
            assert_eq!(summary("T4".into(), &[]), None);
        }
    }
}
