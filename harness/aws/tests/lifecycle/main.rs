//! Life of a run on an emulated account: created, resumed, removed, and killed after every
//! single step.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod logs;
mod moto;
mod run;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use epochcost_aws::calls::CALLS;
use epochcost_aws::reports::{Search, collect};
use epochcost_aws::resource::{Kind, Spec};
use epochcost_aws::{
    Call, Clients, Journal, Observer, RunFilter, RunId, provision, remove_all, survey, tear_down,
    tear_down_within,
};

/// Number of resources of the run that is killed.
const RESOURCES: usize = 18;

use run::{HOLD_S, REGION, RUN, approval, provision_and_kill, run_and_kill, specs};

/// Process that the other tests start and kill; not a test itself.
#[tokio::test]
#[ignore = "started by other tests"]
async fn a_process_that_dies() {
    run::provision_until_killed().await;
}

async fn clients(url: &str) -> Clients {
    Clients::new(moto::config(url, REGION).await, None).unwrap()
}

fn regions() -> Vec<String> {
    ["us-east-1", REGION].map(str::to_owned).into()
}

/// Variable with the number of steps from one kill to the next, by default 1. Tests begin at
/// different steps, so that with 3 each step is that of one of them.
const EVERY_VARIABLE: &str = "TEST_KILL_EVERY";

/// Kills a process after one step after another, until one completes; after each, what is paid
/// by the second or the hour has an end of its own, and `then` must leave nothing behind. The
/// process removes everything again if it `removes`.
async fn kill_everywhere<F, T>(first: usize, removes: bool, then: F)
where
    F: Fn(Clients, std::path::PathBuf) -> T,
    T: Future<Output = ()>,
{
    let Some(moto) = moto::start() else { return };
    let config = moto::config(&moto.url, REGION).await;
    let mut most = 0;
    let every = std::env::var(EVERY_VARIABLE).map_or(1, |every| every.parse().unwrap());
    let first = if every == 1 { 1 } else { first };
    for at in (first..).step_by(every) {
        moto::reset(&moto.url).await;
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("journal.jsonl");
        let ended = run_and_kill(&moto.url, &journal, at, "unused", removes);
        let endless = moto::paid_without_end(&config, HOLD_S).await;
        assert!(endless.is_empty(), "killed after step {at}: {endless:?}");
        most = most.max(moto::everything(&config).await.len());
        then(clients(&moto.url).await, journal).await;
        let left = moto::everything(&config).await;
        assert!(left.is_empty(), "killed after step {at}: {left:?}");
        if ended {
            // Each resource takes at least two events and a call.
            assert!(at > 3 * RESOURCES, "a whole run took {at} steps");
            assert!(most >= RESOURCES, "at most {most} resources were there");
            return;
        }
    }
}

#[tokio::test]
async fn after_a_kill_at_any_step_the_journal_leaves_nothing() {
    kill_everywhere(1, true, |clients, path| async move {
        // Without a first line, nothing was created.
        let Ok(mut journal) = Journal::resume(&path) else {
            return;
        };
        let removed = tear_down_within(&clients, &mut journal, Duration::ZERO);
        let removed = removed.await.unwrap();
        assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
        assert!(journal.outstanding().is_empty());
        assert!(Journal::resume(&path).unwrap().outstanding().is_empty());
    })
    .await;
}

#[tokio::test]
async fn after_a_kill_at_any_step_tags_and_names_alone_leave_nothing() {
    kill_everywhere(2, true, |clients, _| async move {
        let found = survey(&clients, &regions(), &RunFilter::AllRuns)
            .await
            .unwrap();
        let removed = remove_all(found, &clients).await;
        assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
        // A repetition is harmless.
        let found = survey(&clients, &regions(), &RunFilter::AllRuns)
            .await
            .unwrap();
        assert_eq!(found, []);
    })
    .await;
}

