use std::collections::BTreeMap;

use epochcost_channels::Traffic;
use epochcost_systems::{Host, PaperAccount, PurposeTraffic, QueueService};
use serde::{Deserialize, Serialize};

use super::formula::ARM;
use super::{PriceBook, PriceBookError};
use crate::metering::Invocation;

/// Seconds of the month that storage is charged by: 30 days.
const MONTH_S: f64 = 30.0 * 86_400.0;

/// EC2 instances are charged for at least this long.
const EC2_MINIMUM_S: f64 = 60.0;

/// The instance that holds one peer's Redis, as in the P2P and SPIRT papers.
const REDIS_HOST: &str = "ec2/t2.medium";

/// The RabbitMQ broker.
const BROKER: &str = "broker/mq.m5.large";

/// Every dimension that a bill can name, but for the instance types of experiments.
#[cfg(test)]
pub(super) const DIMENSIONS: [&str; 12] = [
    "lambda_gb_second",
    super::formula::ARM,
    "lambda_request",
    "state_transition",
    "s3_put",
    "s3_list",
    "s3_get",
    "s3_delete",
    "s3_gb_month",
    "sqs_request",
    REDIS_HOST,
    BROKER,
];

/// A cost model: what of a trial is charged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostModel {
    /// The formula of the system's paper.
    Paper,
    /// Everything that AWS charges for.
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

/// Usage of a trial, as cost models need it.
#[derive(Clone, Debug)]
pub struct Usage<'a> {
    /// Formula of the paper's cost model.
    pub paper_account: PaperAccount,
    /// The queue that it rents, if it uses one.
    pub queue_service: QueueService,
    /// Number of database hosts that it rents, if it uses a tensor store.
    pub tensor_store_hosts: usize,
    /// The instance type of workers that run on instances.
    pub instance_type: &'a str,
    /// What a second of a function is charged by, where it is not Lambda's
    /// memory and requests: a dimension of the price book.
    pub function_price: Option<&'a str>,
    /// Every invocation and instance.
    pub invocations: Vec<&'a Invocation>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Everything that went over channels, for all purposes.
    pub traffic: PurposeTraffic,
    /// Time from the first worker's start to the last one's end, seconds.
    pub wall_s: f64,
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

impl Bill {
    /// Returns the sum, US dollars.
    pub fn total_usd(&self) -> f64 {
        self.items.iter().map(|item| item.usd).sum()
    }
}

/// Collects the lines of a bill.
struct Ledger<'a> {
    book: &'a PriceBook,
    items: Vec<LineItem>,
}

impl Ledger<'_> {
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
    let mut ledger = Ledger {
        book,
        items: Vec::new(),
    };
    match usage.paper_account {
        PaperAccount::Comparison => {
            let seconds = |call: &Invocation| call.duration_ms / 1e3;
            charge_functions(&mut ledger, usage, seconds, 1e3)?;
        }
        PaperAccount::PeerToPeer => charge_phases(&mut ledger, usage)?,
    }
    let hours: f64 = of(usage, Host::Instance)
        .map(|call| call.duration_ms / 3.6e6)
        .sum();
    ledger.charge(&ec2(usage.instance_type), hours)?;
    Ok(Bill {
        cost_model: CostModel::Paper,
        items: ledger.items,
    })
}

