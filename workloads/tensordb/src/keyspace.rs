//! Keys and what they hold.

use std::sync::Arc;

use epochcost_kernels::KernelError;
use epochcost_tensor_commands::{CommandError, Inputs, Operation, Outputs, Written};
use redis_module::key::RedisKeyWritable;
use redis_module::raw::{KeyType, NotifyEvent};
use redis_module::{CallOptions, CallOptionsBuilder, CallReply, CallResult, Context, RedisString};

use crate::kind::TENSOR;
use crate::tensor::Tensor;

/// The keys of the selected database, under Redis' lock.
pub(crate) struct Keyspace<'c>(pub(crate) &'c Context);

/// A value as it was found.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) tensor: Arc<Tensor>,
    /// A string of Redis' own, copied: it cannot be seen whether it changed.
    pub(crate) is_text: bool,
}

impl Found {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.tensor.as_ref().as_ref()
    }

    /// Returns whether the other is the same value, not only an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        !self.is_text && !other.is_text && Arc::ptr_eq(&self.tensor, &other.tensor)
    }
}

impl Keyspace<'_> {
    /// The tensor, or the string, at `key`.
    ///
    /// One key is open at a time: reading a small string may move it.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Found>, CommandError> {
        let name = self.name(key);
        let opened = self.0.open_key(&name);
        match opened.key_type() {
            KeyType::Empty => Ok(None),
            KeyType::String => {
                drop(opened);
                let tensor = Tensor::copied(&self.text(&name)?);
                Ok(Some(Found {
                    tensor: Arc::new(tensor),
                    is_text: true,
                }))
            }
            KeyType::Module => match opened.get_value::<Arc<Tensor>>(&TENSOR) {
                Ok(value) => Ok(value.map(|tensor| Found {
                    tensor: Arc::clone(tensor),
                    is_text: false,
                })),
                Err(_) => Err(CommandError::WrongType),
            },
            _ => Err(CommandError::WrongType),
        }
    }

    /// Returns everything that `operation` reads, all at this moment.
    pub(crate) fn read(
        &self,
        operation: &Operation,
        sent: Option<&Arc<Tensor>>,
    ) -> Result<Inputs<Found>, CommandError> {
        let sent = sent.map(|tensor| Found {
            tensor: Arc::clone(tensor),
            is_text: false,
        });
        let missing = |key: &str| CommandError::Missing { key: key.into() };
        operation.read(sent, |key| self.find(key), missing)
    }

    /// The first `count` items of the list at `key`.
    pub(crate) fn items(&self, key: &str, count: u64) -> Result<Vec<Vec<u8>>, CommandError> {
        let name = self.name(key);
        match self.0.open_key(&name).key_type() {
            KeyType::List => {}
            KeyType::Empty => return Err(CommandError::Missing { key: key.into() }),
            _ => return Err(CommandError::WrongType),
        }
        let Some(last) = count.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let last = self.name(&i64::try_from(last).unwrap_or(i64::MAX).to_string());
        let reply = self.call("LRANGE", &[&name, &self.name("0"), &last]);
        match reply {
            Ok(CallReply::Array(items)) => Ok(items.iter().map(bytes).collect()),
            _ => Err(CommandError::WrongType),
        }
    }

    /// Stores a tensor over anything that was there; it does not expire.
    pub(crate) fn put(&self, key: &str, tensor: Arc<Tensor>) {
        let name = self.name(key);
        let opened = self.0.open_key_writable(&name);
        if opened.key_type() != KeyType::Empty {
            // Cannot fail: the key is open for writing.
            let _ = opened.delete();
        }
        // Cannot fail: the key is open for writing, and empty.
        let _ = opened.set_value(&TENSOR, tensor);
    }

    /// Stores a tensor in place of another, which keeps its expiry, or else as
    /// [`put`](Self::put) does.
    fn replace(&self, key: &str, tensor: Arc<Tensor>) {
        let name = self.name(key);
        {
            let opened = self.0.open_key_writable(&name);
            if let Some(slot) = slot(&opened) {
                *slot = tensor;
                return;
            }
        }
        self.put(key, tensor);
    }

    /// Calls `edit` on the elements of the tensor at `key` where they lie, if
    /// there is no other reader.
    pub(crate) fn edit<T>(&self, key: &str, edit: impl FnOnce(&mut Vec<f32>) -> T) -> Option<T> {
        let name = self.name(key);
        let opened = self.0.open_key_writable(&name);
        let floats = Arc::get_mut(slot(&opened)?)?.floats()?;
        Some(edit(floats))
    }

    /// Stores what an operation wrote.
    pub(crate) fn write(&self, operation: &Operation, inputs: &Inputs<Found>, outputs: Outputs) {
        let target = match outputs.target {
            Written::Vector(values) => Arc::new(values.into()),
            Written::Source(index) => Arc::clone(&inputs.sources[index].tensor),
        };
        if operation.reads_target() {
            self.replace(&operation.target, target);
        } else {
            self.put(&operation.target, target);
        }
        if let (Some(key), Some(velocity)) = (operation.velocity_key(), outputs.velocity) {
            self.replace(&key, Arc::new(velocity.into()));
        }
    }

    /// Tells subscribers that `command` wrote `key`.
    pub(crate) fn notify(&self, command: &str, key: &str) {
        let event = command.to_ascii_lowercase();
        self.0
            .notify_keyspace_event(NotifyEvent::MODULE, &event, &self.name(key));
    }

    /// Returns a string of Redis' own at `key`.
    ///
    /// By GET and not by direct access, which changes how Redis keeps a short
    /// string even when it only reads.
    fn text(&self, key: &RedisString) -> Result<Vec<u8>, CommandError> {
        match self.call("GET", &[key]) {
            Ok(reply @ CallReply::String(_)) => Ok(bytes(Ok(reply))),
            _ => Err(CommandError::WrongType),
        }
    }

    fn call(&self, command: &str, arguments: &[&RedisString]) -> CallResult<'static> {
        let options: CallOptions = CallOptionsBuilder::new().build();
        self.0.call_ext(command, &options, arguments)
    }

    /// Returns a string of Redis'; the crate's own constructor takes no zero
    /// bytes.
    fn name(&self, key: &str) -> RedisString {
        RedisString::create_from_slice(std::ptr::null_mut(), key.as_bytes())
    }
}

/// Returns the tensor of an open key; `None` if it holds none.
fn slot(opened: &RedisKeyWritable) -> Option<&mut Arc<Tensor>> {
    if opened.key_type() != KeyType::Module {
        return None;
    }
    opened.get_value(&TENSOR).ok().flatten()
}

fn bytes(reply: CallResult<'_>) -> Vec<u8> {
    match reply {
        Ok(CallReply::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The bytes of every input.
pub(crate) fn compute(
    operation: &Operation,
    inputs: &Inputs<Found>,
) -> Result<Outputs, KernelError> {
    let bytes = Inputs {
        sources: inputs.sources.iter().map(Found::bytes).collect(),
        target: inputs.target.as_ref().map(Found::bytes),
        velocity: inputs.velocity.as_ref().map(Found::bytes),
    };
    epochcost_tensor_commands::compute(operation.kind, &bytes)
}
