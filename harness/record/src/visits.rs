//! Trials of a reproduction spread over days: each visit runs what is due by then, one trial of each
//! row, and removes all that it made.

use jiff::{SignedDuration, Timestamp};

use super::reproduction::Visits;

const DAY_S: f64 = 86_400.0;

/// What a visit does of an item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Due {
    /// Its first trials, so many of each row.
    Until(usize),
    /// Nothing before that time.
    Later(Timestamp),
}

impl Visits {
    /// Returns what is due `now` of an item of so many trials a row, of which `ended` of `planned` have
    /// ended over all rows.
    pub fn due(&self, now: Timestamp, trials: usize, (ended, planned): (usize, usize)) -> Due {
        let rows = (planned / trials.max(1)).max(1);
        let whole = ended / rows;
        // What a visit cut short is due at once, and no visit makes up for several.
        let begun = ended.div_ceil(rows);
        if begun > whole {
            return Due::Until(begun);
        }
        let at = self.at(whole, trials);
        if now < at {
            return Due::Later(at);
        }
        Due::Until((whole + 1).min(trials))
    }

    /// Returns when the trial of that number is due.
    fn at(&self, trial: usize, trials: usize) -> Timestamp {
        let after_s = self.days * DAY_S * trial as f64 / trials.max(1) as f64;
        let at = SignedDuration::try_from_secs_f64(self.began_s + after_s);
        at.and_then(Timestamp::from_duration)
            .unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    #[test]
    fn a_visit_runs_one_trial_of_each_row_that_is_due() {
        let began = Timestamp::UNIX_EPOCH;
        let visits = Visits {
            began_s: 0.0,
            days: 7.0,
        };
        // Three trials of two rows: due at once, on day 7/3, and on day 14/3.
        let due = |day: i32, ended| visits.due(began + DAY * day, 3, (ended, 6));
        assert_eq!(due(0, 0), Due::Until(1));
        assert_eq!(due(0, 1), Due::Until(1));
        let third_day = began + DAY * 2..began + DAY * 3;
        assert!(matches!(due(0, 2), Due::Later(at) if third_day.contains(&at)));
        assert_eq!(due(3, 2), Due::Until(2));
        // Nobody came for weeks.
        assert_eq!(due(30, 2), Due::Until(2));
        assert_eq!(due(30, 4), Due::Until(3));
        // A visit was cut short.
        assert_eq!(due(3, 3), Due::Until(2));
        assert_eq!(due(0, 5), Due::Until(3));
    }
}
