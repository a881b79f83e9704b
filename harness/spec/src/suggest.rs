//! Naming what there is, nearest first.

/// Similarity (Jaro–Winkler) from which two names count as a slip of the pen.
const SIMILAR: f64 = 0.8;

/// Most names that are suggested.
const MOST: usize = 3;

/// Returns the names nearest to `given`, in their order as suggestions: `` `name` ``. Of a name
/// with several parts (`paper/item`), the last part alone may be given. None where no name is
/// similar.
pub fn nearest(given: &str, known: &[&str]) -> Vec<String> {
    let similarity = |name: &str| {
        let whole = strsim::jaro_winkler(given, name);
        let last = strsim::jaro_winkler(last_part(given), last_part(name));
        // Of equal last parts, the first parts decide where they were given.
        let first = if given.contains('/') { whole } else { 0.0 };
        whole.max(last) + first / 1e3
    };
    let all: Vec<(f64, &str)> = known.iter().map(|name| (similarity(name), *name)).collect();
    let least = all
        .iter()
        .map(|(similarity, _)| *similarity)
        .fold(SIMILAR, f64::max);
    let best = all
        .into_iter()
        .filter(|(similarity, _)| *similarity >= least);
    best.map(|(_, name)| format!("`{name}`"))
        .take(MOST)
        .collect()
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Returns the nearest of `known` to `given`, and all of them.
pub fn did_you_mean(given: &str, known: &[&str]) -> String {
    let nearest = nearest(given, known).join(" or ");
    match (known, nearest.as_str()) {
        ([], _) => "there are none".to_owned(),
        ([only], "") => format!("there is only {only}"),
        ([only], _) => format!("did you mean `{only}`?"),
        (_, "") => format!("there are {}", listed(known)),
        (_, nearest) => format!("did you mean {nearest}? There are {}", listed(known)),
    }
}

/// Names in a row.
pub fn listed(names: &[&str]) -> String {
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_name_is_enough() {
        let known = ["one/table2", "one/table3", "two/table2", "smoke"];
        let found = |given| nearest(given, &known).join(" ");
        assert_eq!(found("table2"), "`one/table2` `two/table2`");
        assert_eq!(found("two/table2"), "`two/table2`");
        assert_eq!(found("tow/table2.yml"), "`two/table2`");
        assert_eq!(found("smok"), "`smoke`");
        assert_eq!(found("elsewhere/smoke"), "`smoke`");
        assert_eq!(found("nothing"), "");
    }

    #[test]
    fn one_name_is_no_list() {
        assert_eq!(did_you_mean("x", &[]), "there are none");
        assert_eq!(did_you_mean("update", &["train"]), "there is only train");
        assert_eq!(did_you_mean("trian", &["train"]), "did you mean `train`?");
        assert_eq!(did_you_mean("x", &["a", "b"]), "there are a, b");
    }
}
