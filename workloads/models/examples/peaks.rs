//! This machine's measured peaks, one thread, as JSON: `{"gflops": …, "gb_per_s": …}`.
//!
//! The arithmetic is the kernels' own product of matrices that fit in a second-level
//! cache, the traffic a copy of arrays that fit in none, counted as read and written.

fn main() {
    let peaks = epochcost_models::measured_peaks();
    println!(
        r#"{{"level": "{}", "gflops": {:.1}, "gb_per_s": {:.1}}}"#,
        peaks.level, peaks.gflops, peaks.gb_per_s
    );
}
