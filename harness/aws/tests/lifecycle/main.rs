//! Life of a run on an emulated account: created, resumed, removed, and killed after every
//! single step.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod moto;
mod run;
mod server;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ec2::types::VpcAttributeName::EnableDnsHostnames;
use aws_sdk_ec2::types::{Filter, Tag, VpcEndpoint};
use epochcost_aws::calls::calls as known_calls;
use epochcost_aws::logs::LogReader;
use epochcost_aws::resource::{Address, Found, Kind, Spec};
use epochcost_aws::{
    Call, Clients, Journal, Observer, Removal, RunFilter, RunId, provision, remove_all, survey,
    tear_down, tear_down_within,
};
use moto::{everything, user_data};
use run::{HOLD_S, REGION, RUN, approval, run_and_kill, specs};
use server::Server;
use tempfile::TempDir;

/// Number of resources of the run that is killed.
const RESOURCES: usize = 18;

/// Process that the other tests start and kill; not a test itself.
#[tokio::test]
#[ignore = "started by other tests"]
async fn a_process_that_dies() {
    run::provision_until_killed().await;
}

/// An emulated account, and a directory for the journal of a run.
struct Scene {
    moto: Server,
    config: SdkConfig,
    directory: TempDir,
}

/// Starts moto; returns nothing where it is not installed.
async fn start() -> Option<Scene> {
    let moto = server::moto()?;
    Some(Scene {
        config: moto::config(&moto.url).await,
        directory: tempfile::tempdir().unwrap(),
        moto,
    })
}

impl Scene {
    fn clients(&self) -> Clients {
        Clients::new(self.config.clone(), None).unwrap()
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal.jsonl")
    }

    /// Provisions a whole run; returns its journal, and what was made with its ids.
    async fn provision(&self, clients: &Clients) -> (Journal, Vec<(Address, String)>) {
        let expires = "2099-01-01T00:00:00Z".parse().unwrap();
        let scope = clients.scope(RunId::new(RUN), expires).await.unwrap();
        let specs = specs(&scope);
        let mut journal = Journal::begin(&self.journal(), scope).unwrap();
        let made = provision(&specs, clients, &mut journal, &approval(&specs)).await;
        (journal, made.unwrap())
    }

    /// The same in a process of its own, with this secret in its environment.
    fn provision_apart(&self, secret: &str) {
        let (url, journal) = (&self.moto.url, self.journal());
        let is_whole = run_and_kill(url, &journal, usize::MAX, secret, false);
        assert!(is_whole);
    }

    async fn assert_empty(&self, when: &str) {
        let left = everything(&self.config).await;
        assert!(left.is_empty(), "{when}: {left:?}");
    }
}

/// Our resources in both regions.
async fn found(clients: &Clients, filter: RunFilter) -> Vec<Found> {
    let regions = ["us-east-1", REGION].map(str::to_owned);
    survey(clients, &regions, &filter).await.unwrap()
}

#[track_caller]
fn assert_whole(removed: &Removal) {
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
}

/// Removes what is in a journal, without a wait for what EC2's lists may lack.
async fn tear_down_now(clients: &Clients, journal: &mut Journal) {
    let removed = tear_down_within(clients, journal, Duration::ZERO).await;
    assert_whole(&removed.unwrap());
}

/// Variable with the number of steps from one kill to the next, by default 1. Tests begin at
/// different steps, so that with 3 each step is that of one of them.
const EVERY_VARIABLE: &str = "TEST_KILL_EVERY";

/// Kills a process after one step after another, until one completes; after each, what is paid
/// by the second or the hour has an end of its own, and `then` must leave nothing behind. The
/// process removes everything again if it `removes`.
async fn kill_everywhere<F, T>(first: usize, removes: bool, then: F)
where
    F: Fn(Clients, PathBuf) -> T,
    T: Future<Output = ()>,
{
    let Some(mut scene) = start().await else {
        return;
    };
    let mut most = 0;
    let every = std::env::var(EVERY_VARIABLE).map_or(1, |every| every.parse().unwrap());
    let first = if every == 1 { 1 } else { first };
    for at in (first..).step_by(every) {
        moto::reset(&scene.moto.url).await;
        scene.directory = tempfile::tempdir().unwrap();
        let (url, journal) = (&scene.moto.url, scene.journal());
        let ended = run_and_kill(url, &journal, at, "unused", removes);
        let when = format!("killed after step {at}");
        let endless = moto::paid_without_end(&scene.config, HOLD_S).await;
        assert!(endless.is_empty(), "{when}: {endless:?}");
        most = most.max(everything(&scene.config).await.len());
        then(scene.clients(), journal).await;
        scene.assert_empty(&when).await;
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
        tear_down_now(&clients, &mut journal).await;
        assert!(journal.outstanding().is_empty());
        assert!(Journal::resume(&path).unwrap().outstanding().is_empty());
    })
    .await;
}

