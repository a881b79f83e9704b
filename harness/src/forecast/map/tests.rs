#![allow(clippy::unwrap_used)]

use super::*;

/// A small map of few places.
fn small() -> Map {
    let places = ["lambda-x86", "aws-g4dn.xlarge", "aws-g6.12xlarge"].map(str::to_owned);
    map(&MapRequest {
        places: &places,
        goal: Goal::parse(Some("2h"), None).unwrap().unwrap(),
        samples: 50_000,
        cells: Some(2),
        model: None,
    })
    .unwrap()
}

/// A model of one's own is a point with settings of its own.
#[test]
fn an_own_model_is_a_point() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.yaml");
    let text = "schema: 1\nname: mine\nplatform: sim\ndataset: {samples: 1000, test: 0, \
                bytes_per_sample: 3073}\nmodels:\n  - {name: a<b, parameters: 2000000, \
                flops_per_sample: 5.0e+8, activation_bytes_per_sample: 1048576}\nmodel: a<b\n\
                workers: 4\nbatch_size: 64\nepochs: 1\nsystems: [scatterreduce]\n";
    std::fs::write(&path, text).unwrap();
    let places = ["aws-g4dn.xlarge".to_owned()];
    let request = MapRequest {
        places: &places,
        goal: Goal::parse(Some("2h"), None).unwrap().unwrap(),
        samples: 50_000,
        cells: Some(2),
        model: Some(&path),
    };
    let drawn = map(&request).unwrap();
    let own = drawn.models.last().unwrap();
    assert_eq!((own.model.as_str(), own.parameters), ("a<b", 2e6));
    // Its stated rate on a GPU decides its time there, and the map's rate what that amounts to.
    let known = own.own.as_ref().unwrap();
    assert_eq!(known.flops_per_sample, own.flops_per_sample);
    assert!(
        known
            .cheapest
            .as_ref()
            .unwrap()
            .what
            .contains("aws-g4dn.xlarge")
    );
    assert!(
        drawn
            .sentences
            .last()
            .unwrap()
            .starts_with("a<b: cheapest is one")
    );
    assert!(drawn.svg().contains(">a&lt;b</text>"));
    // A file without such a model is refused.
    std::fs::write(&path, text.replace("a<b\n", "lenet5\n")).unwrap();
    assert!(map(&request).is_err());
}

/// Changes are counted by kinds.
#[test]
fn a_map_moves_by_the_cells_that_change_their_kind() {
    let places = ["lambda-x86", "lambda-x86-s3-express", "aws-g4dn.xlarge"].map(str::to_owned);
    let moved = shifts(&MapRequest {
        places: &places,
        goal: Goal::parse(Some("2h"), None).unwrap().unwrap(),
        samples: 50_000,
        cells: Some(2),
        model: None,
    })
    .unwrap();
    let [same, rest @ ..] = moved.shifts.as_slice() else {
        panic!("no shifts");
    };
    assert_eq!((same.cheapest_changed, same.fastest_changed), (0, 0));
    assert_eq!(rest.len(), 5);
    for shift in rest {
        assert_eq!(shift.cells, 4);
        // Functions gain or lose no more cells than change.
        let gained = shift.functions_cheapest.abs_diff(same.functions_cheapest);
        if !shift.change.contains("line above") {
            assert!(gained <= shift.cheapest_changed, "{shift:?}");
        }
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
    for mark in &map.models {
        assert!(
            (PARAMETERS[0]..=PARAMETERS[8]).contains(&mark.parameters),
            "{mark:?}"
        );
        assert!(
            (OPERATIONS[0]..=OPERATIONS[8]).contains(&mark.flops_per_sample),
            "{mark:?}"
        );
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
        let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
        let opened =
            svg.matches(&format!("{opened} ")).count() + svg.matches(&format!("{opened}>")).count();
        assert_eq!(opened, svg.matches(&closed).count(), "{tag}");
    }
    assert_eq!(svg, small().svg());
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
    let goal = Goal::parse(Some("2h"), None).unwrap().unwrap();
    let (parameters, operations) = match model {
        "smallest" => (PARAMETERS[0], OPERATIONS[0]),
        name => {
            let mark = mark(&stands, name).unwrap();
            (mark.parameters, mark.flops_per_sample)
        }
    };
    cell(&bench, &points, goal, parameters, operations).unwrap()
}

/// What the documents conclude from the map: one GPU alone is the cheapest for the models of
/// Table 2, beyond the ranges.
#[test]
fn one_gpu_is_the_cheapest_for_the_models_of_table_2() {
    for model in ["mobilenet", "resnet18"] {
        let cheapest = best_at(model).cheapest.unwrap();
        assert_eq!(
            cheapest.kind,
            Kind::OneMachine,
            "{model}: {}",
            cheapest.what
        );
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
