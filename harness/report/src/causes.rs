//! Causes of a gap, in words.

use epochcost_judge::analysis::Effect;
use epochcost_spec::format::{self, UNKNOWN};

/// Returns one line of a verdict's causes: the figure with the cause, what it
/// changes, and how much of the gap that is.
pub(super) fn line(effect: &Effect, value: impl Fn(f64) -> String) -> String {
    let Some(observed) = effect.observed else {
        return format!("{}: {UNKNOWN}", effect.cause);
    };
    let mut line = format!("{}: {}", effect.cause, value(observed));
    if let Some(change) = effect.change {
        let sign = if change < 0.0 { "−" } else { "+" };
        line.push_str(&format!(" ({sign}{}", value(change.abs())));
        if let Some(share) = effect.share {
            line.push_str(&format!(", {} of the gap", format::percent(share)));
        }
        line.push(')');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_value_change_and_share() {
        let mut effect = Effect {
            cause: "log rewritten".into(),
            row: Some("r".into()),
            observed: Some(30.0),
            observed_ci95: None,
            change: Some(-10.0),
            share: Some(-0.25),
        };
        let seconds = |value: f64| format!("{value} s");
        let whole = "log rewritten: 30 s (−10 s, -25.0 % of the gap)";
        assert_eq!(line(&effect, seconds), whole);
        effect.share = None;
        assert_eq!(line(&effect, seconds), "log rewritten: 30 s (−10 s)");
        effect.observed = None;
        assert_eq!(line(&effect, seconds), "log rewritten: –");
    }
}
