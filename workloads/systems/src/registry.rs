use crate::allreduce::AllReduce;
use crate::gpu_baseline::GpuBaseline;
use crate::kubeml::KubeMl;
use crate::lambdaml::{Asynchronous, Source};
use crate::mirrored::Mirrored;
use crate::mlless::MlLess;
use crate::scatterreduce::ScatterReduce;
use crate::spirt::Spirt;
use crate::system::System;

/// Every training system. A new one is one line here.
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &Spirt,
        &MlLess,
        &ScatterReduce(Source::Comparison),
        &AllReduce(Source::Comparison),
        &GpuBaseline,
        &ScatterReduce(Source::LambdaMl),
        &AllReduce(Source::LambdaMl),
        &Asynchronous,
        &KubeMl,
        &Mirrored,
    ]
}

/// The system of that name.
pub fn find(name: &str) -> Option<&'static dyn System> {
    systems()
        .iter()
        .copied()
        .find(|system| system.name() == name)
}
