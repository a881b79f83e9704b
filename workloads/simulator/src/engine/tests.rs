#![allow(clippy::unwrap_used)]
use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{Payload, TensorStore};
use futures_util::future::join_all;

use super::*;

#[test]
fn time_jumps_from_event_to_event() {
    let engine = Engine::default();
    let order = Mutex::new(Vec::new());
    let sleeper = |name: &'static str, seconds: f64| {
        let (engine, order) = (&engine, &order);
        async move {
            engine.seconds(seconds).await;
            locked(order).push((name, engine.now()));
        }
    };
    let all = join_all([sleeper("b", 2.0), sleeper("a", 1.5), sleeper("c", 2.0)]);
    engine.run(all).unwrap();
    let expected = [
        ("a", 1_500_000_000),
        ("b", 2_000_000_000),
        ("c", 2_000_000_000),
    ];
    assert_eq!(*locked(&order), expected);
    assert_eq!(engine.acted(), 3);
}

/// A task of tokio's runtime has a budget, after which tokio's own futures are not ready: a
/// simulation on the main thread of the program stood still there.
#[test]
fn virtual_time_passes_in_a_task_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = Engine::default();
        let store = TensorStore::new(Arc::new(MemoryTensors::default()));
        let work = async {
            for _ in 0..1_000 {
                let inner = engine.clone();
                engine.spawn(async move { inner.seconds(1.0).await }).await;
                let one = Payload::Phantom { bytes: 1 << 20 };
                crate::compute::at_once(store.accumulate("sum", one)).unwrap();
            }
        };
        engine.run(work).unwrap();
        assert_eq!(engine.now(), 1_000_000_000_000);
    });
}

#[test]
fn a_sleep_of_nothing_lets_others_run() {
    let engine = Engine::default();
    let order = Mutex::new(Vec::new());
    let first = async {
        engine.sleep(Duration::ZERO).await;
        locked(&order).push(1);
    };
    let second = async { locked(&order).push(2) };
    engine
        .run(futures_util::future::join(first, second))
        .unwrap();
    assert_eq!(*locked(&order), [2, 1]);
    assert_eq!(engine.now(), 0);
}

#[test]
fn a_spawned_future_runs_concurrently_and_is_dropped_with_its_handle() {
    let engine = Engine::default();
    let order = Arc::new(Mutex::new(Vec::new()));
    let sleeper = |name: &'static str, seconds: f64| {
        let (engine, order) = (engine.clone(), order.clone());
        async move {
            engine.seconds(seconds).await;
            locked(&order).push(name);
            seconds
        }
    };
    let waited = async {
        let late = engine.spawn(sleeper("late", 2.0));
        let (early, never) = (
            engine.spawn(sleeper("early", 1.0)),
            engine.spawn(sleeper("never", 1.5)),
        );
        let early = early.await;
        drop(never);
        (early, late.await)
    };
    assert_eq!(engine.run(waited).unwrap(), (1.0, 2.0));
    assert_eq!(*locked(&order), ["early", "late"]);
    assert_eq!(engine.now(), 2_000_000_000);
}

#[test]
fn a_future_that_nothing_wakes_is_stuck() {
    let engine = Engine::default();
    let stuck = engine.run(std::future::pending::<()>());
    assert_eq!(stuck, Err(Stopped::Deadlock));
}

/// What never ends is given up once its real time is over; without such a time it ends as before.
#[test]
fn a_future_is_given_up_when_its_real_time_is_over() {
    let engine = Engine::default();
    let endless = async {
        loop {
            engine.seconds(1.0).await;
        }
    };
    let now = Some(Instant::now());
    let ended: Result<(), Stopped> = engine.run_until(now, endless);
    assert_eq!(ended, Err(Stopped::GivenUp));
    let short = engine.seconds(1.0);
    assert_eq!(engine.run_until(now, short), Ok(()));
}

/// A wait beyond the last instant, and futures that go on for ever within one, do not hang.
#[test]
fn time_that_stands_still_is_an_end() {
    let engine = Engine::default();
    let for_ever = engine.seconds(f64::INFINITY);
    assert_eq!(engine.run(for_ever), Err(Stopped::Standstill));
    // A resource that serves nothing never ends its only user.
    let engine = Engine::default();
    let none = crate::resource::Resource::new(&engine, 0.0);
    assert_eq!(engine.run(none.consume(1.0, 1.0)), Err(Stopped::Standstill));
    let engine = Engine::default();
    let now = async {
        loop {
            engine.seconds(0.0).await;
        }
    };
    let ended: Result<(), Stopped> = engine.run(now);
    assert_eq!(ended, Err(Stopped::Standstill));
}

#[test]
fn a_part_of_a_nanosecond_is_one() {
    assert_eq!(nanoseconds(1e-12), 1);
    assert_eq!(nanoseconds(0.0), 0);
    assert_eq!(nanoseconds(f64::INFINITY), u64::MAX);
}
