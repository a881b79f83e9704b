//! Tests of training systems: each against one process, closed forms and faults, in one binary.
#![allow(clippy::unwrap_used)]

mod aggregation;
mod coverage;
mod every_system;
mod kubeml;
mod lambdaml;
mod layers;
mod membership;
mod mlless;
mod p2p;
mod ring;
mod robust;
mod signatures;
mod spirt;
mod storage;
mod support;
mod synchronous;
mod technique;
