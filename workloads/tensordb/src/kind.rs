//! The type `ec-tensor`: what Redis asks of a value that it does not know.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use redis_module::native_types::RedisType;
use redis_module::raw;

use crate::api::api;
use crate::tensor::Tensor;

/// Version of the encoding in RDB files and DUMP payloads: the bytes as one
/// string.
const ENCODING: i32 = 0;

/// The type; a key's value is an `Arc<Tensor>`.
pub(crate) static TENSOR: RedisType = RedisType::new(
    "ec-tensor",
    ENCODING,
    raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: Some(rewrite),
        mem_usage: Some(memory_usage),
        digest: Some(digest),
        free: Some(free),
        free_effort: Some(free_effort),
        copy: Some(copy),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        unlink: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    },
);

/// Runs a callback: a panic must not cross into C.
fn guarded<T>(otherwise: T, callback: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(otherwise)
}

/// Returns the value behind the pointer that Redis keeps.
///
/// # Safety
/// `value` must be one that [`TENSOR`]'s keys hold.
unsafe fn tensor<'a>(value: *const c_void) -> &'a Arc<Tensor> {
    // SAFETY: Redis hands out only pointers that it got from `boxed`, or from
    // `set_value`, which boxes the same type.
    unsafe { &*value.cast::<Arc<Tensor>>() }
}

fn boxed(tensor: Arc<Tensor>) -> *mut c_void {
    Box::into_raw(Box::new(tensor)).cast()
}

/// Reads a value from an RDB file or a DUMP payload.
///
/// # Safety
/// `rdb` must be the stream that Redis is reading.
unsafe extern "C" fn load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    if encoding != ENCODING {
        return ptr::null_mut();
    }
    let mut length = 0;
    // SAFETY: `rdb` is the stream that Redis is reading.
    let bytes = unsafe { api!(RedisModule_LoadStringBuffer)(rdb, &raw mut length) };
    if bytes.is_null() {
        return ptr::null_mut();
    }
    guarded(ptr::null_mut(), || {
        // SAFETY: Redis returned a buffer of this length, now ours to free.
        let copied = Tensor::copied(unsafe { std::slice::from_raw_parts(bytes.cast(), length) });
        // SAFETY: the buffer came from Redis' allocator and is not used again.
        unsafe { api!(RedisModule_Free)(bytes.cast()) };
        boxed(Arc::new(copied))
    })
}

/// Writes a value to an RDB file or a DUMP payload.
///
/// # Safety
/// `rdb` must be the stream that Redis is writing, `value` one that [`TENSOR`]'s keys hold.
unsafe extern "C" fn save(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: Redis passes a value of this type.
    let bytes = unsafe { tensor(value) }.as_ref().as_ref();
    // SAFETY: the bytes live as long as the value, and Redis only reads them.
    unsafe { api!(RedisModule_SaveStringBuffer)(rdb, bytes.as_ptr().cast(), bytes.len()) };
}

/// Writes a value to the append-only file, as a command.
///
/// # Safety
/// `aof` must be the file that Redis is writing, `key` and `value` a key and its value.
unsafe extern "C" fn rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: Redis passes a value of this type.
    let bytes: &[u8] = unsafe { tensor(value) }.as_ref().as_ref();
    // SAFETY: "s" is a string of Redis', "b" a buffer and its length.
    unsafe {
        api!(RedisModule_EmitAOF)(
            aof,
            c"TENSOR.SET".as_ptr(),
            c"sb".as_ptr(),
            key,
            bytes.as_ptr(),
            bytes.len(),
        );
    }
}

/// Returns the bytes of memory that a value takes.
///
/// # Safety
/// `value` must be one that [`TENSOR`]'s keys hold.
unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: Redis passes a value of this type.
    unsafe { tensor(value) }.memory_bytes()
}

/// Adds a value to the digest of DEBUG DIGEST.
///
/// # Safety
/// `digest` must be the digest that Redis is computing, `value` one that [`TENSOR`]'s keys
/// hold.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: Redis passes a value of this type.
    let bytes: &[u8] = unsafe { tensor(value) }.as_ref().as_ref();
    // SAFETY: the bytes live as long as the value, and Redis only reads them.
    unsafe {
        api!(RedisModule_DigestAddStringBuffer)(digest, bytes.as_ptr().cast(), bytes.len());
        api!(RedisModule_DigestEndSequence)(digest);
    }
}

/// Frees a value, maybe on Redis' thread for lazy freeing.
///
/// # Safety
/// `value` must be one that [`TENSOR`]'s keys held, and is not used again.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: Redis passes a value of this type once, and forgets it.
    let value = unsafe { Box::from_raw(value.cast::<Arc<Tensor>>()) };
    guarded((), || drop(value));
}

/// Returns the effort of freeing a value. Above 64, Redis frees on another thread: what
/// takes 256 KiB or more.
///
/// # Safety
/// `value` must be one that [`TENSOR`]'s keys hold.
unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: Redis passes a value of this type.
    1 + unsafe { tensor(value) }.memory_bytes() / 4096
}

/// Copies a value for COPY: both keys share the tensor until one of them is written.
///
/// # Safety
/// `value` must be one that [`TENSOR`]'s keys hold.
unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: Redis passes a value of this type.
    boxed(Arc::clone(unsafe { tensor(value) }))
}
