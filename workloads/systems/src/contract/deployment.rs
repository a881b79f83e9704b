//! What a system is deployed on, and what is billed for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Device;

/// Host that a system's code runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Functions: billed by memory and duration.
    Function,
    /// Instances: billed by the second they exist.
    Instance,
}

/// Role of a function: whether its time is a worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A worker's, or a peer's.
    Worker,
    /// No worker's, though it is paid for: the function coordinates, or computes
    /// while a worker that called it counts the time itself.
    Coordinator,
}

/// One function that a system is deployed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name of the function in tasks.
    pub name: &'static str,
    /// Host that its code runs on.
    pub host: Host,
    /// Whether its time is a worker's.
    pub role: Role,
}

impl Function {
    /// A function whose time is its worker's.
    pub const fn worker(name: &'static str, host: Host) -> Self {
        Self {
            name,
            host,
            role: Role::Worker,
        }
    }

    /// A function whose time is no worker's.
    pub const fn coordinator(name: &'static str, host: Host) -> Self {
        Self {
            name,
            host,
            role: Role::Coordinator,
        }
    }
}

/// A number of machines, by the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machines {
    /// One, which all workers share.
    Shared,
    /// One per worker.
    PerWorker,
}

impl Machines {
    /// Machines for `workers` workers.
    pub const fn count(self, workers: usize) -> usize {
        match self {
            Self::Shared => 1,
            Self::PerWorker => workers,
        }
    }
}

/// The queue that a system's publication rents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueService {
    /// A RabbitMQ broker, paid by the hour.
    RabbitMq,
    /// SQS, paid by the request.
    Sqs,
    /// None: its messages stand for HTTP requests between its own processes.
    Http,
}

/// The formula that the paper behind a system states costs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperAccount {
    /// Barrak et al. 2025, Table 2: every function its own run time × memory,
    /// GB of 1,000 MB, at the x86 price; every instance its run time.
    Comparison,
    /// Barrak et al. 2023 (P2P), Tables II and III: (λ·B + e)·T. All functions
    /// that work at mini-batches at once are charged for as long as the slowest
    /// runs, by GB of 1,024 MB at the Arm price; other functions are left out.
    PeerToPeer,
}

/// Functions, machines and billed services of a system.
///
/// A system names its functions and what differs from [`Deployment::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Every function that it is deployed as, that of a worker or peer first.
    pub functions: &'static [Function],
    /// EC2 instance type of workers on instances, unless an experiment names
    /// another.
    pub instance_type: &'static str,
    /// Device that its publication computed on, where it ran on instances.
    pub device: Device,
    /// Functions or instances that train side by side.
    pub machines: Machines,
    /// Database hosts that it rents; `None` where it uses no tensor store.
    pub tensor_store_hosts: Option<Machines>,
    /// Whether its workers talk to each other over connections of their own.
    pub has_links: bool,
    /// The queue that it is paid for by, where it uses one.
    pub queue_service: QueueService,
    /// The cost formula of its paper.
    pub paper_account: PaperAccount,
    /// Whether workers wait for objects by listing a bucket, which costs 12.5 times as much as
    /// a read.
    pub polls_by_listing: bool,
    /// Reason why it is not run in a cloud; none where it is.
    pub not_on_cloud: Option<&'static str>,
}

impl Deployment {
    /// A deployment as in the comparison (Barrak et al. 2025, §4.1): a CPU on a
    /// g4dn.xlarge where it runs on instances, one machine per worker, no
    /// tensor store, a RabbitMQ broker, and the comparison's cost formula.
    pub const fn new(functions: &'static [Function]) -> Self {
        Self {
            functions,
            instance_type: "g4dn.xlarge",
            device: Device::Cpu,
            machines: Machines::PerWorker,
            tensor_store_hosts: None,
            has_links: false,
            queue_service: QueueService::RabbitMq,
            paper_account: PaperAccount::Comparison,
            polls_by_listing: false,
            not_on_cloud: None,
        }
    }

    /// Returns the number of database hosts for `workers` workers; one, where it states none and
    /// uses a tensor store all the same.
    pub fn tensor_store_hosts(&self, workers: usize) -> usize {
        (self.tensor_store_hosts).map_or(1, |hosts| hosts.count(workers))
    }

    /// Returns the host that the platform starts workers on: its first function's.
    pub fn worker_host(&self) -> Host {
        self.functions
            .first()
            .map_or(Host::Function, |function| function.host)
    }

    /// Returns the host of the function `name`; the workers' host, where
    /// there is no such function.
    pub fn host_of(&self, name: &str) -> Host {
        let function = self.functions.iter().find(|function| function.name == name);
        function.map_or(self.worker_host(), |function| function.host)
    }

    /// Whether any of its functions runs on `host`.
    pub fn runs_on(&self, host: Host) -> bool {
        self.functions.iter().any(|function| function.host == host)
    }

    /// Names of the functions whose time is no worker's.
    pub fn coordinators(&self) -> Vec<&'static str> {
        let functions = self.functions.iter();
        functions
            .filter(|function| function.role == Role::Coordinator)
            .map(|function| function.name)
            .collect()
    }
}
