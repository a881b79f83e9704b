//! Names of the environment variables that the programs of this workspace read.
//!
//! Variables are a protocol between processes that are built apart: the harness
//! starts workers and servers, and AWS starts functions. Each name is written
//! once, here, and described in `docs/FORMAT.md` ("Environment variables"); a test
//! keeps the two equal, and another keeps the names out of all other sources.

/// Start of every name: users' own variables of functions may not have it.
pub const PREFIX: &str = "EPOCHCOST_";

/// Variables of a worker process.
///
/// The harness sets them for every trial: in the environment of the processes
/// that it starts (`local`), in the configuration of functions and the start-up
/// script of instances (`aws`). The worker reads them once, when it starts.
pub mod worker {
    /// Endpoint of the object store. Required.
    pub const OBJECTS: &str = "EPOCHCOST_OBJECTS";
    /// Endpoints of the peers' tensor stores by rank, separated by commas; unset or
    /// empty where the system uses none.
    pub const TENSORS: &str = "EPOCHCOST_TENSORS";
    /// Endpoint of the queue; unset where the system uses none.
    pub const QUEUE: &str = "EPOCHCOST_QUEUE";
    /// Prefix of every name on these services; unset or empty for none.
    pub const SCOPE: &str = "EPOCHCOST_SCOPE";
    /// URL of the local platform's control API. Required without [`DEPLOYMENT`].
    pub const CONTROL: &str = "EPOCHCOST_CONTROL";
    /// Names under which the system is deployed on AWS, as JSON; set on AWS only.
    pub const DEPLOYMENT: &str = "EPOCHCOST_DEPLOYMENT";
    /// `1` lets the worker compute on the CPU in `fp32` where the job's GPU
    /// is missing; any other value, or none, does not.
    pub const CPU_FALLBACK: &str = "EPOCHCOST_CPU_FALLBACK";
    /// Precision of matrix products: `fp32` (default), on GPUs also `tf32` and `bf16`.
    pub const PRECISION: &str = "EPOCHCOST_PRECISION";
    /// Faults to inject, as the JSON list of a row's `faults`; unset for none.
    pub const FAULTS: &str = "EPOCHCOST_FAULTS";
    /// Most listings and reads that an invocation may send to the object store, as JSON; unset, any
    /// number. Set on AWS only.
    pub const ALLOWANCE: &str = "EPOCHCOST_ALLOWANCE";
    /// Shape of the network to the services, as JSON; unset leaves it as it is. Set
    /// by the local platform only.
    pub const NETWORK: &str = "EPOCHCOST_NETWORK";
    /// Time by which the trial's clock, of Unix time, is ahead of the machine's monotonic
    /// clock, ns; unset, the worker starts at the system's time. Set by the local platform only.
    pub const CLOCK: &str = "EPOCHCOST_CLOCK";
}

/// Variables of the S3-compatible server `epochcost-s3`: set by the harness that
/// starts it, read once, both required.
pub mod s3_server {
    /// Access key id that clients sign with.
    pub const ACCESS_KEY: &str = "EPOCHCOST_S3_ACCESS_KEY";
    /// Secret key that clients sign with. Arguments would be visible to all users
    /// of the machine.
    pub const SECRET_KEY: &str = "EPOCHCOST_S3_SECRET_KEY";
}

/// Variables of a program that `epochcost profile` starts.
pub mod profiled {
    /// Path of the pipe that the program's steps are reported on. The lines are
    /// described in `docs/profiling.md`.
    pub const PIPE: &str = "EPOCHCOST_PROFILE_PIPE";
}

