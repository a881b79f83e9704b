//! Waiting for other workers by polling, as all these systems do.

use std::borrow::Cow;
use std::time::Duration;

use epochcost_channels::{Payload, Queue, Traffic};

use crate::mechanics::transfers::in_turn;
use crate::{Pause, PollTarget, Polls, Result, SkippedPolls, Stage, SystemError, World};

/// The channels on which an awaited object will be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Channels of the exchange.
    Exchange,
    /// Channels for checkpoints and the like.
    State,
}

/// Interval, limit and concurrency of polls for objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollOptions {
    /// Time from the end of a poll to the start of the next.
    pub(crate) interval: Duration,
    /// Time limit; none: for ever.
    pub(crate) limit: Option<Duration>,
    /// Number of objects polled at once.
    pub(crate) at_once: usize,
}

/// A wait in progress: poll, pause, poll again.
pub(crate) struct Waiting {
    what: Cow<'static, str>,
    interval: Duration,
    limit: Option<Duration>,
    since: Duration,
}

/// A poll by listing that is in progress.
pub(crate) struct ListingPoll {
    began: Duration,
    /// Listings that the worker had made when it began.
    lists: u64,
}

impl World {
    /// Begins to wait for `what`, with a poll every `interval` for at most `limit`. Of an object
    /// `what` is its kind: errors add its key.
    pub(crate) fn waiting(
        &self,
        what: impl Into<Cow<'static, str>>,
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

    /// Lets the time between two polls pass.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the limit is over.
    pub(crate) async fn pause(&self, waiting: &Waiting) -> Result<()> {
        let nothing = Duration::ZERO;
        self.pause_on(waiting, PollTarget::Other, nothing).await?;
        Ok(())
    }

    /// Begins a poll by listing: what is listed until the pause belongs to it.
    pub(crate) fn listing_poll(&self) -> ListingPoll {
        ListingPoll {
            began: self.clock.now(),
            lists: self.meters[0].objects.read().lists,
        }
    }

    /// Lets the time between two listings pass. `is_vain` states whether the poll
    /// found nothing that was awaited.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the limit is over.
    pub(crate) async fn pause_listing(
        &self,
        waiting: &Waiting,
        poll: ListingPoll,
        is_vain: bool,
    ) -> Result<()> {
        let requests = self.meters[0].objects.read().lists - poll.lists;
        self.pause(waiting).await?;
        if is_vain {
            let polls = Polls {
                requests,
                seconds: self.clock.now().saturating_sub(poll.began).as_secs_f64(),
                paused_s: waiting.interval.as_secs_f64(),
            };
            self.note_waits(|waits| waits.lists += polls);
        }
        Ok(())
    }

    /// Returns the polls of one pause: the one that began at `began`, and those that
    /// the clock skipped.
    fn polls(&self, waiting: &Waiting, began: Duration, skipped: SkippedPolls) -> Polls {
        let requests = 1 + skipped.count;
        let seconds = self.clock.now().saturating_sub(began + skipped.under_way);
        Polls {
            requests,
            seconds: seconds.as_secs_f64(),
            paused_s: requests as f64 * waiting.interval.as_secs_f64(),
        }
    }

    async fn pause_on(
        &self,
        waiting: &Waiting,
        target: PollTarget<'_>,
        poll: Duration,
    ) -> Result<SkippedPolls> {
        let waited = self.clock.now().saturating_sub(waiting.since);
        if waiting.limit.is_some_and(|limit| waited >= limit) {
            let what = match target {
                PollTarget::Object { key, .. } => format!("{} {key}", waiting.what),
                _ => waiting.what.to_string(),
            };
            return Err(SystemError::TimedOut { what, waited });
        }
        let pause = Pause {
            interval: waiting.interval,
            poll,
            at_most: waiting.polls_left(waited, poll),
            target,
        };
        Ok(self.clock.pause(&pause).await)
    }

    /// Gets an object that another worker will put, polling until it is there.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the wait's limit is over.
    pub(crate) async fn await_object(
        &mut self,
        purpose: Purpose,
        bucket: &str,
        key: &str,
        waiting: Waiting,
    ) -> Result<Payload> {
        self.enter(Stage::Get);
        let (body, paused) = self
            .poll_until_present(purpose, bucket, key, waiting)
            .await?;
        self.count_as_waiting(paused);
        Ok(body)
    }

    /// Gets gradients that other workers will put, in the order of `keys`.
    /// Where several are polled at once, time counts as waiting as long as the
    /// one that came last was awaited.
    ///
    /// # Errors
    /// [`SystemError::TimedOut`] once the limit of `options` is over.
    pub(crate) async fn await_gradients(
        &mut self,
        bucket: &str,
        keys: Vec<String>,
        options: PollOptions,
    ) -> Result<Vec<Payload>> {
        self.enter(Stage::Get);
        let (world, keys) = (&*self, keys.as_slice());
        let awaited = move |index: usize| async move {
            let key = &keys[index];
            let waiting = world.waiting("gradient", options.interval, options.limit);
            let (body, paused) = world
                .poll_until_present(Purpose::Exchange, bucket, key, waiting)
                .await?;
            Ok((body, world.clock.now(), paused))
        };
        let got = in_turn(options.at_once, keys.len(), awaited).await?;
        // One after another, every pause is felt; at once, those of the last.
        let paused = match options.at_once {
            0 | 1 => got.iter().map(|(_, _, paused)| *paused).sum(),
            _ => got
                .iter()
                .max_by_key(|(_, ended, _)| *ended)
                .map_or(Duration::ZERO, |(_, _, paused)| *paused),
        };
        self.count_as_waiting(paused);
        Ok(got.into_iter().map(|(body, _, _)| body).collect())
    }

    /// Moves `paused`, the time between polls, from the current stage, which is
    /// getting, to waiting.
    fn count_as_waiting(&mut self, paused: Duration) {
        self.enter(Stage::Get);
        let paused = paused.as_secs_f64();
        self.step.record.seconds.add(Stage::Get, -paused);
        self.step.record.seconds.add(Stage::Wait, paused);
    }

    /// Returns the object, once it is there, and the time between polls.
    async fn poll_until_present(
        &self,
        purpose: Purpose,
        bucket: &str,
        key: &str,
        waiting: Waiting,
    ) -> Result<(Payload, Duration)> {
        let (channels, meters) = match purpose {
            Purpose::Exchange => (&self.exchange, &self.meters[0]),
            Purpose::State => (&self.state, &self.meters[2]),
        };
        let mut paused = Duration::ZERO;
        loop {
            let began = self.clock.now();
            if let Some(body) = channels.objects.get(bucket, key).await? {
                return Ok((body, paused));
            }
            let ended = self.clock.now();
            let poll = ended.saturating_sub(began);
            let target = PollTarget::Object { bucket, key };
            let skipped = self.pause_on(&waiting, target, poll).await?;
            let noted = self.polls(&waiting, began, skipped);
            self.note_waits(|waits| waits.gets += noted);
            let polls = u32::try_from(skipped.count).unwrap_or(u32::MAX);
            let polling = poll.saturating_mul(polls) + skipped.under_way;
            paused += self.clock.now().saturating_sub(ended + polling);
            meters.objects.add(Traffic {
                missed_gets: skipped.count,
                ..Traffic::default()
            });
        }
    }

    /// Polls the number of messages in a queue of the exchange until `is_open`
    /// accepts it, which it does at `awaited` or never.
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
            let poll = self.clock.now().saturating_sub(began);
            let target = PollTarget::Messages { queue, awaited };
            let skipped = self.pause_on(&waiting, target, poll).await?;
            let noted = self.polls(&waiting, began, skipped);
            self.note_waits(|waits| waits.counts += noted);
            self.meters[0].queue.add(Traffic {
                polls: skipped.count,
                ..Traffic::default()
            });
        }
    }
}

