//! Carrying out an operation: in place, at once, or on the background thread.

use std::sync::Arc;

use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce::add_assign_bytes;
use epochcost_tensor_commands::{CommandError, Inputs, Operation, OperationKind, Outputs, SgdStep};
use redis_module::{Context, ContextFlags, RedisString, RedisValue};

use crate::background::COMPUTE;
use crate::blocked::{Blocked, Locked, may_wait};
use crate::keyspace::{Found, Keyspace, compute};
use crate::tensor::{KeptString, Tensor};

/// Work below this, in bytes moved, is done at once: it takes 0.1 ms or so,
/// less than a client waits for another thread.
const SHORT_BYTES: usize = 1 << 20;
/// A tensor that is changed where it lies is changed on Redis' own thread, which
/// answers no other client meanwhile, if at most this many bytes are moved: 10 to 15 ms.
const IN_PLACE_BYTES: usize = 256 << 20;
/// Attempts to compute an operation anew because a client replaced what it
/// reads, before it is computed under Redis' lock.
const ATTEMPTS: usize = 3;

/// A command that writes one tensor, and all that it needs.
pub(crate) struct Write {
    pub(crate) command: &'static str,
    pub(crate) operation: Operation,
    /// The value that came with the command.
    pub(crate) sent: Option<Arc<Tensor>>,
}

/// The reply of a command that was carried out.
pub(crate) const OK: RedisValue = RedisValue::SimpleStringStatic("OK");

impl Write {
    /// Carries the command out for the client of `context`; without a reply if that comes later.
    pub(crate) fn run(
        self,
        context: &Context,
        arguments: &[RedisString],
    ) -> Result<RedisValue, CommandError> {
        let keys = Keyspace(context);
        let inputs = self.read(&keys)?;
        let long = work_bytes(self.operation.kind, &inputs) > SHORT_BYTES;
        // A string has to be copied under the lock anyway.
        if !long || inputs.all().any(|value| value.is_text) {
            return self.at_once(context, &inputs);
        }
        let may_wait = may_wait(context);
        let limit = if may_wait { IN_PLACE_BYTES } else { usize::MAX };
        if moved_bytes(&inputs) <= limit && self.in_place(&keys, inputs) {
            self.finish_here(context);
            Ok(OK)
        } else if may_wait {
            self.wait(context, arguments);
            Ok(RedisValue::NoReply)
        } else {
            self.at_once(context, &self.read(&keys)?)
        }
    }

    fn read(&self, keys: &Keyspace) -> Result<Inputs<Found>, CommandError> {
        keys.read(&self.operation, self.sent.as_ref())
    }

    /// Computes on Redis' own thread.
    fn at_once(
        &self,
        context: &Context,
        inputs: &Inputs<Found>,
    ) -> Result<RedisValue, CommandError> {
        let outputs = compute(&self.operation, inputs)?;
        Keyspace(context).write(&self.operation, inputs, outputs);
        self.finish_here(context);
        Ok(OK)
    }

    fn finish_here(&self, context: &Context) {
        Keyspace(context).notify(self.command, &self.operation.target);
        context.replicate_verbatim();
    }

    /// Changes the target where it lies. False, with nothing changed, if that
    /// cannot be: another command reads it, it is no vector, or lengths differ.
    fn in_place(&self, keys: &Keyspace, inputs: Inputs<Found>) -> bool {
        let length = inputs.sources.first().map_or(0, |s| s.bytes().len());
        let same = inputs.all().all(|value| value.bytes().len() == length);
        if !same || length == 0 || !length.is_multiple_of(4) {
            return false;
        }
        // The keys' own references must be the only ones to what is changed.
        let Inputs {
            sources,
            target,
            velocity,
        } = inputs;
        let (has_target, has_velocity) = (target.is_some(), velocity.is_some());
        drop((target, velocity));
        let sources: Vec<_> = sources.iter().map(Found::bytes).collect();
        let target = self.operation.target.as_str();
        match self.operation.kind {
            OperationKind::Accumulate if has_target => {
                let add = |sum: &mut Vec<f32>| add_assign_bytes(sum, sources[0]);
                matches!(keys.edit(target, add), Some(Ok(())))
            }
            OperationKind::Accumulate => {
                keys.put(target, Arc::new(Tensor::copied(sources[0])));
                true
            }
            OperationKind::Step(step) => self.step_in_place(keys, &sources, step, has_velocity),
            _ => false,
        }
    }

