//! The training systems, one file or folder each, and their registry. None
//! imports from another.

pub mod aggregation;
pub(crate) mod allreduce;
#[cfg(test)]
mod gossip {
    //! The example of `docs/adding-a-system.md`, taken from there.
    include!(concat!(env!("OUT_DIR"), "/gossip.rs"));

    mod tests {
        #![allow(clippy::unwrap_used)]
        include!(concat!(env!("OUT_DIR"), "/gossip_tests.rs"));
    }
}
pub(crate) mod gpu_baseline;
pub mod kubeml;
pub(crate) mod lambdaml;
pub(crate) mod mirrored;
pub mod mlless;
pub mod p2p;
pub mod p2p_lambda;
pub(crate) mod registry;
pub(crate) mod ring;
pub(crate) mod scatterreduce;
pub mod spirt;
