//! A Vulkan device in software (Mesa's llvmpipe) in the place of the NVIDIA GPU: it needs no GPU,
//! and its kernels are CUDA's, from the same source.

use std::sync::OnceLock;

use burn_cubecl::CubeBackend;
use burn_wgpu::WgpuDevice;
use cubecl::wgpu::WgpuRuntime;

use super::computes;
use crate::ModelError;

/// burn's Vulkan backend, without its lazily fused operations.
pub(crate) type Gpu = CubeBackend<WgpuRuntime, f32, i32, u32>;

/// Returns the first Vulkan device that computes on the processor, after it has computed something.
pub(crate) fn device() -> Result<WgpuDevice, ModelError> {
    static FOUND: OnceLock<Result<(), ModelError>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let remedy = "install Mesa's software device (mesa-vulkan-drivers and libvulkan1)";
        computes::<Gpu>(&WgpuDevice::Cpu, remedy)
    });
    found.clone().map(|()| WgpuDevice::Cpu)
}
