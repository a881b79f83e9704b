//! Naming what there is, nearest first.

/// Similarity (Jaro–Winkler) from which two names count as a slip of the pen.
const SIMILAR: f64 = 0.8;

/// Returns the nearest of `known` to `given`, and all of them.
pub fn did_you_mean(given: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, name)) => format!("did you mean `{name}`? There are {}", listed(known)),
        None => format!("there are {}", listed(known)),
    }
}

/// Names in a row.
pub fn listed(names: &[&str]) -> String {
    names.join(", ")
}
