use super::svg::between;
use super::*;
use crate::forecast::described;
use crate::forecast::places::sites;
use crate::testing::holds;

fn two_hours() -> Goal {
    Goal::parse(Some("2h"), None).unwrap().unwrap()
}

/// What is said of a map of four cells at places, with a model of one's own or without.
fn asked<T>(places: &[&str], model: Option<&Path>, of: impl Fn(&MapRequest<'_>) -> T) -> T {
    let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
    of(&MapRequest {
        places: &places,
        goal: two_hours(),
        samples: 50_000,
        cells: Some(2),
        model,
    })
}

/// A small map of few places.
fn small() -> Map {
    let places = ["lambda-x86", "aws-g4dn.xlarge", "aws-g6.12xlarge"];
    asked(&places, None, map).unwrap()
}

/// A described experiment with a model of this name, and a line of its own.
fn own_text(model: &str, line: &str) -> String {
    let text = described::TEXT.replace("{name: mine,", &format!("{{name: {model},"));
    text.replace("model: mine\n", &format!("model: {model}\n{line}"))
}

/// What is said of a map at a place with the model of an experiment.
fn with_own(text: &str, place: &str) -> Result<Map> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.yaml");
    std::fs::write(&path, text).unwrap();
    asked(&[place], Some(&path), map)
}

/// A model of one's own is a point with settings of its own.
#[test]
fn an_own_model_is_a_point() {
    let text = own_text("a<b", "");
    let map = with_own(&text, "aws-g4dn.xlarge").unwrap();
    let own = map.models.last().unwrap();
    assert_eq!((own.model.as_str(), own.parameters), ("a<b", 2e6));
    // Its stated rate on a GPU decides its time there, and the map's rate what that amounts to.
    let known = own.own.as_ref().unwrap();
    assert_eq!(known.flops_per_sample, own.flops_per_sample);
    let cheapest = known.cheapest.as_ref().unwrap();
    assert!(cheapest.what.contains("aws-g4dn.xlarge"));
    let said = [
        "\na<b: cheapest is one",
        "a<b: trained as its file says, with 1,000 samples x 1 epoch in batches of 64",
    ];
    holds(map.sentences.join("\n"), &said);
    assert!(map.svg().contains("7 a&lt;b."));
    // A file without such a model is refused.
    let other = text.replace("a<b\n", "lenet5\n");
    assert!(with_own(&other, "aws-g4dn.xlarge").is_err());
}

/// An own model is placed under its experiment's simulation, and what cannot be had so is said.
#[test]
fn an_own_model_is_placed_with_its_client() {
    let drawn = |client: &str, place: &str| {
        let line = format!("simulation: {{client: {client}}}\n");
        with_own(&own_text("mine", &line), place)
    };
    let seconds = |map: &Map| {
        let own = map.models.last().unwrap().own.as_ref().unwrap();
        own.fastest.as_ref().unwrap().seconds
    };
    let compiled = drawn("compiled", "lambda-x86").unwrap();
    let slower = drawn("interpreted", "lambda-x86").unwrap();
    assert!(seconds(&compiled) < seconds(&slower));
    assert_eq!(compiled.cells.len(), slower.cells.len());
    let last = slower.sentences.last().unwrap();
    assert!(last.contains("(interpreted client)"));
    assert!(slower.misses[0].contains("(compiled client)"));
    let refused = drawn("interpreted", "cloud-run-l4").unwrap_err();
    let said = "cloud-run-l4: its profile serverless-gpu describes no interpreted client";
    holds(refused, &[said]);
}

/// What the file of an own model says of its training and its rates decides its figures.
#[test]
fn an_own_model_is_trained_as_its_file_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.yaml");
    let text = own_text("mine", "");
    let seconds = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let drawn = asked(&["aws-r5.large"], Some(&path), map).unwrap();
        let own = drawn.models.last().unwrap().own.clone().unwrap();
        own.cheapest.unwrap().seconds
    };
    let before = seconds(&text);
    for (said, other) in [
        ("bytes_per_sample: 3073", "bytes_per_sample: 307300"),
        ("batch_size: 64", "batch_size: 8"),
        ("samples: 1000", "samples: 10000"),
        ("epochs: 1", "epochs: 10"),
        (
            "parameters: 2000000",
            "cpu_flops_per_s: 2.0e+9, parameters: 2000000",
        ),
    ] {
        let changed = seconds(&text.replace(said, other));
        assert!(changed > before, "{other}: {changed} s, {before} s before");
    }
}

