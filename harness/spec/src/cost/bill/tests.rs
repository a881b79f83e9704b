use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::formula::ARM;
use super::*;
use crate::cost::{Price, function_rate_usd};

fn call(host: Host, duration_ms: f64, billed_ms: u64, memory_mb: Option<u32>) -> Invocation {
    serde_json::from_value(serde_json::json!({
        "request_id": "r", "host": host, "function": "worker", "rank": 0, "epoch": 0, "sandbox": "s",
        "started_s": 0.0, "ended_s": 0.0, "cold": false, "duration_ms": duration_ms,
        "billed_ms": billed_ms, "memory_mb": memory_mb,
    }))
    .unwrap()
}

static BOOK: LazyLock<PriceBook> = LazyLock::new(|| PriceBook::shipped().unwrap());

fn in_full(usage: &Usage<'_>) -> Bill {
    full(usage, &BOOK).unwrap()
}

/// Cost of kept objects.
fn storage_usd(bill: &Bill) -> f64 {
    let kept = bill.items.iter().filter(|item| item.is_storage());
    kept.map(|item| item.usd).sum()
}

fn by_paper(usage: &Usage<'_>) -> Bill {
    paper(usage, &BOOK).unwrap()
}

/// The lines of a bill: dimensions with their quantities.
fn lines(bill: &Bill) -> Vec<(&str, f64)> {
    let items = bill.items.iter();
    items
        .map(|item| (&*item.dimension, item.quantity))
        .collect()
}

fn usage(invocations: &[Invocation]) -> Usage<'_> {
    Usage {
        paper_account: PaperAccount::Comparison,
        queue_service: QueueService::RabbitMq,
        tensor_store_hosts: 1,
        jobs: 1,
        one_machine: false,
        instance_type: "g4dn.xlarge",
        rates: Rates::default(),
        invocations: invocations.iter().collect(),
        transitions: 0,
        traffic: PurposeTraffic::default(),
        waits: Waits::default(),
        pace: None,
        wall_s: 36.0,
        stored_byte_s: 0.0,
    }
}

/// The formula on the paper's own inputs gives the paper's own totals
/// (Barrak et al. 2025, Table 2: SPIRT and MLLess; within its rounding).
#[test]
fn the_papers_formula_gives_the_papers_totals() {
    for (seconds, memory_mb, published) in [(15.44, 2685, 0.0660), (69.425, 3024, 0.3356)] {
        let ms = seconds * 1e3;
        let calls = vec![call(Host::Function, ms, ms as u64, Some(memory_mb)); 4 * 24];
        let usd = by_paper(&usage(&calls)).total_usd();
        let off = (usd / published - 1.0).abs();
        assert!(off < 0.006, "{usd} against {published}");
    }
    let gpus = vec![call(Host::Instance, 92e3, 92_000, None); 4];
    let usd = by_paper(&usage(&gpus)).total_usd();
    assert!((usd - 4.0 * 92.0 * 0.526 / 3600.0).abs() < 1e-12);
    assert!((usd - 0.0538).abs() < 5e-5, "{usd}");
}

#[test]
fn the_full_account_counts_what_the_paper_leaves_out() {
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
    let bill = in_full(&usage);
    let lines = lines(&bill);
    for line in [
        ("lambda_gb_second", 2.0),
        ("lambda_request", 1.0),
        ("state_transition", 10.0),
        ("s3_put", 3.0),
        ("s3_get", 11.0),
        ("s3_list", 1.0),
        ("s3_delete", 9.0),
        ("broker/mq.m5.large", 0.01),
    ] {
        assert!(lines.contains(&line), "{line:?} in {lines:?}");
    }
    assert!(lines.iter().all(|(name, _)| *name != "ec2/t2.medium"));
    let by_hand = 2.0 * 0.0000166667 + 2e-7 + 2.5e-4 + 2e-5 + 11.0 * 4e-7 + 0.00288;
    assert!((bill.total_usd() - by_hand).abs() < 1e-12);
}

/// What is charged is bytes over time, and nothing for bytes that were written alone.
#[test]
fn storage_is_paid_by_the_time_for_which_objects_are_kept() {
    let mut usage = usage(&[]);
    usage.traffic.exchange.objects.bytes_up = 1 << 40;
    assert_eq!(storage_usd(&in_full(&usage)), 0.0);
    // 3 GB for two days, and 2 GB for the 4 days after them.
    let day_s = 86_400.0;
    usage.stored_byte_s = f64::from(1 << 30) * (3.0 * 2.0 * day_s + 2.0 * 4.0 * day_s);
    let bill = in_full(&usage);
    let item = bill.items.iter().find(|item| item.is_storage()).unwrap();
    assert!((item.quantity - 14.0 / 30.0).abs() < 1e-12, "{item:?}");
    assert!((storage_usd(&bill) - 0.023 * 14.0 / 30.0).abs() < 1e-12);
}

