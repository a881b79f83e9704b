//! Prints what robust rules cost, in vectors read or written by a mean that takes as long:
//! to compare with the counts in `RobustMean::passes`. Arguments: elements of a vector, and
//! numbers of vectors.

use std::time::Instant;

use epochcost_kernels::attack::gaussian;
use epochcost_kernels::reduce;

/// Repetitions, of which the fastest counts.
const TIMES: usize = 5;

fn seconds(work: impl Fn()) -> f64 {
    let time = || {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..TIMES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

#[allow(clippy::print_stdout)]
fn main() {
    let numbers: Vec<usize> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let (length, counts) = match numbers.split_first() {
        Some((length, counts)) if !counts.is_empty() => (*length, counts.to_vec()),
        _ => (1_000_000, vec![4, 8, 12, 24]),
    };
    for count in counts {
        let rows: Vec<Vec<f32>> = (0..count)
            .map(|i| gaussian(length, 1.0, i as u64))
            .collect();
        let vectors: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let n = count as f64;
        let mean = seconds(|| drop(reduce::mean(&vectors)));
        let pass = mean / (n + 1.0);
        let passes = |work: &dyn Fn()| seconds(work) / pass;
        let sorted = passes(&|| drop(reduce::coordinate_median(&vectors)));
        let trimmed = passes(&|| drop(reduce::trimmed_mean(&vectors, 1)));
        let krum = passes(&|| drop(reduce::krum_select(&vectors, 0)));
        let mixed = passes(&|| drop(reduce::nearest_neighbour_mixing(&vectors, 1)));
        let median = passes(&|| drop(reduce::geometric_median(&vectors, 3, 0.1)));
        let clipped = passes(&|| drop(reduce::centred_clipping(&vectors, None, 1.0, 1)));
        println!(
            "{count} vectors of {length}: mean {:.2} ms; passes: median {sorted:.1} ({:.2} n²), \
             trimmed mean {trimmed:.1}, Krum {krum:.1} ({:.2} a pair), mixing {mixed:.1}, geometric \
             median {median:.1} ({:.2} a vector and iteration), centred clipping {clipped:.1} ({:.2})",
            mean * 1e3,
            (sorted - n - 1.0) / (n * n),
            krum / (n * (n - 1.0) / 2.0),
            median / (3.0 * n),
            clipped / n,
        );
    }
}
