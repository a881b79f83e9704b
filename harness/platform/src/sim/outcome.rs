//! From a simulation's outcome to that of any platform.

use epochcost_simulator::Simulated;

use epochcost_spec::metering::{Invocation, TrialOutcome};

/// Returns the outcome of a trial in virtual time, whose clock starts at zero.
pub(super) fn of(simulated: Simulated) -> TrialOutcome {
    let limit = simulated.infeasible.map(|limit| limit.to_string());
    TrialOutcome {
        wall_s: simulated.wall_s,
        invocations: simulated.invocations.into_iter().map(invocation).collect(),
        records: simulated.records,
        transitions: simulated.transitions,
        failure: limit.or(simulated.failure),
        // Nothing is throttled: virtual callers wait for their turn.
        ..TrialOutcome::default()
    }
}

/// Returns an invocation with the time that would be billed: whole milliseconds begun,
/// init or boot included.
pub fn invocation(call: epochcost_simulator::Invocation) -> Invocation {
    let milliseconds = |seconds: f64| seconds * 1e3;
    let billed_ms = milliseconds(call.duration_s + call.init_s.unwrap_or(0.0));
    Invocation {
        request_id: format!("sim-{:08}", call.id),
        host: call.host,
        function: call.task.function,
        rank: call.task.rank,
        alike: call.alike,
        epoch: call.task.epoch,
        batch: call.task.batch,
        sandbox: format!("sandbox-{:08}", call.sandbox),
        started_s: call.started_s,
        ended_s: call.started_s + call.duration_s,
        cold: call.init_s.is_some(),
        init_ms: call.init_s.map(milliseconds),
        duration_ms: milliseconds(call.duration_s),
        // Virtual time is whole nanoseconds; smaller differences are rounding errors.
        billed_ms: (billed_ms - 1e-6).ceil().max(0.0) as u64,
        memory_mb: call.memory_mb,
        peak_memory_mb: Some(call.peak_memory_mb.ceil() as u32),
        cpu_ms: None,
        error: call.error,
    }
}
