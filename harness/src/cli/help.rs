//! Help of the program: verbs in groups, and examples of each.

use clap::Command;

/// Groups of verbs, in the order in which help shows them; the others follow.
const GROUPS: [(&str, &[&str]); 2] = [
    (
        "Train and plan",
        &["run", "check", "plan", "profile", "report", "compare"],
    ),
    ("Reproduce the papers", &["reproduce", "audit"]),
];

/// Examples of each verb, which is their second word.
const EXAMPLES: [&str; 40] = [
    "epochcost run smoke",
    "epochcost run experiments/smoke.yaml --trials 5 --set workers=2",
    "epochcost run experiments/smoke.yaml --platform sim",
    "epochcost run experiments/learn.yaml --out results/mine --resume",
    "epochcost run smoke --set 'dataset={name: mnist}' --fetch",
    "epochcost check experiments/smoke.yaml --set workers=2",
    "epochcost plan experiments/own-model.yaml",
    "epochcost plan experiments/smoke.yaml --limits",
    "epochcost plan experiments/own-model.yaml --deadline 2h --budget 5usd",
    "epochcost plan experiments/smoke.yaml --html plan.html",
    "epochcost plan results/RUN --set workers=16",
    "epochcost plan map --deadline 2h --out map.svg",
    "epochcost profile -- python train.py",
    "epochcost profile calibrate --probe --client interpreted",
    "epochcost profile calibrate mine.csv --out mine.yaml",
    "epochcost profile calibrate results/RUN --out steps.yaml",
    "epochcost reproduce --quick",
    "epochcost reproduce cost-performance/table2",
    "epochcost reproduce --dry-run",
    "epochcost reproduce --platform aws --dry-run",
    "epochcost report results/RUN",
    "epochcost report results/RUN --figures figures",
    "epochcost report results/ONE results/TWO --out page",
    "epochcost report appendix cost-performance --out appendix",
    "epochcost compare results/BEFORE results/AFTER --fail-on slower",
    "epochcost compare results/BEFORE results/AFTER --html compare.html",
    "epochcost audit cost-performance",
    "epochcost audit p2p --at V-B2 --word cost",
    "epochcost audit --html audit.html",
    "epochcost list systems",
    "epochcost list systems SPIRT",
    "epochcost list --write mine && cd mine",
    "epochcost doctor --measure",
    "epochcost dev validate",
    "epochcost dev validate results/RUN --within 0.25",
    "epochcost dev new system pair_mean",
    "epochcost dev faults experiments/smoke.yaml --seed 1",
    "epochcost dev completions bash > ~/.local/share/bash-completion/completions/epochcost",
    "epochcost aws doctor",
    "epochcost aws prices show",
];

/// Returns the command with its verbs in groups and an example of each verb.
pub fn with_help(mut command: Command) -> Command {
    let verbs = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned());
    for name in verbs.collect::<Vec<_>>() {
        let help = format!("Examples:\n  {}", examples(&name).join("\n  "));
        command = command.mut_subcommand(&name, |verb| verb.after_help(help));
    }
    let verbs = groups(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}\
         Options:\n{{options}}\n\nStart with: epochcost run smoke{{after-help}}"
    ))
}

/// Returns the examples of a verb.
fn examples(verb: &str) -> Vec<&'static str> {
    let is_of = |example: &&str| example.split(' ').nth(1) == Some(verb);
    EXAMPLES.into_iter().filter(is_of).collect()
}

/// Returns every verb with its purpose, in groups.
fn groups(command: &Command) -> String {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let shown: Vec<(&str, String)> = shown
        .map(|verb| {
            let about = verb.get_about().map(ToString::to_string);
            (verb.get_name(), about.unwrap_or_default())
        })
        .chain([("help", "Print help of a verb".to_owned())])
        .collect();
    let is_grouped = |name: &&str| GROUPS.iter().any(|(_, verbs)| verbs.contains(name));
    let others = shown.iter().map(|(name, _)| *name);
    let others: Vec<&str> = others.filter(|name| !is_grouped(name)).collect();
    let groups = GROUPS.into_iter();
    let mut text = String::new();
    for (title, verbs) in groups.chain([("This program and accounts", &others[..])]) {
        text.push_str(&format!("{title}:\n"));
        for name in verbs {
            let about = shown.iter().find(|(known, _)| known == name);
            let about = about.map_or("", |(_, about)| about);
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
    fn every_verb_has_an_example_and_stands_in_a_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        for verb in shown {
            let name = verb.get_name();
            assert!(!examples(name).is_empty(), "{name}");
        }
        let help = with_help(command).render_help().to_string();
        assert!(
            help.contains("Train and plan:\n  run          Run experiments"),
            "{help}"
        );
    }
}
