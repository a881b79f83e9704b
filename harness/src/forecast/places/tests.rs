#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn at_least_twelve_places_are_shipped_and_usable() {
    let sites = sites(&[]).unwrap();
    assert!(sites.len() >= 12, "{}", sites.len());
    let book = PriceBook::shipped().unwrap();
    for site in &sites {
        let place = &site.place;
        assert_eq!(site.profile.name, place.profile);
        assert!(!site.hardware.about.is_empty());
        // Every price says where it is from, and what was not read says so.
        for price in &place.prices {
            assert!(price.source.contains("http"), "{}", place.name);
            let admits = ["to be checked", "were not read", "assumed"];
            let admits = admits.iter().any(|word| price.source.contains(word));
            assert!(price.is_read || admits, "{}: {}", place.name, price.source);
        }
        if place.host == Host::Instance {
            assert!(site.hourly_usd(&book).unwrap() > 0.0, "{}", place.name);
        }
        let values = site.profile(Draw(None));
        let drawn = site.profile(Draw(Some(1)));
        assert_ne!(values, drawn);
    }
}

/// A place is a file: one that is not shipped is read like one that is.
#[test]
fn a_place_of_ones_own_needs_no_code() {
    let directory = tempfile::tempdir().unwrap();
    let text = SHIPPED
        .iter()
        .find(|text| text.contains("name: aws-g4dn.xlarge\n"));
    let text = text.unwrap().replace("aws-g4dn.xlarge", "mine");
    let file = directory.path().join("mine.yaml");
    std::fs::write(&file, &text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    let own = &sites(std::slice::from_ref(&name)).unwrap()[0];
    assert_eq!(own.place.name, "mine");
    for (from, to, says) in [
        ("hardware: t4", "hardware: t5", "t4"),
        (
            "profile: aws-us-east-1",
            "profile: aws",
            "no platform profile `aws`",
        ),
        (
            "host: instance",
            "host: function",
            "functions have no `instance_type`",
        ),
        ("schema: 1", "schema: 2", "version 1"),
        ("devices: 1", "devices: 0", "1 or more"),
        ("usd: 0.526", "usd: -1", "no number in its range"),
        (
            "prices:",
            "constants: {instance.boots: {value: 1, date: x, source: x}}\nprices:",
            "boots",
        ),
    ] {
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let error = sites(std::slice::from_ref(&name)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = sites(&["aws-g4dn.xlarg".to_owned()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `aws-g4dn.xlarge`"), "{error}");
}

/// Faster hardware shortens a step by its factor, and a draw stays in its range.
#[test]
fn a_step_is_carried_by_the_factor_of_the_hardware() {
    let sites = sites(&["aws-g5.xlarge".to_owned()]).unwrap();
    let reference = ModelCost {
        model: "m".into(),
        device: Device::Cuda,
        fixed_s: 1.0,
        sample_s: 0.5,
        parallel: 0.9,
        evaluate_sample_s: 0.1,
        build_s: 0.2,
        fixed_mb: 1.0,
        sample_mb: 1.0,
        fit: None,
        fitted_to: None,
        carried: None,
        source: String::new(),
        date: String::new(),
    };
    let speed = &sites[0].hardware.speed;
    let cost = sites[0].cost(&reference, Draw(None));
    assert_eq!(cost.sample_s, 0.5 / speed.value);
    assert_eq!((cost.fixed_s, cost.build_s), (1.0 / speed.value, 0.2));
    for seed in 0..50 {
        let drawn = sites[0].cost(&reference, Draw(Some(seed))).fixed_s;
        let (low, high) = speed.range();
        assert!((1.0 / high..=1.0 / low).contains(&drawn), "{drawn}");
    }
}
