//! Tensors as they lie in memory.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use epochcost_kernels::codec::decode_f32;
use redis_module::{RedisString, raw};

use crate::api::api;

/// Arguments of at least this many bytes are kept as Redis received them;
/// smaller ones are copied.
const KEEP_BYTES: usize = 64 << 10;

/// A value: any bytes, mostly floats.
pub(crate) struct Tensor(Storage);

enum Storage {
    Floats(Vec<f32>),
    /// No whole number of floats.
    Ragged(Vec<u8>),
    Argument(KeptString),
}

impl Tensor {
    /// A value that a client sent: a large one as it is, without a copy.
    pub(crate) fn sent(argument: &RedisString) -> Self {
        if argument.len() >= KEEP_BYTES {
            Self(Storage::Argument(KeptString::new(argument)))
        } else {
            Self::copied(argument.as_slice())
        }
    }

    /// A copy of `bytes`.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self(decode_f32(bytes).map_or_else(|_| Storage::Ragged(bytes.to_vec()), Storage::Floats))
    }

    /// The elements, if they may be changed in place.
    pub(crate) const fn floats(&mut self) -> Option<&mut Vec<f32>> {
        match &mut self.0 {
            Storage::Floats(floats) => Some(floats),
            Storage::Ragged(_) | Storage::Argument(_) => None,
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let content = match &self.0 {
            Storage::Floats(floats) => 4 * floats.capacity(),
            Storage::Ragged(bytes) => bytes.capacity(),
            Storage::Argument(string) => string.length,
        };
        content + size_of::<Self>()
    }
}

impl From<Vec<f32>> for Tensor {
    fn from(floats: Vec<f32>) -> Self {
        Self(Storage::Floats(floats))
    }
}

impl AsRef<[u8]> for Tensor {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Storage::Floats(floats) => bytemuck::cast_slice(floats),
            Storage::Ragged(bytes) => bytes,
            Storage::Argument(string) => string.as_ref(),
        }
    }
}

/// A string of Redis' that outlives its command.
///
/// Redis counts references to strings without atomics, so they are given back
/// on the main thread only: there at once, from elsewhere through
/// [`give_back_strings`].
pub(crate) struct KeptString {
    string: *mut raw::RedisModuleString,
    length: usize,
}

// SAFETY: the bytes do not change while a reference is held, and the reference
// count is touched on the main thread only: by `new`, `Drop` and
// `give_back_strings`.
unsafe impl Send for KeptString {}
// SAFETY: as above; sharing gives nothing but the bytes.
unsafe impl Sync for KeptString {}

impl KeptString {
    /// Keeps `string`; called by command handlers, which run on the main thread.
    pub(crate) fn new(string: &RedisString) -> Self {
        let length = string.len();
        // SAFETY: the string is alive, and this is the main thread.
        unsafe { api!(RedisModule_RetainString)(ptr::null_mut(), string.inner) };
        Self {
            string: string.inner,
            length,
        }
    }

    /// Redis' own view of it, for a call under Redis' lock.
    pub(crate) fn redis_string(&self) -> RedisString {
        RedisString::new(None, self.string)
    }
}

impl AsRef<[u8]> for KeptString {
    fn as_ref(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the reference that we hold keeps the string alive. Where its bytes lie is asked
        // each time: at the end of the command that kept it, Redis trims it, which may move them.
        // After that it changes no string that has more than one owner.
        unsafe {
            let bytes = api!(RedisModule_StringPtrLen)(self.string, &raw mut length);
            std::slice::from_raw_parts(bytes.cast(), length)
        }
    }
}

impl Drop for KeptString {
    fn drop(&mut self) {
        if MAIN_THREAD.get() == Some(&thread::current().id()) {
            // SAFETY: the reference is ours, and this is the main thread.
            unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), self.string) };
        } else {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(Returned(self.string));
        }
    }
}

static MAIN_THREAD: OnceLock<ThreadId> = OnceLock::new();
static WAITING: Mutex<Vec<Returned>> = Mutex::new(Vec::new());

struct Returned(*mut raw::RedisModuleString);

// SAFETY: the pointer is carried to the main thread and used there only.
unsafe impl Send for Returned {}

/// Says that this is the main thread.
pub(crate) fn mark_main_thread() {
    MAIN_THREAD.get_or_init(|| thread::current().id());
}

/// Gives back the strings that other threads were done with; on the main
/// thread.
pub(crate) fn give_back_strings() {
    let waiting = std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
    for string in waiting {
        // SAFETY: each is a reference that a `KeptString` held.
        unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), string.0) };
    }
}
