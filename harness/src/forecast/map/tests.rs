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
