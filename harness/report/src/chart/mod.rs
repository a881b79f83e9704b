//! Charts as inline SVG. Colours come from the page's style, so that they
//! follow its light or dark scheme; nothing is shown by colour alone. Every chart is
//! drawn for a wide and for a narrow window, with text of the same size in both.

mod bands;
mod bars;
mod data;
mod labels;
mod lines;
mod marks;
mod scatter;
mod svg;
mod text;
mod ticks;
mod timeline;

pub use bands::{Band, band};
pub use bars::{Bar, Bars, Segment, bars};
pub use lines::{Axis, Crossing, End, Line, Lines, lines};
pub use marks::{Look, looks};
pub use scatter::{LowerBound, Mark, Scatter, scatter};
pub use timeline::{Lane, Piece, Span, Timeline, timeline};

use svg::Svg;
pub use svg::escape;
use text::text_width;

/// How many colours the style has.
pub(super) const COLOURS: usize = 8;

/// The window that a chart is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Of tablets, desktops and paper.
    Wide,
    /// Of telephones.
    Narrow,
}

impl Size {
    /// Both, the wide one first.
    pub const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Returns the width of a chart, pixels.
    pub fn width(self) -> f64 {
        match self {
            Self::Wide => 860.0,
            Self::Narrow => 350.0,
        }
    }

    fn is_narrow(self) -> bool {
        self == Self::Narrow
    }

    /// Returns what stands behind the id of a chart, and the class that the style shows in its
    /// window.
    fn suffix_and_class(self) -> [&'static str; 2] {
        match self {
            Self::Wide => ["", "for-wide"],
            Self::Narrow => ["-narrow", "for-narrow"],
        }
    }
}

/// Some of a chart's figures in words: enough to know what it shows; the
/// tables beside it have them all.
fn listed(parts: impl Iterator<Item = String>) -> String {
    const MOST: usize = 12;
    let mut parts = parts.peekable();
    let mut listed: Vec<String> = parts.by_ref().take(MOST).collect();
    if parts.peek().is_some() {
        listed.push("and more".into());
    }
    listed.join("; ")
}
