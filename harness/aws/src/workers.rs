//! Workers on instances: each fetches the worker and its task at its start, and puts its
//! log into the run's bucket at its end.

use epochcost_aws_plan::{AROUND_WORKER_S, MACHINE, Training};
use epochcost_systems::{Device, Host, Launch};
use jiff::Timestamp;

use crate::deployment::allowance;
use crate::names::{IMAGE, INSTANCES, MEMBERS, TrialIndex, code_bucket, objects_bucket};
use crate::resource::{InstanceSpec, Spec};
use crate::user_data::{Duty, script};
use crate::{AwsError, Scope};

pub use crate::names::{PROGRAM_KEY, WORKER_KEY};

/// Amazon Linux 2023 with NVIDIA's driver (AWS Deep Learning AMIs).
const GPU_IMAGE: &str = "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id";

/// Returns functions and ranks that a trial starts on instances.
///
/// # Errors
/// When the row's settings are invalid for its system.
pub fn launched(row: &Training) -> Result<Vec<(&'static str, usize)>, AwsError> {
    if row.one_machine {
        return Ok(vec![(MACHINE, 0)]);
    }
    let system = row.system().map_err(AwsError::of_row)?;
    let launch = system.bind(&row.job).map_err(AwsError::of_row)?.launch();
    let Launch::Workers(workers) = launch else {
        return Ok(Vec::new());
    };
    let mut workers = workers;
    workers.retain(|(function, _)| system.deployment().host_of(function) == Host::Instance);
    Ok(workers)
}

/// Returns the name of a worker's instance.
pub fn instance_name(
    scope: &Scope,
    row: &Training,
    trial_index: TrialIndex,
    rank: usize,
) -> String {
    trial_index.name(scope, &format!("{}-worker-{rank}", row.job.system))
}

/// Returns the prefix of what an instance with the local platform reads and hands in, in the bucket of
/// objects.
pub fn machine_prefix(trial_index: TrialIndex) -> String {
    format!("{trial_index}/instances/{MACHINE}")
}

/// Returns the key of a worker's task in the bucket of objects.
pub fn task_key(trial_index: TrialIndex, rank: usize) -> String {
    format!("{trial_index}/instances/{rank}/task.json")
}

/// Returns the key of a worker's log in the bucket of objects.
pub fn log_key(trial_index: TrialIndex, rank: usize) -> String {
    format!("{trial_index}/instances/{rank}/log.txt")
}

/// Returns the instances of a trial, in the run's `subnet` if it has one; none for systems
/// without instances.
///
/// # Errors
/// When the row's settings are invalid for its system, or the run expires too soon.
pub fn of_trial(
    scope: &Scope,
    row: &Training,
    trial_index: TrialIndex,
    environment: &[(String, String)],
    subnet: Option<&str>,
) -> Result<Vec<Spec>, AwsError> {
    let (code, objects) = (code_bucket(scope), objects_bucket(scope));
    let image = match row.job.device {
        Device::Cuda => GPU_IMAGE,
        Device::Cpu => IMAGE,
    };
    let now = Timestamp::now();
    let expires = scope
        .ends_by(row, AROUND_WORKER_S, now)
        .map_err(AwsError::of_row)?;
    let mut specs = Vec::new();
    for (function, rank) in launched(row)? {
        let allowance = allowance(row, function).map_err(AwsError::of_row)?;
        let log = format!("s3://{objects}/{}", log_key(trial_index, rank));
        let duty = if row.one_machine {
            Duty::Machine {
                programs: format!("s3://{code}"),
                trial: format!("s3://{objects}/{}", machine_prefix(trial_index)),
                log,
                gpus: row.gpus,
            }
        } else {
            Duty::Worker {
                worker: format!("s3://{code}/{WORKER_KEY}"),
                task: format!("s3://{objects}/{}", task_key(trial_index, rank)),
                log,
                environment: environment.iter().cloned().chain([allowance]).collect(),
            }
        };
        specs.push(Spec::Instance(InstanceSpec {
            name: instance_name(scope, row, trial_index, rank),
            instance_type: row.instance_type.clone(),
            image: image.to_owned(),
            profile: scope.run.name(INSTANCES),
            security_group: scope.run.name(MEMBERS),
            subnet: subnet.map(str::to_owned),
            zones_tried: 0,
            user_data: script(&duty, &scope.region, expires)?,
            expires,
        }));
    }
    Ok(specs)
}