#[tokio::test]
async fn after_a_kill_at_any_step_a_run_can_be_gone_on_with() {
    kill_everywhere(3, false, |clients, path| async move {
        let Ok(mut journal) = Journal::resume(&path) else {
            return;
        };
        let specs = specs(journal.scope());
        provision(&specs, &clients, &mut journal, &approval(&specs))
            .await
            .unwrap();
        let wanted: BTreeSet<_> = specs.iter().map(Spec::address).collect();
        let found = survey(&clients, &regions(), &RunFilter::Run(RunId::new(RUN)))
            .await
            .unwrap();
        // Nothing is missing, and nothing exists twice.
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        assert_eq!(
            found
                .into_iter()
                .map(|f| f.address)
                .collect::<BTreeSet<_>>(),
            wanted
        );
        tear_down(&clients, &mut journal).await.unwrap();
    })
    .await;
}

/// EC2's lists are behind by seconds: what is in none of them yet, here for want of its tags, is
/// removed by the id that the journal has.
#[tokio::test]
async fn what_no_list_has_yet_is_removed_by_its_id() {
    let Some(moto) = moto::start() else { return };
    let config = moto::config(&moto.url, REGION).await;
    let clients = Clients::new(config.clone(), None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let expires = "2099-01-01T00:00:00Z".parse().unwrap();
    let scope = clients.scope(RunId::new(RUN), expires).await.unwrap();
    let specs = specs(&scope);
    let mut journal = Journal::begin(&directory.path().join("j"), scope).unwrap();
    let made = provision(&specs, &clients, &mut journal, &approval(&specs)).await;
    let paid = made.unwrap().into_iter();
    let paid = paid.filter(|(made, _)| matches!(made.kind, Kind::Instance | Kind::Endpoint));
    let ids: Vec<String> = paid.map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 3);
    let ec2 = aws_sdk_ec2::Client::new(&config);
    let project = aws_sdk_ec2::types::Tag::builder().key(epochcost_aws::PROJECT_TAG.0);
    let untag = ec2.delete_tags().set_resources(Some(ids));
    let untag = untag.tags(project.build());
    untag.send().await.unwrap();
    let removed = tear_down_within(&clients, &mut journal, Duration::ZERO);
    let removed = removed.await.unwrap();
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    let left = moto::everything(&config).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn what_is_not_ours_stays() {
    let Some(moto) = moto::start() else { return };
    let config = moto::config(&moto.url, REGION).await;
    let s3 = aws_sdk_s3::Client::new(&config);
    let place = aws_sdk_s3::types::CreateBucketConfiguration::builder()
        .location_constraint(REGION.into())
        .build();
    // A name like ours without a run's id.
    for name in ["epochcost-of-somebody", "something-else"] {
        let create = s3.create_bucket().bucket(name);
        create
            .create_bucket_configuration(place.clone())
            .send()
            .await
            .unwrap();
    }
    let ec2 = aws_sdk_ec2::Client::new(&config);
    let group = ec2
        .create_security_group()
        .group_name("epochcost")
        .description("theirs");
    group.send().await.unwrap();
    let before = moto::everything(&config).await;
    let directory = tempfile::tempdir().unwrap();
    assert!(provision_and_kill(
        &moto.url,
        &directory.path().join("j"),
        usize::MAX,
        "unused"
    ));
    let clients = clients(&moto.url).await;
    let other = RunFilter::Run(RunId::new(RUN + 1));
    assert_eq!(survey(&clients, &regions(), &other).await.unwrap(), []);
    let not_yet = RunFilter::ExpiredAt("2098-12-31T00:00:00Z".parse().unwrap());
    assert_eq!(survey(&clients, &regions(), &not_yet).await.unwrap(), []);
    let then = RunFilter::ExpiredAt("2099-01-02T00:00:00Z".parse().unwrap());
    let found = survey(&clients, &regions(), &then).await.unwrap();
    assert_eq!(found.len(), RESOURCES);
    assert_eq!(found.first().unwrap().address.kind, Kind::Instance);
    let removed = remove_all(found, &clients).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    assert_eq!(moto::everything(&config).await, before);
}

/// The network of functions and hosts, as the emulator has it after a complete
/// provisioning.
#[tokio::test]
async fn a_runs_network_leads_where_it_must() {
    let Some(moto) = moto::start() else { return };
    let config = moto::config(&moto.url, REGION).await;
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("j");
    assert!(provision_and_kill(
        &moto.url,
        &journal,
        usize::MAX,
        "unused"
    ));
    let name = |what: &str| RunId::new(RUN).name(what);
    let named = |what: &str| {
        let filter = aws_sdk_ec2::types::Filter::builder().name("tag:Name");
        filter.values(name(what)).build()
    };
    let ec2 = aws_sdk_ec2::Client::new(&config);
    let vpcs = ec2.describe_vpcs().filters(named("network")).send().await;
    let vpcs = vpcs.unwrap();
    let vpc = vpcs.vpcs()[0].vpc_id().unwrap();
    let attribute = ec2.describe_vpc_attribute().vpc_id(vpc);
    let attribute = attribute.attribute(aws_sdk_ec2::types::VpcAttributeName::EnableDnsHostnames);
    let attribute = attribute.send().await.unwrap();
    assert_eq!(
        attribute.enable_dns_hostnames().unwrap().value(),
        Some(true)
    );
    let subnets = ec2.describe_subnets().filters(named("network")).send();
    let subnets = subnets.await.unwrap();
    let subnet = &subnets.subnets()[0];
    assert_eq!(subnet.vpc_id(), Some(vpc));
    assert_eq!(subnet.map_public_ip_on_launch(), Some(true));
    let tables = ec2.describe_route_tables().send().await.unwrap();
    let table = tables
        .route_tables()
        .iter()
        .find(|t| t.vpc_id() == Some(vpc));
    let routes = table.unwrap().routes();
    let out = routes
        .iter()
        .find(|r| r.destination_cidr_block() == Some("0.0.0.0/0"));
    assert!(out.unwrap().gateway_id().unwrap().starts_with("igw-"));
    let endpoints = ec2.describe_vpc_endpoints().send().await.unwrap();
    let endpoint = |service: &str| {
        let is_it = |e: &&aws_sdk_ec2::types::VpcEndpoint| {
            e.service_name() == Some(&format!("com.amazonaws.{REGION}.{service}"))
        };
        endpoints
            .vpc_endpoints()
            .iter()
            .find(is_it)
            .unwrap()
            .clone()
    };
    assert_eq!(endpoint("s3").route_table_ids().len(), 1);
    assert_eq!(endpoint("lambda").private_dns_enabled(), Some(true));
    assert_eq!(
        endpoint("lambda").subnet_ids()[0],
        subnet.subnet_id().unwrap()
    );
    let groups = endpoint("lambda").groups().len();
    assert_eq!(groups, 1);
    let instances = ec2.describe_instances().send().await.unwrap();
    let instance = &instances.reservations()[0].instances()[0];
    assert_eq!(instance.subnet_id(), subnet.subnet_id());
    let lambda = aws_sdk_lambda::Client::new(&config);
    let function = lambda.get_function_configuration();
    let function = function.function_name(name("worker-2048")).send().await;
    let function = function.unwrap();
    let placed = function.vpc_config().unwrap();
    assert_eq!(placed.subnet_ids()[0], subnet.subnet_id().unwrap());
    assert_eq!(placed.security_group_ids().len(), 1);
}

/// Observer that records every call.
#[derive(Default)]
struct Calls(Mutex<BTreeSet<Call>>);

impl Observer for Calls {
    fn before(&self, call: &Call) {
        self.0.lock().unwrap().insert(call.clone());
    }
}

/// Every call of a whole life is one of the table,
/// and every call that the documentation says was made against moto is made.
#[tokio::test]
async fn the_table_of_calls_is_the_calls_that_are_made() {
    let Some(moto) = moto::start() else { return };
    let calls = Arc::new(Calls::default());
    let config = moto::config(&moto.url, REGION).await;
    let clients = Clients::new(config, Some(calls.clone())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let expires = "2099-01-01T00:00:00Z".parse().unwrap();
    let scope = clients.scope(RunId::new(RUN), expires).await.unwrap();
    let specs = specs(&scope);
    let mut journal = Journal::begin(&directory.path().join("j"), scope).unwrap();
    provision(&specs, &clients, &mut journal, &approval(&specs))
        .await
        .unwrap();
    let groups = [format!(
        "/aws/lambda/{}",
        RunId::new(RUN).name("worker-2048")
    )];
    let search = Search {
        groups: &groups,
        since: jiff::Timestamp::UNIX_EPOCH,
        timeout: Duration::ZERO,
        interval: Duration::ZERO,
    };
    collect(&clients, &search, &BTreeSet::new()).await.unwrap();
    let left = tear_down(&clients, &mut journal).await.unwrap().leftovers;
    assert!(left.is_empty(), "{left:?}");
    clients.regions().await.unwrap();
    let made: BTreeSet<(String, String)> = (calls.0.lock().unwrap().iter())
        .map(|call| (call.service.clone(), call.operation.clone()))
        .collect();
    let listed: BTreeSet<(String, String)> = (CALLS.iter())
        .map(|call| (call.service.to_owned(), call.operation.to_owned()))
        .collect();
    let unlisted: Vec<_> = made.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the table: {unlisted:?}");
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws.md");
    let text = std::fs::read_to_string(documents).unwrap();
    for call in CALLS {
        let (service, operation) = (call.service, call.operation);
        let (head, named) = (format!("| {service} | "), format!("`{operation}`"));
        let mut rows = text.lines().filter(|line| line.starts_with(&head));
        let row = rows.find(|line| line.contains(&named));
        let row = row.unwrap_or_else(|| panic!("docs/aws.md lacks {service} {operation}"));
        let was_made = made.contains(&(service.to_owned(), operation.to_owned()));
        assert_eq!(row.contains("moto"), was_made, "{operation}: {row}");
    }
}

/// Secrets of the environment reach neither the journal nor anything in the account.
#[tokio::test]
async fn no_secret_is_written_anywhere() {
    let Some(moto) = moto::start() else { return };
    let config = moto::config(&moto.url, REGION).await;
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal.jsonl");
    let canary = "c4n4ry/Secret+Key";
    assert!(provision_and_kill(&moto.url, &journal, usize::MAX, canary));
    let mut written = std::fs::read_to_string(&journal).unwrap();
    let name = |what: &str| RunId::new(RUN).name(what);
    let ec2 = aws_sdk_ec2::Client::new(&config);
    let found = ec2.describe_instances().send().await.unwrap();
    let id = found.reservations()[0].instances()[0]
        .instance_id()
        .unwrap();
    let user_data = ec2
        .describe_instance_attribute()
        .instance_id(id)
        .attribute(aws_sdk_ec2::types::InstanceAttributeName::UserData);
    let user_data = user_data.send().await.unwrap();
    let encoded = user_data.user_data().unwrap().value().unwrap();
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    let user_data = String::from_utf8(decoded.unwrap()).unwrap();
    assert!(user_data.contains("shutdown"));
    written += &user_data;
    written += &format!("{found:?}");
    let lambda = aws_sdk_lambda::Client::new(&config);
    let function = lambda.get_function().function_name(name("worker-2048"));
    let function = function.send().await.unwrap();
    let environment = function.configuration().unwrap().environment().unwrap();
    // Printed as a whole, it would be redacted.
    written += &format!("{:?} {:?}", function.tags(), environment.variables());
    let iam = aws_sdk_iam::Client::new(&config);
    let policy = iam
        .get_role_policy()
        .role_name(name("functions"))
        .policy_name("run");
    written += &format!("{:?}", policy.send().await.unwrap());
    let s3 = aws_sdk_s3::Client::new(&config);
    let tags = s3
        .get_bucket_tagging()
        .bucket(name("exchange"))
        .send()
        .await
        .unwrap();
    written += &format!("{tags:?}");
    assert!(written.contains("epochcost:run") && written.contains("EPOCHCOST_QUEUE"));
    assert!(!written.contains("c4n4ry"));
}
