use std::collections::BTreeMap;

use epochcost_aws_plan::MACHINE;
use epochcost_channels::Traffic;
use epochcost_simulator::profile::Profile;
use epochcost_systems::{Host, PaperAccount, Polls, PurposeTraffic, QueueService, Waits, find};
use serde::{Deserialize, Serialize};

use super::formula::gb_second;
use super::instances::gpus;
use super::prices::{EC2, ec2};
use super::{PriceBook, PriceBookError, queue_service};
use crate::metering::Invocation;
use crate::rows::Row;

/// Seconds of the month that storage is charged by: 30 days.
const MONTH_S: f64 = 30.0 * 86_400.0;

/// Bytes of a GB of storage.
const GB: f64 = (1_u64 << 30) as f64;

/// EC2 instances are charged for at least this long, seconds.
pub const EC2_MINIMUM_S: f64 = 60.0;

/// How a platform charges workers, where it is not as AWS does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates<'a> {
    /// What a second of a function is charged by, where it is not Lambda's
    /// memory and requests: a dimension of the price book.
    pub function_price: Option<&'a str>,
    /// Shortest time that an instance of a worker is charged for, seconds.
    pub minimum_s: f64,
}

impl Default for Rates<'_> {
    fn default() -> Self {
        Self {
            function_price: None,
            minimum_s: EC2_MINIMUM_S,
        }
    }
}

impl<'a> From<&'a Profile<f64>> for Rates<'a> {
    fn from(profile: &'a Profile<f64>) -> Self {
        Self {
            function_price: profile.function_price.as_deref(),
            minimum_s: profile.instance.minimum_billed_s,
        }
    }
}

/// The instance that holds one peer's Redis, as in the P2P and SPIRT papers.
const REDIS_HOST: &str = "ec2/t2.medium";

/// Type of the instances of [`REDIS_HOST`].
const REDIS_TYPE: &str = "t2.medium";

/// Objects while they are kept: bytes over time.
const STORAGE: &str = "s3_gb_month";

/// Public address of an instance, and the volume with its system.
const ADDRESS: &str = "ipv4_address_hour";
/// See [`ADDRESS`].
const VOLUME: &str = "ebs_gp3_gb_month";

/// Bytes of an SQS message per request that is charged for, and bytes of its text per byte of
/// payload, which is in base64.
const SQS_CHUNK: f64 = 65_536.0;
/// See [`SQS_CHUNK`].
const SQS_TEXT: f64 = 4.0 / 3.0;

/// The RabbitMQ broker.
const BROKER: &str = "broker/mq.m5.large";

/// Every dimension that a bill can name, but for the instance types of experiments.
#[cfg(test)]
pub(super) const DIMENSIONS: [&str; 14] = [
    "lambda_gb_second",
    super::formula::ARM,
    "lambda_request",
    "state_transition",
    "s3_put",
    "s3_list",
    "s3_get",
    "s3_delete",
    STORAGE,
    "sqs_request",
    REDIS_HOST,
    BROKER,
    ADDRESS,
    VOLUME,
];

/// A cost model: what of a trial is charged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostModel {
    /// The formula of the system's paper.
    Paper,
    /// Everything that AWS charges a training for.
    Full,
}

impl CostModel {
    /// Returns its name in options and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Full => "full",
        }
    }
}

/// Time that services take to answer a request of a poll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Latency of the object store, seconds per request.
    pub objects_s: f64,
    /// Latency of the queue, seconds per request.
    pub queue_s: f64,
}

/// Usage of a trial, as cost models need it.
#[derive(Clone, Debug)]
pub struct Usage<'a> {
    /// Formula of the paper's cost model.
    pub paper_account: PaperAccount,
    /// The queue that it rents, if it uses one.
    pub queue_service: QueueService,
    /// Number of database hosts that it rents, if it uses a tensor store.
    pub tensor_store_hosts: usize,
    /// Trainings that share these and the broker, and pay an equal part each.
    pub jobs: usize,
    /// The instance type of workers that run on instances.
    pub instance_type: &'a str,
    /// Whether one of them ran everything, and is all that is charged for.
    pub one_machine: bool,
    /// How workers are charged.
    pub rates: Rates<'a>,
    /// Every invocation and instance.
    pub invocations: Vec<&'a Invocation>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Everything that went over channels, for all purposes.
    pub traffic: PurposeTraffic,
    /// The polls in vain among that traffic.
    pub waits: Waits,
    /// Pace at which polls in vain are billed, where it is not that of the services
    /// of the trial: a server on this machine answers many times as fast as S3 does.
    pub pace: Option<Pace>,
    /// Time from the first worker's start to the last one's end, seconds.
    pub wall_s: f64,
    /// Byte-seconds of objects: each from its PUT until it is deleted or replaced, or until the last
    /// worker's end.
    pub stored_byte_s: f64,
}