/// Time limit of one request for a message.
const SLICE: Duration = Duration::from_secs(1);

/// Takes the next message of the queue `name`, without a time limit.
pub(crate) async fn next_message(queue: &Queue, name: &str) -> Result<Payload> {
    loop {
        if let Some(payload) = queue.consume(name, SLICE).await? {
            return Ok(payload);
        }
    }
}

impl Waiting {
    /// Returns the number of further polls that end before the limit is over.
    fn polls_left(&self, waited: Duration, poll: Duration) -> u64 {
        let period = (self.interval + poll).as_nanos();
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

    /// Polls are skipped only while a poll made in their place would have been
    /// followed by a pause, and not by the time limit.
    #[test]
    fn the_limit_ends_with_the_same_poll() {
        let second = Duration::from_secs(1);
        let waiting = |limit| Waiting {
            what: "".into(),
            interval: second,
            limit,
            since: Duration::ZERO,
        };
        assert_eq!(waiting(None).polls_left(second, second), u64::MAX);
        // Pauses begin at 1, 3, 5, 7 and 9 s: the one at 9 s is over the limit.
        let eight = waiting(Some(8 * second));
        assert_eq!(eight.polls_left(second, second), 3);
        assert_eq!(eight.polls_left(7 * second, second), 0);
        // The pause at 9 s is over a limit of exactly that, too.
        assert_eq!(waiting(Some(9 * second)).polls_left(second, second), 3);
        assert_eq!(eight.polls_left(9 * second, second), 0);
    }
}
