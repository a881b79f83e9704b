//! Faults of a campaign: every kind at every place of every system first, then by chance.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_kernels::hash;
use epochcost_systems::{Host, Stage, find, systems};

pub const WORKERS: usize = 3;
pub const BATCHES: usize = 2;
/// SPIRT whose peers vote a failed one out.
pub const MEMBERS: &str = "spirt_membership";

/// What happens, in the words of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// To the process of a worker, or to its function.
    Process(&'static str),
    /// To a server: which, and what it does.
    Server(&'static str, &'static str),
}

const LATE: Kind = Kind::Process("{straggler_ms: 300}");
/// What happens before a stage, and at a gradient; the last of these where functions compute it.
const KINDS: [Kind; 5] = [
    Kind::Process("crash"),
    Kind::Process("hang"),
    LATE,
    Kind::Process("error"),
    Kind::Process("out_of_memory"),
];
const SLOW: &str = "{slow_by_ms: 5}";
const BREAKDOWNS: [&str; 4] = ["dies", "hangs", "{restarts_after_ms: 100}", SLOW];

impl Kind {
    fn written(self) -> String {
        match self {
            Self::Process(kind) => kind.to_owned(),
            Self::Server(which, does) => format!("{{server: {{which: {which}, does: {does}}}}}"),
        }
    }

    /// Its name in a table.
    pub fn name(self) -> String {
        let (which, what) = match self {
            Self::Process(kind) => ("", kind),
            Self::Server(which, does) => (which, does),
        };
        let what = what.trim_matches(['{', '}']).replace(": ", "=");
        format!("{which} {what}").trim().to_owned()
    }

    /// Whether it takes time and nothing else.
    pub fn is_delay(self) -> bool {
        self == LATE || matches!(self, Self::Server(_, SLOW))
    }

    pub fn is_of_server(self) -> bool {
        matches!(self, Self::Server(..))
    }
}

/// The servers that a subject uses.
fn servers(subject: &str) -> &'static [&'static str] {
    match subject {
        "spirt" | MEMBERS | "kubeml" => &["object_store", "queue", "tensor_store"],
        "mlless" | "p2p" | "p2p_lambda" => &["object_store", "queue"],
        _ => &["object_store"],
    }
}

/// The systems of a campaign, by the names of its table.
pub fn subjects() -> Vec<&'static str> {
    let names = systems().iter().map(|system| system.name());
    names.chain([MEMBERS]).collect()
}

/// The system that a subject is.
pub fn system_of(subject: &'static str) -> &'static str {
    match subject {
        MEMBERS => "spirt",
        system => system,
    }
}

/// A row of an experiment.
pub fn row(subject: &'static str, name: &str, more: &str) -> String {
    let own = match subject {
        "kubeml" => ", settings: {document_samples: 8}",
        "mirrored" => ", instance_type: g4dn.12xlarge",
        // Who failed in the first epoch is voted out in the second at the latest.
        MEMBERS => ", epochs: 2, settings: {membership: true, heartbeat_timeout_ms: 4000}",
        _ => "",
    };
    let system = system_of(subject);
    format!("  - {{system: {system}, name: {name}{own}{more}}}\n")
}

/// A stage of a step of one function, or its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub function: &'static str,
    stage: Option<Stage>,
}

impl Place {
    pub fn stage(self) -> &'static str {
        self.stage.map_or("gradient", Stage::as_str)
    }

    /// What can happen there.
    fn kinds(self, subject: &'static str) -> Vec<Kind> {
        let deployment = find(system_of(subject)).unwrap().deployment();
        let kinds = match (self.stage, deployment.host_of(self.function)) {
            (Some(_), _) => return KINDS[..3].to_vec(),
            // Nothing limits the memory of an instance here.
            (None, Host::Instance) => &KINDS[..4],
            (None, Host::Function) => &KINDS[..],
        };
        let servers = servers(subject).iter().copied();
        let servers = servers.flat_map(|which| BREAKDOWNS.map(|does| Kind::Server(which, does)));
        kinds.iter().copied().chain(servers).collect()
    }

    /// A fault there as an experiment has it, in the first epoch.
    fn fault(self, rank: usize, batch: usize, kind: &str) -> String {
        let function = self.function;
        let stage = (self.stage).map_or(String::new(), |stage| {
            format!(", stage: {}", stage.as_str())
        });
        format!(
            "{{rank: {rank}, epoch: 0, batch: {batch}, kind: {kind}, function: {function}{stage}}}"
        )
    }
}

