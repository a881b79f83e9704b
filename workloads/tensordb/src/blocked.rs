//! A client whose answer comes from another thread.
//!
//! The crate's own wrapper locks a context of database 0, whatever the client
//! selected, and copies every reply once more; so this one is ours.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::ops::Deref;
use std::ptr;
use std::thread;
use std::time::Duration;

use epochcost_tensor_commands::CommandError;
use redis_module::{Context, ContextFlags, raw};

use crate::api::api;

/// Polling interval while writing is paused.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A client that waits; it goes on when this is dropped.
pub(crate) struct Blocked {
    client: *mut raw::RedisModuleBlockedClient,
    context: *mut raw::RedisModuleCtx,
}

// SAFETY: Redis lends both pointers to other threads: the context for replies
// at any time, for everything else between lock and unlock.
unsafe impl Send for Blocked {}

/// Redis' lock, and the context of the client that waits.
pub(crate) struct Locked<'b> {
    blocked: &'b Blocked,
    context: Context,
}

/// Returns whether the client of `context` may wait: not in a transaction or
/// script, in a file that is replayed, or at the other end of a replication
/// link, where commands must have their effect in turn.
pub(crate) fn may_wait(context: &Context) -> bool {
    let flags = context.get_flags();
    !flags.intersects(
        ContextFlags::LUA
            | ContextFlags::MULTI
            | ContextFlags::DENY_BLOCKING
            | ContextFlags::REPLICATED
            | ContextFlags::LOADING,
    )
}

impl Blocked {
    /// Lets the client of `context` wait.
    pub(crate) fn new(context: &Context) -> Self {
        // SAFETY: called by a command handler, for its own client, which may
        // wait; without callbacks and without a time limit.
        let client =
            unsafe { api!(RedisModule_BlockClient)(context.get_raw(), None, None, None, 0) };
        // SAFETY: the client was just blocked; freed in `drop`.
        let context = unsafe { api!(RedisModule_GetThreadSafeContext)(client) };
        Self { client, context }
    }

    /// Waits for Redis' lock.
    pub(crate) fn lock(&self) -> Locked<'_> {
        // SAFETY: the context is alive, and this thread does not hold the lock:
        // only background threads call this, and `Locked` borrows `self`.
        unsafe { api!(RedisModule_ThreadSafeContextLock)(self.context) };
        Locked {
            blocked: self,
            context: Context::new(self.context),
        }
    }

    /// Waits for Redis' lock, and until writing is not paused: Redis stops if
    /// something is replicated during a failover or CLIENT PAUSE.
    pub(crate) fn lock_for_writing(&self) -> Locked<'_> {
        loop {
            let locked = self.lock();
            if !writing_is_paused() {
                return locked;
            }
            drop(locked);
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Answers `+OK`, or with an error.
    pub(crate) fn done(&self, result: Result<(), CommandError>) {
        match result {
            Ok(()) => {
                raw::reply_with_simple_string(self.context, c"OK".as_ptr());
            }
            Err(error) => self.error(&error.line()),
        }
    }

    /// Answers with an error line.
    pub(crate) fn error(&self, line: &str) {
        reply_error(self.context, line);
    }

    /// Answers with a blob.
    pub(crate) fn blob(&self, bytes: &[u8]) {
        reply_blob(self.context, bytes);
    }
}

fn writing_is_paused() -> bool {
    // SAFETY: the function takes nothing and changes nothing; servers that lack it
    // do not pause.
    unsafe { raw::RedisModule_AvoidReplicaTraffic.is_some_and(|paused| paused() != 0) }
}

/// Answers with a blob, copied once.
pub(crate) fn reply_blob(context: *mut raw::RedisModuleCtx, bytes: &[u8]) {
    raw::reply_with_string_buffer(context, bytes.as_ptr().cast(), bytes.len());
}

/// Answers with an error line. The crate's own function makes Latin-1 of it.
pub(crate) fn reply_error(context: *mut raw::RedisModuleCtx, line: &str) {
    let line: Vec<u8> = line.bytes().filter(|byte| *byte != 0).collect();
    let line = CString::new(line).unwrap_or_default();
    // SAFETY: the context is one that replies may go to; Redis copies the line.
    unsafe { api!(RedisModule_ReplyWithError)(context, line.as_ptr()) };
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: both came from Redis in `new` and are given back once.
        unsafe {
            api!(RedisModule_FreeThreadSafeContext)(self.context);
            api!(RedisModule_UnblockClient)(self.client, ptr::null_mut());
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread took the lock in `lock`. Redis sends what was
        // replicated meanwhile before it unlocks.
        unsafe { api!(RedisModule_ThreadSafeContextUnlock)(self.blocked.context) };
    }
}
