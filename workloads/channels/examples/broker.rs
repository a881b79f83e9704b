//! Measures how long requests to a RabbitMQ take, and prints their means and quantiles as JSON:
//!
//! ```text
//! cargo run --release -p epochcost-channels --example broker -- [REQUESTS [amqp://USER:PASSWORD@HOST]]
//! ```
//!
//! Without an address it starts a broker on this machine, of which it is then the only client.
//! Requests are made one after another, each a pause after the one before: `publish` until the broker
//! has confirmed a message, `peek` until the message at the head of a queue is read and put back, `count`, and
//! `deliver` from the beginning of a publish until a consumer that waits on a connection of its own has
//! the message.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use epochcost_channels::client::RabbitQueue;
use epochcost_channels::{Payload, Queue};
use epochcost_servers::RabbitMq;
use serde_json::{Value, json};

const BYTES: [usize; 2] = [1_000, 100_000];
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];
const QUANTILES: [f64; 13] = [
    0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0,
];
/// Requests before those that count.
const WARM_UP: usize = 500;
const QUEUE: &str = "epochcost-broker";
const WAIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
enum Operation {
    Publish,
    Peek,
    Count,
    Deliver,
}

impl Operation {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Publish, "publish"),
        (Self::Peek, "peek"),
        (Self::Count, "count"),
        (Self::Deliver, "deliver"),
    ];
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .skip(1);
    let requests: usize = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let broker = match arguments.next() {
        Some(endpoint) => Err(endpoint),
        None => Ok(RabbitMq::start()?),
    };
    let endpoint = broker.as_ref().map_or_else(Clone::clone, RabbitMq::url);
    let queue = Queue::new(Arc::new(RabbitQueue::connect(endpoint.parse()?).await?));
    let consumer = Queue::new(Arc::new(RabbitQueue::connect(endpoint.parse()?).await?));
    let mut rows = Vec::new();
    for bytes in BYTES {
        for pause in PAUSES {
            for (operation, name) in Operation::ALL {
                let mut seconds = Vec::with_capacity(requests);
                for request in 0..WARM_UP + requests {
                    let taken = time(operation, &queue, &consumer, bytes).await?;
                    if request >= WARM_UP {
                        seconds.push(taken.as_secs_f64());
                    }
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
                let of = json!({"operation": name, "bytes": bytes, "pause_s": pause.as_secs_f64()});
                rows.push(row(of, seconds));
            }
        }
    }
    let version = broker.as_ref().ok().and_then(RabbitMq::version);
    println!("{}", json!({"rabbitmq": version, "rows": rows}));
    Ok(())
}

/// Times one request. The queue is empty before and after.
async fn time(
    operation: Operation,
    queue: &Queue,
    consumer: &Queue,
    bytes: usize,
) -> Result<Duration, Box<dyn Error>> {
    let message = || Payload::from(vec![7_u8; bytes]);
    let empty = async || queue.purge(QUEUE).await;
    if let Operation::Deliver = operation {
        queue.purge(QUEUE).await?;
        let sending = async {
            // Long enough for the consumer to be known to the broker.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let began = Instant::now();
            queue.publish(QUEUE, message()).await?;
            Ok::<_, Box<dyn Error>>(began)
        };
        let receiving = async {
            let message = consumer.consume(QUEUE, WAIT).await?;
            message
                .map(|_| Instant::now())
                .ok_or_else(|| "no message arrived".into())
        };
        let (began, ended): (_, Result<Instant, Box<dyn Error>>) =
            futures_util::join!(sending, receiving);
        return Ok(ended?.duration_since(began?));
    }
    queue.publish(QUEUE, message()).await?;
    let began = Instant::now();
    match operation {
        Operation::Publish => queue.publish(QUEUE, message()).await?,
        Operation::Peek => drop(queue.peek(QUEUE).await?),
        Operation::Count => drop(queue.count(QUEUE).await?),
        Operation::Deliver => {}
    }
    let taken = began.elapsed();
    empty().await?;
    Ok(taken)
}

/// Returns the mean and quantiles of `seconds`, beside what they are of.
fn row(of: Value, mut seconds: Vec<f64>) -> Value {
    seconds.sort_by(f64::total_cmp);
    let last = seconds.len().saturating_sub(1);
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let quantiles = QUANTILES.map(|share| {
        let place = (share * last as f64).round() as usize;
        [share, seconds.get(place).copied().unwrap_or(f64::NAN)]
    });
    json!({"of": of, "n": seconds.len(), "mean_s": mean, "quantiles_s": quantiles})
}
