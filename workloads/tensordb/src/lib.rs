//! A Redis module that computes on tensors where they lie: the commands
//! `TENSOR.*` of `epochcost_tensor_commands`, over the same table and the same kernels as
//! the embedded store.
//!
//! ```text
//! redis-server --loadmodule target/release/libepochcost_tensordb.so
//! ```
//!
//! A tensor is a type of its own (`ec-tensor`), shared by reference count, so
//! that a long operation reads on a background thread what other clients
//! replace meanwhile. How commands become threads, replication and files is in
//! `docs/tensor-store.md`.

#![deny(unsafe_op_in_unsafe_fn)]
// Outside a server nothing calls the module, and its allocator does not exist.
#![cfg_attr(test, allow(dead_code))]

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian f32, and are read here as they lie");

mod api;
mod background;
mod blocked;
mod handler;
mod keyspace;
mod kind;
mod operate;
mod server;
mod tensor;

/// Entry points for Redis: generated, and so not ours to document or to make safe.
#[cfg(not(test))]
#[allow(unsafe_code, missing_docs)]
mod entry {
    use redis_module::alloc::RedisAlloc;
    use redis_module::redis_module;

    use crate::handler::{handle, load};
    use crate::kind::TENSOR;

    // Every command has its own handler, since a server may rename commands.
    // Keys are reported by the handlers ("getkeys-api"): sources stand in places
    // that Redis' own ranges cannot describe.
    redis_module! {
        name: "epochcost",
        version: 1,
        allocator: (RedisAlloc, RedisAlloc),
        data_types: [TENSOR],
        init: load,
        commands: [
            ["tensor.set", |c, a| handle("TENSOR.SET", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.get", |c, a| handle("TENSOR.GET", c, a), "readonly getkeys-api", 1, 1, 1, ""],
            ["tensor.getrange", |c, a| handle("TENSOR.GETRANGE", c, a), "readonly getkeys-api", 1, 1, 1, ""],
            ["tensor.accumulate", |c, a| handle("TENSOR.ACCUMULATE", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.mean", |c, a| handle("TENSOR.MEAN", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.robust", |c, a| handle("TENSOR.ROBUST", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.sgd", |c, a| handle("TENSOR.SGD", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.meansgd", |c, a| handle("TENSOR.MEANSGD", c, a), "write deny-oom getkeys-api", 1, 1, 1, ""],
            ["tensor.jsonmean", |c, a| handle("TENSOR.JSONMEAN", c, a), "readonly getkeys-api", 1, 1, 1, ""],
        ],
    }
}
