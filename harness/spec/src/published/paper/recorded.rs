//! `verdicts.csv`: the verdict on each claim of a paper in the recorded reproduction.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{PublishedError, Table};
use super::Paper;
use crate::claims::{Lost, VerdictKind};

/// The file's name, in the paper's folder.
pub const RECORDED: &str = "verdicts.csv";

impl Paper {
    /// Returns the recorded claims of an experiment that are not among those it makes.
    pub fn lost(&self, experiment: &str, is_made: impl Fn(&str) -> bool) -> Vec<Lost> {
        let claims = self.recorded.claims(experiment);
        let lost = claims.filter(|claim| !is_made(claim)).map(|claim| Lost {
            claim: claim.to_owned(),
            of: self.subject(claim).unwrap_or_default(),
        });
        lost.collect()
    }

    /// Returns the statement or cell that a claim of that name is about.
    pub fn subject(&self, claim: &str) -> Option<String> {
        let is_said = |says: &str| {
            let rest = claim.strip_prefix(says);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
        };
        let said = self.statements.iter().filter(|one| is_said(&one.says));
        if let Some(statement) = said.max_by_key(|one| one.says.len()) {
            return Some(statement.id.clone());
        }
        for table in &self.tables {
            let columns = self.grid.columns().iter();
            for column in columns.filter(|column| column.table == table.name) {
                let full = format!("{}.{}", column.table, column.name);
                for (at, cell) in column.cells() {
                    let at = match at[..table.printed_keys].join(", ") {
                        at if at.is_empty() => at,
                        at => format!("[{at}]"),
                    };
                    if [&column.name, &full]
                        .iter()
                        .any(|name| claim == format!("{name}{at}"))
                    {
                        return cell.place.rsplit(['/', '\\']).next().map(str::to_owned);
                    }
                }
            }
        }
        None
    }
}

/// Verdicts by experiment and claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded(BTreeMap<(String, String), Line>);

/// A verdict with the day and the reason of its last change.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    verdict: VerdictKind,
    date: String,
    why: String,
}

impl Recorded {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// When one is no verdict, or there are two on one claim.
    pub fn of(table: &Table) -> Result<Self, PublishedError> {
        table.refuse_repeated(&["experiment", "claim"])?;
        let mut lines = BTreeMap::new();
        for row in table.rows() {
            let word = row.text("verdict")?;
            let Some(verdict) = VerdictKind::named(word) else {
                let known = VerdictKind::ALL.map(VerdictKind::key).join(", ");
                let reason = format!("{word:?} is no verdict: write {known}");
                return Err(PublishedError::table(row.place_of("verdict"), reason));
            };
            let line = Line {
                verdict,
                date: row.text("date")?.to_owned(),
                why: row.text("why")?.to_owned(),
            };
            let [experiment, claim] = ["experiment", "claim"].map(|name| row.text(name));
            lines.insert((experiment?.to_owned(), claim?.to_owned()), line);
        }
        Ok(Self(lines))
    }

    /// Returns the verdict on a claim of an experiment.
    pub fn verdict(&self, experiment: &str, claim: &str) -> Option<VerdictKind> {
        let key = (experiment.to_owned(), claim.to_owned());
        self.0.get(&key).map(|line| line.verdict)
    }

    /// Returns the claims that an experiment has verdicts on.
    pub fn claims<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a str> {
        let keys = self.0.keys().filter(move |(own, _)| own == experiment);
        keys.map(|(_, claim)| claim.as_str())
    }

    /// Returns the experiments that have verdicts.
    pub fn experiments(&self) -> BTreeSet<&str> {
        self.0.keys().map(|(own, _)| own.as_str()).collect()
    }

    /// Replaces the verdicts on an experiment; those that stay the same keep their day and reason.
    pub fn accept<'a>(
        &mut self,
        experiment: &str,
        verdicts: impl Iterator<Item = (&'a str, VerdictKind)>,
        date: &str,
        why: &str,
    ) {
        let own: BTreeMap<_, _> = (self.0)
            .extract_if(.., |(of, _), _| of == experiment)
            .collect();
        for (claim, verdict) in verdicts {
            let key = (experiment.to_owned(), claim.to_owned());
            let same = own.get(&key).filter(|line| line.verdict == verdict);
            let line = same.cloned().unwrap_or_else(|| Line {
                verdict,
                date: date.to_owned(),
                why: why.to_owned(),
            });
            self.0.insert(key, line);
        }
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text = "experiment,claim,verdict,date,why\n".to_owned();
        for ((experiment, claim), line) in &self.0 {
            let verdict = line.verdict.key();
            let cells = [experiment, claim, &verdict, &line.date, &line.why];
            let cells = cells.map(|cell| quoted(cell));
            text.push_str(&format!("{}\n", cells.join(",")));
        }
        text
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    const TEXT: &str = "experiment,claim,verdict,date,why\n\
                        a,\"s[x, y]\",agrees,2026-11-01,first\n\
                        a,t,open,2026-11-01,first\n\
                        b,t,differs,2026-11-02,\n";

    fn read(text: &str) -> Result<Recorded, PublishedError> {
        Recorded::of(&Table::parse("verdicts.csv", text)?)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let recorded = read(TEXT).unwrap();
        assert_eq!(recorded.verdict("a", "s[x, y]"), Some(VerdictKind::Agrees));
        assert_eq!(recorded.verdict("b", "s[x, y]"), None);
        assert_eq!(recorded.text(), TEXT);
        let wrong = read(&TEXT.replace("differs", "reproduced"));
        holds(wrong.unwrap_err(), &["verdicts.csv:4:5", "rather_agrees"]);
    }

    #[test]
    fn what_stays_the_same_keeps_its_day() {
        let mut recorded = read(TEXT).unwrap();
        let now = [("s[x, y]", VerdictKind::Agrees), ("u", VerdictKind::Open)];
        recorded.accept("a", now.into_iter(), "2026-12-01", "wider ranges");
        assert_eq!(
            recorded.text(),
            "experiment,claim,verdict,date,why\n\
             a,\"s[x, y]\",agrees,2026-11-01,first\n\
             a,u,open,2026-12-01,wider ranges\n\
             b,t,differs,2026-11-02,\n"
        );
    }
}
