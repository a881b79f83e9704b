//! Levels of a run: what differs from run to run and from author to author beyond the ranges of
//! single constants.

use super::{LevelModel, Profile, Spread};
use crate::draws::{seed_of, unit};

/// Constants that one day makes slow or quick together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Requests to the object store, reads and writes.
    Requests,
    /// Streams of the object store.
    Streams,
    /// A function's network, which was measured on other days than the store.
    Network,
    /// Credit of a function's network.
    NetworkCredit,
    /// Calls, sandboxes and init.
    Starts,
}

impl Level {
    /// Returns the level that the constant at `path` follows, if there is one.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "object_store.service.request_latency_s"
            | "object_store.service.write_latency_s"
            | "object_store.service.connection_s" => Self::Requests,
            "object_store.service.stream_bytes_per_s"
            | "object_store.service.write_stream_bytes_per_s" => Self::Streams,
            "function.network_credit.download_bytes" | "function.network_credit.upload_bytes" => {
                Self::NetworkCredit
            }
            "function.invoke_latency_s"
            | "function.cold_start_s"
            | "function.init_s"
            | "interpreted.call_s"
            | "interpreted.init_s" => Self::Starts,
            _ if path.starts_with("function.bandwidth.") => Self::Network,
            _ => return None,
        })
    }

    /// Returns the standard deviation of its logarithm between runs.
    pub fn deviation(self, levels: &LevelModel<f64>) -> f64 {
        match self {
            Self::Requests => levels.time,
            Self::Streams | Self::Network | Self::NetworkCredit => levels.bandwidth,
            Self::Starts => levels.starts.unwrap_or(levels.time),
        }
    }

    /// Returns the name of the stream that it is drawn from.
    fn stream(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Streams => "streams",
            Self::Network => "network",
            Self::NetworkCredit => "network credit",
            Self::Starts => "starts",
        }
    }
}

/// Draws the levels of a run by `seed`, and applies them to a sample of the ranges.
pub(super) fn apply(profile: &mut Profile<f64>, seed: u64) {
    let Some(levels) = profile.levels.clone() else {
        return;
    };
    let level = |name: &str, deviation: f64| (deviation * normal(seed, name)).exp();
    *profile = profile.map(&mut |path, value| {
        Level::of(path).map_or(*value, |of| {
            value * level(of.stream(), of.deviation(&levels))
        })
    });
    // The width of every spread.
    let objects = &mut profile.object_store.service;
    let function = &mut profile.function;
    let spreads: [(&str, &mut Option<Spread>); 8] = [
        ("read", &mut objects.read_spread),
        ("write", &mut objects.write_spread),
        ("read stream", &mut objects.read_stream_spread),
        ("write stream", &mut objects.write_stream_spread),
        ("invoke", &mut function.invoke_spread),
        ("cold start", &mut function.cold_start_spread),
        ("init", &mut function.init_spread),
        ("compute", &mut function.compute_spread),
    ];
    for (name, spread) in spreads {
        let width = level(name, levels.spread);
        *spread = spread.as_ref().map(|spread| spread.widened(width));
    }
}

/// Returns a draw of the standard normal distribution, the same for one seed and name (Box and
/// Muller 1958).
fn normal(seed: u64, name: &str) -> f64 {
    let stream = seed_of(seed, name);
    let unit = |draw| unit(stream, draw);
    let radius = (-2.0 * (1.0 - unit(0)).max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(1)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_normal_and_depend_on_seed_and_name() {
        let draws: Vec<f64> = (0..20_000).map(|seed| normal(seed, "a")).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let beyond = draws.iter().filter(|draw| draw.abs() > 1.96).count();
        assert!((800..1_200).contains(&beyond), "{beyond}");
        assert!((normal(1, "a") - normal(1, "b")).abs() > 1e-9);
        assert!((normal(1, "a") - normal(1, "a")).abs() < 1e-12);
    }

    #[test]
    fn a_wider_spread_keeps_its_mean() {
        let spread = Spread::of_test(&[[0.0, 0.5], [0.5, 1.0], [1.0, 1.5]]);
        let wider = spread.widened(2.0);
        assert!((wider.at(1.0) / wider.at(0.0) - 9.0).abs() < 1e-9);
        assert_eq!(wider.fault(), None);
        assert_eq!(spread.widened(1.0), spread);
    }
}
