//! Refinements of a platform model, each of which can be left out, to show what it adds.

use serde::{Deserialize, Serialize};

use super::{Client, Profile};

/// A part of the model beyond one latency and one bandwidth per service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refinement {
    /// Core time of an interpreted client.
    Client,
    /// Latency and bandwidth of writes apart from reads.
    Writes,
    /// First request of a sandbox, which opens a connection.
    Connections,
    /// Bytes that arrive before a stream's bandwidth limits it.
    UnlimitedBytes,
    /// Credit of a function's network.
    NetworkCredit,
    /// Spacing of one caller's calls.
    CallSpacing,
    /// Draws of single requests, payloads, starts and computations.
    Spreads,
}

impl Refinement {
    /// Every refinement.
    pub const ALL: [Self; 7] = [
        Self::Client,
        Self::Writes,
        Self::Connections,
        Self::UnlimitedBytes,
        Self::NetworkCredit,
        Self::CallSpacing,
        Self::Spreads,
    ];

    /// Returns the name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Client => "interpreted client",
            Self::Writes => "writes apart from reads",
            Self::Connections => "new connections",
            Self::UnlimitedBytes => "first bytes of a body",
            Self::NetworkCredit => "network credit",
            Self::CallSpacing => "spacing of calls",
            Self::Spreads => "draws of single events",
        }
    }
}

impl Profile<f64> {
    /// Returns the platform without `refinement`.
    #[must_use]
    pub fn without(&self, refinement: Refinement) -> Self {
        let mut profile = self.clone();
        let (objects, function) = (&mut profile.object_store.service, &mut profile.function);
        match refinement {
            Refinement::Client => {
                profile.client = Client::Compiled;
                profile.interpreted = None;
            }
            Refinement::Writes => {
                objects.write_latency_s = None;
                objects.write_stream_bytes_per_s = None;
            }
            Refinement::Connections => objects.connection_s = None,
            Refinement::UnlimitedBytes => objects.unlimited_bytes = None,
            Refinement::NetworkCredit => function.network_credit = None,
            Refinement::CallSpacing => function.call_spacing_s = None,
            Refinement::Spreads => profile.draws = None,
        }
        profile
    }
}
