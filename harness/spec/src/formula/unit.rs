//! Units of quantities: which are alike, and by which factor they convert.

/// A unit as papers print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit(String);

/// Units of one dimension, in its first unit.
const CONVERTED: [(&str, &str, f64); 15] = [
    ("ms", "s", 1e-3),
    ("s", "s", 1.0),
    ("min", "s", 60.0),
    ("h", "s", 3600.0),
    ("ms summed", "s summed", 1e-3),
    ("s summed", "s summed", 1.0),
    ("min summed", "s summed", 60.0),
    ("bytes", "MB", 1e-6),
    ("kB", "MB", 1e-3),
    ("MB", "MB", 1.0),
    ("GB", "MB", 1e3),
    ("USD", "USD", 1.0),
    ("cent", "USD", 1e-2),
    ("USD per s", "USD per s", 1.0),
    ("USD per hour", "USD per s", 1.0 / 3600.0),
];

impl Unit {
    /// Returns the unit of that name; `None` for a number without one.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name.trim() {
            "" | "ratio" => return None,
            "percent" => "%",
            name => name,
        };
        Some(Self(name.to_owned()))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns whether it is a percentage, which is compared in points.
    pub fn is_percent(&self) -> bool {
        self.0 == "%"
    }

    /// Returns whether its numbers are counted, and so exact.
    pub fn is_count(&self) -> bool {
        self.0 == "count"
    }

    /// Returns whether its numbers are amounts, of which none is negative: times, sizes, prices, counts.
    pub fn is_amount(&self) -> bool {
        self.is_count() || CONVERTED.iter().any(|(name, ..)| *name == self.0)
    }

    fn base(&self) -> (&str, f64) {
        let known = CONVERTED.iter().find(|(name, ..)| *name == self.0);
        known.map_or((&self.0, 1.0), |(_, dimension, factor)| {
            (dimension, *factor)
        })
    }

    /// Returns what a number in `other` is multiplied by to be in this unit; `None` if the
    /// two are unlike.
    pub fn factor_from(&self, other: &Self) -> Option<f64> {
        let ((own, into), (theirs, from)) = (self.base(), other.base());
        (own == theirs).then_some(from / into)
    }

    /// Returns whether one is time and the other a sum of times that passed at once: the two
    /// readings of a column that mixes them.
    pub fn is_other_reading(&self, other: &Self) -> bool {
        let both = [self.base().0, other.base().0];
        both == ["s", "s summed"] || both == ["s summed", "s"]
    }
}