#[tokio::test]
async fn after_a_kill_at_any_step_tags_and_names_alone_leave_nothing() {
    kill_everywhere(2, true, |clients, _| async move {
        let all = found(&clients, RunFilter::AllRuns).await;
        assert_whole(&remove_all(all, &clients).await);
        // A repetition is harmless.
        assert_eq!(found(&clients, RunFilter::AllRuns).await, []);
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
        let found = found(&clients, RunFilter::Run(RunId::new(RUN))).await;
        // Nothing is missing, and nothing exists twice.
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        let found: BTreeSet<_> = found.into_iter().map(|found| found.address).collect();
        assert_eq!(found, wanted);
        tear_down(&clients, &mut journal).await.unwrap();
    })
    .await;
}

/// EC2's lists are behind by seconds: what is in none of them yet, here for want of its tags, is
/// removed by the id that the journal has.
#[tokio::test]
async fn what_no_list_has_yet_is_removed_by_its_id() {
    let Some(scene) = start().await else { return };
    let clients = scene.clients();
    let (mut journal, made) = scene.provision(&clients).await;
    let paid = made.into_iter();
    let paid = paid.filter(|(made, _)| matches!(made.kind, Kind::Instance | Kind::Endpoint));
    let ids: Vec<String> = paid.map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 3);
    let ec2 = aws_sdk_ec2::Client::new(&scene.config);
    let project = Tag::builder().key(epochcost_aws::PROJECT_TAG.0).build();
    let untag = ec2.delete_tags().set_resources(Some(ids)).tags(project);
    untag.send().await.unwrap();
    tear_down_now(&clients, &mut journal).await;
    scene.assert_empty("after the removal").await;
}

#[tokio::test]
async fn what_is_not_ours_stays() {
    let Some(scene) = start().await else { return };
    let s3 = aws_sdk_s3::Client::new(&scene.config);
    let place = aws_sdk_s3::types::CreateBucketConfiguration::builder()
        .location_constraint(REGION.into())
        .build();
    // A name like ours without a run's id.
    for name in ["epochcost-of-somebody", "something-else"] {
        let create = s3.create_bucket().bucket(name);
        let create = create.create_bucket_configuration(place.clone());
        create.send().await.unwrap();
    }
    let ec2 = aws_sdk_ec2::Client::new(&scene.config);
    let group = ec2.create_security_group().group_name("epochcost");
    group.description("theirs").send().await.unwrap();
    let before = everything(&scene.config).await;
    scene.provision_apart("unused");
    let clients = scene.clients();
    let other = RunFilter::Run(RunId::new(RUN + 1));
    let expired = |at: &str| RunFilter::ExpiredAt(at.parse().unwrap());
    for none in [other, expired("2098-12-31T00:00:00Z")] {
        assert_eq!(found(&clients, none).await, []);
    }
    let found = found(&clients, expired("2099-01-02T00:00:00Z")).await;
    assert_eq!(found.len(), RESOURCES);
    assert_eq!(found.first().unwrap().address.kind, Kind::Instance);
    assert_whole(&remove_all(found, &clients).await);
    assert_eq!(everything(&scene.config).await, before);
}

