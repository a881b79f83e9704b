//! This machine's measured peaks, one thread, as JSON: `{"gflops": …, "bf16_gflops": …, "gb_per_s": …}`,
//! the second `null` where the CPU has no such instructions.
//!
//! The arithmetic is the kernels' own product of matrices that fit in a second-level
//! cache, the traffic a copy of arrays that fit in none, counted as read and written.

fn main() {
    let peaks = epochcost_models::measured_peaks();
    println!(
        r#"{{"level": "{}", "gflops": {:.1}, "bf16_gflops": {}, "gb_per_s": {:.1}}}"#,
        peaks.level,
        peaks.gflops,
        peaks
            .bf16_gflops
            .map_or("null".to_owned(), |rate| format!("{rate:.1}")),
        peaks.gb_per_s
    );
}