impl<'a> Usage<'a> {
    /// Returns the usage of a trial of a row that used nothing yet, by its system's deployment.
    pub fn none_of(row: &'a Row, rates: Rates<'a>) -> Self {
        let job = &row.job;
        let deployment = find(&job.system).map(|system| system.deployment());
        Self {
            paper_account: (deployment.as_ref())
                .map_or(PaperAccount::Comparison, |of| of.paper_account),
            queue_service: queue_service(job),
            tensor_store_hosts: (deployment.as_ref())
                .map_or(1, |of| of.tensor_store_hosts(job.workers)),
            jobs: row.jobs,
            instance_type: &row.instance_type,
            one_machine: row.one_machine.is_some(),
            rates,
            invocations: Vec::new(),
            transitions: 0,
            traffic: PurposeTraffic::default(),
            waits: Waits::default(),
            pace: None,
            wall_s: 0.0,
            stored_byte_s: 0.0,
        }
    }

    /// Returns what of it is charged for: all, or the machine that ran everything.
    fn charged(&self) -> Self {
        if !self.one_machine {
            return self.clone();
        }
        let is_machine = |call: &&&Invocation| call.function == MACHINE;
        Self {
            invocations: (self.invocations.iter().filter(is_machine).copied()).collect(),
            transitions: 0,
            traffic: PurposeTraffic::default(),
            waits: Waits::default(),
            stored_byte_s: 0.0,
            ..self.clone()
        }
    }
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineItem {
    /// What is charged for: a dimension of the price book.
    pub dimension: String,
    /// Quantity of it.
    pub quantity: f64,
    /// Unit of the quantity.
    pub unit: String,
    /// US dollars per unit.
    pub unit_price_usd: f64,
    /// US dollars.
    pub usd: f64,
}

/// Cost of a trial by one cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// The cost model.
    #[serde(rename = "account")]
    pub cost_model: CostModel,
    /// The lines; none has a quantity of 0.
    pub items: Vec<LineItem>,
}

impl LineItem {
    /// Returns whether an instance is charged for, without its address and volume.
    pub fn is_instance(&self) -> bool {
        self.dimension.starts_with(EC2)
    }

    /// Returns whether it is for kept objects, bytes over time.
    pub fn is_storage(&self) -> bool {
        self.dimension == STORAGE
    }
}

impl Bill {
    /// Returns the sum, US dollars.
    pub fn total_usd(&self) -> f64 {
        self.items.iter().map(|item| item.usd).sum()
    }

    /// Returns the seconds that all instances are charged for, and the US dollars for them, their addresses
    /// and volumes; none without instances, or with some of two types.
    pub fn instances(&self) -> Option<(f64, f64)> {
        let mut instances = self.items.iter().filter(|item| item.is_instance());
        let (Some(hours), None) = (instances.next(), instances.next()) else {
            return None;
        };
        let is_rented =
            |item: &&LineItem| item.is_instance() || [ADDRESS, VOLUME].contains(&&*item.dimension);
        let usd = self.items.iter().filter(is_rented).map(|item| item.usd);
        Some((hours.quantity * 3600.0, usd.sum()))
    }
}

/// Collects the lines of a bill.
struct Ledger<'a> {
    book: &'a PriceBook,
    items: Vec<LineItem>,
}

impl<'a> Ledger<'a> {
    fn new(book: &'a PriceBook) -> Self {
        let items = Vec::new();
        Self { book, items }
    }

    fn bill(self, cost_model: CostModel) -> Bill {
        let items = self.items;
        Bill { cost_model, items }
    }

    /// Adds a line; `scale` converts the quantity's unit to the price's.
    fn charge(&mut self, dimension: &str, quantity: f64) -> Result<(), PriceBookError> {
        if quantity > 0.0 {
            let price = self.book.price(dimension)?;
            self.items.push(LineItem {
                dimension: dimension.to_owned(),
                quantity,
                unit: price.unit.clone(),
                unit_price_usd: price.usd,
                usd: quantity * price.usd,
            });
        }
        Ok(())
    }
}

