//! Systems, models and devices as papers write them.

use epochcost_systems::{Device, find, find_model};

/// Returns a system as papers write it; its id where it is not known.
pub fn system_title(system: &str) -> String {
    find(system).map_or_else(|| system.to_owned(), |known| known.title().to_owned())
}

/// Returns a model as papers write it; its id where it is not known.
pub fn model_title(model: &str) -> String {
    find_model(model).map_or_else(|| model.to_owned(), |known| known.title.to_owned())
}

/// Returns the kind of a device in words.
pub fn device_title(device: Device) -> &'static str {
    match device {
        Device::Cpu => "CPU",
        Device::Cuda => "GPU",
    }
}
