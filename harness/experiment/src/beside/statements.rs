//! A paper's statements over an experiment's rows.

use epochcost_spec::claims::{Claim, ClaimKind, own};
use epochcost_spec::formula::{Beside, Column, Formula, Unit};
use epochcost_spec::published::{Kind, Statement};
use epochcost_spec::rows::Row;
use epochcost_spec::suggest::did_you_mean;
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::Options;
use super::super::document::Node;
use super::super::error::ExperimentError;
use super::{Bound, Side, figure};

/// A statement of the paper in the experiment's own rows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stated {
    /// Id of the statement.
    of: String,
    /// What this one is about, where several are of one statement.
    about: Option<String>,
    /// Formula over the rows, as of `checks`.
    formula: String,
    /// Reason why the observed figures are others than the paper's.
    not_comparable: Option<String>,
}

impl Side<'_> {
    /// Returns a claim for each instance of a statement of whose cells all have a row beside them.
    pub(super) fn statements(&self) -> Vec<Claim> {
        let beside = |column: &Column, at: &[String]| {
            let is_it = |bound: &&Bound| {
                let own = &self.grid.columns()[bound.column];
                own.table == column.table && own.name == column.name && bound.at == at
            };
            let bound = self.bound.iter().find(is_it)?;
            let printed = column.cell(at);
            Some(Beside {
                figure: figure(bound.metric, bound.target),
                row: bound.row.clone(),
                factor: bound.scale.apply(1.0),
                unit: printed.map_or_else(|| Unit::named(&bound.unit), |cell| cell.unit.clone()),
            })
        };
        let mut claims = Vec::new();
        for statement in &self.paper.statements {
            // A set-up that an experiment follows cannot fail in it.
            let is_said = !matches!(statement.kind, Kind::Follows | Kind::Check | Kind::SetUp);
            let Some(formula) = statement.formula.as_ref().filter(|_| is_said) else {
                continue;
            };
            // What it names may stand in another experiment.
            let Ok(resolved) = formula.resolve(&self.grid) else {
                continue;
            };
            let is_percentage = |name: &String| {
                let number = self.grid.number(name);
                number.is_some_and(|number| number.cell.unit.as_ref().is_some_and(Unit::is_percent))
            };
            let in_points = formula.names().iter().any(is_percentage);
            for instance in resolved.over_rows(&self.grid, &beside) {
                let at: Vec<&str> = instance.at.iter().map(|(_, value)| &**value).collect();
                let about = (!at.is_empty()).then(|| at.join(", "));
                let Ok(over_rows) = Formula::parse(&instance.text) else {
                    continue;
                };
                let reads = |bound: &&Bound| {
                    let name = figure(bound.metric, bound.target);
                    instance.text.contains(&format!("{name}[{}]", bound.row))
                };
                let mut bound = self.bound.iter().filter(reads);
                let left_open = bound.find_map(|bound| bound.not_comparable.clone());
                claims.push(Claim {
                    in_points,
                    not_comparable: statement.why.clone().or(left_open),
                    ..self.claim(statement, about.as_deref(), &over_rows)
                });
            }
        }
        claims
    }

    /// Returns the claim of a statement in the experiment's own rows.
    pub(super) fn stated(
        &self,
        node: &Node,
        stated: &Stated,
        rows: &[&Row],
        options: &Options,
    ) -> Result<Claim, ExperimentError> {
        let mut statements = self.paper.statements.iter();
        let Some(statement) = statements.find(|statement| statement.id == stated.of) else {
            let known: Vec<&str> = self.paper.statements.iter().map(|one| &*one.id).collect();
            let problem = format!("the paper has no statement `{}`", stated.of);
            let remedy = did_you_mean(&stated.of, &known);
            return Err(self.document.error(node.origin_of("of"), problem, remedy));
        };
        let refused = |error| super::super::own::refused(self.document, node, error);
        let formula = Formula::parse(&stated.formula).map_err(refused)?;
        if options.is_whole() {
            own::OverRows::check(&stated.formula, rows).map_err(refused)?;
        }
        Ok(Claim {
            not_comparable: stated.not_comparable.clone(),
            ..self.claim(statement, stated.about.as_deref(), &formula)
        })
    }

    /// Returns the claim of a statement by a formula over rows.
    fn claim(&self, statement: &Statement, about: Option<&str>, formula: &Formula) -> Claim {
        let (metric, target) = own::first_figure(formula).unzip();
        Claim {
            claim: match about {
                Some(about) => format!("{}: {about}", statement.says),
                None => statement.says.clone(),
            },
            kind: ClaimKind::Published,
            formula: Some(formula.text().to_owned()),
            metric,
            target: target.flatten(),
            statement: Some(statement.id.clone()),
            reading_of: statement.reading_of.clone(),
            cannot_fail: statement.cannot_fail.clone(),
            source: self.source(&statement.place),
            ..Claim::default()
        }
    }
}
