//! Waiting for others by looking again and again, as all these systems do.

use std::time::Duration;

use epochcost_channels::{Payload, Queue, Traffic};

use crate::mechanics::transfers::in_turn;
use crate::{LeftOut, Pause, Result, Stage, SystemError, Watched, World};

/// Where an awaited object is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// On the exchange's channels.
    Exchange,
    /// On the channels for checkpoints and the like.
    State,
}

/// How objects are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// From the end of a look to the start of the next.
    pub(crate) interval: Duration,
    /// For how long; without one, for ever.
    pub(crate) limit: Option<Duration>,
    /// How many may be looked for at once.
    pub(crate) at_once: usize,
}

/// A wait in progress: look, pause, look again.
pub(crate) struct Waiting {
    what: String,
    interval: Duration,
    limit: Option<Duration>,
    since: Duration,
}

impl World {
    /// Begins to wait for `what`, looking every `interval` for at most `limit`.
    pub(crate) fn waiting(
        &self,
        what: impl Into<String>,
        interval: Duration,
        limit: Option<Duration>,
    ) -> Waiting {
        Waiting {
            what: what.into(),
            interval,
            limit,
            since: self.clock.now(),
        }
    }

    /// Lets the time between two looks pass.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the limit is over.
    pub(crate) async fn pause(&self, waiting: &Waiting) -> Result<()> {
        let nothing = Duration::ZERO;
        self.pause_on(waiting, Watched::Other, nothing).await?;
        Ok(())
    }

    async fn pause_on(
        &self,
        waiting: &Waiting,
        watched: Watched<'_>,
        look: Duration,
    ) -> Result<LeftOut> {
        let waited = self.clock.now().saturating_sub(waiting.since);
        if waiting.limit.is_some_and(|limit| waited >= limit) {
            return Err(SystemError::TimedOut {
                what: waiting.what.clone(),
                waited,
            });
        }
        let pause = Pause {
            interval: waiting.interval,
            look,
            at_most: waiting.looks_left(waited, look),
            watched,
        };
        Ok(self.clock.pause(&pause).await)
    }

    /// Gets an object that another worker will put, looking until it is there.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the wait's limit is over.
    pub(crate) async fn await_object(
        &mut self,
        place: Place,
        bucket: &str,
        key: &str,
        waiting: Waiting,
    ) -> Result<Payload> {
        self.enter(Stage::Get);
        let (body, paused) = self.look_until_there(place, bucket, key, waiting).await?;
        self.count_as_waiting(paused);
        Ok(body)
    }

    /// Gets gradients that other workers will put, in the order of `keys`.
    /// Where several are looked for at once, time counts as waiting as long as
    /// the one that came last was waited for.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the limit of `looks` is over.
    pub(crate) async fn await_gradients(
        &mut self,
        bucket: &str,
        keys: Vec<String>,
        looks: Looks,
    ) -> Result<Vec<Payload>> {
        self.enter(Stage::Get);
        let (world, keys) = (&*self, keys.as_slice());
        let awaited = move |index: usize| async move {
            let key = &keys[index];
            let waiting = world.waiting(format!("gradient {key}"), looks.interval, looks.limit);
            let (body, paused) = world
                .look_until_there(Place::Exchange, bucket, key, waiting)
                .await?;
            Ok((body, world.clock.now(), paused))
        };
        let got = in_turn(looks.at_once, keys.len(), awaited).await?;
        // One after another, every pause is felt; at once, those of the last.
        let paused = match looks.at_once {
            0 | 1 => got.iter().map(|(_, _, paused)| *paused).sum(),
            _ => got
                .iter()
                .max_by_key(|(_, ended, _)| *ended)
                .map_or(Duration::ZERO, |(_, _, paused)| *paused),
        };
        self.count_as_waiting(paused);
        Ok(got.into_iter().map(|(body, _, _)| body).collect())
    }

