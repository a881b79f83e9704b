use std::path::Path;

use epochcost_spec::rows::Row;

use super::document::{Document, Place, Value};
use super::{Experiment, ExperimentError, Options, PlatformKind};
use crate::testing::{cases, holds};

pub(crate) const BASE: &str = "\
schema: 1
name: test
dataset: {name: synthetic-mnist, train: 1000, test: 100}
model: lenet5
workers: 4
batch_size: 10
epochs: 2
systems: [allreduce, {system: spirt, epochs: 7}]
";

pub(crate) fn load_on(
    platform: Option<PlatformKind>,
    text: &str,
    set: &[&str],
) -> Result<Experiment, ExperimentError> {
    let document = Document::parse(Path::new("test.yaml"), text.to_owned())?;
    let options = Options {
        platform,
        set: set.iter().map(|one| (*one).to_owned()).collect(),
        ..Options::default()
    };
    Experiment::from_document(document, &options)
}

fn load(text: &str, set: &[&str]) -> Result<Experiment, ExperimentError> {
    load_on(None, text, set)
}

fn rows(set: &[&str]) -> Vec<Row> {
    load(BASE, set).unwrap().rows
}

fn refusal(text: &str, set: &[&str]) -> String {
    load(text, set).unwrap_err().to_string()
}

#[track_caller]
fn refused(text: &str, set: &[&str], words: &[&str]) {
    holds(refusal(text, set), words);
}

#[test]
fn a_systems_own_fields_win_over_the_common_ones() {
    let rows = rows(&[]);
    let epochs: Vec<usize> = rows.iter().map(|row| row.job.epochs).collect();
    assert_eq!(epochs, [2, 7]);
    assert_eq!(rows[0].id, "allreduce-lenet5-paper");
}

#[test]
fn whole_settings_may_be_written_as_decimals() {
    let systems = "systems: [{system: spirt, settings: {poll_interval_ms: 50.0}}]";
    let (before, _) = BASE.split_once("systems: ").unwrap();
    let experiment = load(&format!("{before}{systems}\n"), &[]).unwrap();
    assert_eq!(experiment.rows[0].job.settings["poll_interval_ms"], 50);
}

/// 1000 samples on 4 workers are 250 each: 25 batches of 10.
#[test]
fn an_epoch_is_one_pass_over_a_workers_share() {
    let batches = |set: &[&str]| rows(set)[0].job.batches_per_worker;
    assert_eq!(batches(&[]), 25);
    assert_eq!(batches(&["batches_per_worker=25"]), 25);
    assert_eq!(batches(&["workers=3"]), 33);
    let more = ["batches_per_worker=26"];
    refused(BASE, &more, &["at most 25 batches fit"]);
}

#[test]
fn set_reaches_common_fields_list_items_and_every_item() {
    let epochs =
        |set: &[&str]| -> Vec<usize> { rows(set).iter().map(|row| row.job.epochs).collect() };
    assert_eq!(epochs(&["epochs=3"]), [3, 7]);
    assert_eq!(epochs(&["systems.1.epochs=3"]), [2, 3]);
    assert_eq!(epochs(&["systems.0.epochs=3"]), [3, 7]);
    assert_eq!(epochs(&["systems.*.epochs=3"]), [3, 3]);
    assert_eq!(epochs(&["systems.1.epochs=3", "epochs=4"]), [4, 3]);
    let data = load(BASE, &["dataset.seed=9"]).unwrap().data;
    assert_eq!(data.generate.unwrap().seed, 9);
}

/// The first of two would be dropped.
#[test]
fn a_field_that_is_given_twice_is_refused_with_both_places() {
    for [first, second] in [
        ["epochs=3", "epochs=4"],
        ["dataset.seed=3", "dataset.seed=3"],
        ["dataset.seed=3", "dataset={name: cifar10}"],
    ] {
        let words = [first, second, "is given twice", "leave one"];
        refused(BASE, &[first, second], &words);
    }
    // A part of what an earlier one gives as a whole, and another field with such a beginning.
    load(BASE, &["dataset.seed=3", "workers=2", "seed=4"]).unwrap();
}

#[test]
fn a_value_that_no_row_would_have_is_refused() {
    let swept = format!("{BASE}sweep: {{workers: [2, 4]}}\n");
    let words = ["`workers` is swept", "--set sweep.workers=[A,B]"];
    refused(&swept, &["workers=8"], &words);
    for set in [
        &["sweep.workers=[8]"][..],
        &["workers=8", "sweep={}"],
        &["seed=4"],
    ] {
        load(&swept, set).unwrap();
    }
    let own = "systems.*.epochs=3";
    let each = "each system has its own `epochs`";
    refused(
        BASE,
        &[own, "epochs=4"],
        &[each, "'systems.*.epochs=VALUE'"],
    );
}

