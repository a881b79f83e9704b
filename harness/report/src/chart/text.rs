//! Widths of text. A chart is drawn before a browser measures it, so that every text is
//! given the room that it needs in a wide font.

/// Size of text in charts, pixels.
pub const TEXT_SIZE: f64 = 12.5;

/// Factor by which semi-bold text is wider.
const BOLD: f64 = 1.12;

/// Width of any other character, thousandths of the size.
const OTHER: u16 = 840;

/// Advance widths of the characters from space to tilde in DejaVu Sans, thousandths of the
/// size: system fonts (Segoe UI, Helvetica, Roboto, San Francisco) are narrower.
const WIDTHS: [u16; 95] = [
    317, 400, 459, 837, 636, 950, 779, 274, 390, 390, 500, 837, 317, 360, 317, 336, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 336, 336, 837, 837, 837, 530, 1000, 684, 686, 698, 770, 631,
    575, 774, 751, 294, 294, 655, 557, 862, 748, 787, 603, 787, 694, 634, 610, 731, 684, 988, 685,
    610, 685, 390, 336, 390, 837, 500, 500, 612, 634, 549, 634, 615, 352, 634, 633, 277, 277, 579,
    277, 974, 633, 611, 634, 634, 411, 520, 392, 633, 591, 817, 591, 591, 524, 636, 336, 636, 837,
];

/// Returns the width of a text in a chart, pixels.
pub fn text_width(text: &str) -> f64 {
    let width = |c: char| {
        let place = (c as usize).wrapping_sub(' ' as usize);
        let known = WIDTHS.get(place).copied();
        f64::from(match c {
            '·' => 317,
            '–' => 500,
            _ => known.unwrap_or(OTHER),
        })
    };
    text.chars().map(width).sum::<f64>() * TEXT_SIZE / 1000.0
}

/// Returns the width of a semi-bold text.
pub fn bold_width(text: &str) -> f64 {
    text_width(text) * BOLD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_are_wider_than_narrow_ones() {
        assert!(text_width("MMM") > 3.0 * text_width("iii"));
        assert_eq!(text_width(""), 0.0);
        assert!(text_width("±") > 0.0 && bold_width("a") > text_width("a"));
    }
}
