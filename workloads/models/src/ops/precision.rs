//! The precision of the step that a thread is in: the operations of a backend have no argument
//! for it.

use std::cell::Cell;

use crate::Precision;

thread_local! {
    static PRECISION: Cell<Precision> = const { Cell::new(Precision::Fp32) };
}

/// Runs `work` with products of that precision on this thread.
pub(crate) fn at<T>(precision: Precision, work: impl FnOnce() -> T) -> T {
    /// Restores the previous precision, also after a panic.
    struct Previous(Precision);
    impl Drop for Previous {
        fn drop(&mut self) {
            PRECISION.set(self.0);
        }
    }
    let _previous = Previous(PRECISION.replace(precision));
    work()
}

/// Returns this thread's.
#[cfg(any(feature = "gpu", test))]
pub(crate) fn current() -> Precision {
    PRECISION.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_lasts_as_long_as_its_work() {
        let inner = at(Precision::Tf32, current);
        assert_eq!((inner, current()), (Precision::Tf32, Precision::Fp32));
    }
}
