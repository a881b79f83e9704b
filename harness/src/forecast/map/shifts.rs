//! How the map moves: with another store, another client, fewer bytes.

use epochcost_simulator::profile::Client;
use serde::Serialize;

use super::{Best, Cell, Field, Kind, MapRequest};
use crate::error::Error;
use crate::ui::table;

/// Place of functions with S3 Express One Zone.
const EXPRESS: &str = "lambda-x86-s3-express";

/// Platform profile by public measurements, which describes both clients.
const MEASURED: &str = "aws-us-east-1-2024";

/// Profile that it replaces.
const FITTED: &str = "aws-us-east-1";

/// What is compared with the map.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Without the place of that name.
    Without(&'static str),
    /// With the profile by public measurements and this client.
    Measured(Client),
    /// With a share of the parameters that is trained and exchanged.
    Exchanged(f64),
}

/// Every change, what it is compared with (a position before it, or none for the map as it is),
/// and its words.
const CHANGES: [(Change, Option<usize>, &str); 5] = [
    (Change::Without(EXPRESS), None, "without S3 Express"),
    (
        Change::Measured(Client::Compiled),
        None,
        "constants by public measurements",
    ),
    (
        Change::Measured(Client::Interpreted),
        Some(1),
        "interpreted client, against the line above",
    ),
    (Change::Exchanged(0.1), None, "a tenth of the bytes"),
    (Change::Exchanged(0.01), None, "a hundredth of the bytes"),
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
pub fn shifts(request: &MapRequest<'_>) -> Result<Shifts, Error> {
    let base = Field::new(request)?.cells(1.0)?;
    let mut maps: Vec<Vec<Cell>> = Vec::new();
    let mut shifts = vec![Shift::of("the map", &base, &base)];
    for (change, against, words) in CHANGES {
        let cells = change.cells(request)?;
        let other = against.and_then(|position| maps.get(position));
        shifts.push(Shift::of(words, other.unwrap_or(&base), &cells));
        maps.push(cells);
    }
    Ok(Shifts { shifts })
}

impl Change {
    fn cells(self, request: &MapRequest<'_>) -> Result<Vec<Cell>, Error> {
        let mut field = Field::new(request)?;
        match self {
            Self::Exchanged(share) => return field.cells(share),
            Self::Without(name) => field.sites.retain(|site| site.place.name != name),
            Self::Measured(client) => {
                for site in &mut field.sites {
                    if site.place.profile == FITTED {
                        *site = site.on(MEASURED, client)?;
                    }
                }
            }
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
        let heading = [
            "",
            "cheapest kind changes",
            "functions cheapest",
            "fastest kind changes",
            "functions fastest",
        ];
        let lines: Vec<_> = (self.shifts.iter())
            .map(|shift| {
                [
                    shift.change.to_owned(),
                    shift.cheapest_changed.to_string(),
                    shift.functions_cheapest.to_string(),
                    shift.fastest_changed.to_string(),
                    shift.functions_fastest.to_string(),
                ]
            })
            .collect();
        let cells = self.shifts.first().map_or(0, |shift| shift.cells);
        format!("Of {cells} cells:\n{}", table(heading, &lines))
    }
}
