use crate::contract::system::System;
use crate::mechanics::published::Source;

/// Every training system. A new one is one line here.
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &super::spirt::Spirt,
        &super::mlless::MlLess,
        &super::scatterreduce::ScatterReduce(Source::Comparison),
        &super::allreduce::AllReduce(Source::Comparison),
        &super::gpu_baseline::GpuBaseline,
        &super::p2p::P2p,
        &super::p2p_lambda::P2pLambda,
        &super::scatterreduce::ScatterReduce(Source::LambdaMl),
        &super::allreduce::AllReduce(Source::LambdaMl),
        &super::lambdaml::Asynchronous,
        &super::kubeml::KubeMl,
        &super::mirrored::Mirrored,
        &super::ring::Ring,
        &super::aggregation::Aggregation::GradsSharding,
        &super::aggregation::Aggregation::LambdaFl,
        &super::aggregation::Aggregation::Lifl,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_first_function_is_the_workers() {
        for system in systems() {
            let deployment = system.deployment();
            let mut names: Vec<_> = deployment.functions.iter().map(|f| f.name).collect();
            assert!(!names.is_empty(), "{}", system.name());
            assert_eq!(
                deployment.worker_host(),
                deployment.host_of(names[0]),
                "{}",
                system.name()
            );
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), deployment.functions.len(), "{}", system.name());
        }
    }
}
