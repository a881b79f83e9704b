#![allow(clippy::unwrap_used, missing_docs)]
#[path = "../tests/support/mod.rs"]
mod support;
use epochcost_simulator::profile::Profile;
use support::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() > 1 {
        let (system, workers, batches, epochs): (&str, usize, usize, usize) = (
            &args[1],
            args[2].parse().unwrap(),
            args[3].parse().unwrap(),
            args[4].parse().unwrap(),
        );
        let mut profile = Profile::ideal();
        profile.object_store.service.request_latency_s = 0.094;
        profile.object_store.service.stream_bytes_per_s = 90e6;
        profile.tensor_store.service.request_latency_s = 0.001;
        profile.tensor_store.service.server_bytes_per_s = Some(90e6);
        profile.tensor_store.service.stream_bytes_per_s = 90e6;
        profile.queue.service.request_latency_s = 0.002;
        profile.workflow.transition_latency_s = 0.02;
        let settings = if system == "allreduce" {
            serde_json::json!({"merged_timeout_s": null})
        } else {
            serde_json::json!({})
        };
        let mut j = job(system, workers, batches, settings);
        j.epochs = epochs;
        let s = simulation(j, 3_217_226, &profile, 14.0);
        let t = std::time::Instant::now();
        let options = epochcost_simulator::Options {
            keeps_steps: false,
            ..Default::default()
        };
        let r = epochcost_simulator::simulate(&s, options).unwrap();
        let found = epochcost_systems::find(system).unwrap();
        let exact =
            found.traffic(&s.job, s.sizes).unwrap() == r.totals.traffic.exchange.total().untimed();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let hwm = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
        println!(
            "{system} W={workers} B={batches} E={epochs}: {:.2} s real, virtual {:.1} s, {} events, {} invocations, exact {exact}, missed {} lists {} polls {}, {hwm}, {:?}",
            t.elapsed().as_secs_f64(),
            r.wall_s,
            r.events,
            r.invocations.len(),
            r.totals.traffic.exchange.total().missed_gets,
            r.totals.traffic.exchange.total().lists,
            r.totals.traffic.exchange.total().polls,
            r.failure
        );
        return;
    }
    for (name, p, published) in [
        ("resnet50", 25_557_032usize, [21.88, 8.36]),
        ("resnet50-10", 23_520_842, [21.88, 8.36]),
        ("mobilenet", 3_217_226, [4.77, 6.47]),
    ] {
        for (system, published) in ["allreduce", "scatterreduce"].into_iter().zip(published) {
            let mut profile = Profile::ideal();
            profile.object_store.service.request_latency_s = 0.094;
            profile.object_store.service.stream_bytes_per_s = 90e6;
            let s = simulation(job(system, 16, 1, serde_json::json!({})), p, &profile, 1.0);
            let r = run(&s);
            println!(
                "{name} {system}: wall {:.2}, published {published}",
                r.wall_s
            );
            let sec = &r.totals.seconds["train"];
            println!(
                "   sync per worker {:.2} {:?}",
                sec.synchronise() / 16.0,
                sec
            );
        }
    }
}
