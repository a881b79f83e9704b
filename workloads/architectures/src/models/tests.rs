use super::*;
use crate::EntryKind;

/// Counts of torchvision 0.29, and of the papers for what it does not define: trainable
/// scalars, batch-norm statistics and trainable tensors.
#[test]
fn counts_are_those_of_the_reference_definitions() {
    let published = [
        ("lenet5", 61_706, 0, 10),
        ("mobilenet", 3_217_226, 21_888, 83),
        ("resnet18", 11_173_962, 9_600, 62),
        ("resnet32", 464_154, 2_272, 95),
        ("resnet34", 21_282_122, 17_024, 110),
        ("resnet50", 23_528_522, 53_120, 161),
        ("squeezenet1_1", 727_626, 0, 52),
        ("mobilenet_v3_small", 1_528_106, 12_112, 142),
        ("vgg11", 132_863_336, 0, 22),
        ("vgg11_10_classes", 128_807_306, 0, 22),
        ("vgg11_at_32", 132_863_336, 0, 22),
        ("vgg11_cifar", 9_231_114, 5_504, 34),
    ];
    for (name, parameters, statistics, tensors) in published {
        let layers = find(name).unwrap().layers();
        let counted = (layers.parameters(), layers.statistics());
        assert_eq!(counted, (parameters, statistics), "{name}");
        assert_eq!(layers.trainable().len(), tensors, "{name}");
    }
}

/// torchvision 0.19, `sum(p.numel() for p in model.parameters())`.
#[test]
fn a_thousand_classes_are_the_reference_definitions() {
    use resnet::{LAYOUT18, LAYOUT50, Layout, Stem};
    assert_eq!(mobilenet::mobilenet(1000).parameters(), 4_231_976);
    let resnet18 = Layout {
        stem: Stem::ImageNet,
        ..LAYOUT18
    };
    assert_eq!(resnet18.layers(1000).parameters(), 11_689_512);
    assert_eq!(LAYOUT50.layers(1000).parameters(), 25_557_032);
    assert_eq!(vgg::vgg11(1000).parameters(), 132_863_336);
}

#[test]
fn names_are_different() {
    for (index, model) in models().iter().enumerate() {
        let first = models().iter().position(|other| other.name == model.name);
        assert_eq!(first, Some(index), "{}", model.name);
    }
}

/// A batch norm has two of each.
#[test]
fn statistics_come_in_pairs_with_a_counter() {
    for model in models() {
        let dict = model.layers().state_dict();
        let count = |kind| dict.iter().filter(|tensor| tensor.kind == kind).count();
        let counters = count(EntryKind::Counter);
        assert_eq!(count(EntryKind::Statistics), 2 * counters, "{}", model.name);
    }
}