/// Returns the bill by the paper's cost model, the formula of the system's paper.
///
/// A function costs its run time in seconds × its memory size in GB of 1,000
/// MB × the x86 price of a GB-second, or its seconds × the platform's own price
/// (Barrak et al. 2025, Table 2); see [`PaperAccount::PeerToPeer`] for the other
/// one. An instance costs its seconds at the hourly price. Init, requests,
/// state transitions, queues, databases and storage are left out, as there.
///
/// # Errors
/// When the book has no price for the instance type.
pub fn paper(usage: &Usage<'_>, book: &PriceBook) -> Result<Bill, PriceBookError> {
    let usage = &usage.charged();
    let mut ledger = Ledger::new(book);
    match usage.paper_account {
        PaperAccount::Comparison => {
            let seconds = |call: &Invocation| call.duration_ms / 1e3;
            charge_functions(&mut ledger, usage, seconds, 1e3)?;
        }
        PaperAccount::PeerToPeer => charge_phases(&mut ledger, usage)?,
    }
    let hours = sum(usage, Host::Instance, |call| call.duration_ms / 3.6e6);
    ledger.charge(&ec2(usage.instance_type), hours)?;
    Ok(ledger.bill(CostModel::Paper))
}

/// Returns the bill by the full cost model: everything that AWS charges a training for, but not
/// what this program adds to it on AWS, such as logs and the endpoints of its network.
///
/// Functions are billed by the millisecond with init included, GB of 1,024 MB
/// at the price of the architecture that the system's paper ran on, and by the
/// request; instances by the second, at least 60 or what the platform states, with a public address and the volume of their
/// system each; requests to the object store
/// by class; storage by the byte-second, of each object until it is deleted or replaced.
/// Redis hosts and brokers are charged for the trial's duration if tensors or
/// messages went over them. Where the usage states a pace, as many polls in vain
/// are charged as fit into their time at that pace.
///
/// # Errors
/// When the book has no price for the instance type.
pub fn full(usage: &Usage<'_>, book: &PriceBook) -> Result<Bill, PriceBookError> {
    let usage = &usage.charged();
    let mut ledger = Ledger::new(book);
    let seconds = |call: &Invocation| call.billed_ms as f64 / 1e3;
    charge_functions(&mut ledger, usage, seconds, 1024.0)?;
    if usage.rates.function_price.is_none() {
        ledger.charge("lambda_request", sum(usage, Host::Function, |_| 1.0))?;
    }
    ledger.charge("state_transition", usage.transitions as f64)?;
    let minimum_s = usage.rates.minimum_s;
    let hours = |call: &Invocation| billed_s(call.billed_ms as f64 / 1e3, minimum_s) / 3600.0;
    let instance_hours = sum(usage, Host::Instance, hours);
    ledger.charge(&ec2(usage.instance_type), instance_hours)?;
    charge_objects(&mut ledger, usage)?;
    charge_queue(&mut ledger, usage)?;
    let mut host_hours = 0.0;
    if moved(total(usage, |channels| channels.tensors)) {
        let each_s = billed_s(usage.wall_s, EC2_MINIMUM_S);
        host_hours = usage.tensor_store_hosts as f64 * each_s / 3600.0 / usage.jobs as f64;
        ledger.charge(REDIS_HOST, host_hours)?;
    }
    charge_rented(
        &mut ledger,
        &[
            (usage.instance_type, instance_hours),
            (REDIS_TYPE, host_hours),
        ],
    )?;
    Ok(ledger.bill(CostModel::Full))
}

/// Charges the addresses and volumes of instances, by their types and hours. Machines of other clouds
/// have both in their price.
fn charge_rented(ledger: &mut Ledger<'_>, hours: &[(&str, f64)]) -> Result<(), PriceBookError> {
    let rented = hours.iter().filter(|(name, _)| is_ec2(name));
    ledger.charge(ADDRESS, rented.clone().map(|(_, hours)| hours).sum())?;
    let gb_hours: f64 = rented.map(|(name, hours)| volume_gb(name) * hours).sum();
    ledger.charge(VOLUME, gb_hours * 3600.0 / MONTH_S)
}

/// Returns the US dollars by a cost model for an hour of an instance that is kept: what the bill of a
/// training has for it, as the address and volume of the full one.
///
/// # Errors
/// When the book has no price for the instance type, its address or its volume.
pub fn hourly_usd(
    instance_type: &str,
    book: &PriceBook,
    account: CostModel,
) -> Result<f64, PriceBookError> {
    let mut ledger = Ledger::new(book);
    ledger.charge(&ec2(instance_type), 1.0)?;
    if account == CostModel::Full {
        charge_rented(&mut ledger, &[(instance_type, 1.0)])?;
    }
    Ok(ledger.bill(account).total_usd())
}

