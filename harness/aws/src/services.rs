//! Hosts of services: tensor stores and the queue of a trial, each on an instance that
//! publishes its address once the service answers.

use jiff::Timestamp;

use epochcost_aws_plan::{AROUND_TRIAL_S, SERVICE_INSTANCE, Training};

use crate::names::{self, IMAGE, INSTANCES, MEMBERS, TrialIndex, code_bucket, objects_bucket};
use crate::resource::{InstanceSpec, Spec};
use crate::user_data::{AMQP_PORT, Duty, REDIS_PORT, Service, script};
use crate::{AwsError, Scope};

pub use crate::names::MODULE_KEY;
pub use epochcost_aws_plan::Role;

/// Settings of tensor stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// Whether the module is loaded.
    pub has_module: bool,
    /// Value of `MALLOC_CONF`, if it is set.
    pub malloc_conf: Option<String>,
}

/// Returns the name of a host.
pub fn instance_name(scope: &Scope, row: &Training, trial_index: TrialIndex, role: Role) -> String {
    trial_index.name(scope, &format!("{}-{role}", row.job.system))
}

/// Returns the key of a host's address in the bucket of objects.
pub fn address_key(trial_index: TrialIndex, role: Role) -> String {
    format!("{trial_index}/services/{role}/address.txt")
}

/// Returns the key of the log of a host that ended.
pub fn log_key(trial_index: TrialIndex, role: Role) -> String {
    format!("{trial_index}/services/{role}/log.txt")
}

/// Returns the URL of a service for workers; `scheme` is that of tensor stores.
pub fn endpoint(role: Role, scheme: &str, address: &str) -> String {
    match role {
        Role::TensorStore(_) => format!("{scheme}://{address}:{REDIS_PORT}"),
        // RabbitMQ's well-known default user: the security group admits the run's members
        // only.
        Role::Queue => format!("amqp://guest:guest@{address}:{AMQP_PORT}/%2f"),
    }
}

/// Returns the instances of a trial's services; none for systems without services.
///
/// # Errors
/// When there is no such system, or the run expires too soon.
pub fn of_trial(
    scope: &Scope,
    row: &Training,
    trial_index: TrialIndex,
    settings: &StoreSettings,
) -> Result<Vec<Spec>, AwsError> {
    let (code, objects) = (code_bucket(scope), objects_bucket(scope));
    let store = Service::TensorStore {
        module: (settings.has_module).then(|| format!("s3://{code}/{MODULE_KEY}")),
        malloc_conf: settings.malloc_conf.clone(),
    };
    let now = Timestamp::now();
    let expires = scope
        .ends_by(row, AROUND_TRIAL_S, now)
        .map_err(AwsError::of_row)?;
    let mut specs = Vec::new();
    for role in row.roles().map_err(AwsError::of_row)? {
        let duty = Duty::Host {
            service: match role {
                Role::TensorStore(_) => store.clone(),
                Role::Queue => Service::Queue,
            },
            address: format!("s3://{objects}/{}", address_key(trial_index, role)),
            log: format!("s3://{objects}/{}", log_key(trial_index, role)),
        };
        specs.push(Spec::Instance(InstanceSpec {
            name: instance_name(scope, row, trial_index, role),
            instance_type: SERVICE_INSTANCE.to_owned(),
            image: IMAGE.to_owned(),
            profile: scope.run.name(INSTANCES),
            security_group: scope.run.name(MEMBERS),
            subnet: Some(names::network(scope)),
            zones_tried: 0,
            user_data: script(&duty, &scope.region, expires)?,
            expires,
        }));
    }
    Ok(specs)
}
