//! REPORT lines through an emulated CloudWatch Logs.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_cloudwatchlogs::types::InputLogEvent;
use epochcost_aws::Clients;
use epochcost_aws::reports::{Reports, Search, collect};
use jiff::Timestamp;

use super::start;

const GROUP: &str = "/aws/lambda/epochcost-0000000000aa-worker";

async fn put(logs: &aws_sdk_cloudwatchlogs::Client, stream: &str, lines: &[String]) {
    let create = logs.create_log_stream().log_group_name(GROUP);
    create.log_stream_name(stream).send().await.unwrap();
    let now = Timestamp::now().as_millisecond();
    let event = |line| InputLogEvent::builder().timestamp(now).message(line);
    let events = lines.iter().map(|line| event(line).build().unwrap());
    let put = logs.put_log_events().log_group_name(GROUP);
    let put = put
        .log_stream_name(stream)
        .set_log_events(Some(events.collect()));
    put.send().await.unwrap();
}

fn report(id: usize) -> String {
    format!("REPORT RequestId: id-{id:03}\tDuration: {id}.00 ms\tBilled Duration: {id} ms\t")
}

async fn search(clients: &Clients, expected: &BTreeSet<String>, timeout_ms: u64) -> Reports {
    let search = Search {
        groups: &[GROUP.to_owned()],
        since: Timestamp::now() - Duration::from_secs(3600),
        timeout: Duration::from_millis(timeout_ms),
        interval: Duration::from_millis(50),
    };
    collect(clients, &search, expected).await.unwrap()
}

#[tokio::test]
async fn lines_are_waited_for_until_all_are_there_and_no_longer_than_agreed() {
    let Some(scene) = start().await else { return };
    let clients = scene.clients();
    let logs = aws_sdk_cloudwatchlogs::Client::new(&scene.config);
    let create = logs.create_log_group().log_group_name(GROUP);
    create.send().await.unwrap();
    let expected: BTreeSet<String> = (0..150).map(|id| format!("id-{id:03}")).collect();
    // Many streams, with other lines between, one of them delivered twice.
    let mut first: Vec<String> = (0..100).map(report).collect();
    first.push("START RequestId: id-100 Version: $LATEST".into());
    first.push(report(7));
    put(&logs, "one", &first).await;
    let partial = search(&clients, &expected, 0).await;
    assert_eq!((partial.lines.len(), partial.missing.len()), (100, 50));
    assert_eq!(partial.repeated, 1);
    // The rest appears during the wait.
    let late: Vec<String> = (100..150).map(report).collect();
    let deliver = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        put(&logs, "two", &late).await;
    };
    let (whole, ()) = tokio::join!(search(&clients, &expected, 60_000), deliver);
    assert!(whole.missing.is_empty());
    assert!(whole.coverage() >= 1.0);
    assert_eq!(whole.lines["id-149"], [report(149).trim_end()]);
}
