//! Habits of the published code that several systems share.

use epochcost_channels::Payload;

use crate::{Result, World};

const LOG_BUCKET: &str = "cnn-logs";

/// Writes a log line as the comparison paper's code does: the whole log object
/// is read from the store, grown by a line and written again.
pub(crate) async fn log_line(world: &World, text: &str) -> Result<()> {
    let key = format!("log_{}.txt", world.rank());
    let line = format!("worker {}: {text}\n", world.rank());
    let before = world.state.objects.get(LOG_BUCKET, &key).await?;
    let after = match before {
        None => Payload::from(line.into_bytes()),
        Some(phantom @ (Payload::Phantom { .. } | Payload::Headed { .. })) => Payload::Phantom {
            bytes: phantom.len() + line.len() as u64,
        },
        Some(Payload::Bytes(bytes)) => {
            let mut log = bytes.to_vec();
            log.extend_from_slice(line.as_bytes());
            log.into()
        }
    };
    world.state.objects.put(LOG_BUCKET, &key, after).await?;
    Ok(())
}
