//! A calibration for people.

use epochcost_spec::format::usd;

use super::plan::{Proposals, Proposed};
use super::{Calibrated, Moved};
use crate::columns::table;

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
        if self.repeated > 0 {
            parts.push(format!(
                "note: REPORT lines that are there twice count once: {} left out",
                self.repeated
            ));
        }
        if !self.unused.is_empty() {
            let unused = self.unused.join(", ");
            parts.push(format!("rows that move no constant: {unused}"));
        }
        parts.extend(self.proposed.as_ref().map(Proposals::text));
        parts.join("\n\n")
    }

    fn moved(&self) -> String {
        let range = |[value, low, high]: [f64; 3]| format!("{value:.3e} ({low:.2e} to {high:.2e})");
        let by = |one: &Moved| (one.after[0] / one.before[0] - 1.0) * 100.0;
        let head = format!(
            "{}, calibrated; rows: {}, series: {}. Weight: share of the variance of a constant's logarithm \
             that the rows take away.",
            self.profile, self.rows, self.days
        );
        let moved = if self.constants.is_empty() {
            "no constant moves".to_owned()
        } else {
            table(
                &self.constants,
                [
                    ("constant", &|one| one.path.clone()),
                    ("before", &|one| range(one.before)),
                    ("after", &|one| range(one.after)),
                    ("moved by", &|one| format!("{:+.0} %", by(one))),
                    ("weight", &|one| format!("{:.0} %", one.weight * 100.0)),
                    ("rows", &|one| one.rows.to_string()),
                ],
            )
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
        let numbered: Vec<(usize, &Proposed)> = (1..).zip(&self.measurements).collect();
        let table = table(
            &numbered,
            [
                ("measure", &|(number, _)| number.to_string()),
                ("setting", &|(_, one)| one.setting.clone()),
                ("times", &|(_, one)| one.count.to_string()),
                ("price", &|(_, one)| usd(one.usd)),
                ("deviation after", &|(_, of)| format!("{:.2}", of.deviation)),
            ],
        );
        let lines: Vec<String> = self.measurements.iter().map(Proposed::line).collect();
        format!(
            "The smallest measurements that narrow ranges most: the mean deviation of the logarithm of a \
             request, a call or a start on another day is {:.2} now.\n{table}\nFill in the mean seconds as \
             `measured`, and give the file to `epochcost profile calibrate`:\n\n{}\n{}",
            self.deviation,
            Proposed::header(),
            lines.join("\n")
        )
    }
}
