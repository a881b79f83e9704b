//! What a command's arrival sets off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use epochcost_kernels::codec::{element_count, json_mean};
use epochcost_tensor_commands::{CommandError, TensorCommand, positions_of_keys};
use redis_module::{Context, RedisError, RedisResult, RedisString, RedisValue, Status};

use crate::background::{COMPUTE, REPLY};
use crate::blocked::{Blocked, may_wait, reply_blob, reply_error};
use crate::keyspace::Keyspace;
use crate::operate::{OK, Write};
use crate::server;
use crate::tensor::{Tensor, give_back_strings, mark_main_thread};

/// Replies of at least this many bytes are put together on another thread.
const LARGE_REPLY_BYTES: usize = 1 << 20;
/// JSON texts of at least this many bytes are read on another thread.
const LONG_JSON_BYTES: usize = 16 << 10;

/// Called once, when the module is loaded.
pub(crate) fn load(context: &Context, _arguments: &[RedisString]) -> Status {
    mark_main_thread();
    let started = COMPUTE
        .start("ec-compute")
        .and_then(|()| REPLY.start("ec-reply"));
    if let Err(error) = started {
        context.log_warning(&format!("failed to start a thread: {error}"));
        return Status::Err;
    }
    server::prepare(context)
}

/// An argument, as bytes.
struct Word<'a>(&'a RedisString);

impl AsRef<[u8]> for Word<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Carries out `command`, whatever the server calls it.
pub(crate) fn handle(
    command: &'static str,
    context: &Context,
    words: Vec<RedisString>,
) -> RedisResult {
    let arguments = words.get(1..).unwrap_or_default();
    catch_unwind(AssertUnwindSafe(|| {
        if context.is_keys_position_request() {
            report_keys(command, context, arguments);
            return Ok(RedisValue::NoReply);
        }
        give_back_strings();
        Ok(
            execute(command, context, arguments).unwrap_or_else(|error| {
                reply_error(context.get_raw(), &error.line());
                RedisValue::NoReply
            }),
        )
    }))
    .unwrap_or(Err(RedisError::Str(
        "ERR internal error: see the server's log",
    )))
}

fn report_keys(command: &str, context: &Context, arguments: &[RedisString]) {
    let words: Vec<_> = arguments.iter().map(Word).collect();
    for position in positions_of_keys(command, &words) {
        if let Ok(position) = i32::try_from(position + 1) {
            context.key_at_pos(position);
        }
    }
}

fn execute(
    command: &'static str,
    context: &Context,
    arguments: &[RedisString],
) -> Result<RedisValue, CommandError> {
    let words: Vec<_> = arguments.iter().map(Word).collect();
    let keys = Keyspace(context);
    match TensorCommand::parse(command, &words, |word| word.0)? {
        TensorCommand::Set { key, value } => {
            keys.put(&key, Arc::new(Tensor::sent(value)));
            keys.notify(command, &key);
            context.replicate_verbatim();
            Ok(OK)
        }
        TensorCommand::Get { key } => Ok(match keys.find(&key)? {
            Some(found) => {
                let length = found.bytes().len();
                answer(context, found.tensor, 0, length)
            }
            None => RedisValue::Null,
        }),
        TensorCommand::GetRange { key, elements } => Ok(match keys.find(&key)? {
            Some(found) => {
                let length = element_count(found.bytes())? as u64;
                if elements.end > length {
                    return Err(CommandError::OutOfRange { elements: length });
                }
                // Both fit: they are within a value in memory.
                let (start, count) = (elements.start, elements.end - elements.start);
                answer(
                    context,
                    found.tensor,
                    4 * start as usize,
                    4 * count as usize,
                )
            }
            None => RedisValue::Null,
        }),
        TensorCommand::Compute { operation, sent } => {
            // A copy: a thread may read it while Redis trims the argument, at the end of this command.
            let sent = sent.map(|value| Arc::new(Tensor::copied(value.as_slice())));
            Write {
                command,
                operation,
                sent,
            }
            .run(context, arguments)
        }
        TensorCommand::JsonMean { key, count } => mean_of_json(context, keys.items(&key, count)?),
        // Redis carries these out itself.
        TensorCommand::Push { .. } | TensorCommand::Delete { .. } | TensorCommand::Ping => {
            Err(CommandError::unknown(command))
        }
    }
}

/// Answers with bytes of a value.
fn answer(context: &Context, tensor: Arc<Tensor>, start: usize, length: usize) -> RedisValue {
    let part = start..start + length;
    if length >= LARGE_REPLY_BYTES && may_wait(context) {
        REPLY.run(Blocked::new(context), move |client| {
            client.blob(&(*tensor).as_ref()[part]);
        });
    } else {
        reply_blob(context.get_raw(), &(*tensor).as_ref()[part]);
    }
    RedisValue::NoReply
}

fn mean_of_json(context: &Context, texts: Vec<Vec<u8>>) -> Result<RedisValue, CommandError> {
    let mean = |texts: &[Vec<u8>]| {
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        json_mean(&texts).map_err(CommandError::from)
    };
    let bytes: usize = texts.iter().map(Vec::len).sum();
    if bytes < LONG_JSON_BYTES || !may_wait(context) {
        return mean(&texts).map(RedisValue::StringBuffer);
    }
    COMPUTE.run(Blocked::new(context), move |client| match mean(&texts) {
        Ok(text) => client.blob(&text),
        Err(error) => client.error(&error.line()),
    });
    Ok(RedisValue::NoReply)
}
