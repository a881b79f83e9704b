//! What the module asks of the server besides commands and its type.
#![allow(unsafe_code)]

use std::ffi::c_void;

use redis_module::{Context, Status, raw};

use crate::api::api;
use crate::tensor::give_back_strings;

/// Registers the module's options and events.
pub(crate) fn prepare(context: &Context) -> Status {
    // A damaged RESTORE payload is then an error of the command; without this
    // option it ends the server.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as i32;
    // SAFETY: the context is that of the module being loaded.
    unsafe { api!(RedisModule_SetModuleOptions)(context.get_raw(), options) };
    let every_tenth_of_a_second = raw::RedisModuleEvent {
        id: raw::REDISMODULE_EVENT_CRON_LOOP,
        dataver: 1,
    };
    // SAFETY: as above; the callback has the type that Redis calls.
    let subscribed = unsafe {
        api!(RedisModule_SubscribeToServerEvent)(
            context.get_raw(),
            every_tenth_of_a_second,
            Some(on_cron),
        )
    };
    if subscribed == raw::REDISMODULE_OK as i32 {
        Status::Ok
    } else {
        Status::Err
    }
}

/// Returns strings that background threads are done with to Redis, also when no
/// command comes.
///
/// # Safety
/// Redis must call it, on its main thread.
unsafe extern "C" fn on_cron(
    _context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    give_back_strings();
}
