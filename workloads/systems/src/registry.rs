use crate::allreduce::AllReduce;
use crate::gpu_baseline::GpuBaseline;
use crate::mlless::MlLess;
use crate::p2p::P2p;
use crate::p2p_lambda::P2pLambda;
use crate::scatterreduce::ScatterReduce;
use crate::spirt::Spirt;
use crate::system::System;

/// Every training system. A new one is one line here.
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &Spirt,
        &MlLess,
        &ScatterReduce,
        &AllReduce,
        &GpuBaseline,
        &P2p,
        &P2pLambda,
    ]
}

/// The system of that name.
pub fn find(name: &str) -> Option<&'static dyn System> {
    systems()
        .iter()
        .copied()
        .find(|system| system.name() == name)
}
