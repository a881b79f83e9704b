//! Names that a schema offers for a field.

use schemars::Schema;

use epochcost_spec::cost::PriceBook;
use epochcost_spec::profiles;
use epochcost_spec::yaml::schema::{known, one_of};

/// Restricts a field to training systems.
pub(super) fn systems(schema: &mut Schema) {
    let all = epochcost_systems::systems().iter();
    one_of(schema, all.map(|system| system.name()));
}

/// Offers this program's models.
pub(super) fn models(schema: &mut Schema) {
    let all = epochcost_systems::models().iter();
    known(schema, all.map(|model| model.name));
}

/// Offers the datasets.
pub(super) fn datasets(schema: &mut Schema) {
    let all = epochcost_datasets::DATASETS.iter();
    known(schema, all.map(|info| info.name));
}

/// Offers instance types with a price.
pub(super) fn instances(schema: &mut Schema) {
    let book = PriceBook::shipped().ok();
    known(schema, book.iter().flat_map(PriceBook::instance_types));
}

/// Offers shipped platform profiles.
pub fn platforms(schema: &mut Schema) {
    known(schema, profiles::shipped().0);
}

/// Offers shipped compute profiles for the entries of a list.
pub(super) fn computes(schema: &mut Schema) {
    let mut entry = Schema::default();
    entry.insert("type".to_owned(), "string".into());
    known(&mut entry, profiles::shipped().1);
    schema.insert("items".to_owned(), entry.into());
}
