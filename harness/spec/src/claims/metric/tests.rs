use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{COLUMNS, COMPARED, Metric, Quantity};

/// The names that claims and results of earlier versions hold, in the order in
/// which errors list them. A name can be added; none can be changed.
const NAMES: &str = "seconds_per_epoch fetch_dataset compute_gradients synchronise update_model \
    detect_convergence serialise put wait get aggregate compute_gradients_per_batch \
    gradient_averaging model_update seconds_per_batch total_seconds time_to_accuracy billed_ms \
    compute_gradients_cpu_percent put_cpu_percent get_cpu_percent update_model_cpu_percent \
    detect_convergence_cpu_percent compute_gradients_memory_mb put_memory_mb get_memory_mb \
    update_model_memory_mb detect_convergence_memory_mb staleness gpu_percent peak_memory_mb \
    cost_paper_usd cost_full_usd cost_per_function_usd cost_per_worker_usd total_cost_usd puts \
    gets messages bytes_up bytes_down bytes train_loss accuracy validation_accuracy \
    replicas_identical traffic_matches";

#[test]
fn names_stay_what_results_of_earlier_versions_hold() {
    let names = Metric::ALL.map(Metric::name);
    let known: Vec<&str> = NAMES.split_whitespace().collect();
    let kept = names.into_iter().filter(|name| known.contains(name));
    assert_eq!(kept.collect::<Vec<_>>(), known);
    for metric in Metric::ALL {
        let text = serde_json::to_string(&metric).unwrap();
        assert_eq!(text, format!("{:?}", metric.name()));
        assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    for name in ["second_per_epoch", "wait_cpu_percent", "SecondsPerEpoch"] {
        let error = serde_json::from_str::<Metric>(&format!("{name:?}")).unwrap_err();
        let expected = format!("unknown variant `{name}`, expected one of `seconds_per_epoch`");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    assert!(serde_json::from_str::<Metric>("5").is_err());
}

#[test]
fn a_metric_is_shown_and_compared_at_most_once() {
    let shown: BTreeSet<&str> = COLUMNS.iter().map(|column| column.metric.name()).collect();
    assert_eq!(shown.len(), COLUMNS.len());
    let compared: BTreeSet<&str> = COMPARED.iter().map(|metric| metric.name()).collect();
    assert_eq!(compared.len(), COMPARED.len());
}

/// The repository, from the sources of this crate.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `directory`, or the path itself if it is a file.
fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return vec![directory.to_owned()];
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| files(&path)).collect()
}

/// The code of a source file without its unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    code.unwrap_or_default().to_owned()
}

/// `docs/adding-a-metric.md` quotes the code of the metric `bytes` from the
/// files that it names, and names all files that there are.
#[test]
fn a_metric_stands_where_its_guide_says_and_nowhere_else() {
    let guide = fs::read_to_string(repository().join("docs/adding-a-metric.md")).unwrap();
    let mut quoted = BTreeSet::new();
    for block in guide.split("<!-- ").skip(1) {
        let (file, rest) = block.split_once(" -->\n```rust\n").unwrap();
        let (code, _) = rest.split_once("```").unwrap();
        let text = fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains(code), "{file} does not hold:\n{code}");
        quoted.insert(repository().join(file));
    }
    assert_eq!(quoted.len(), 2);
    let sources = files(&repository().join("harness"));
    let sources = sources.into_iter().filter(|path| {
        path.extension().is_some_and(|own| own == "rs") && path.iter().any(|part| part == "src")
    });
    let naming = sources.filter(|path| {
        let code = code(path);
        !path.ends_with("metric/tests.rs")
            && ["Metric::Bytes", "Self::Bytes"].iter().any(|name| {
                let mut rests = code.split(name).skip(1);
                rests.any(|rest| !rest.starts_with(char::is_alphanumeric))
            })
    });
    assert_eq!(naming.collect::<BTreeSet<_>>(), quoted);
    // Pages show it by its place among the columns.
    for template in files(&repository().join("templates")) {
        let text = fs::read_to_string(&template).unwrap();
        assert!(!text.contains("row.bytes"), "{}", template.display());
    }
}

#[test]
fn every_metric_is_documented_by_its_name() {
    let format = fs::read_to_string(repository().join("docs/FORMAT.md")).unwrap();
    let list = format.split_once("Metrics are\n").unwrap().1;
    let list = list.split_once("\n#").unwrap().0;
    for metric in Metric::ALL {
        let name = match metric {
            // "and so on" after the first.
            Metric::Stage(_, Quantity::MemoryMb) => "compute_gradients_memory_mb",
            other => other.name(),
        };
        assert!(list.contains(&format!("`{name}`")), "{name}");
    }
}