/// The network of functions and hosts, as the emulator has it after a complete
/// provisioning.
#[tokio::test]
async fn a_runs_network_leads_where_it_must() {
    let Some(scene) = start().await else { return };
    scene.provision_apart("unused");
    let name = |what: &str| RunId::new(RUN).name(what);
    let named = Filter::builder().name("tag:Name").values(name("network"));
    let ours = named.build();
    let ec2 = aws_sdk_ec2::Client::new(&scene.config);
    let vpcs = ec2.describe_vpcs().filters(ours.clone()).send().await;
    let vpcs = vpcs.unwrap();
    let vpc = vpcs.vpcs()[0].vpc_id().unwrap();
    let attribute = ec2.describe_vpc_attribute().vpc_id(vpc);
    let attribute = attribute.attribute(EnableDnsHostnames).send().await;
    let names = attribute.unwrap().enable_dns_hostnames.unwrap();
    assert_eq!(names.value(), Some(true));
    let subnets = ec2.describe_subnets().filters(ours).send().await.unwrap();
    let subnet = &subnets.subnets()[0];
    assert_eq!(subnet.vpc_id(), Some(vpc));
    assert_eq!(subnet.map_public_ip_on_launch(), Some(true));
    let tables = ec2.describe_route_tables().send().await.unwrap();
    let mut tables = tables.route_tables().iter();
    let table = tables.find(|table| table.vpc_id() == Some(vpc)).unwrap();
    let mut routes = table.routes().iter();
    let out = routes.find(|route| route.destination_cidr_block() == Some("0.0.0.0/0"));
    assert!(out.unwrap().gateway_id().unwrap().starts_with("igw-"));
    let endpoints = ec2.describe_vpc_endpoints().send().await.unwrap();
    let endpoint = |service: &str| {
        let name = format!("com.amazonaws.{REGION}.{service}");
        let is_it = |endpoint: &&VpcEndpoint| endpoint.service_name() == Some(&name);
        endpoints.vpc_endpoints().iter().find(is_it).unwrap()
    };
    assert_eq!(endpoint("s3").route_table_ids().len(), 1);
    let subnet_id = subnet.subnet_id().unwrap();
    let functions = endpoint("lambda");
    assert_eq!(functions.private_dns_enabled(), Some(true));
    assert_eq!(functions.subnet_ids()[0], subnet_id);
    assert_eq!(functions.groups().len(), 1);
    let instances = ec2.describe_instances().send().await.unwrap();
    let instance = &instances.reservations()[0].instances()[0];
    assert_eq!(instance.subnet_id(), Some(subnet_id));
    let lambda = aws_sdk_lambda::Client::new(&scene.config);
    let function = lambda.get_function_configuration();
    let function = function.function_name(name("worker-2048")).send().await;
    let placed = function.unwrap().vpc_config.unwrap();
    assert_eq!(placed.subnet_ids()[0], subnet_id);
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
    let Some(scene) = start().await else { return };
    let calls = Arc::new(Calls::default());
    let clients = Clients::new(scene.config.clone(), Some(calls.clone())).unwrap();
    let (mut journal, _) = scene.provision(&clients).await;
    let group = format!("/aws/lambda/{}", RunId::new(RUN).name("worker-2048"));
    let since = jiff::Timestamp::UNIX_EPOCH;
    let read = LogReader::default().read(&clients, &[group], since).await;
    assert!(!read.unwrap(), "nothing has run");
    assert_whole(&tear_down(&clients, &mut journal).await.unwrap());
    clients.regions().await.unwrap();
    let made: BTreeSet<(String, String)> = (calls.0.lock().unwrap().iter())
        .map(|call| (call.service.clone(), call.operation.clone()))
        .collect();
    let listed: BTreeSet<(String, String)> = known_calls()
        .map(|call| (call.service.to_owned(), call.operation.to_owned()))
        .collect();
    let unlisted: Vec<_> = made.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the table: {unlisted:?}");
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws.md");
    let text = std::fs::read_to_string(documents).unwrap();
    for call in known_calls() {
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
    let Some(scene) = start().await else { return };
    scene.provision_apart("c4n4ry/Secret+Key");
    let mut written = std::fs::read_to_string(scene.journal()).unwrap();
    let name = |what: &str| RunId::new(RUN).name(what);
    let ec2 = aws_sdk_ec2::Client::new(&scene.config);
    let found = ec2.describe_instances().send().await.unwrap();
    let instance = &found.reservations()[0].instances()[0];
    let script = user_data(&ec2, instance.instance_id().unwrap())
        .await
        .unwrap();
    assert!(script.contains("shutdown"));
    written += &script;
    written += &format!("{found:?}");
    let lambda = aws_sdk_lambda::Client::new(&scene.config);
    let function = lambda.get_function().function_name(name("worker-2048"));
    let function = function.send().await.unwrap();
    let environment = function.configuration().unwrap().environment().unwrap();
    // Printed as a whole, it would be redacted.
    written += &format!("{:?} {:?}", function.tags(), environment.variables());
    let iam = aws_sdk_iam::Client::new(&scene.config);
    let policy = iam.get_role_policy().role_name(name("functions"));
    let policy = policy.policy_name("run").send().await.unwrap();
    let s3 = aws_sdk_s3::Client::new(&scene.config);
    let tags = s3.get_bucket_tagging().bucket(name("exchange"));
    written += &format!("{policy:?}{:?}", tags.send().await.unwrap());
    assert!(written.contains("epochcost:run") && written.contains("EPOCHCOST_QUEUE"));
    assert!(!written.contains("c4n4ry"));
}