/// Changes are counted by kinds.
#[test]
fn a_map_moves_by_the_cells_that_change_their_kind() {
    let places = ["lambda-x86", "lambda-x86-s3-express", "aws-g4dn.xlarge"];
    let moved = asked(&places, None, shifts).unwrap();
    let [same, rest @ ..] = moved.shifts.as_slice() else {
        panic!("no shifts");
    };
    assert_eq!((same.cheapest_changed, same.fastest_changed), (0, 0));
    assert_eq!(rest.len(), 5);
    for shift in rest {
        assert_eq!(shift.cells, 4);
        // Functions gain or lose no more cells than change.
        let gained = shift.functions_cheapest.abs_diff(same.functions_cheapest);
        assert!(gained <= shift.cheapest_changed, "{shift:?}");
    }
}

#[test]
fn a_map_has_its_corners_and_the_papers_models() {
    let map = small();
    assert_eq!(map.parameters, [PARAMETERS[0], PARAMETERS[8]]);
    assert_eq!(map.operations, [OPERATIONS[0], OPERATIONS[8]]);
    assert_eq!(map.cells.len(), 4);
    for cell in &map.cells {
        if let (Some(cheapest), Some(fastest)) = (&cell.cheapest, &cell.fastest) {
            assert!(cheapest.seconds <= 7_200.0);
            assert!(cheapest.usd <= fastest.usd && fastest.seconds <= cheapest.seconds);
        }
    }
    let names: Vec<&str> = map.models.iter().map(|mark| mark.model.as_str()).collect();
    assert_eq!(names, MODELS);
    // Every model lies on the whole map.
    let within = |axis: &[f64], value: f64| (axis[0]..=axis[8]).contains(&value);
    for mark in &map.models {
        assert!(within(&PARAMETERS, mark.parameters), "{mark:?}");
        assert!(within(&OPERATIONS, mark.flops_per_sample), "{mark:?}");
    }
}

#[test]
fn the_picture_stands_alone() {
    let map = small();
    let svg = map.svg();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert_eq!(svg.matches("<title>").count(), 1 + 2 * map.cells.len());
    assert!(!svg.contains("NaN") && !svg.contains("class=\"s\" x=\"inf"));
    for tag in ["g", "text", "svg", "defs", "pattern", "style"] {
        let count = |text: String| svg.matches(&text).count();
        let opened = count(format!("<{tag} ")) + count(format!("<{tag}>"));
        assert_eq!(opened, count(format!("</{tag}>")), "{tag}");
    }
    assert_eq!(svg, small().svg());
}

