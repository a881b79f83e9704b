use crate::lambdaml::Source;
use crate::system::System;

/// Every training system. A new one is one line here.
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &crate::spirt::Spirt,
        &crate::mlless::MlLess,
        &crate::scatterreduce::ScatterReduce(Source::Comparison),
        &crate::allreduce::AllReduce(Source::Comparison),
        &crate::gpu_baseline::GpuBaseline,
        &crate::p2p::P2p,
        &crate::p2p_lambda::P2pLambda,
        &crate::scatterreduce::ScatterReduce(Source::LambdaMl),
        &crate::allreduce::AllReduce(Source::LambdaMl),
        &crate::lambdaml::Asynchronous,
        &crate::kubeml::KubeMl,
        &crate::mirrored::Mirrored,
    ]
}

/// The system of that name.
pub fn find(name: &str) -> Option<&'static dyn System> {
    systems()
        .iter()
        .chain(documented())
        .copied()
        .find(|system| system.name() == name)
}

/// The line of `docs/adding-a-system.md`, which adds its example.
#[cfg(test)]
fn documented() -> &'static [&'static dyn System] {
    &[include!(concat!(env!("OUT_DIR"), "/registry_line.rs"))]
}

#[cfg(not(test))]
fn documented() -> &'static [&'static dyn System] {
    &[]
}