/// Returns the dimensions that the bills of a row can name. `function_price` is what a second of
/// a function is charged by, where it is not Lambda's memory and requests.
pub fn dimensions(row: &Row, function_price: Option<&str>) -> Vec<String> {
    let Some(system) = find(&row.job.system) else {
        return Vec::new();
    };
    if row.one_machine.is_some() {
        let machine = [&*ec2(&row.instance_type), ADDRESS, VOLUME];
        return machine.map(str::to_owned).into();
    }
    let deployment = system.deployment();
    let account = deployment.paper_account;
    let (functions, instances) = match account {
        // The formula has a term for both.
        PaperAccount::PeerToPeer => (true, true),
        PaperAccount::Comparison => (
            deployment.runs_on(Host::Function),
            deployment.runs_on(Host::Instance),
        ),
    };
    let bound = system.bind(&row.job).ok();
    let exchange = bound.as_ref().map(|bound| bound.traffic(row.sizes()));
    // What has no closed form may send messages.
    let sends = !matches!(exchange, Some(Ok(exchange)) if exchange.messages == 0);
    let mut needed = vec!["s3_put", "s3_list", "s3_get", "s3_delete", STORAGE];
    if deployment.tensor_store_hosts.is_some() {
        needed.extend([REDIS_HOST, ADDRESS, VOLUME]);
    } else if instances && is_ec2(&row.instance_type) {
        needed.extend([ADDRESS, VOLUME]);
    }
    match function_price {
        Some(dimension) if functions => needed.push(dimension),
        None if functions => needed.extend([gb_second(account), "lambda_request"]),
        _ => {}
    }
    if bound.is_some_and(|bound| !bound.states().is_empty()) {
        needed.push("state_transition");
    }
    match super::queue_service(&row.job) {
        QueueService::RabbitMq if sends => needed.push(BROKER),
        QueueService::Sqs => needed.push("sqs_request"),
        QueueService::RabbitMq | QueueService::Http => {}
    }
    let mut needed: Vec<String> = needed.into_iter().map(str::to_owned).collect();
    needed.extend(instances.then(|| ec2(&row.instance_type)));
    needed
}

/// Charges functions by their memory in GB, or by the second where the platform
/// has a price of its own.
fn charge_functions(
    ledger: &mut Ledger<'_>,
    usage: &Usage<'_>,
    seconds: impl Fn(&Invocation) -> f64,
    mb_per_gb: f64,
) -> Result<(), PriceBookError> {
    match usage.rates.function_price {
        Some(dimension) => ledger.charge(dimension, sum(usage, Host::Function, seconds)),
        None => {
            let gb = |call: &Invocation| f64::from(call.memory_mb.unwrap_or(0)) / mb_per_gb;
            let gb_seconds = sum(usage, Host::Function, |call| seconds(call) * gb(call));
            ledger.charge(gb_second(usage.paper_account), gb_seconds)
        }
    }
}

/// Charges all functions of a phase, the mini-batches of a peer's epoch, for as
/// long as its slowest runs.
fn charge_phases(ledger: &mut Ledger<'_>, usage: &Usage<'_>) -> Result<(), PriceBookError> {
    let mut phases: BTreeMap<(usize, usize), (f64, f64, f64)> = BTreeMap::new();
    for call in of(usage, Host::Function).filter(|call| call.batch.is_some()) {
        let gb = f64::from(call.memory_mb.unwrap_or(0)) / 1024.0;
        let (count, sum_gb, slowest_s) = phases.entry((call.rank, call.epoch)).or_default();
        *count += call.alike as f64;
        *sum_gb += gb * call.alike as f64;
        *slowest_s = slowest_s.max(call.duration_ms / 1e3);
    }
    let phases = phases.values();
    match usage.rates.function_price {
        Some(dimension) => {
            let seconds = phases.map(|(count, _, slowest_s)| count * slowest_s);
            ledger.charge(dimension, seconds.sum())
        }
        None => {
            let gb_seconds = phases.map(|(_, gb, slowest_s)| gb * slowest_s);
            ledger.charge(gb_second(usage.paper_account), gb_seconds.sum())
        }
    }
}

fn charge_objects(ledger: &mut Ledger<'_>, usage: &Usage<'_>) -> Result<(), PriceBookError> {
    let objects = total(usage, |channels| channels.objects);
    ledger.charge("s3_put", objects.puts as f64)?;
    let Waits { gets, lists, .. } = usage.waits;
    let paced = |polls| more_polls(polls, usage.pace.map(|pace| pace.objects_s));
    ledger.charge("s3_list", objects.lists as f64 + paced(lists))?;
    let read = objects.gets + objects.missed_gets;
    ledger.charge("s3_get", read as f64 + paced(gets))?;
    ledger.charge("s3_delete", objects.deletes as f64)?;
    let gb = |bytes: u64| bytes as f64 / GB;
    // S3 Standard moves bytes within a region for nothing; other stores have a price.
    for (dimension, bytes) in [
        ("s3_upload_gb", objects.bytes_up),
        ("s3_retrieval_gb", objects.bytes_down),
    ] {
        if ledger.book.price(dimension).is_ok() {
            ledger.charge(dimension, gb(bytes))?;
        }
    }
    ledger.charge(STORAGE, gb_months(usage.stored_byte_s))
}

