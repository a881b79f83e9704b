//! Independent work on every core, with results in the order of the work.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// What `work` makes of every item, in the items' order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            match items.get(index) {
                Some(item) => own.push((index, work(item))),
                None => return own,
            }
        }
    };
    let threads = available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, R)> = scope(|scope| {
        // Threads that cannot be had are done without: this one works, too.
        let threads: Vec<_> = (1..threads.min(items.len()))
            .map_while(|_| Builder::new().spawn_scoped(scope, take).ok())
            .collect();
        let own = take();
        let ended = threads.into_iter().map(|thread| thread.join());
        let others = ended.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)));
        others.chain(own).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What `work` makes of every item, in the items' order.
///
/// # Errors
/// That of the first item that has one.
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    map(items, work).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_work() {
        let items: Vec<u64> = (0..500).collect();
        // Later items are quicker.
        let squares = map(&items, |item| {
            std::thread::sleep(std::time::Duration::from_micros(500 - item));
            item * item
        });
        assert_eq!(squares, items.iter().map(|x| x * x).collect::<Vec<_>>());
        assert!(map(&[] as &[u64], |x| *x).is_empty());
    }
}