/// Returns the bill by the full cost model: everything that AWS charges for.
///
/// Functions are billed by the millisecond with init included, GB of 1,024 MB,
/// and by the request; instances by the second, at least 60; requests to the
/// object store by class; storage as if everything written had stayed for the
/// whole trial. Redis hosts and brokers are charged for the trial's duration
/// if tensors or messages went over them.
///
/// # Errors
/// When the book has no price for the instance type.
pub fn full(usage: &Usage<'_>, book: &PriceBook) -> Result<Bill, PriceBookError> {
    let mut ledger = Ledger {
        book,
        items: Vec::new(),
    };
    let seconds = |call: &Invocation| call.billed_ms as f64 / 1e3;
    charge_functions(&mut ledger, usage, seconds, 1024.0)?;
    if usage.function_price.is_none() {
        ledger.charge("lambda_request", of(usage, Host::Function).count() as f64)?;
    }
    ledger.charge("state_transition", usage.transitions as f64)?;
    let instance_hours: f64 = of(usage, Host::Instance)
        .map(|call| ec2_hours(call.billed_ms as f64 / 1e3))
        .sum();
    ledger.charge(&ec2(usage.instance_type), instance_hours)?;
    charge_objects(&mut ledger, usage)?;
    charge_queue(&mut ledger, usage)?;
    if moved(total(usage, |channels| channels.tensors)) {
        let hosts = usage.tensor_store_hosts as f64;
        ledger.charge(REDIS_HOST, hosts * ec2_hours(usage.wall_s))?;
    }
    Ok(Bill {
        cost_model: CostModel::Full,
        items: ledger.items,
    })
}

