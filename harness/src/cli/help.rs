//! Help of the program: verbs in groups, and examples of each.

use clap::Command;

/// Groups of verbs, in the order in which help shows them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["run", "check", "report", "compare", "profile"]),
    ("Plan", &["plan", "map", "validate"]),
    ("Reproduce the papers", &["reproduce", "audit", "artifact"]),
    (
        "Data, accounts and this program",
        &[
            "list",
            "init",
            "new",
            "dev",
            "data",
            "prices",
            "doctor",
            "clean",
            "completions",
            "help",
        ],
    ),
];

/// Examples of each verb.
const EXAMPLES: [(&str, &[&str]); 19] = [
    (
        "run",
        &[
            "epochcost run smoke",
            "epochcost run experiments/smoke.yaml --trials 5 --set workers=2",
            "epochcost run experiments/smoke.yaml --platform sim",
            "epochcost run experiments/learn.yaml --out results/mine --resume",
        ],
    ),
    (
        "check",
        &["epochcost check experiments/smoke.yaml --set workers=2"],
    ),
    (
        "plan",
        &[
            "epochcost plan experiments/own-model.yaml",
            "epochcost plan experiments/smoke.yaml --limits",
            "epochcost plan experiments/own-model.yaml --deadline 2h --budget 5usd",
            "epochcost plan experiments/smoke.yaml --html plan.html",
            "epochcost plan results/RUN --set workers=16",
        ],
    ),
    ("map", &["epochcost map --deadline 2h --out map.svg"]),
    (
        "validate",
        &[
            "epochcost validate",
            "epochcost validate results/RUN --within 0.25",
        ],
    ),
    (
        "profile",
        &[
            "epochcost profile -- python train.py",
            "epochcost profile calibrate --probe --client interpreted",
            "epochcost profile calibrate mine.csv --out mine.yaml",
            "epochcost profile calibrate results/RUN --out steps.yaml",
        ],
    ),
    (
        "reproduce",
        &[
            "epochcost reproduce --quick",
            "epochcost reproduce cost-performance/table2",
            "epochcost reproduce --dry-run",
            "epochcost reproduce --platform aws --dry-run",
        ],
    ),
    (
        "report",
        &[
            "epochcost report results/RUN",
            "epochcost report results/RUN --figures figures",
            "epochcost report results/ONE results/TWO --out page",
        ],
    ),
    (
        "compare",
        &[
            "epochcost compare results/BEFORE results/AFTER --fail-on slower",
            "epochcost compare results/BEFORE results/AFTER --html compare.html",
        ],
    ),
    (
        "audit",
        &[
            "epochcost audit cost-performance",
            "epochcost audit p2p --at V-B2 --word cost",
            "epochcost audit --html audit.html",
        ],
    ),
    (
        "artifact",
        &["epochcost artifact cost-performance --out artifact"],
    ),
    (
        "data",
        &[
            "epochcost data make synthetic-cifar10",
            "epochcost data fetch cifar10",
        ],
    ),
    ("prices", &["epochcost prices show"]),
    (
        "list",
        &["epochcost list systems", "epochcost list systems SPIRT"],
    ),
    ("init", &["epochcost init mine && cd mine"]),
    ("new", &["epochcost new system pair_mean"]),
    (
        "dev",
        &["epochcost dev faults experiments/smoke.yaml --seed 1"],
    ),
    ("doctor", &["epochcost doctor --measure"]),
    (
        "completions",
        &["epochcost completions bash > ~/.local/share/bash-completion/completions/epochcost"],
    ),
];

/// Returns the command with its verbs in groups and an example of each verb.
pub fn with_help(mut command: Command) -> Command {
    for (verb, examples) in EXAMPLES {
        let lines: String = examples
            .iter()
            .map(|example| format!("\n  {example}"))
            .collect();
        command = command.mut_subcommand(verb, |verb| verb.after_help(format!("Examples:{lines}")));
    }
    let verbs = groups(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}\
         Options:\n{{options}}\n\nStart with: epochcost run smoke{{after-help}}"
    ))
}

/// Returns every verb with its purpose, in groups.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in verbs {
            let verb = command
                .get_subcommands()
                .find(|verb| verb.get_name() == *name);
            let about = verb.and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print help of a verb".to_owned());
            text.push_str(&format!("  {name:<12} {about}\n"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_verb_stands_in_a_group_and_has_an_example() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        for verb in shown.map(Command::get_name) {
            let is_grouped = GROUPS.iter().any(|(_, verbs)| verbs.contains(&verb));
            assert!(is_grouped, "{verb}");
            // `clean` removes things: its help is read first.
            let has_example = EXAMPLES.iter().any(|(name, _)| *name == verb);
            assert!(has_example || verb == "clean", "{verb}");
        }
        let help = with_help(command).render_help().to_string();
        assert!(
            help.contains("Measure:\n  run          Run experiments"),
            "{help}"
        );
    }
}
