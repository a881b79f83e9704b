//! The NVIDIA GPU, if there is one that works.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;
use std::{env, fs};

use burn_cubecl::CubeBackend;
use burn_cuda::CudaDevice;
use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl::cuda::{CudaRuntime, install};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::{computes, lacking};
use crate::ModelError;

/// burn's CUDA backend, without its lazily fused operations: [`super`] has its own.
pub(crate) type Gpu = CubeBackend<CudaRuntime, f32, i32, u8>;

/// File name of NVML in NVIDIA's drivers; the name without a version is a development
/// package's.
const NVML: &str = "libnvidia-ml.so.1";

/// The first GPU, after it has computed something.
///
/// The backend ends a thread by a panic where a library is missing. So everything that can
/// be asked before is asked before.
pub(crate) fn device() -> Result<CudaDevice, ModelError> {
    static FOUND: OnceLock<Result<(), ModelError>> = OnceLock::new();
    let device = CudaDevice::default();
    let found = FOUND.get_or_init(|| {
        driver()?;
        toolkit()?;
        keep_kernels();
        computes::<Gpu>(
            &device,
            "see that CUDA's libnvrtc is on the library path and no newer than the driver; standard \
             error has CUDA's own words",
        )
    });
    found.clone().map(|()| device)
}

/// NVML, which comes with the driver.
pub(crate) fn nvml() -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(OsStr::new(NVML)).init()
}

/// Has compiled kernels kept for later processes, where there is a place for them and no
/// `cubecl.toml` names another.
fn keep_kernels() {
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    if config.compilation.cache.is_none() {
        config.compilation.cache = kernels().map(CacheConfig::File);
    }
    let mut held = CubeClRuntimeConfig::storage().lock();
    if held.is_none() {
        *held = Some(Arc::new(config));
    }
}

/// The directory of this program's kernels on this GPU, in the user's cache; it is there, and can be
/// written to.
///
/// A kernel's key is its types and sizes, so that another build needs another directory.
fn kernels() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let program = env::current_exe().ok()?;
    let about = program.metadata().ok()?;
    let built = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let gpu = nvml().ok()?.device_by_index(0).ok()?.name().ok()?;
    let gpu = gpu.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let build = format!("{gpu}-{:x}-{:x}", about.len(), built.as_millis());
    let directory = cache.join("epochcost/kernels").join(build);
    fs::create_dir_all(&directory).ok()?;
    fs::write(
        directory.join("program"),
        program.as_os_str().as_encoded_bytes(),
    )
    .ok()?;
    Some(directory)
}

fn driver() -> Result<(), ModelError> {
    let install = "install NVIDIA's driver, or choose the device `cpu`";
    let nvml =
        nvml().map_err(|error| lacking(format!("no NVIDIA driver answers ({error})"), install))?;
    match nvml.device_count() {
        Ok(0) => Err(lacking("the NVIDIA driver finds no GPU".into(), install)),
        Ok(_) => Ok(()),
        Err(error) => Err(lacking(
            format!("the NVIDIA driver does not count its GPUs ({error})"),
            install,
        )),
    }
}

/// Kernels are compiled at run time, with CUDA's headers.
fn toolkit() -> Result<(), ModelError> {
    let headers = install::cuda_path().map(|path| path.join("include"));
    match headers {
        Some(path) if path.join("cuda_runtime.h").is_file() => Ok(()),
        Some(path) => Err(lacking(
            format!("{} holds no CUDA headers", path.display()),
            "name CUDA's directory in CUDA_PATH",
        )),
        None => Err(lacking(
            "CUDA's headers were not found".into(),
            "install the CUDA toolkit (NVRTC and the headers), or name its directory in CUDA_PATH",
        )),
    }
}