/// Every place, rank and mini-batch that there could be.
fn conceivable(subject: &'static str) -> Vec<(Place, usize, usize)> {
    // One process computes all of its gradients.
    let ranks = if subject == "mirrored" { 1 } else { WORKERS };
    let deployment = find(system_of(subject)).unwrap().deployment();
    let mut found = Vec::new();
    for function in deployment.functions {
        for stage in [None].into_iter().chain(Stage::ALL.map(Some)) {
            let function = function.name;
            let place = Place { function, stage };
            let at = (0..ranks).flat_map(|rank| (0..BATCHES).map(move |batch| (rank, batch)));
            found.extend(at.map(|(rank, batch)| (place, rank, batch)));
        }
    }
    found
}

/// Ranks and mini-batches that come to each place.
type Visitors = BTreeMap<Place, Vec<(usize, usize)>>;

/// Where the workers of each subject come: ranks and mini-batches by place.
#[derive(Debug, Default)]
pub struct Survey(BTreeMap<&'static str, Visitors>);

impl Survey {
    /// Rows that find it out: late by nothing, everywhere.
    pub fn rows() -> String {
        let row_of = |subject| {
            let faults: Vec<String> = conceivable(subject)
                .iter()
                .map(|(place, rank, batch)| place.fault(*rank, *batch, "{straggler_ms: 0}"))
                .collect();
            row(
                subject,
                subject,
                &format!(", faults: [{}]", faults.join(", ")),
            )
        };
        subjects().into_iter().map(row_of).collect()
    }

    /// Takes how often each of those faults happened to `subject`.
    pub fn note(&mut self, subject: &'static str, happened: &[usize]) {
        let conceivable = conceivable(subject);
        assert_eq!(happened.len(), conceivable.len(), "{subject}");
        let places = self.0.entry(subject).or_default();
        for ((place, rank, batch), times) in conceivable.into_iter().zip(happened) {
            if *times > 0 {
                places.entry(place).or_default().push((rank, batch));
            }
        }
    }

    /// Every kind of fault at every place to which a worker of `subject` comes.
    fn possible(&self, subject: &'static str) -> Vec<(Kind, Place)> {
        let places = self.0[subject].keys().copied();
        let kinds = |place: Place| {
            let kinds = place.kinds(subject).into_iter();
            kinds.map(move |kind| (kind, place))
        };
        places.flat_map(kinds).collect()
    }

    /// Every kind of fault at every place of every subject.
    pub fn all(&self) -> BTreeSet<(&'static str, Kind, Place)> {
        let of = |subject| {
            let possible = self.possible(subject).into_iter();
            possible.map(move |(kind, place)| (subject, kind, place))
        };
        subjects().into_iter().flat_map(of).collect()
    }
}

/// One fault of one subject.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub subject: &'static str,
    pub rank: usize,
    pub batch: usize,
    pub kind: Kind,
    pub place: Place,
}

impl Case {
    /// Draws `count` faults: every possible kind and place, subjects in turns, each in an order
    /// by the seed; after them any of these again.
    pub fn draw(survey: &Survey, seed: u64, count: usize) -> Vec<Self> {
        let mut turns = Vec::new();
        for (number, subject) in subjects().into_iter().enumerate() {
            let possible = survey.possible(subject);
            let seed = hash::mix(seed, number as u64);
            let order = hash::permutation(possible.len() as u32, seed);
            for (turn, index) in order.into_iter().enumerate() {
                let (kind, place) = possible[index as usize];
                turns.push((turn, subject, kind, place));
            }
        }
        // The sort is stable: subjects keep their order within a turn.
        turns.sort_by_key(|(turn, ..)| *turn);
        let case = |index: usize| {
            let drawn = |what: u64, below: usize| {
                (hash::mix(seed ^ (what << 48), index as u64) % below as u64) as usize
            };
            let again = || turns[drawn(1, turns.len())];
            let (_, subject, kind, place) = turns.get(index).copied().unwrap_or_else(again);
            let reached = &survey.0[subject][&place];
            let (rank, batch) = reached[drawn(2, reached.len())];
            Self {
                subject,
                rank,
                batch,
                kind,
                place,
            }
        };
        (0..count).map(case).collect()
    }

    /// Its row in an experiment.
    pub fn row(&self, name: &str) -> String {
        let fault = self
            .place
            .fault(self.rank, self.batch, &self.kind.written());
        row(self.subject, name, &format!(", faults: [{fault}]"))
    }

    /// Whether its system may end with a model although the fault stops a process.
    pub fn may_survive(&self) -> bool {
        // KubeML's job goes on with the functions that are left, as SPIRT's members do.
        matches!(self.subject, "kubeml" | MEMBERS)
    }
}
