//! Every author's figures from the other authors' alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use epochcost_simulator::profile::{Constant, Profile};
use epochcost_spec::profiles::misses::Scope;
use serde::Serialize;

use super::calibrate::{Row, What, without};
use super::cells::{Cell, Setting};
use super::compare;
use super::file::File;
use super::predict::Predictor;
use super::rounds::Prices;
use super::score::{Compared, Scored};
use crate::error::Result;

/// Scores of one author's cells, predicted by constants that follow from those of the others.
#[derive(Serialize)]
pub(super) struct LeftOut {
    pub(super) author: String,
    pub(super) scope: Scope,
    #[serde(flatten)]
    pub(super) scored: Scored,
}

/// A figure of a file that can move constants, or not.
pub(super) struct Own<'a> {
    pub(super) file: &'a File,
    pub(super) author: &'a str,
    pub(super) cell: Cell,
    /// The figure as one that constants can be moved by: of a single operation that is no judge's.
    pub(super) row: Option<Row>,
}

/// Reads every figure of files.
pub(super) fn own(files: &[File]) -> Result<Vec<Own<'_>>> {
    let mut all = Vec::new();
    for file in files {
        let constants = Arc::new(file.constants.clone());
        for cell in file.cells()? {
            let row = match cell.setting {
                Setting::Operation(probe) if !file.is_judge() => Some(Row {
                    series: format!("{} {}", file.name, cell.series),
                    what: What::Operation(probe),
                    statistic: cell.statistic,
                    measured: cell.measured,
                    place: cell.place.clone(),
                    constants: Arc::clone(&constants),
                }),
                _ => None,
            };
            all.push(Own {
                file,
                author: file.author(&cell.series),
                cell,
                row,
            });
        }
    }
    Ok(all)
}

/// Compares figures with their predictions on `platform`.
pub(super) fn compared(
    own: &[&Own<'_>],
    predictors: &[(&File, Predictor)],
    platform: &Profile<Constant>,
    draws: u32,
) -> Result<Vec<Compared>> {
    let mut all = Vec::new();
    for (file, predictor) in predictors {
        let of_file = own.iter().filter(|own| std::ptr::eq(own.file, *file));
        let cells: Vec<Cell> = of_file.map(|own| own.cell.clone()).collect();
        if cells.is_empty() {
            continue;
        }
        let predictor = predictor.on(platform);
        let predicted = predictor.predict(&cells, draws, None)?;
        all.extend(cells.iter().zip(predicted).map(compare(file, &predictor)));
    }
    Ok(all)
}

/// Predicts the cells of each author in turn, from constants that only the rows of the others moved: from
/// wherever the profile states them. Constants of which the others show nothing stay as they are, the
/// author's own among them. Judges are predicted and move nothing.
pub(super) fn left_out(files: &[File], draws: u32) -> Result<Vec<LeftOut>> {
    let Some(first) = files.first() else {
        return Ok(Vec::new());
    };
    if let Some(other) = files.iter().find(|file| file.profile != first.profile) {
        return Err(
            other.error("its profile is not that of the other files: name one with --profile")
        );
    }
    let profile = first.platform()?;
    let all = own(files)?;
    let known = all.iter();
    let rows = known.filter_map(|own| Some((own.author, own.row.clone()?)));
    let (whose, rows): (Vec<&str>, Vec<Row>) = rows.unzip();
    let predictors = files.iter().map(|file| Ok((file, Predictor::new(file)?)));
    let predictors: Vec<(&File, Predictor)> = predictors.collect::<Result<_>>()?;
    let prices = Prices::shipped()?;
    let fit = without(&profile, &rows, &prices);
    let mut scores = Vec::new();
    let authors: BTreeSet<&str> = all.iter().map(|own| own.author).collect();
    for author in authors {
        let platform = fit(&whose.iter().map(|of| *of != author).collect::<Vec<_>>());
        let own: Vec<&Own<'_>> = all.iter().filter(|own| own.author == author).collect();
        let compared = compared(&own, &predictors, &platform, draws)?;
        for scope in Scope::ALL {
            let own = compared.iter().filter(|cell| cell.scope == scope);
            scores.extend(
                Scored::of(&own.cloned().collect::<Vec<_>>()).map(|scored| LeftOut {
                    author: author.to_owned(),
                    scope,
                    scored,
                }),
            );
        }
    }
    Ok(scores)
}
