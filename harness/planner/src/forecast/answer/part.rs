//! Parts of a training, and what grows with its length.

use super::goal::Price;

/// Mini-batches per worker of the two short simulations that a training is carried on from.
pub(super) const SHORT: Lengths = Lengths { few: 4, many: 8 };

/// The same for draws of many workers, a mini-batch of whom has as many requests as several of few.
pub(super) const SHORTEST: Lengths = Lengths { few: 1, many: 2 };

/// Seconds and dollars by which a growth may be below none, by the rounding of sums.
const ROUNDING: f64 = 1e-9;

/// Relative difference of two parts of a training up to which each mini-batch is said to repeat
/// the one before.
const REPEATS: f64 = 0.01;

/// Mini-batches per worker of two short simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) few: usize,
    pub(super) many: usize,
}

/// The part of a training that is simulated.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Mini-batches per worker and epoch.
    pub(super) batches: usize,
    pub(super) epochs: usize,
    /// Workers above which alike ones are represented.
    pub(super) alike_above: usize,
}

impl Span {
    pub(super) fn of(batches: usize, epochs: usize, alike_above: usize) -> Self {
        Self {
            batches,
            epochs,
            alike_above,
        }
    }
}

/// What grows with the mini-batches of a training, without the rounding of bills.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growing {
    pub(super) seconds: f64,
    /// Dollars for everything but machines and the objects that are kept at the end.
    pub(super) other_usd: f64,
    /// Dollars per second of the training for the objects that are kept at its end, of which there are
    /// half as many in the mean.
    pub(super) kept_usd_per_s: f64,
    /// Seconds of all machines.
    pub(super) machine_s: f64,
    /// Seconds of all epochs, without boots and starts.
    pub(super) epochs_s: f64,
    /// Longest run of a function, seconds.
    pub(super) longest_s: f64,
    pub(super) events: f64,
}

/// A training, or a part of one, as it was simulated.
pub(super) struct Part {
    pub(super) growing: Growing,
    /// Machines that are paid for by the second, and the price of each.
    pub(super) machines: f64,
    /// Shortest time that each is charged for, seconds.
    pub(super) minimum_s: f64,
    pub(super) usd_per_s: f64,
    /// Dollars as billed.
    pub(super) usd: f64,
}

impl Part {
    /// Returns whether two growths per mini-batch take about the same seconds and dollars.
    pub(super) fn is_alike(&self, a: &Growing, b: &Growing) -> bool {
        let usd = |growing: &Growing| growing.other_usd + growing.machine_s * self.usd_per_s;
        let close = |a: f64, b: f64| (a - b).abs() <= REPEATS * a.abs().max(b.abs());
        close(a.seconds, b.seconds) && close(usd(a), usd(b))
    }

    /// Returns seconds and dollars, with the minimum of the machines' bill.
    pub(super) fn price(&self) -> Price {
        let machine_s = self.growing.machine_s.max(self.machines * self.minimum_s);
        Price {
            seconds: self.growing.seconds,
            usd: self.growing.other_usd
                + machine_s * self.usd_per_s
                + self.growing.kept_usd_per_s * self.growing.seconds,
        }
    }
}

impl Lengths {
    pub(super) fn doubled(self) -> Self {
        Self {
            few: self.many,
            many: self.many.saturating_mul(2),
        }
    }
}

impl Growing {
    /// Returns whether more work would take fewer seconds or dollars.
    pub(super) fn shrinks(&self) -> bool {
        [self.seconds, self.other_usd, self.machine_s]
            .iter()
            .any(|growth| *growth < -ROUNDING)
    }

    /// Returns the growth from these figures to `longer` per unit of `units`.
    pub(super) fn to(&self, longer: &Self, units: f64) -> Self {
        self.zip(longer, |shorter, longer| (longer - shorter) / units)
    }

    /// Returns these figures and `count` times `growth`.
    pub(super) fn plus(&self, growth: &Self, count: f64) -> Self {
        self.zip(growth, |figure, growth| figure + count * growth)
    }

    fn zip(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            seconds: of(self.seconds, other.seconds),
            other_usd: of(self.other_usd, other.other_usd),
            kept_usd_per_s: of(self.kept_usd_per_s, other.kept_usd_per_s),
            machine_s: of(self.machine_s, other.machine_s),
            epochs_s: of(self.epochs_s, other.epochs_s),
            longest_s: of(self.longest_s, other.longest_s),
            events: of(self.events, other.events),
        }
    }
}