/// Charges functions by their memory in GB, or by the second where the platform
/// has a price of its own.
fn charge_functions(
    ledger: &mut Ledger<'_>,
    usage: &Usage<'_>,
    seconds: impl Fn(&Invocation) -> f64,
    mb_per_gb: f64,
) -> Result<(), PriceBookError> {
    let calls = of(usage, Host::Function);
    match usage.function_price {
        Some(dimension) => ledger.charge(dimension, calls.map(seconds).sum()),
        None => {
            let gb = |call: &Invocation| f64::from(call.memory_mb.unwrap_or(0)) / mb_per_gb;
            let gb_seconds = calls.map(|call| seconds(call) * gb(call)).sum();
            ledger.charge("lambda_gb_second", gb_seconds)
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
        *count += 1.0;
        *sum_gb += gb;
        *slowest_s = slowest_s.max(call.duration_ms / 1e3);
    }
    let phases = phases.values();
    match usage.function_price {
        Some(dimension) => {
            let seconds = phases.map(|(count, _, slowest_s)| count * slowest_s);
            ledger.charge(dimension, seconds.sum())
        }
        None => {
            let gb_seconds = phases.map(|(_, gb, slowest_s)| gb * slowest_s);
            ledger.charge(ARM, gb_seconds.sum())
        }
    }
}

fn charge_objects(ledger: &mut Ledger<'_>, usage: &Usage<'_>) -> Result<(), PriceBookError> {
    let objects = total(usage, |channels| channels.objects);
    ledger.charge("s3_put", objects.puts as f64)?;
    ledger.charge("s3_list", objects.lists as f64)?;
    ledger.charge("s3_get", (objects.gets + objects.missed_gets) as f64)?;
    ledger.charge("s3_delete", objects.deletes as f64)?;
    let gb = objects.bytes_up as f64 / f64::from(1 << 30);
    ledger.charge("s3_gb_month", gb * usage.wall_s / MONTH_S)
}

/// Charges SQS by the request, a RabbitMQ broker by the hour.
fn charge_queue(ledger: &mut Ledger<'_>, usage: &Usage<'_>) -> Result<(), PriceBookError> {
    let queue = total(usage, |channels| channels.queue);
    match usage.queue_service {
        QueueService::Sqs => ledger.charge(
            "sqs_request",
            (queue.messages + queue.deliveries + queue.polls) as f64,
        ),
        QueueService::RabbitMq if moved(queue) => ledger.charge(BROKER, usage.wall_s / 3600.0),
        QueueService::RabbitMq | QueueService::Http => Ok(()),
    }
}

fn of<'a>(usage: &'a Usage<'_>, host: Host) -> impl Iterator<Item = &'a Invocation> {
    usage
        .invocations
        .iter()
        .copied()
        .filter(move |call| call.host == host)
}

fn ec2(instance_type: &str) -> String {
    format!("ec2/{instance_type}")
}

/// Returns the hours charged for an instance that lived this long.
fn ec2_hours(seconds: f64) -> f64 {
    seconds.ceil().max(EC2_MINIMUM_S) / 3600.0
}

fn total(
    usage: &Usage<'_>,
    channel: impl Fn(&epochcost_systems::ChannelTraffic) -> Traffic,
) -> Traffic {
    let PurposeTraffic {
        exchange,
        dataset,
        state,
    } = &usage.traffic;
    let mut total = channel(exchange);
    total += channel(dataset);
    total += channel(state);
    total
}

fn moved(traffic: Traffic) -> bool {
    traffic != Traffic::default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn call(host: Host, duration_ms: f64, billed_ms: u64, memory_mb: Option<u32>) -> Invocation {
        Invocation {
            request_id: "r".into(),
            host,
            function: "worker".into(),
            rank: 0,
            epoch: 0,
            batch: None,
            sandbox: "s".into(),
            started_s: 0.0,
            ended_s: 0.0,
            cold: false,
            init_ms: None,
            duration_ms,
            billed_ms,
            memory_mb,
            peak_memory_mb: None,
            cpu_ms: None,
            error: None,
        }
    }

    fn usage(invocations: &[Invocation]) -> Usage<'_> {
        Usage {
            paper_account: PaperAccount::Comparison,
            queue_service: QueueService::RabbitMq,
            tensor_store_hosts: 1,
            instance_type: "g4dn.xlarge",
            function_price: None,
            invocations: invocations.iter().collect(),
            transitions: 0,
            traffic: PurposeTraffic::default(),
            wall_s: 36.0,
        }
    }

    /// The formula on the paper's own inputs gives the paper's own totals
    /// (Barrak et al. 2025, Table 2: SPIRT and MLLess; within its rounding).
    #[test]
    fn the_papers_formula_gives_the_papers_totals() {
        let book = PriceBook::shipped().unwrap();
        for (seconds, memory_mb, published) in [(15.44, 2685, 0.0660), (69.425, 3024, 0.3356)] {
            let ms = seconds * 1e3;
            let calls = vec![call(Host::Function, ms, ms as u64, Some(memory_mb)); 4 * 24];
            let usd = paper(&usage(&calls), &book).unwrap().total_usd();
            assert!(
                (usd / published - 1.0).abs() < 0.006,
                "{usd} against {published}"
            );
        }
        let gpus = vec![call(Host::Instance, 92e3, 92_000, None); 4];
        let usd = paper(&usage(&gpus), &book).unwrap().total_usd();
        assert!((usd - 4.0 * 92.0 * 0.526 / 3600.0).abs() < 1e-12);
        assert!((usd - 0.0538).abs() < 5e-5, "{usd}");
    }

    #[test]
    fn the_full_account_counts_what_the_paper_leaves_out() {
        let book = PriceBook::shipped().unwrap();
        let calls = [call(Host::Function, 900.0, 1000, Some(2048))];
        let mut usage = usage(&calls);
        usage.transitions = 10;
        usage.traffic.exchange.objects = Traffic {
            puts: 3,
            gets: 5,
            missed_gets: 2,
            ..Traffic::default()
        };
        usage.traffic.dataset.objects = Traffic {
            gets: 4,
            lists: 1,
            deletes: 9,
            ..Traffic::default()
        };
        usage.traffic.state.queue = Traffic {
            messages: 1,
            ..Traffic::default()
        };
        let bill = full(&usage, &book).unwrap();
        let line = |dimension: &str| {
            bill.items
                .iter()
                .find(|item| item.dimension == dimension)
                .map(|item| item.quantity)
        };
        assert_eq!(line("lambda_gb_second"), Some(2.0));
        assert_eq!(line("lambda_request"), Some(1.0));
        assert_eq!(line("state_transition"), Some(10.0));
        assert_eq!(line("s3_put"), Some(3.0));
        assert_eq!(line("s3_get"), Some(11.0));
        assert_eq!(line("s3_list"), Some(1.0));
        assert_eq!(line("s3_delete"), Some(9.0));
        assert_eq!(line("broker/mq.m5.large"), Some(0.01));
        assert_eq!(line("ec2/t2.medium"), None);
        let by_hand = 2.0 * 0.0000166667 + 2e-7 + 2.5e-4 + 2e-5 + 11.0 * 4e-7 + 0.00288;
        assert!((bill.total_usd() - by_hand).abs() < 1e-12);
    }

    /// A second of a GPU function costs what the platform charges, whatever its
    /// memory, and no Lambda request is paid.
    #[test]
    fn functions_with_a_price_of_their_own_are_paid_by_the_second() {
        let book = PriceBook::shipped().unwrap();
        let calls = vec![call(Host::Function, 900.0, 1500, Some(16_384)); 2];
        let mut usage = usage(&calls);
        usage.function_price = Some("serverless_gpu/cloud_run_l4");
        for (bill, seconds) in [(paper(&usage, &book), 1.8), (full(&usage, &book), 3.0)] {
            let items = bill.unwrap().items;
            let [item] = items.as_slice() else {
                panic!("{items:?}");
            };
            assert_eq!(item.dimension, "serverless_gpu/cloud_run_l4");
            assert_eq!((item.unit.as_str(), item.quantity), ("second", seconds));
            assert!((item.usd - seconds * 0.0002907).abs() < 1e-12);
        }
    }

    #[test]
    fn sqs_is_paid_by_the_request_and_databases_by_the_host() {
        let book = PriceBook::shipped().unwrap();
        let mut usage = usage(&[]);
        usage.queue_service = QueueService::Sqs;
        usage.tensor_store_hosts = 4;
        usage.traffic.exchange.tensors.puts = 1;
        usage.traffic.exchange.queue = Traffic {
            messages: 4,
            polls: 6,
            ..Traffic::default()
        };
        let bill = full(&usage, &book).unwrap();
        let lines: Vec<_> = bill
            .items
            .iter()
            .map(|item| (item.dimension.as_str(), item.quantity))
            .collect();
        assert_eq!(
            lines,
            [
                ("sqs_request", 10.0),
                ("ec2/t2.medium", 4.0 * 60.0 / 3600.0)
            ]
        );
    }

    /// Functions of one phase are charged for the slowest, those that compute no
    /// mini-batch for nothing, the peer's instance for its own time.
    #[test]
    fn the_peer_to_peer_account_charges_a_phase_for_its_slowest_function() {
        let book = PriceBook::shipped().unwrap();
        let of_batch = |rank, batch, seconds: f64| Invocation {
            rank,
            batch: Some(batch),
            ..call(Host::Function, seconds * 1e3, 1, Some(2048))
        };
        let calls = [
            of_batch(0, 0, 4.0),
            of_batch(0, 1, 6.0),
            of_batch(1, 0, 1.0),
            call(Host::Function, 99e3, 1, Some(2048)),
            call(Host::Instance, 36e3, 1, None),
        ];
        let mut usage = usage(&calls);
        usage.paper_account = PaperAccount::PeerToPeer;
        usage.instance_type = "t2.small";
        let items = paper(&usage, &book).unwrap().items;
        let lines: Vec<_> = (items.iter())
            .map(|item| (item.dimension.as_str(), item.quantity))
            .collect();
        assert_eq!(
            lines,
            [(ARM, 2.0 * 2.0 * 6.0 + 2.0), ("ec2/t2.small", 0.01)]
        );
    }

    #[test]
    fn instances_are_charged_for_a_minute_at_least() {
        let book = PriceBook::shipped().unwrap();
        let hours = |billed_ms| {
            let calls = [call(Host::Instance, 0.0, billed_ms, None)];
            full(&usage(&calls), &book).unwrap().items[0].quantity
        };
        assert_eq!(hours(1_000), 60.0 / 3600.0);
        assert_eq!(hours(60_001), 61.0 / 3600.0);
    }
}
