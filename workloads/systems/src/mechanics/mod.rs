//! Mechanics that several training systems share: the loop over mini-batches,
//! exchanges and transfers, compression, learning-rate schedules. They know
//! the contract, and no system.

pub(crate) mod batch_norm;
pub(crate) mod compression;
pub(crate) mod continuation;
pub(crate) mod in_store;
pub(crate) mod listing;
pub(crate) mod monitor;
pub(crate) mod object_exchange;
pub(crate) mod p2p;
pub(crate) mod polling;
pub(crate) mod published;
pub(crate) mod replica;
pub(crate) mod synchronous;
pub(crate) mod traffic;
pub(crate) mod transfers;
pub(crate) mod wire;
