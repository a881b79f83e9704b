//! A calibration for people.

use epochcost_spec::format::usd;
use epochcost_spec::ui::table;

use super::plan::Proposed;
use super::{Calibrated, Proposals};

/// Columns of constants.
const CONSTANTS: [&str; 6] = ["constant", "before", "after", "moved by", "weight", "rows"];

/// Columns of measurements worth making.
const PROPOSED: [&str; 5] = ["measure", "setting", "times", "price", "deviation after"];

impl Calibrated {
    /// Returns what moved, what did not and why, and what to measure next, as plain text.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.rows > 0 {
            parts.push(self.moved());
        }
        parts.extend((self.constants.iter()).filter(|moved| moved.scatter > 1.0).map(|moved| {
            format!(
                "warning: rows of {} scatter {:.1} times as much as their errors and days: its range is as wide as \
                 they are apart",
                moved.path, moved.scatter
            )
        }));
        let stay = self.stay.iter().map(|stays| {
            format!(
                "warning: {} stays as it was: these rows do not tell it from {}, since their sizes, memory \
                 and counts do not differ enough",
                stays.path, stays.with
            )
        });
        parts.extend(stay);
        if !self.unused.is_empty() {
            parts.push(format!(
                "rows that move no constant: {}",
                self.unused.join(", ")
            ));
        }
        parts.extend(self.proposed.as_ref().map(Proposals::text));
        parts.join("\n\n")
    }

    fn moved(&self) -> String {
        let rows: Vec<[String; 6]> = (self.constants.iter())
            .map(|moved| {
                let range =
                    |[value, low, high]: [f64; 3]| format!("{value:.3e} ({low:.2e} to {high:.2e})");
                [
                    moved.path.clone(),
                    range(moved.before),
                    range(moved.after),
                    format!("{:+.0} %", (moved.after[0] / moved.before[0] - 1.0) * 100.0),
                    format!("{:.0} %", moved.weight * 100.0),
                    moved.rows.to_string(),
                ]
            })
            .collect();
        let head = format!(
            "{}, calibrated; rows: {}, series: {}. Weight: share of the variance of a constant's logarithm \
             that the rows take away.",
            self.profile, self.rows, self.days
        );
        let moved = if rows.is_empty() {
            "no constant moves".to_owned()
        } else {
            table(CONSTANTS, &rows)
        };
        let error = self.error.map(|[before, after]| {
            format!(
                "median error of these rows: {:.0} % before, {:.0} % after; they moved the constants, so that \
                 it is no judgement",
                before * 100.0,
                after * 100.0
            )
        });
        let parts = [Some(head), Some(moved), error];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}

impl Proposals {
    fn text(&self) -> String {
        let rows: Vec<[String; 5]> = (self.measurements.iter().enumerate())
            .map(|(index, proposed)| {
                [
                    (index + 1).to_string(),
                    proposed.setting.clone(),
                    proposed.count.to_string(),
                    usd(proposed.usd),
                    format!("{:.2}", proposed.deviation),
                ]
            })
            .collect();
        let lines: Vec<String> = self.measurements.iter().map(Proposed::line).collect();
        format!(
            "The smallest measurements that narrow ranges most: the mean deviation of the logarithm of a \
             request, a call or a start on another day is {:.2} now.\n{}\nFill in the mean seconds as \
             `measured`, and give the file to `epochcost profile calibrate`:\n\n{}\n{}",
            self.deviation,
            table(PROPOSED, &rows),
            Proposed::header(),
            lines.join("\n")
        )
    }
}
