//! Weights as the products of the points read them.

use super::super::lanes::Lanes;
use super::super::memory::{Output, Target, in_parallel};
use super::super::product::Panels;
use super::super::tile::MAX_COLUMNS;
use super::super::{Kernel, dispatch};
use super::POINTS;
use super::transforms::windows;

/// Taps of a window.
const TAPS: usize = 9;

/// Order of the windows of a weight by terms and columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) terms: usize,
    pub(super) columns: usize,
    /// Windows from one term to the next.
    pub(super) term: usize,
    /// Windows from one column to the next.
    pub(super) column: usize,
    /// Whether windows are turned around.
    pub(super) turned: bool,
}

/// `G g Gᵀ` of all windows, packed by points.
pub(super) fn transformed(weight: &[f32], order: Order) -> Vec<Panels> {
    let width = Panels::width_of(order.columns);
    let panels: Vec<usize> = (0..order.columns.div_ceil(width)).collect();
    let mut packed: Vec<Output> = (0..POINTS)
        .map(|_| Output::new(panels.len() * order.terms * width))
        .collect();
    let targets: Vec<Target> = packed.iter_mut().map(Output::target).collect();
    in_parallel(&panels, |panel| {
        dispatch(Transform {
            weight,
            order,
            panel,
            targets: &targets,
        });
    });
    packed
        .into_iter()
        // SAFETY: the panels cover the columns, and each writes all points of its own.
        .map(|values| Panels::of(unsafe { values.written() }, [order.terms, order.columns]))
        .collect()
}

struct Transform<'a> {
    weight: &'a [f32],
    order: Order,
    panel: usize,
    targets: &'a [Target],
}

impl Kernel for Transform<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let order = self.order;
        let first = self.panel * L::COLUMNS;
        let mut taps = [[0.0f32; MAX_COLUMNS]; TAPS];
        for term in 0..order.terms {
            let from = (term * order.term + first * order.column) * TAPS;
            let from = self.weight[from..].chunks_exact(TAPS);
            let held = L::COLUMNS.min(order.columns - first);
            for (column, window) in from.step_by(order.column).take(held).enumerate() {
                for (tap, value) in window.iter().enumerate() {
                    let tap = if order.turned { TAPS - 1 - tap } else { tap };
                    taps[tap][column] = *value;
                }
            }
            let row = (self.panel * order.terms + term) * L::COLUMNS;
            for at in [0, L::WIDTH] {
                // SAFETY: the panel's rows are its own, and hold whole vectors.
                unsafe {
                    let mut g = [L::splat(0.0); TAPS];
                    for (g, taps) in g.iter_mut().zip(&taps) {
                        *g = L::load(taps.as_ptr().add(at));
                    }
                    let points = windows::<L>(g);
                    for (target, point) in self.targets.iter().zip(points) {
                        L::store(target.at(row + at), point);
                    }
                }
            }
        }
    }
}
