//! Start scripts of instances. Each script first schedules the end of its instance:
//! with the behaviour `terminate`, a shutdown removes the instance, whether or not
//! the harness still runs.

mod template;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::AwsError;
use crate::run::seconds_left;

use template::{fill, identifier, quoted};

/// Port of tensor stores.
pub const REDIS_PORT: u16 = 6379;
/// Port of queues.
pub const AMQP_PORT: u16 = 5672;

/// RabbitMQ of the release line that Amazon MQ offers, from a registry in AWS that
/// requires no account. The image admits its default user from everywhere; the
/// security group admits members of the run alone.
const RABBITMQ_IMAGE: &str = "public.ecr.aws/docker/library/rabbitmq:3.13";

/// Prefix of the lines in the log of a worker on an instance that give the times at which the
/// instance `booted` and the worker `started` and `ended`, in seconds since the Unix epoch.
pub const CLOCK_PREFIX: &str = "EPOCHCOST-CLOCK ";

/// Service of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Redis.
    TensorStore {
        /// `s3://` URL of the tensor store's module; none where clients compute
        /// themselves.
        module: Option<String>,
        /// Value of `MALLOC_CONF`, the allocator's settings.
        malloc_conf: Option<String>,
    },
    /// RabbitMQ.
    Queue,
}

/// Purpose of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Service for other members of the run.
    Host {
        /// The service.
        service: Service,
        /// `s3://` URL for its IP address, which it writes once the service answers.
        address: String,
        /// `s3://` URL for its log, which it writes when it ends.
        log: String,
    },
    /// Worker that runs one task.
    Worker {
        /// `s3://` URL of the worker binary.
        worker: String,
        /// `s3://` URL of the task, JSON.
        task: String,
        /// `s3://` URL for its log, which it writes when it ends.
        log: String,
        /// Environment variables, names and values: endpoints of services, never
        /// secrets.
        environment: Vec<(String, String)>,
    },
    /// The local platform, which runs one trial.
    Machine {
        /// `s3://` URL below which this program and the worker are.
        programs: String,
        /// `s3://` URL below which the trial and its data are, and what was recorded will be.
        trial: String,
        /// `s3://` URL for its log, which it writes when it ends.
        log: String,
        /// GPUs that its workers share; all, if none.
        gpus: Option<u32>,
    },
}

/// Templates; `@NAME@` stands for a value. `host.sh` contains one of the services, `worker.sh` one of the
/// works.
const WORKER: &str = include_str!("worker.sh");
const TASK: &str = include_str!("task.sh");
const MACHINE: &str = include_str!("machine.sh");
const HOST: &str = include_str!("host.sh");
const TENSOR_STORE: &str = include_str!("tensor_store.sh");
const QUEUE: &str = include_str!("queue.sh");

/// Returns the script of an instance in `region` that must be gone at `expires`.
///
/// # Errors
/// When `expires` is less than a minute ahead, or a value cannot be written into a
/// script.
pub fn script(duty: &Duty, region: &str, expires: Timestamp) -> Result<String, AwsError> {
    // Whole minutes, none beyond that time.
    let minutes = (seconds_left(expires)? / 60).to_string();
    match duty {
        Duty::Host {
            service,
            address,
            log,
        } => {
            let (service, port) = serve(service)?;
            fill(
                HOST,
                &[
                    ("MINUTES", &minutes),
                    ("REGION", &quoted(region)?),
                    ("LOG_URL", &quoted(log)?),
                    ("SERVICE", service.trim_end()),
                    ("PORT", &port.to_string()),
                    ("ADDRESS_URL", &quoted(address)?),
                ],
            )
        }
        Duty::Worker {
            worker,
            task,
            log,
            environment,
        } => {
            let values = [
                ("WORKER_URL", &*quoted(worker)?),
                ("TASK_URL", &quoted(task)?),
                ("ENVIRONMENT", &exports(environment)?),
            ];
            works(&fill(TASK, &values)?, log, region, &minutes)
        }
        Duty::Machine {
            programs,
            trial,
            log,
            gpus,
        } => {
            let visible = gpus.map(|gpus| (0..gpus).map(|gpu| gpu.to_string()).collect::<Vec<_>>());
            let visible =
                visible.map(|visible| ("CUDA_VISIBLE_DEVICES".to_owned(), visible.join(",")));
            let values = [
                ("PROGRAMS_URL", &*quoted(programs)?),
                ("TRIAL_URL", &quoted(trial)?),
                ("ENVIRONMENT", &exports(visible.as_slice())?),
            ];
            works(&fill(MACHINE, &values)?, log, region, &minutes)
        }
    }
}

/// Returns the script of an instance that does `work`, hands in its log and ends.
fn works(work: &str, log: &str, region: &str, minutes: &str) -> Result<String, AwsError> {
    fill(
        WORKER,
        &[
            ("MINUTES", minutes),
            ("REGION", &quoted(region)?),
            ("CLOCK_PREFIX", CLOCK_PREFIX),
            ("LOG_URL", &quoted(log)?),
            ("WORK", work.trim_end()),
        ],
    )
}

/// Returns the commands that start a service in the background, and its port.
fn serve(service: &Service) -> Result<(String, u16), AwsError> {
    Ok(match service {
        Service::TensorStore {
            module,
            malloc_conf,
        } => {
            let or_empty = |value: &Option<String>| quoted(value.as_deref().unwrap_or_default());
            let values = [
                ("MODULE_URL", &*or_empty(module)?),
                ("MALLOC_CONF", &or_empty(malloc_conf)?),
                ("PORT", &REDIS_PORT.to_string()),
            ];
            (fill(TENSOR_STORE, &values)?, REDIS_PORT)
        }
        Service::Queue => (fill(QUEUE, &[("IMAGE", RABBITMQ_IMAGE)])?, AMQP_PORT),
    })
}

/// Returns one `export` command per variable.
fn exports(environment: &[(String, String)]) -> Result<String, AwsError> {
    let exports: Result<Vec<String>, AwsError> = (environment.iter())
        .map(|(name, value)| Ok(format!("export {}={}", identifier(name)?, quoted(value)?)))
        .collect();
    Ok(exports?.join("\n"))
}
