//! `ledger.csv`: the terms of every claim since the day on which they were
//! written. Lines are only ever appended.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{PublishedError, Row, Table, directory};
use crate::claims::{Claim, ClaimKind, Known, Metric, Prediction, VerdictKind};
use crate::shipped;

/// The file's name; it lies beside the directory `published`.
pub const LEDGER: &str = "ledger.csv";

/// The lines of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    lines: Vec<Line>,
    /// Directory that the files' names are relative to.
    root: PathBuf,
}

#[derive(Clone, Debug)]
struct Line {
    file: String,
    claim: String,
    prediction: Prediction,
}

impl Ledger {
    /// Reads the ledger beside an experiment; an empty one if there is none.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn beside(experiment: &Path) -> Result<Self, PublishedError> {
        let published = directory(experiment).ok();
        let root = published.as_deref().and_then(Path::parent);
        match root.filter(|root| shipped::is_file(&root.join(LEDGER))) {
            Some(root) => Self::read(root),
            None => Ok(Self::default()),
        }
    }

    /// Reads the ledger of the experiments under `root`.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn read(root: &Path) -> Result<Self, PublishedError> {
        let table = Table::read(&root.join(LEDGER))?;
        let lines: Result<Vec<Line>, PublishedError> = table.rows().map(line).collect();
        Ok(Self {
            lines: lines?,
            root: root.to_owned(),
        })
    }

    /// Returns the name of an experiment's file in the ledger.
    pub fn name_of(&self, experiment: &Path) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (file, root) = (absolute(experiment), absolute(&self.root));
        let relative = file.strip_prefix(root).unwrap_or(experiment);
        let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }

    /// Returns the lines about one claim of a file, oldest first.
    pub fn history(&self, file: &str, claim: &str) -> Vec<Prediction> {
        let lines = self.lines.iter();
        let of_claim = lines.filter(|line| line.file == file && line.claim == claim);
        of_claim.map(|line| line.prediction.clone()).collect()
    }

    /// Returns the file and the claim of every line.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines
            .iter()
            .map(|line| (line.file.as_str(), line.claim.as_str()))
    }
}

/// Returns the line that records a claim as it is now; `date` and `why` are left
/// to the writer.
pub fn line_for(file: &str, claim: &Claim, date: &str, why: &str) -> String {
    let expect = claim.expect.map_or(String::new(), |kind| kind.key());
    let cells = [
        file.to_owned(),
        claim.claim.clone(),
        claim.kind.to_string(),
        claim.metric.map_or("", Metric::name).to_owned(),
        claim
            .target
            .map_or(String::new(), |target| target.to_string()),
        claim.band_text(),
        expect,
        "before".to_owned(),
        date.to_owned(),
        why.to_owned(),
    ];
    cells.map(|cell| quoted(&cell)).join(",")
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn line(row: Row<'_>) -> Result<Line, PublishedError> {
    let text = |name: &str| row.text(name).map(str::to_owned);
    let damaged = |column: &str, found: &str| PublishedError::Table {
        place: row.place_of(column),
        reason: format!("{found:?} is no {column}"),
    };
    fn optional<T>(
        row: Row<'_>,
        column: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, PublishedError> {
        let text = row.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        read(text).map(Some).ok_or_else(|| PublishedError::Table {
            place: row.place_of(column),
            reason: format!("{text:?} is no {column}"),
        })
    }
    let kind = |text: &str| {
        ClaimKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
    };
    let verdict = |text: &str| VerdictKind::ALL.into_iter().find(|kind| kind.key() == text);
    let known = match row.text("known")? {
        "before" => Known::Before,
        "after" => Known::After,
        other => return Err(damaged("known", other)),
    };
    Ok(Line {
        file: text("file")?,
        claim: text("claim")?,
        prediction: Prediction {
            kind: optional(row, "kind", kind)?,
            metric: optional(row, "metric", Metric::named)?,
            target: optional(row, "target", |text| f64::from_str(text).ok())?,
            band: text("band")?,
            expect: optional(row, "expect", verdict)?,
            known,
            date: text("date")?,
            why: text("why")?,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HEAD: &str = "file,claim,kind,metric,target,band,expect,known,date,why\n";

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let claim: Claim = serde_json::from_str(
            r#"{"claim":"a, \"b\"","kind":"own","select":{},"metric":"time_to_accuracy",
                "target":0.8,"at_most":1,"expect":"holds"}"#,
        )
        .unwrap();
        let written = line_for("x/y.yaml", &claim, "2026-11-22", "");
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LEDGER), format!("{HEAD}{written}\n")).unwrap();
        let ledger = Ledger::read(directory.path()).unwrap();
        let history = ledger.history("x/y.yaml", "a, \"b\"");
        assert_eq!(history.len(), 1, "{written}");
        assert!(history[0].is_of(&claim), "{:?}", history[0]);
        assert_eq!(
            ledger.name_of(&directory.path().join("x/y.yaml")),
            "x/y.yaml"
        );
    }

    #[test]
    fn damage_is_located() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(LEDGER);
        std::fs::write(
            &file,
            format!("{HEAD}a,b,own,puts,,≤ 1,maybe,after,2026-11-22,\n"),
        )
        .unwrap();
        let error = Ledger::read(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains("ledger.csv:2:") && error.contains("\"maybe\""),
            "{error}"
        );
    }
}