#[test]
fn set_takes_any_yaml_value() {
    let systems = "systems=[scatterreduce]";
    let rows = rows(&[systems, "optimizer={sgd: {learning_rate: 1}}"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].job.optimizer.learning_rate(), 1.0);
}

#[test]
fn a_part_of_the_optimizer_leaves_the_rest_of_the_default() {
    let of = |text: &str, set: &[&str]| {
        let experiment = load(text, set).unwrap();
        let again = load(&experiment.document.resolved(), &[]).unwrap();
        let optimizers = |experiment: Experiment| -> Vec<serde_json::Value> {
            let rows = experiment.rows.iter();
            rows.map(|row| serde_json::to_value(row.job.optimizer).unwrap())
                .collect()
        };
        let found = optimizers(experiment);
        assert_eq!(found, optimizers(again), "{set:?}");
        found
    };
    let with = |mut default: serde_json::Value, field: &str, value: f64| {
        default["sgd"][field] = value.into();
        default
    };
    let default = of(BASE, &[])[0].clone();
    let slower = with(default.clone(), "learning_rate", 1e-3);
    let set = "optimizer.sgd.learning_rate=1e-3";
    assert_eq!(of(BASE, &[set])[0], slower);
    let other = "systems.1.optimizer.sgd.learning_rate=1e-3";
    assert_eq!(of(BASE, &[other])[0], default);
    // Each system keeps the rest of its own.
    let spirt = with(of(BASE, &[])[1].clone(), "learning_rate", 1e-3);
    for set in [set, "systems.*.optimizer.sgd.learning_rate=1e-3"] {
        assert_eq!(of(BASE, &[set]), [slower.clone(), spirt.clone()]);
    }
    let both = with(slower.clone(), "momentum", 0.5);
    assert_eq!(of(BASE, &[set, "optimizer.sgd.momentum=0.5"])[0], both);
    let sweep = format!("{BASE}sweep: {{optimizer.sgd.learning_rate: [1e-3]}}\n");
    assert_eq!(of(&sweep, &[])[0], slower);
    let one = ["systems=[allreduce]", "optimizer.sgd.momentum=0.5"];
    assert_eq!(of(&sweep, &one)[0], both);
    // Systems of different defaults under a sweep.
    let two = [both, with(spirt, "momentum", 0.5)];
    for set in ["optimizer", "systems.*.optimizer"] {
        let set = format!("{set}.sgd.momentum=0.5");
        assert_eq!(of(&sweep, &[&set]), two);
    }
    let own = "systems.*.optimizer.sgd.learning_rate=1";
    refused(&sweep, &[own], &["swept as well"]);
    // Two optimizers are none.
    let adam = format!("{BASE}optimizer: {{adam: {{learning_rate: 1e-3}}}}\n");
    let momentum = "optimizer.sgd.momentum=0.5";
    refused(&adam, &[momentum], &["found adam and sgd together"]);
    // Stated as a whole, it is what is written.
    let written = of(BASE, &["optimizer={sgd: {learning_rate: 1e-3}}"]);
    assert_eq!(written[0]["sgd"]["momentum"], 0.0);
}

#[test]
fn an_error_in_a_set_value_names_the_option_not_a_line() {
    for ([set], words) in cases(&[
        "epochs=0 | --set epochs=0 | zero epochs",
        "epochs=many | --set epochs=many | whole number",
        "systems.0.epcohs=3 | --set systems.0.epcohs=3 | did you mean `epochs`",
        "systems.9.epochs=3 | --set systems.9.epochs=3 | no item `9`",
        "epochs | --set epochs | --set epochs=3",
        "epochs=[ | --set epochs=[ | not valid YAML",
        "name.x=1 | --set name.x=1 | give the path of a field",
    ]) {
        let error = refusal(BASE, &[set]);
        holds(&error, &words);
        assert!(!error.contains("test.yaml:"), "{error}");
    }
}

#[test]
fn a_sweep_is_the_product_of_its_lists() {
    let text = format!("{BASE}sweep: {{workers: [1, 2, 4], batch_size: [8, 16]}}\n");
    let experiment = load(&text, &[]).unwrap();
    let first: Vec<(usize, usize)> = (experiment.rows[..6].iter())
        .map(|row| (row.job.workers, row.job.batch_size))
        .collect();
    assert_eq!(first, [(1, 8), (1, 16), (2, 8), (2, 16), (4, 8), (4, 16)]);
    assert_eq!(experiment.rows.len(), 12);
    let id = "allreduce-lenet5-paper-workers-2-batch-size-16";
    assert_eq!(experiment.rows[3].id, id);
}

#[test]
fn a_sweep_reaches_into_nested_fields() {
    let text = format!(
        "{BASE}optimizer: {{sgd: {{learning_rate: 0.5}}}}\n\
         sweep: {{optimizer.sgd.learning_rate: [0.1, 0.2], fidelity: [paper]}}\n"
    );
    let rows = load(&text, &[]).unwrap().rows;
    let rates = rows.iter().map(|row| row.job.optimizer.learning_rate());
    assert_eq!(rates.collect::<Vec<f64>>(), [0.1, 0.2, 0.1, 0.2]);
    assert_eq!(rows[1].id, "allreduce-lenet5-paper-learning-rate-0.2");
}

