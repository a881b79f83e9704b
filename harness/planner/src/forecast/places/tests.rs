use super::*;
use crate::forecast::described;
use crate::testing::{cases, holds};

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
            assert!(
                site.hourly_usd(&book, CostModel::Full).unwrap() > 0.0,
                "{}",
                place.name
            );
            // Prices of two providers do not state it.
            let is_unstated = ["runpod-", "lambda-cloud-"];
            let mut starts = is_unstated.iter();
            let is_unstated = starts.any(|start| place.name.starts_with(start));
            let memory_mb = site.instance_memory_mb(&book);
            assert_eq!(memory_mb.is_none(), is_unstated, "{}", place.name);
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
    let file = directory.path().join("mine.yaml");
    let read = |text: String| {
        std::fs::write(&file, text).unwrap();
        sites(&[file.to_str().unwrap().to_owned()])
    };
    let mut shipped = places();
    let text = shipped.find(|text| text.contains("name: aws-g4dn.xlarge\n"));
    let text = text.unwrap().replace("aws-g4dn.xlarge", "mine");
    assert_eq!(read(text.clone()).unwrap()[0].place.name, "mine");
    // A price per second is converted.
    let per_second = text.replace("unit: hour", "unit: second");
    let priced = read(per_second.replace("usd: 0.526", "usd: 0.0001461111")).unwrap();
    let book = PriceBook::shipped().unwrap();
    let usd = priced[0].hourly_usd(&book, CostModel::Paper).unwrap();
    assert!((usd - 0.526).abs() < 1e-6, "{usd}");
    // An old price is used with a warning.
    let old = read(text.replace("date: 2026-11-21, is", "date: 2020-11-01, is")).unwrap();
    let [warning] = &*stale(&["mine".to_owned()], &old) else {
        panic!("one price is old");
    };
    let price = "ec2/g4dn.xlarge at mine of 2020-11-01";
    holds(warning, &[price, "days old"]);
    assert!(stale(&[], &old).is_empty());
    for ([from, to], says) in cases(&[
        "hardware: t4 | hardware: t5 | t4",
        "profile: aws-us-east-1-2024 | profile: aws | no platform profile `aws`",
        "host: instance | host: function | functions have no `instance_type`",
        "schema: 1 | schema: 2 | version 1",
        "devices: 1 | devices: 0 | 1 or more",
        "usd: 0.526 | usd: -1 | -1 is outside 0 to",
        "unit: hour | unit: request | per hour",
        "dimension: ec2/ | dimension: ec3/ | did you mean `ec2/`",
        "ec2/g4dn.xlarge | ec2/g4dn.xlrage | charged as `ec2/g4dn.xlarge`",
        "date: 2026-11-21, is | date: 2236-11-21, is | later than today",
        "prices: | interruptions_per_h: {value: 1, low: 5, high: 2, date: 2026-11-21, source: x}\nprices: | interruptions_per_h: 1 is not within 5..=2",
        "prices: | constants: {instance.boots: {value: 1, date: x, source: x}}\nprices: | boots",
    ]) {
        holds(read(text.replace(from, to)).unwrap_err(), &says);
    }
    let error = sites(&["aws-g4dn.xlarg".to_owned()]).unwrap_err();
    holds(error, &["did you mean `aws-g4dn.xlarge`"]);
}

fn stands(simulation: &str) -> Simulation {
    let experiment = described::experiment(&[("simulation", simulation)], false);
    experiment.simulation.unwrap()
}

/// What an experiment's simulation states holds at places, but for what a place states itself.
#[test]
fn places_stand_under_the_simulation_of_an_experiment() {
    let names = ["lambda-x86", "lambda-x86-s3-express", "cloud-run-l4"].map(str::to_owned);
    let profiles = |laid: &Laid| -> Vec<String> {
        let sites = laid.sites.iter();
        sites.map(|site| site.profile_name().to_owned()).collect()
    };
    let latency_s = |site: &Site| {
        let profile = site.profile(Draw(None));
        profile.object_store.service.request_latency_s
    };
    // Profile.
    let fitted = laid(&names, &stands("{profile: aws-us-east-1}")).unwrap();
    let expected = ["aws-us-east-1", "aws-us-east-1", "serverless-gpu"];
    assert_eq!(profiles(&fitted), expected);
    assert_eq!(latency_s(&fitted.sites[0]), 0.094);
    // Constants, but for those of S3 Express.
    let constants =
        "{constants: {object_store.service.request_latency_s: {value: 0.5, assumed: x}}}";
    let stated = laid(&names, &stands(constants)).unwrap();
    let seconds: Vec<f64> = stated.sites.iter().map(latency_s).collect();
    assert_eq!(seconds, [0.5, 0.006, 0.5]);
    // Client: left out where it is not described, or refused where the place is named.
    let interpreted = stands("{client: interpreted}");
    let said = "cloud-run-l4: its profile serverless-gpu describes no interpreted client";
    holds(laid(&names, &interpreted).err().unwrap(), &[said]);
    let all = laid(&[], &interpreted).unwrap();
    assert_eq!(all.left_out[0], said);
    let of_profile = |left: &String| left.contains("its profile serverless-gpu describes no");
    assert!(all.left_out.iter().all(of_profile), "{:?}", all.left_out);
    let count = all.sites.len() + all.left_out.len();
    assert_eq!(count, sites(&[]).unwrap().len());
    for site in &all.sites {
        assert_eq!(site.profile(Draw(None)).client, Client::Interpreted);
    }
    // A machine that everything shares is no place.
    let error = laid(&[], &stands("{profile: laptop}")).err().unwrap();
    holds(error, &["one machine that everything shares"]);
}

/// Faster hardware shortens a step by its factor, and a draw stays in its range.
#[test]
fn a_step_is_carried_by_the_factor_of_the_hardware() {
    let sites = sites(&["aws-g5.xlarge".to_owned()]).unwrap();
    let reference = ModelCost {
        device: Device::Cuda,
        fixed_s: 1.0,
        sample_s: 0.5,
        build_s: 0.2,
        ..profiles::compute("laptop").unwrap().models[0].clone()
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
