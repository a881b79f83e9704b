//! Names that verbs and options once had.

use clap::error::{ContextKind, ContextValue, Error as ClapError};

use epochcost_planner::error::Error;

/// What was called so, and what does it now.
const MOVED: [(&str, &str); 12] = [
    ("map", "run `epochcost plan map`"),
    ("validate", "run `epochcost dev validate`"),
    (
        "replay",
        "`epochcost dev validate RUN` compares a run with its simulation, `epochcost plan RUN --set \
         workers=16` plans it under other settings, `epochcost profile calibrate RUN` takes its steps",
    ),
    ("artifact", "run `epochcost report appendix`"),
    (
        "data",
        "`--fetch` of `run` and `check` downloads what an experiment trains on; runs make generated data",
    ),
    ("prices", "run `epochcost aws prices`"),
    ("init", "run `epochcost list --write DIR`"),
    ("new", "run `epochcost dev new`"),
    ("clean", "run `epochcost aws clean`"),
    ("completions", "run `epochcost dev completions`"),
    ("doctor --aws", "run `epochcost aws doctor`"),
    ("doctor --print-policy", "run `epochcost aws policy`"),
];

/// Returns the error on a name that is one no more, with what does it now.
pub(super) fn moved(error: &ClapError) -> Option<Error> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let mut words = std::env::args_os().skip(1);
    let verb = words.find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let verb = verb.unwrap_or_default();
    let verb = verb.to_string_lossy();
    let name = match (
        text(ContextKind::InvalidSubcommand),
        text(ContextKind::InvalidArg),
    ) {
        (Some(verb), _) => verb,
        (_, Some(option)) => format!("{verb} {option}"),
        _ => return None,
    };
    let (_, remedy) = MOVED.iter().find(|(known, _)| *known == name)?;
    Some(Error::usage(
        format!("there is no `{name}` any more"),
        *remedy,
    ))
}
