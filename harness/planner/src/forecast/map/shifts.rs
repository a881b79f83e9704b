//! How the map moves: with another store, another client, fewer bytes.

use epochcost_simulator::profile::Client;
use epochcost_spec::profiles;
use serde::Serialize;

use super::{Best, Cell, Field, Kind, MapRequest, experiment};
use crate::columns::table;
use crate::error::Result;

/// Place of functions with S3 Express One Zone.
const EXPRESS: &str = "lambda-x86-s3-express";

/// Platform profile whose constants were fitted to a paper, in the place of the map's.
const FITTED: &str = "aws-us-east-1";

/// What is compared with the map.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Without the place of that name.
    Without(&'static str),
    /// With the profile that was fitted to a paper.
    Fitted,
    /// With an interpreted client.
    Interpreted,
    /// With a share of the parameters that is trained and exchanged.
    Exchanged(f64),
}

/// Every change of the map, and its words.
const CHANGES: [(Change, &str); 5] = [
    (Change::Without(EXPRESS), "without S3 Express"),
    (Change::Fitted, "constants fitted to a paper"),
    (Change::Interpreted, "interpreted client"),
    (Change::Exchanged(0.1), "a tenth of the bytes"),
    (Change::Exchanged(0.01), "a hundredth of the bytes"),
];

/// One change of the map.
#[derive(Clone, Debug, Serialize)]
pub struct Shift {
    /// The change in words.
    pub change: &'static str,
    /// Cells.
    pub cells: usize,
    /// Cells whose cheapest kind of place is another one.
    pub cheapest_changed: usize,
    /// Cells in which functions are the cheapest.
    pub functions_cheapest: usize,
    /// Cells whose fastest kind of place is another one.
    pub fastest_changed: usize,
    /// Cells in which functions are the fastest.
    pub functions_fastest: usize,
}

/// How the map moves.
#[derive(Clone, Debug, Serialize)]
pub struct Shifts {
    /// The map as it is, and each change.
    pub shifts: Vec<Shift>,
}

/// Returns how many cells change owner by each change.
///
/// # Errors
/// When a place cannot be used, or something has no price.
pub fn shifts(request: &MapRequest<'_>) -> Result<Shifts> {
    let base = Field::new(request)?.cells(1.0)?;
    let mut shifts = vec![Shift::of("the map", &base, &base)];
    for (change, words) in CHANGES {
        shifts.push(Shift::of(words, &base, &change.cells(request)?));
    }
    Ok(Shifts { shifts })
}

impl Change {
    fn cells(self, request: &MapRequest<'_>) -> Result<Vec<Cell>> {
        let mut experiment = experiment(request.samples)?;
        if let Some(stands) = &mut experiment.simulation {
            match self {
                Self::Fitted => stands.profile = profiles::platform(FITTED)?,
                Self::Interpreted => stands.client = Client::Interpreted,
                Self::Without(_) | Self::Exchanged(_) => {}
            }
        }
        let (mut field, _) = Field::of(request, experiment)?;
        match self {
            Self::Exchanged(share) => return field.cells(share),
            Self::Without(name) => field.sites.retain(|site| site.place.name != name),
            Self::Fitted | Self::Interpreted => {}
        }
        field.cells(1.0)
    }
}

impl Shift {
    fn of(change: &'static str, before: &[Cell], after: &[Cell]) -> Self {
        let kind = |best: &Option<Best>| best.as_ref().map(|best| best.kind);
        let changed = |of: fn(&Cell) -> &Option<Best>| {
            let pairs = before.iter().zip(after);
            pairs.filter(|(a, b)| kind(of(a)) != kind(of(b))).count()
        };
        let functions = |of: fn(&Cell) -> &Option<Best>| {
            let functions = |cell: &&Cell| kind(of(cell)) == Some(Kind::Functions);
            after.iter().filter(functions).count()
        };
        let cheapest: fn(&Cell) -> &Option<Best> = |cell| &cell.cheapest;
        let fastest: fn(&Cell) -> &Option<Best> = |cell| &cell.fastest;
        Self {
            change,
            cells: after.len(),
            cheapest_changed: changed(cheapest),
            functions_cheapest: functions(cheapest),
            fastest_changed: changed(fastest),
            functions_fastest: functions(fastest),
        }
    }
}

impl Shifts {
    /// Returns the changes as a table.
    pub fn text(&self) -> String {
        let table = table(
            &self.shifts,
            [
                ("", &|shift| shift.change.to_owned()),
                ("cheapest kind changes", &|of| {
                    of.cheapest_changed.to_string()
                }),
                ("functions cheapest", &|of| {
                    of.functions_cheapest.to_string()
                }),
                ("fastest kind changes", &|of| of.fastest_changed.to_string()),
                ("functions fastest", &|of| of.functions_fastest.to_string()),
            ],
        );
        let cells = self.shifts.first().map_or(0, |shift| shift.cells);
        format!("Of {cells} cells:\n{table}")
    }
}
