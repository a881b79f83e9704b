//! Fields that an experiment states and its simulation does not look at.

use std::iter::once;

use super::Experiment;
use super::document::{Node, Value};

/// Fields of worker processes and servers, of which a simulation has none.
const OF_PROCESSES: [&str; 4] = ["services", "network", "ephemeral_storage_mb", "environment"];
/// Field of training on data.
const OF_TRAINING: &str = "augment";

impl Experiment {
    /// Returns a sentence on the fields that are stated and that its simulation does not look at; none
    /// without such fields, and where nothing is simulated.
    pub fn idle_fields(&self) -> Option<String> {
        let simulation = self.simulation.as_ref()?;
        let root = &self.document.root;
        let systems = root.get("systems").into_iter().flat_map(Node::items);
        let places = once(root).chain(systems).chain(root.get("sweep"));
        let stated: Vec<&str> = places
            .flat_map(Node::entries)
            .filter(|entry| !is_usual(&entry.node.value))
            .map(|entry| entry.key.split('.').next().unwrap_or_default())
            .collect();
        let of_training = Some(OF_TRAINING).filter(|_| !simulation.real_compute);
        let idle = OF_PROCESSES.into_iter().chain(of_training);
        let idle: Vec<String> = idle
            .filter(|field| stated.contains(field))
            .map(|field| format!("`{field}`"))
            .collect();
        match idle.as_slice() {
            [] => None,
            [one] => Some(format!("{one} changes nothing in a simulation")),
            [first @ .., last] => Some(format!(
                "{} and {last} change nothing in a simulation",
                first.join(", ")
            )),
        }
    }
}

/// Whether a value is the one that a field has where it is left out.
fn is_usual(value: &Value) -> bool {
    *value == Value::Bool(false) || *value == Value::Text("embedded".into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Document, Options};
    use super::*;

    fn of(fields: &str) -> Option<String> {
        let platform = if fields.contains("platform") {
            ""
        } else {
            "platform: sim\n"
        };
        let text = format!(
            "schema: 1\nname: t\n{platform}dataset: {{name: synthetic-mnist, train: 256, test: 32}}\n\
             model: lenet5\nworkers: 2\nbatch_size: 8\nepochs: 1\nsystems: [allreduce]\n{fields}"
        );
        let document = Document::parse(Path::new("t.yaml"), text).unwrap();
        let experiment = Experiment::from_document(document, &Options::default());
        experiment.unwrap().idle_fields()
    }

    #[test]
    fn what_a_simulation_does_not_look_at_is_said() {
        assert_eq!(of(""), None);
        assert_eq!(
            of("memory_mb: 2048\naugment: false\nservices: embedded\n"),
            None
        );
        let one = "`network` changes nothing in a simulation";
        assert_eq!(of("network: {bandwidth_mbit_s: 1}\n").as_deref(), Some(one));
        let both = "`ephemeral_storage_mb` and `augment` change nothing in a simulation";
        let swept = "augment: true\nsweep: {ephemeral_storage_mb: [512, 1024]}\n";
        assert_eq!(of(swept).as_deref(), Some(both));
        // Models that train for real are trained on augmented images.
        assert_eq!(
            of("augment: true\nsimulation: {real_compute: true}\n"),
            None
        );
        assert_eq!(
            of("platform: local\nnetwork: {bandwidth_mbit_s: 1}\n"),
            None
        );
    }
}