/// Charges SQS by the request, a RabbitMQ broker by the hour.
///
/// A message that is taken from SQS costs two requests: ReceiveMessage returns it,
/// and DeleteMessage, one for each message, removes it. A message above 64 KB costs a request for
/// each 64 KB of it, by the mean of all.
fn charge_queue(ledger: &mut Ledger<'_>, usage: &Usage<'_>) -> Result<(), PriceBookError> {
    let queue = total(usage, |channels| channels.queue);
    match usage.queue_service {
        QueueService::Sqs => {
            let chunks = |messages: u64, bytes: u64| {
                let text = bytes as f64 * SQS_TEXT / messages.max(1) as f64;
                messages as f64 * (text / SQS_CHUNK).ceil().max(1.0)
            };
            let sent = chunks(queue.messages, queue.bytes_up);
            let received = chunks(queue.deliveries, queue.bytes_down);
            let requests = sent + received + (queue.deliveries + queue.polls) as f64;
            let pace = usage.pace.map(|pace| pace.queue_s);
            let more = more_polls(usage.waits.counts, pace);
            ledger.charge("sqs_request", requests + more)
        }
        QueueService::RabbitMq if moved(queue) => {
            ledger.charge(BROKER, usage.wall_s / 3600.0 / usage.jobs as f64)
        }
        QueueService::RabbitMq | QueueService::Http => Ok(()),
    }
}

/// Returns how many requests more, or with a minus sign fewer, the waits of `polls`
/// would have made of a service that takes `latency_s` for each: their time over the
/// time of a request and its part of the pauses. None without a latency.
fn more_polls(polls: Polls, latency_s: Option<f64>) -> f64 {
    let requests = polls.requests as f64;
    match latency_s {
        Some(latency_s) if polls.requests > 0 => {
            let each_s = latency_s + polls.paused_s / requests;
            polls.seconds / each_s - requests
        }
        _ => 0.0,
    }
}

fn of<'a>(usage: &'a Usage<'_>, host: Host) -> impl Iterator<Item = &'a Invocation> {
    let calls = usage.invocations.iter().copied();
    calls.filter(move |call| call.host == host)
}

/// Returns the sum of `each` over the calls on `host`, as often as there are alike.
fn sum(usage: &Usage<'_>, host: Host, each: impl Fn(&Invocation) -> f64) -> f64 {
    let calls = of(usage, host);
    calls.map(|call| each(call) * call.alike as f64).sum()
}

/// Returns whether a type is one of EC2's, which have a family and a size.
pub fn is_ec2(instance_type: &str) -> bool {
    instance_type.contains('.')
}

/// Returns the size of an instance's root volume, GB: that of Amazon Linux 2023's image, or of the
/// image with NVIDIA's drivers and room for the data.
fn volume_gb(instance_type: &str) -> f64 {
    if gpus(instance_type) > 0 { 75.0 } else { 8.0 }
}

/// Returns the seconds that are charged for an instance that lived this long.
pub fn billed_s(seconds: f64, minimum_s: f64) -> f64 {
    seconds.ceil().max(minimum_s)
}

/// Returns the quantity that storage is charged by.
fn gb_months(byte_s: f64) -> f64 {
    byte_s / GB / MONTH_S
}

/// Returns the GB-months of objects that were written evenly over `seconds` and of which so many
/// bytes are left: these grow by square where bytes and time both do. What a longer training stores
/// beside them, objects that it removes again, grows evenly.
pub fn even_gb_months(kept_bytes: f64, seconds: f64) -> f64 {
    gb_months(kept_bytes.max(0.0) * seconds / 2.0)
}

fn total(
    usage: &Usage<'_>,
    channel: impl Fn(&epochcost_systems::ChannelTraffic) -> Traffic,
) -> Traffic {
    let traffic = &usage.traffic;
    let mut total = channel(&traffic.exchange);
    total += channel(&traffic.dataset);
    total += channel(&traffic.state);
    total
}

fn moved(traffic: Traffic) -> bool {
    traffic != Traffic::default()
}

#[cfg(test)]
mod tests;