    fn step_in_place(
        &self,
        keys: &Keyspace,
        sources: &[&[u8]],
        step: SgdStep,
        has_velocity: bool,
    ) -> bool {
        let take_step = |parameters: &mut Vec<f32>, velocity: &mut Vec<f32>| {
            mean_sgd_step_bytes(&Sgd::from(step), parameters, sources, velocity)
        };
        let target = self.operation.target.as_str();
        let Some(velocity_key) = self.operation.velocity_key() else {
            let stepped = keys.edit(target, |w| take_step(w, &mut Vec::new()));
            return matches!(stepped, Some(Ok(())));
        };
        if !has_velocity {
            let mut velocity = Vec::new();
            let stepped = keys.edit(target, |w| take_step(w, &mut velocity));
            if !matches!(stepped, Some(Ok(()))) {
                return false;
            }
            keys.put(&velocity_key, Arc::new(velocity.into()));
            return true;
        }
        // Out of its key and back, so that one key is open at a time.
        let Some(mut velocity) = keys.edit(&velocity_key, std::mem::take) else {
            return false;
        };
        let stepped = keys.edit(target, |w| take_step(w, &mut velocity));
        keys.edit(&velocity_key, |slot| *slot = velocity);
        matches!(stepped, Some(Ok(())))
    }

    /// Hands the command to the background thread.
    fn wait(self, context: &Context, arguments: &[RedisString]) {
        let arguments: Vec<_> = arguments.iter().map(KeptString::new).collect();
        COMPUTE.run(Blocked::new(context), move |client| {
            client.done(self.in_background(client, &arguments));
        });
    }

    /// Computes without the lock, and writes the result if what was read is
    /// still there: so the command takes effect at one moment, with the values
    /// of that moment, and a replica that repeats it then gets the same bits.
    fn in_background(
        &self,
        client: &Blocked,
        arguments: &[KeptString],
    ) -> Result<(), CommandError> {
        let mut inputs = self.read(&Keyspace(&client.lock()))?;
        for _ in 0..ATTEMPTS {
            let computed = compute(&self.operation, &inputs);
            let locked = client.lock_for_writing();
            let now = self.read(&Keyspace(&locked))?;
            if unchanged(&inputs, &now) {
                return self.finish_there(&locked, &inputs, computed?, arguments);
            }
            inputs = now;
        }
        let locked = client.lock_for_writing();
        let inputs = self.read(&Keyspace(&locked))?;
        let computed = compute(&self.operation, &inputs)?;
        self.finish_there(&locked, &inputs, computed, arguments)
    }

    fn finish_there(
        &self,
        locked: &Locked,
        inputs: &Inputs<Found>,
        outputs: Outputs,
        arguments: &[KeptString],
    ) -> Result<(), CommandError> {
        // The server may have become a replica of another one meanwhile.
        if locked.get_flags().contains(ContextFlags::READONLY) {
            return Err(CommandError::ReadOnly);
        }
        let keys = Keyspace(locked);
        keys.write(&self.operation, inputs, outputs);
        keys.notify(self.command, &self.operation.target);
        let words: Vec<_> = arguments.iter().map(KeptString::redis_string).collect();
        let words: Vec<_> = words.iter().collect();
        locked.replicate(self.command, words.as_slice());
        Ok(())
    }
}

fn unchanged(before: &Inputs<Found>, now: &Inputs<Found>) -> bool {
    let same = |a: Option<&Found>, b: Option<&Found>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is(b),
        _ => false,
    };
    // Sources are as many as the command names.
    let sources = before.sources.iter().zip(&now.sources);
    sources.into_iter().all(|(a, b)| a.is(b))
        && same(before.target.as_ref(), now.target.as_ref())
        && same(before.velocity.as_ref(), now.velocity.as_ref())
}

/// Bytes read and written by an operation in place.
fn moved_bytes(inputs: &Inputs<Found>) -> usize {
    let read: usize = inputs.all().map(|value| value.bytes().len()).sum();
    let changed = inputs.target.iter().chain(&inputs.velocity);
    read + changed.map(|value| value.bytes().len()).sum::<usize>()
}

/// Returns the cost of an operation, in bytes moved: robust rules compare every
/// pair of sources.
fn work_bytes(kind: OperationKind, inputs: &Inputs<Found>) -> usize {
    let count = inputs.sources.len();
    match kind {
        OperationKind::Robust(_) => {
            let longest = inputs.sources.iter().map(|s| s.bytes().len()).max();
            let pairs = count.saturating_mul(count);
            // Sorting and scores cost about as much as 64 bytes a pair.
            pairs.saturating_mul(longest.unwrap_or(0).saturating_add(64))
        }
        _ => moved_bytes(inputs),
    }
}
