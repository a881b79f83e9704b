use epochcost_kernels::optimizer::Sgd;

/// An SGD step done inside the store: `g += decay·w; v = momentum·v + g;
/// w -= rate·v`, PyTorch's semantics. The velocity lives beside the
/// parameters, under the key `{parameters}:velocity`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// Learning rate.
    pub learning_rate: f32,
    /// Momentum; 0 keeps no velocity.
    pub momentum: f32,
    /// Weight decay (L2, added to the gradient).
    pub weight_decay: f32,
}

impl SgdStep {
    /// Returns learning rate, momentum and weight decay.
    #[must_use]
    pub const fn settings(&self) -> [f32; 3] {
        [self.learning_rate, self.momentum, self.weight_decay]
    }
}

impl From<SgdStep> for Sgd {
    fn from(step: SgdStep) -> Self {
        Self {
            learning_rate: step.learning_rate.into(),
            momentum: step.momentum.into(),
            weight_decay: step.weight_decay.into(),
        }
    }
}

/// A reduction that survives wrong gradients from some workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RobustRule {
    /// The median of each coordinate.
    CoordinateMedian,
    /// The mean of each coordinate without its `trim` smallest and largest.
    TrimmedMean {
        /// Values left out on either side.
        trim: usize,
    },
    /// The vector nearest to its neighbours (Blanchard et al. 2017).
    Krum {
        /// Wrong vectors to survive.
        faulty: usize,
    },
    /// The mean of the vectors that Krum would select first (Blanchard et al. 2017).
    MultiKrum {
        /// Wrong vectors to survive.
        faulty: usize,
        /// Vectors of which the mean is taken.
        kept: usize,
    },
    /// The geometric median by the smoothed Weiszfeld algorithm (Pillutla et al. 2022).
    GeometricMedian {
        /// Iterations.
        iterations: usize,
        /// Distance below which weights no longer grow.
        smoothing: f32,
    },
    /// The mean of the vectors' differences from a centre, clipped (Karimireddy et al.
    /// 2021). The centre is the value at the destination, or 0.
    CentredClipping {
        /// Length at which a difference is clipped.
        radius: f32,
        /// Iterations.
        iterations: usize,
    },
}

impl RobustRule {
    /// Returns the rule's name and settings in the order of the wire; `float` writes an f32.
    pub fn words(&self, float: impl Fn(f32) -> String) -> Vec<String> {
        let (name, settings) = match *self {
            Self::CoordinateMedian => ("MEDIAN", Vec::new()),
            Self::TrimmedMean { trim } => ("TRIMMED", vec![trim.to_string()]),
            Self::Krum { faulty } => ("KRUM", vec![faulty.to_string()]),
            Self::MultiKrum { faulty, kept } => {
                ("MULTIKRUM", vec![faulty.to_string(), kept.to_string()])
            }
            Self::GeometricMedian {
                iterations,
                smoothing,
            } => ("GEOMETRIC", vec![iterations.to_string(), float(smoothing)]),
            Self::CentredClipping { radius, iterations } => {
                ("CLIPPED", vec![float(radius), iterations.to_string()])
            }
        };
        std::iter::once(name.to_owned()).chain(settings).collect()
    }
}

/// Passes of one squared distance in f64.
const DISTANCE_PASSES: f64 = 2.0;
/// Passes of sorting the coordinates of n vectors, over n².
const SORT_PASSES: f64 = 1.0;
/// Passes of one iteration towards a centre, per vector.
const CENTRE_PASSES: f64 = 4.0;

/// A robust rule, and what is done to the vectors before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobustMean {
    /// Wrong vectors to survive in nearest-neighbour mixing, which replaces each vector
    /// by the mean of those nearest to it (Allouah et al. 2023); none: no mixing.
    pub mixed: Option<usize>,
    /// The rule.
    pub rule: RobustRule,
}

impl From<RobustRule> for RobustMean {
    fn from(rule: RobustRule) -> Self {
        Self { mixed: None, rule }
    }
}

impl RobustMean {
    /// Returns the cost for `count` vectors, in vectors read or written by a mean that
    /// takes as long: a mean of W reads W and writes one.
    ///
    /// The factors count what the kernels read and write (`docs/METHODOLOGY.md`, "Robust
    /// means"); the example `robust` of the kernels prints measured ones.
    #[must_use]
    pub fn passes(&self, count: usize) -> usize {
        let pairs = count * count.saturating_sub(1) / 2;
        let distances = DISTANCE_PASSES * pairs as f64;
        let mixing = match self.mixed {
            Some(faulty) => distances + (count * (count.saturating_sub(faulty) + 1)) as f64,
            None => 0.0,
        };
        let rule = match self.rule {
            // Sorting networks of n rounds, of half of the vectors each.
            RobustRule::CoordinateMedian | RobustRule::TrimmedMean { .. } => {
                SORT_PASSES * (count * count) as f64 + (count + 1) as f64
            }
            RobustRule::Krum { .. } => distances + 2.0,
            RobustRule::MultiKrum { kept, .. } => distances + (kept + 1) as f64,
            RobustRule::GeometricMedian { iterations, .. }
            | RobustRule::CentredClipping { iterations, .. } => {
                CENTRE_PASSES * (iterations * count) as f64
            }
        };
        (mixing + rule).round() as usize
    }

    /// Whether the result depends on the value at the destination.
    #[must_use]
    pub const fn has_state(&self) -> bool {
        matches!(self.rule, RobustRule::CentredClipping { .. })
    }
}
