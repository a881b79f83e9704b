//! The same requests to an object store directly and through server and client must leave and answer the
//! same.

use std::sync::Arc;

use epochcost_channels::client::S3Objects;
use epochcost_channels::embedded::ObjectServer;
use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{Channel, ChannelError, ObjectCommand, Reply, Result};
use proptest::collection::vec;
use proptest::prelude::*;

/// Outcome of a request; the reason of a refusal is not compared, nor what a PUT replaced, which S3
/// does not say.
fn outcome(command: &ObjectCommand, result: Result<Reply>) -> String {
    match result {
        Ok(Reply::Removed(_)) if matches!(command, ObjectCommand::Put { .. }) => "put".to_owned(),
        Ok(reply) => format!("{reply:?}"),
        Err(ChannelError::Unreachable { reason, .. }) => panic!("connection lost: {reason}"),
        Err(_) => "refused".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn object_requests_do_the_same_over_the_wire(
        requests in vec(("[bp]", "(a|b c|d\\+é|%41)(/(&<|\"'>))?", 0_u8..6, vec(any::<u8>(), 0..20),
            0_u64..8, 0_u64..24), 1..60),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let direct = MemoryObjects::default();
            let server = ObjectServer::start(Arc::default()).await.unwrap();
            let client = S3Objects::new(server.endpoint().parse().unwrap());
            for (bucket, key, kind, body, start, end) in requests {
                let command = match kind {
                    0 | 1 => ObjectCommand::Put { bucket, key, body: body.into() },
                    2 => ObjectCommand::Get { bucket, key, range: None },
                    3 => ObjectCommand::Get { bucket, key, range: Some(start..end) },
                    4 => ObjectCommand::Delete { bucket, keys: vec![key] },
                    _ => ObjectCommand::List { bucket, prefix: key[..1].into(), after: None },
                };
                let here = outcome(&command, direct.run(command.clone()).await);
                let there = outcome(&command, client.run(command.clone()).await);
                assert_eq!(here, there, "{command:?}");
            }
        });
    }
}
