//! The functions that Redis lends to a module.

/// The function `$name` of the module interface. Redis fills in every one when
/// it loads the module, before any of our code runs.
macro_rules! api {
    ($name:ident) => {
        match ::redis_module::raw::$name {
            Some(function) => function,
            None => unreachable!(concat!("Redis did not lend ", stringify!($name))),
        }
    };
}

pub(crate) use api;
