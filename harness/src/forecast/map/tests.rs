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
    })
    .unwrap()
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