/// Variables that a user sets, and what reads them.
pub mod user {
    /// Path of the worker binary; unset, the harness builds or finds one. Read by
    /// the harness.
    pub const WORKER: &str = "EPOCHCOST_WORKER";
    /// Path of the tensor store's Redis module. Read by the harness, for
    /// `services: real`.
    pub const TENSORDB: &str = "EPOCHCOST_TENSORDB";
    /// Path of the S3-compatible server's program. Read by the harness, for
    /// `services: real`.
    pub const S3_SERVER: &str = "EPOCHCOST_S3_SERVER";
    /// URLs of running Redis servers, one for each peer, separated by commas. Read
    /// by the harness, for `services: real`.
    pub const REAL_REDIS: &str = "EPOCHCOST_REAL_REDIS";
    /// URL of a running RabbitMQ. Read by the harness, for `services: real`.
    pub const REAL_RABBITMQ: &str = "EPOCHCOST_REAL_RABBITMQ";
    /// URL of a running S3-compatible server and its bucket. Read by the harness,
    /// for `services: real`.
    pub const REAL_S3: &str = "EPOCHCOST_REAL_S3";
    /// Path of the `epochcost` that a rented machine runs; by default the one that runs. Read by the harness.
    pub const PROGRAM: &str = "EPOCHCOST_PROGRAM";
    /// Seconds to wait for the last lines of a log on AWS; 120 without it. Read by
    /// the harness.
    pub const LOG_PATIENCE_S: &str = "EPOCHCOST_LOG_PATIENCE_S";
    /// Seconds to wait for CloudWatch's metrics; 180 without it, and 0 reads none.
    /// Read by the harness.
    pub const METRICS_PATIENCE_S: &str = "EPOCHCOST_METRICS_PATIENCE_S";
    /// Highest SIMD level of the CPU kernels: `avx512`, `avx2` or `portable`;
    /// unset, the machine's best. Read by everything that computes with models.
    pub const SIMD: &str = "EPOCHCOST_SIMD";
    /// `direct` computes dense convolutions as plain sums; unset, the fastest way.
    /// Read by everything that computes with models.
    pub const CONVOLUTION: &str = "EPOCHCOST_CONVOLUTION";
    /// `short` computes outputs that sum at most 32 terms again in the backward pass, and
    /// `least` also returns freed memory; unset, they are kept. Read by everything that computes with models.
    pub const RECOMPUTE: &str = "EPOCHCOST_RECOMPUTE";
}

/// Variables that only tests read.
pub mod test {
    /// `1` fails tests whose server is missing, which else report that they did not
    /// run.
    pub const REQUIRE_SERVERS: &str = "EPOCHCOST_REQUIRE_SERVERS";
    /// Seconds after which a test is ended, in place of its own limit.
    pub const LIMIT_S: &str = "EPOCHCOST_TEST_LIMIT_S";
    /// `required` fails the tests of report pages where no browser is installed;
    /// else they report that they did not run.
    pub const BROWSER: &str = "EPOCHCOST_BROWSER";
    /// `1` fails the test of start scripts where `shellcheck` is missing, which else
    /// reports that it did not run.
    pub const REQUIRE_SHELLCHECK: &str = "EPOCHCOST_REQUIRE_SHELLCHECK";
    /// Program `epochcost` with the feature `aws`, which tests of whole runs start;
    /// without it, the one beside the emulator.
    pub const BIN: &str = "EPOCHCOST_BIN";
    /// Program of moto's server, which stands in for AWS.
    pub const MOTO_SERVER: &str = "EPOCHCOST_MOTO_SERVER";
    /// Seed of the fuzzer of the Redis module.
    pub const FUZZ_SEED: &str = "EPOCHCOST_FUZZ_SEED";
    /// Commands that the fuzzer of the Redis module sends.
    pub const FUZZ_COMMANDS: &str = "EPOCHCOST_FUZZ_COMMANDS";
    /// Batch size at which kernel launches are counted; 4 without it.
    pub const LAUNCHES_BATCH: &str = "EPOCHCOST_LAUNCHES_BATCH";
    /// Model whose kernel launches a child process of the tests counts.
    pub const MODEL: &str = "EPOCHCOST_MODEL";
    /// Batch size of that child process.
    pub const BATCH: &str = "EPOCHCOST_BATCH";
    /// Log file of that child process.
    pub const LOG: &str = "EPOCHCOST_LOG";
}
