//! GPUs, memory and vCPUs of instance types.

pub use epochcost_aws_plan::vcpus;
use epochcost_systems::{Device, Job, Machines, find};

use super::PriceBook;

/// Families of instances with NVIDIA's GPUs (<https://aws.amazon.com/ec2/instance-types/g4/>,
/// g5, g6 and g6e; from memory, to be checked there). Their sizes have equally many.
const FAMILIES: [&str; 4] = ["g4dn", "g5", "g6", "g6e"];

/// Returns the number of GPUs of an instance type; 0 where none is known.
pub fn gpus(instance_type: &str) -> usize {
    match instance_type.split_once('.') {
        Some((family, size)) if FAMILIES.contains(&family) => match size {
            "12xlarge" | "24xlarge" => 4,
            "48xlarge" | "metal" => 8,
            _ => 1,
        },
        _ => 0,
    }
}

/// Returns why a job's replicas do not run in one machine of an instance type: each is stated to have
/// a GPU of its own.
pub fn lacks_gpus(job: &Job, instance_type: &str) -> Option<String> {
    let (system, has) = (find(&job.system)?, gpus(instance_type));
    let is_shared = system.deployment().machines == Machines::Shared;
    let lacks = is_shared && job.device == Device::Cuda && job.workers > has;
    lacks.then(|| {
        format!(
            "{} keeps {} replicas in one machine, each on a GPU of its own, and {instance_type} has \
             {has}",
            system.name(),
            job.workers
        )
    })
}

/// Returns the memory of an instance type, MB, where the price's text says it; a refreshed book may not.
pub fn memory_mb(book: &PriceBook, instance_type: &str) -> Option<u32> {
    let price = book.price(&format!("ec2/{instance_type}")).ok()?;
    let (before, _) = price.about.split_once(" GiB")?;
    let gib: f64 = before.rsplit([' ', ',']).next()?.parse().ok()?;
    Some((gib * 1_024.0) as u32)
}

/// Returns the smallest instance types of a price book with `count` GPUs or more.
pub fn with_gpus(book: &PriceBook, count: usize) -> Vec<&str> {
    let enough = book
        .instance_types()
        .filter(|name| gpus(name) >= count.max(1));
    let enough: Vec<&str> = enough.collect();
    let least = enough.iter().map(|name| gpus(name)).min();
    let smallest = enough.into_iter().filter(|name| Some(gpus(name)) == least);
    smallest.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Price;

    /// A type that a remedy names can be used: it has a price, whose text has its GPUs.
    #[test]
    fn the_smallest_types_with_enough_gpus_are_named() {
        let book = PriceBook::shipped().unwrap();
        for price in book.prices() {
            if let Some(name) = price.dimension.strip_prefix("ec2/") {
                let words = match gpus(name) {
                    0 => "",
                    1 => "one NVIDIA",
                    4 => "four NVIDIA",
                    8 => "eight NVIDIA",
                    other => panic!("{name}: {other} GPUs"),
                };
                assert!(price.about.contains(words), "{name}: {}", price.about);
                assert_eq!(price.about.contains("NVIDIA"), gpus(name) > 0, "{name}");
            }
        }
        assert_eq!(memory_mb(&book, "t2.small"), Some(2_048));
        assert_eq!(memory_mb(&book, "p9.mega"), None);
        let modal = Price {
            dimension: "ec2/modal".to_owned(),
            about: "one NVIDIA A100 40 GB, 4 cores and 7.5 GiB, billed by the second".to_owned(),
            ..book.prices()[0].clone()
        };
        assert_eq!(memory_mb(&book.with(&[modal]), "modal"), Some(7_680));
        let with = |count| with_gpus(&book, count);
        assert_eq!(with(1), ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]);
        assert_eq!(with(2), ["g4dn.12xlarge", "g6.12xlarge"]);
        assert_eq!(with(8), ["g4dn.metal", "g6.48xlarge"]);
        assert!(with(9).is_empty());
        assert_eq!(gpus("t2.small"), 0);
    }
}