/// A second of a GPU function costs what the platform charges, whatever its
/// memory, and no Lambda request is paid.
#[test]
fn functions_with_a_price_of_their_own_are_paid_by_the_second() {
    let calls = vec![call(Host::Function, 900.0, 1500, Some(16_384)); 2];
    let mut usage = usage(&calls);
    usage.rates.function_price = Some("serverless_gpu/cloud_run_l4");
    for (bill, seconds) in [(by_paper(&usage), 1.8), (in_full(&usage), 3.0)] {
        let items = bill.items;
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
    let mut usage = usage(&[]);
    usage.queue_service = QueueService::Sqs;
    usage.tensor_store_hosts = 4;
    usage.traffic.exchange.tensors.puts = 1;
    usage.traffic.exchange.queue = Traffic {
        messages: 4,
        deliveries: 3,
        polls: 6,
        ..Traffic::default()
    };
    let bill = in_full(&usage);
    let expected = [
        ("sqs_request", 4.0 + 2.0 * 3.0 + 6.0),
        ("ec2/t2.medium", 4.0 * 60.0 / 3600.0),
        ("ipv4_address_hour", 4.0 * 60.0 / 3600.0),
        ("ebs_gp3_gb_month", 8.0 * 4.0 * 60.0 / MONTH_S),
    ];
    assert_eq!(lines(&bill), expected);
    // Trainings at once pay an equal part of hosts, and their own requests.
    usage.jobs = 4;
    let shared = in_full(&usage);
    for (alone, shared) in bill.items.iter().zip(&shared.items) {
        let is_own = alone.dimension == "sqs_request";
        let of = if is_own { 1.0 } else { 4.0 };
        assert_eq!(alone.quantity, shared.quantity * of, "{}", alone.dimension);
    }
    usage.jobs = 1;
    // 64 KB of text hold 49,152 bytes of payload.
    usage.traffic.exchange.queue.bytes_up = 4 * 49_152;
    usage.traffic.exchange.queue.bytes_down = 3 * 49_153;
    let bill = in_full(&usage);
    assert_eq!(bill.items[0].quantity, 4.0 + 3.0 * 3.0 + 6.0);
}

/// Whatever ran on a rented machine, its hours, its address and its volume are all that is charged for.
#[test]
fn a_machine_that_runs_everything_is_all_that_is_charged_for() {
    let machine = Invocation {
        function: MACHINE.to_owned(),
        ..call(Host::Instance, 60e3, 90_000, None)
    };
    let calls = [
        call(Host::Function, 900.0, 1000, Some(16_384)),
        call(Host::Instance, 50e3, 50_000, None),
        machine,
    ];
    let mut usage = usage(&calls);
    usage.traffic.exchange.objects.puts = 1_000_000;
    usage.stored_byte_s = 1e18;
    let everything = in_full(&usage).total_usd();
    usage.one_machine = true;
    let bill = in_full(&usage);
    let hours = ["ec2/g4dn.xlarge", "ipv4_address_hour"].map(|what| (what, 90.0 / 3600.0));
    assert_eq!(lines(&bill)[..2], hours);
    assert_eq!(bill.items.len(), 3);
    assert!(everything > 5.0 && bill.total_usd() < 0.02);
    let usd = by_paper(&usage).total_usd();
    assert!((usd - 60.0 * 0.526 / 3600.0).abs() < 1e-9);
}

/// An hour of an instance that is kept costs what the bill of an hour has for it.
#[test]
fn a_kept_instance_costs_what_its_bill_says() {
    let book = PriceBook::shipped().unwrap();
    let calls = [call(Host::Instance, 3_600e3, 3_600_000, None)];
    let (_, usd) = in_full(&usage(&calls)).instances().unwrap();
    let hourly = |account| hourly_usd("g4dn.xlarge", &book, account).unwrap();
    assert!((hourly(CostModel::Full) - usd).abs() < 1e-9);
    assert_eq!(hourly(CostModel::Paper), 0.526);
    assert!(usd > 0.535, "{usd}");
}

/// An instance of EC2 has a public address and a volume; a machine elsewhere has them in its price.
#[test]
fn instances_have_addresses_and_volumes() {
    let elsewhere = Price {
        dimension: "ec2/cloud-h100".to_owned(),
        usd: 3.0,
        ..BOOK.price("ec2/t2.small").unwrap().clone()
    };
    let book = PriceBook::shipped().unwrap().with(&[elsewhere]);
    let calls = vec![call(Host::Instance, 3.6e6, 3_600_000, None); 2];
    let usd = |instance_type| {
        let mut usage = usage(&calls);
        usage.instance_type = instance_type;
        full(&usage, &book).unwrap().total_usd()
    };
    let gpu = 2.0 * (0.526 + 0.005 + 75.0 / 720.0 * 0.08);
    assert!((usd("g4dn.xlarge") - gpu).abs() < 1e-12);
    assert!((usd("t2.small") - 2.0 * (0.023 + 0.005 + 8.0 / 720.0 * 0.08)).abs() < 1e-12);
    assert!((usd("cloud-h100") - 6.0).abs() < 1e-12);
}

/// Functions of one phase are charged for the slowest, those that compute no
/// mini-batch for nothing, the peer's instance for its own time.
#[test]
fn the_peer_to_peer_account_charges_a_phase_for_its_slowest_function() {
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
    let bill = by_paper(&usage);
    let expected = [(ARM, 2.0 * 2.0 * 6.0 + 2.0), ("ec2/t2.small", 0.01)];
    assert_eq!(lines(&bill), expected);
}

/// What searches compute without a bill is what a bill has.
#[test]
fn rates_and_billed_seconds_are_those_of_a_bill() {
    let is_near = |one: f64, other: f64| (one - other).abs() < 1e-12 * other;
    for account in [PaperAccount::Comparison, PaperAccount::PeerToPeer] {
        for own in [None, Some("serverless_gpu/cloud_run_l4")] {
            let calls = [call(Host::Function, 0.0, 7_000, Some(3008))];
            let mut usage = usage(&calls);
            (usage.paper_account, usage.rates.function_price) = (account, own);
            let bill = in_full(&usage);
            let rate = function_rate_usd(account, 3008, own, &BOOK).unwrap();
            assert!(is_near(bill.items[0].usd, 7.0 * rate), "{account:?}");
            assert_eq!(bill.instances(), None);
        }
    }
    let calls = [12_300, 75_500].map(|ms| call(Host::Instance, 0.0, ms, None));
    let mut usage = usage(&calls);
    let bill = in_full(&usage);
    let (seconds, usd) = bill.instances().unwrap();
    let each_s = [12.3, 75.5].map(|each_s| billed_s(each_s, EC2_MINIMUM_S));
    assert!(is_near(seconds, each_s.iter().sum()) && seconds == 60.0 + 76.0);
    // Address and volume belong to it.
    assert!(is_near(usd, bill.total_usd()) && usd > seconds / 3600.0 * 0.526);
    // Two types have no price in common.
    usage.traffic.exchange.tensors.puts = 1;
    assert_eq!(in_full(&usage).instances(), None);
}

/// Two machines that wait equally long, of which one answers ten times as many
/// polls, are billed for as many.
#[test]
fn polls_are_billed_at_the_pace_of_the_service() {
    let bill = |answer_s: f64, pace: Option<Pace>| {
        let mut usage = usage(&[]);
        usage.queue_service = QueueService::Sqs;
        usage.pace = pace;
        let polls = |seconds: f64, pause_s: f64| {
            let requests = (seconds / (answer_s + pause_s)) as u64;
            Polls {
                requests,
                seconds,
                paused_s: requests as f64 * pause_s,
            }
        };
        usage.waits = Waits {
            lists: polls(20.0, 0.0),
            gets: polls(10.0, 0.1),
            counts: polls(5.0, 0.1),
        };
        // Beside the polls, 3 listings, 7 gets and 2 messages.
        usage.traffic.exchange.objects.lists = 3 + usage.waits.lists.requests;
        usage.traffic.exchange.objects.gets = 7;
        usage.traffic.exchange.objects.missed_gets = usage.waits.gets.requests;
        usage.traffic.exchange.queue.messages = 2;
        usage.traffic.exchange.queue.polls = usage.waits.counts.requests;
        let bill = in_full(&usage);
        let quantities: BTreeMap<_, _> = lines(&bill).into_iter().collect();
        ["s3_list", "s3_get", "sqs_request"].map(|dimension| quantities[dimension])
    };
    let pace = Pace {
        objects_s: 0.1,
        queue_s: 0.025,
    };
    for answer_s in [0.0001, 0.001, 0.1] {
        let found = bill(answer_s, Some(pace));
        for (found, expected) in found.into_iter().zip([3.0 + 200.0, 7.0 + 50.0, 2.0 + 40.0]) {
            assert!((found - expected).abs() < 1e-6, "{answer_s}: {found}");
        }
    }
    // Without a pace, as many as were made.
    for (made, least) in bill(0.001, None).into_iter().zip([19_000.0, 90.0, 45.0]) {
        assert!(made > least, "{made}");
    }
}

/// A minute, of which a provider may charge less; hosts of stores are EC2's.
#[test]
fn instances_are_charged_for_the_platforms_shortest_time() {
    let hours = |billed_ms, minimum_s: Option<f64>, dimension: &str| {
        let calls = [call(Host::Instance, 0.0, billed_ms, None)];
        let mut usage = usage(&calls);
        usage.rates.minimum_s = minimum_s.unwrap_or(usage.rates.minimum_s);
        usage.traffic.exchange.tensors.puts = 1;
        let bill = in_full(&usage);
        let item = bill.items.iter().find(|item| item.dimension == dimension);
        item.map(|item| item.quantity)
    };
    for (billed_ms, minimum_s, dimension, expected) in [
        (1_000, None, "ec2/g4dn.xlarge", 60.0),
        (60_001, None, "ec2/g4dn.xlarge", 61.0),
        (18_600, Some(1.0), "ec2/g4dn.xlarge", 19.0),
        (18_600, Some(1.0), REDIS_HOST, 60.0),
    ] {
        let found = hours(billed_ms, minimum_s, dimension);
        assert_eq!(found, Some(expected / 3600.0), "{billed_ms} {dimension}");
    }
}
