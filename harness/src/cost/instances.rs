//! GPUs of instance types.

/// Instance types with GPUs, and how many they have (AWS, "Amazon EC2 G4 Instances"
/// and "Amazon EC2 G6 Instances": <https://aws.amazon.com/ec2/instance-types/g4/>,
/// <https://aws.amazon.com/ec2/instance-types/g6/>; from memory, to be checked there).
/// Types that are missing have none.
const GPUS: [(&str, usize); 5] = [
    ("g4dn.xlarge", 1),
    ("g4dn.12xlarge", 4),
    ("g6.12xlarge", 4),
    ("g4dn.metal", 8),
    ("g6.48xlarge", 8),
];

/// Returns the number of GPUs of an instance type; 0 where none is known.
pub fn gpus(instance_type: &str) -> usize {
    let known = GPUS.iter().find(|(name, _)| *name == instance_type);
    known.map_or(0, |(_, gpus)| *gpus)
}

/// Returns the smallest instance types with `count` GPUs or more.
pub fn with_gpus(count: usize) -> Vec<&'static str> {
    let enough = || GPUS.iter().filter(move |(_, gpus)| *gpus >= count);
    let least = enough().map(|(_, gpus)| *gpus).min();
    let smallest = enough().filter(|(_, gpus)| Some(*gpus) == least);
    smallest.map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::cost::PriceBook;

    /// A type that a remedy names can be used: it has a price.
    #[test]
    fn every_instance_type_with_gpus_has_a_price() {
        let book = PriceBook::shipped().unwrap();
        for (name, gpus) in GPUS {
            let price = book.price(&format!("ec2/{name}")).unwrap();
            assert!(price.about.contains("NVIDIA"), "{name}: {}", price.about);
            assert_eq!(super::gpus(name), gpus);
        }
    }

    #[test]
    fn the_smallest_types_with_enough_gpus_are_named() {
        assert_eq!(with_gpus(1), ["g4dn.xlarge"]);
        assert_eq!(with_gpus(2), ["g4dn.12xlarge", "g6.12xlarge"]);
        assert_eq!(with_gpus(8), ["g4dn.metal", "g6.48xlarge"]);
        assert!(with_gpus(9).is_empty());
        assert_eq!(gpus("t2.small"), 0);
    }
}