#[test]
fn a_swept_value_that_a_system_sets_itself_is_refused() {
    for ([swept], words) in cases(&[
        "epochs: [1, 2] | test.yaml:8: | swept as well",
        "wrokers: [1, 2] | test.yaml:9: | `workers`",
        "workers: 2 | workers: [1, 2]",
    ]) {
        refused(&format!("{BASE}sweep: {{{swept}}}\n"), &[], &words);
    }
}

#[test]
fn rows_of_one_name_are_refused_and_names_help() {
    refused(BASE, &["systems=[spirt, spirt]"], &["two rows"]);
    let named = "systems=[spirt, {system: spirt, name: long, epochs: 9}]";
    assert_eq!(rows(&[named])[1].id, "long");
}

/// Trials of different systems are interleaved, and share their seeds.
#[test]
fn trials_are_interleaved_and_seeded_by_their_number() {
    let experiment = load(BASE, &["trials=2"]).unwrap();
    let plans = experiment.trial_plans();
    let order = plans.iter().map(|plan| (&*plan.row.job.system, plan.trial));
    let order: Vec<(&str, usize)> = order.collect();
    let expected = [0, 1].map(|trial| [("allreduce", trial), ("spirt", trial)]);
    assert_eq!(order, expected.concat());
    assert_eq!(plans[0].row.job.seed, plans[1].row.job.seed);
    assert_ne!(plans[0].row.job.seed, plans[2].row.job.seed);
    assert_eq!(plans[3].row.job.trial, "spirt-lenet5-paper-t1");
}

/// What a run directory keeps is an experiment of its own, with no option left to give.
#[test]
fn the_resolved_document_expands_to_the_same_rows() {
    let set = ["systems.*.epochs=3", "seed=7", "description='yes: [1]'"];
    let first = load(BASE, &set).unwrap();
    let again = load(&first.document.resolved(), &[]).unwrap();
    assert_eq!(first.rows, again.rows);
    assert_eq!(first.seed, again.seed);
    assert_eq!(first.description, again.description);
}

#[test]
fn values_keep_their_place() {
    let document = Document::parse(Path::new("a.yaml"), "a:\n  b: [1, x]\n".into()).unwrap();
    let list = document.root.get("a").unwrap().get("b").unwrap();
    let Value::List(items) = &list.value else {
        panic!("{list:?}")
    };
    let (line, column) = (2, 10);
    assert_eq!(items[1].origin.path, "a.b.1");
    assert_eq!(items[1].origin.place, Place::Line { line, column });
}

#[test]
fn memory_sizes_of_functions_name_functions_of_the_system() {
    let sized = |text: &str| format!("systems.1.function_memory_mb={text}");
    let rows = rows(&[&sized("{update_model: 512, compute_gradients: 3200}")]);
    let row = rows.iter().find(|row| row.job.system == "spirt");
    let sizes = &row.unwrap().function_memory_mb;
    assert_eq!(sizes["update_model"], 512);
    assert_eq!(sizes["compute_gradients"], 3200);
    for ([other, text], words) in cases(&[
        "seed=0 | {update_modle: 512} | did you mean `update_model`",
        "seed=0 | {update_model: 64} | outside Lambda's range",
        "systems.1.system=gpu_baseline | {worker: 512} | has no functions",
        "platform=aws | {update_model: 512} | one memory size",
    ]) {
        refused(BASE, &[other, &sized(text)], &words);
    }
}

#[test]
fn an_attack_belongs_to_its_rows_and_must_be_possible() {
    let attack = |text: &str| format!("attack={text}");
    let given = attack("{kind: sign_flip, workers: 2, strength: 10}");
    for row in rows(&[&given]) {
        let attack = row.job.attack.as_ref().unwrap();
        assert_eq!(attack.ranks(row.job.workers), [2, 3]);
        assert_eq!((attack.from_epoch, attack.strength), (0, Some(10.0)));
    }
    assert_eq!(rows(&[])[0].job.attack, None);
    for ([text], words) in cases(&[
        "{kind: mimic, workers: 1} | no worker sees the gradient",
        "{kind: nan, workers: [1, 1]} | it names no worker, one twice",
        "{kind: nan, workers: 4, from_epoch: 2} | the last epoch is 1",
        "{kind: min_max, workers: 4} | no worker is honest",
        "{kind: nan, workers: 1, strength: 2} | strength has no meaning",
    ]) {
        refused(BASE, &[&attack(text)], &words);
    }
    let sim = format!("{BASE}platform: sim\n");
    refused(&sim, &[&given], &["this simulation has only their sizes"]);
}
