//! Environment variables of worker processes: those that Lambda sets, independent of
//! the harness's own.

use std::path::Path;

use super::limits;

/// Variables with CUDA's location, the choice of GPU, where compiled kernels are kept and how Mesa's
/// software device compiles, which a worker that computes on a GPU inherits from the harness.
const CUDA_VARIABLES: [&str; 6] = [
    "CUDA_PATH",
    VISIBLE,
    "LD_LIBRARY_PATH",
    "HOME",
    "XDG_CACHE_HOME",
    "GALLIVM_PERF",
];

/// CUDA's list of the GPUs that a process may use, by index or UUID.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Returns those of `CUDA_VARIABLES` that are set, with their values.
pub fn of_cuda() -> impl Iterator<Item = (String, String)> {
    let of = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    CUDA_VARIABLES.into_iter().filter_map(of)
}

/// Returns the same of worker `rank`: of the GPUs in `CUDA_VISIBLE_DEVICES` it has the one at
/// `rank` modulo their number, which it shares with every other worker there.
pub(super) fn of_cuda_worker(rank: usize) -> impl Iterator<Item = (String, String)> {
    of_cuda().map(move |(name, value)| match name.as_str() {
        VISIBLE => (name, one_gpu(&value, rank).to_owned()),
        _ => (name, value),
    })
}

/// Returns the GPU of worker `rank` among those of a list.
fn one_gpu(visible: &str, rank: usize) -> &str {
    let listed = visible.split(',').map(str::trim);
    let mut listed = listed.filter(|gpu| !gpu.is_empty());
    let count = listed.clone().count().max(1);
    listed.nth(rank % count).unwrap_or_default()
}

/// A sandbox's function, described by its environment variables.
pub(super) struct Function<'a> {
    /// Name of the function.
    pub(super) name: &'a str,
    /// Memory size of the function, MB.
    pub(super) memory_mb: u32,
    /// The sandbox.
    pub(super) sandbox: &'a str,
    /// Host, port and path of its Runtime API.
    pub(super) runtime_api: &'a str,
    /// Directory of the worker.
    pub(super) root: Option<&'a Path>,
}

/// Returns the variables of every process: no proxy, no credentials, no settings of the
/// user.
pub(super) fn of_every_process() -> Vec<(String, String)> {
    owned([
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/bin"),
        ("LANG", "en_US.UTF-8"),
        ("TZ", ":UTC"),
        ("HOME", "/tmp"),
        ("RUST_BACKTRACE", "0"),
    ])
}

/// Returns the variables that Lambda sets for a function on a custom runtime ("Using
/// Lambda environment variables"), and the threads of its CPU share.
///
/// Three kinds of reserved variables are not there: `AWS_EXECUTION_ENV` and
/// `_X_AMZN_TRACE_ID`, which custom runtimes do not get, and the keys of an
/// execution role, since there is none.
pub(super) fn of_function(function: &Function<'_>) -> Vec<(String, String)> {
    let root = function.root.map(|root| root.display().to_string());
    let root = root.unwrap_or_default();
    let threads = limits::vcpus(function.memory_mb).round().max(1.0);
    let stream = log_stream(function.sandbox);
    owned([
        ("AWS_LAMBDA_RUNTIME_API", function.runtime_api),
        ("AWS_LAMBDA_FUNCTION_NAME", function.name),
        (
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
            &function.memory_mb.to_string(),
        ),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        (
            "AWS_LAMBDA_LOG_GROUP_NAME",
            &format!("/aws/lambda/{}", function.name),
        ),
        ("AWS_LAMBDA_LOG_STREAM_NAME", &stream),
        ("AWS_REGION", "local"),
        ("AWS_DEFAULT_REGION", "local"),
        ("LAMBDA_TASK_ROOT", &root),
        ("LAMBDA_RUNTIME_DIR", &root),
        ("_HANDLER", "bootstrap"),
        ("RAYON_NUM_THREADS", &threads.to_string()),
    ])
}

/// Returns the name of the log stream of a sandbox that starts now.
pub(super) fn log_stream(sandbox: &str) -> String {
    let today = jiff::Timestamp::now().strftime("%Y/%m/%d");
    format!("{today}/[$LATEST]{sandbox}")
}

fn owned<const N: usize>(variables: [(&str, &str); N]) -> Vec<(String, String)> {
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use epochcost_spec::rows::sandbox::is_reserved;

    use super::*;

    /// Workers are dealt out over the listed GPUs, as many on each as on any other or one
    /// more; a list of one is shared by all, and an empty one stays empty.
    #[test]
    fn workers_share_the_listed_gpus() {
        for (list, gpus) in [
            ("0", vec!["0"]),
            ("1,0", vec!["1", "0"]),
            (" GPU-a , GPU-b,2, ", vec!["GPU-a", "GPU-b", "2"]),
            ("", vec![""]),
        ] {
            let dealt: Vec<&str> = (0..8).map(|rank| one_gpu(list, rank)).collect();
            let on = |gpu: &str| dealt.iter().filter(|one| **one == gpu).count();
            let counts: Vec<usize> = gpus.iter().map(|gpu| on(gpu)).collect();
            assert_eq!(counts.iter().sum::<usize>(), 8, "{list}: {dealt:?}");
            let most = counts.iter().max().unwrap();
            let least = counts.iter().min().unwrap();
            assert!(most - least <= 1, "{list}: {dealt:?}");
            assert_eq!(dealt[0], gpus[0]);
        }
    }

    /// Variables that Lambda sets cannot be set by an experiment.
    #[test]
    fn what_lambda_sets_is_reserved() {
        let function = Function {
            name: "f",
            memory_mb: 3_538,
            sandbox: "0",
            runtime_api: "127.0.0.1:1/0",
            root: None,
        };
        let found = of_function(&function);
        let threads = found.iter().find(|(name, _)| name == "RAYON_NUM_THREADS");
        assert_eq!(threads.map(|(_, value)| value.as_str()), Some("2"));
        for (name, _) in found.iter().filter(|(name, _)| name != "RAYON_NUM_THREADS") {
            assert!(is_reserved(name), "{name}");
        }
        let common = of_every_process();
        let reserved = common.iter().filter(|(name, _)| is_reserved(name));
        // PATH, LANG and the like may be set by a function's configuration.
        assert_eq!(reserved.count(), 1, "{common:?}");
    }
}