/// No name lies on a dot or on another name.
#[test]
fn names_and_dots_lie_apart() {
    let mut map = small();
    // All axes, with regions of one cell each in a chequer: dots lie where the models are.
    (map.parameters, map.operations) = (PARAMETERS.to_vec(), OPERATIONS.to_vec());
    let cells = map.cells.clone();
    let whole = |index: usize| cells[(index % 9 + index / 9) % cells.len()].clone();
    map.cells = (0..81).map(whole).collect();
    let mut crowded = map.clone();
    for mark in &mut crowded.models {
        (mark.parameters, mark.flops_per_sample) = (1e7, 1e8);
    }
    for map in [map, crowded] {
        let svg = map.svg();
        let attribute = |tag: &str, name: &str| -> f64 {
            let start = format!(" {name}=\"");
            let value = tag.split(start.as_str()).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        let tags = |start: &str| -> Vec<String> {
            let parts = svg.split(start).skip(1);
            let texts = parts.map(|part| part.split("</text>").next().unwrap());
            texts.map(str::to_owned).collect()
        };
        let dots: Vec<(f64, f64)> = (tags("<circle").iter())
            .map(|tag| (attribute(tag, "cx"), attribute(tag, "cy")))
            .collect();
        assert_eq!(dots.len(), 2 * MODELS.len());
        let names: Vec<svg::Area> = (tags("<text class=\"s\"").iter())
            .map(|tag| {
                let letters = tag.split('>').nth(1).unwrap().chars().count() as f64;
                let width = letters * 5.4;
                let (x, y) = (attribute(tag, "x"), attribute(tag, "y"));
                (x - width / 2.0, y - 8.0, width, 10.0)
            })
            .collect();
        assert!(names.len() > 8, "{}", names.len());
        for (index, name) in names.iter().enumerate() {
            let touches = dots.iter().any(|dot| svg::touches(*dot, *name));
            assert!(!touches, "{name:?}");
            let overlaps = |other: &svg::Area| {
                let apart = |a: f64, a_size: f64, b: f64, b_size: f64| {
                    a + a_size <= b + 1e-6 || b + b_size <= a + 1e-6
                };
                !apart(name.0, name.2, other.0, other.2) && !apart(name.1, name.3, other.1, other.3)
            };
            assert!(!names[index + 1..].iter().any(overlaps), "{name:?}");
        }
        for (index, dot) in dots.iter().enumerate() {
            let apart = |other: &(f64, f64)| between(*dot, *other) >= 14.0;
            assert!(dots[index + 1..].iter().all(apart), "{dot:?}");
        }
    }
}

/// The best settings for a model at places of each kind, in the setting of the papers' Table 2:
/// 50,000 samples.
fn best_at(model: &str) -> Cell {
    let experiment = experiment(50_000).unwrap();
    let stands = experiment.simulation.clone().unwrap();
    let prices = PriceBook::shipped().unwrap();
    let names = [
        "lambda-arm",
        "lambda-x86-s3-express",
        "aws-r5.large",
        "aws-g4dn.xlarge-spot",
    ];
    let sites = sites(&names.map(str::to_owned)).unwrap();
    let points: Vec<Point> = points(&experiment, &sites).unwrap();
    let points: Vec<Point> = points.into_iter().filter(|p| is_tried(p, &sites)).collect();
    let bench = Bench::new(&sites, &stands, &prices, CostModel::Full);
    let (parameters, operations) = match model {
        "smallest" => (PARAMETERS[0], OPERATIONS[0]),
        "a million" => (PARAMETERS[2], OPERATIONS[1]),
        name => {
            let mark = mark(&stands, name).unwrap();
            (mark.parameters, mark.flops_per_sample)
        }
    };
    cell(&bench, &points, two_hours(), parameters, operations).unwrap()
}

/// What the documents conclude from the map: one GPU alone is the cheapest for the models of
/// Table 2, beyond the ranges.
#[test]
fn one_gpu_is_the_cheapest_for_the_models_of_table_2() {
    for model in ["mobilenet", "resnet18"] {
        let cheapest = best_at(model).cheapest.unwrap();
        let what = &cheapest.what;
        assert_eq!(cheapest.kind, Kind::OneMachine, "{model}: {what}");
        assert_eq!(cheapest.place, "aws-g4dn.xlarge-spot", "{model}");
        assert!(!cheapest.is_uncertain, "{model}");
    }
}

/// Functions are the cheapest in one corner alone, of models that are smaller than any of the papers'.
#[test]
fn functions_are_the_cheapest_for_the_smallest_models() {
    let smallest = best_at("smallest");
    assert_eq!(smallest.cheapest.unwrap().kind, Kind::Functions);
    assert_eq!(smallest.fastest.unwrap().kind, Kind::Functions);
}

/// One function is tried beside several: it waits for no other, and for no boot.
#[test]
fn one_function_is_the_cheapest_for_a_million_parameters() {
    let cheapest = best_at("a million").cheapest.unwrap();
    assert_eq!(cheapest.kind, Kind::Functions);
    holds(cheapest.what, &["one Lambda function"]);
}