    /// Of the time since the current stage, getting, was entered: how much was
    /// spent between looks.
    fn count_as_waiting(&mut self, paused: Duration) {
        self.enter(Stage::Get);
        let paused = paused.as_secs_f64();
        self.step.seconds.add(Stage::Get, -paused);
        self.step.seconds.add(Stage::Wait, paused);
    }

    /// The object, once it is there, and the time between looks.
    async fn look_until_there(
        &self,
        place: Place,
        bucket: &str,
        key: &str,
        waiting: Waiting,
    ) -> Result<(Payload, Duration)> {
        let (channels, meters) = match place {
            Place::Exchange => (&self.exchange, &self.meters[0]),
            Place::State => (&self.state, &self.meters[2]),
        };
        let mut paused = Duration::ZERO;
        loop {
            let began = self.clock.now();
            if let Some(body) = channels.objects.get(bucket, key).await? {
                return Ok((body, paused));
            }
            let looked = self.clock.now();
            let look = looked.saturating_sub(began);
            let watched = Watched::Object { bucket, key };
            let left_out = self.pause_on(&waiting, watched, look).await?;
            let looks = u32::try_from(left_out.looks).unwrap_or(u32::MAX);
            let looking = look.saturating_mul(looks) + left_out.under_way;
            paused += self.clock.now().saturating_sub(looked + looking);
            meters.objects.add(Traffic {
                missed_gets: left_out.looks,
                ..Traffic::default()
            });
        }
    }

    /// Looks at how many messages are in a queue of the exchange until
    /// `is_open` likes the number, which it does at `awaited` or never.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the wait's limit is over.
    pub(crate) async fn await_messages(
        &self,
        queue: &str,
        awaited: u64,
        is_open: impl Fn(u64) -> bool + Send,
        waiting: Waiting,
    ) -> Result<()> {
        loop {
            let began = self.clock.now();
            if is_open(self.exchange.queue.count(queue).await?) {
                return Ok(());
            }
            let look = self.clock.now().saturating_sub(began);
            let watched = Watched::Messages { queue, awaited };
            let left_out = self.pause_on(&waiting, watched, look).await?;
            self.meters[0].queue.add(Traffic {
                polls: left_out.looks,
                ..Traffic::default()
            });
        }
    }
}

/// How long one request for a message may stay open.
const SLICE: Duration = Duration::from_secs(1);

/// The next message of `name`, however long it takes.
pub(crate) async fn next_message(queue: &dyn Queue, name: &str) -> Result<Payload> {
    loop {
        if let Some(payload) = queue.consume(name, SLICE).await? {
            return Ok(payload);
        }
    }
}

impl Waiting {
    /// How many further looks end before the limit is over.
    fn looks_left(&self, waited: Duration, look: Duration) -> u64 {
        let period = (self.interval + look).as_nanos();
        match self.limit {
            None => u64::MAX,
            Some(_) if period == 0 => 0,
            Some(limit) => {
                let left = limit.saturating_sub(waited).as_nanos();
                u64::try_from(left.div_ceil(period).saturating_sub(1)).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks are left out only while a look made in their place would have
    /// been followed by a pause, and not by the end of patience.
    #[test]
    fn patience_ends_with_the_same_look() {
        let second = Duration::from_secs(1);
        let waiting = |limit| Waiting {
            what: String::new(),
            interval: second,
            limit,
            since: Duration::ZERO,
        };
        assert_eq!(waiting(None).looks_left(second, second), u64::MAX);
        // Pauses begin at 1, 3, 5, 7 and 9 s: the one at 9 s is over the limit.
        let eight = waiting(Some(8 * second));
        assert_eq!(eight.looks_left(second, second), 3);
        assert_eq!(eight.looks_left(7 * second, second), 0);
        // The pause at 9 s is over a limit of exactly that, too.
        assert_eq!(waiting(Some(9 * second)).looks_left(second, second), 3);
        assert_eq!(eight.looks_left(9 * second, second), 0);
    }
}
