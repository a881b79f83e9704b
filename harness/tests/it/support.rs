//! The program under test, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use epochcost_experiment::{Experiment, Options};
use serde_json::Value;
use tempfile::TempDir;

pub use crate::testing::{cases, holds, lacks};

/// What an experiment begins with that trains LeNet-5 on this machine.
pub const LENET5: &str = "\
schema: 1
name: lenet5
dataset: {name: synthetic-mnist, train: 64, test: 10}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 2
epochs: 1
";

/// Waits until something is so, in bounds for a busy machine.
#[track_caller]
pub fn until(condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        let is_stuck = since.elapsed() > Duration::from_secs(240);
        assert!(!is_stuck, "the condition comes true");
        sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a process.
#[track_caller]
pub fn signal(name: &str, process: u32) {
    let arguments = ["-s", name, &process.to_string()];
    let sent = Command::new("kill").args(arguments).status();
    assert!(sent.unwrap().success());
}

/// How many lines a file has; none where it is not there.
pub fn lines_of(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// A command that runs the program.
pub fn program() -> Command {
    epochcost_testing::watch();
    Command::new(env!("CARGO_BIN_EXE_epochcost"))
}

/// Every file below a directory with that extension.
pub fn files_of(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_of(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found
}

/// A directory of a test, in which the program runs.
pub struct Scene(pub TempDir);

impl Scene {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With one file.
    pub fn of(name: &str, text: &str) -> Self {
        Self::empty().with(name, text)
    }

    /// With a copy of what is in a directory.
    pub fn copy_of(directory: &Path) -> Self {
        fn copy(from: &Path, to: &Path) {
            fs::create_dir_all(to).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let from = entry.unwrap().path();
                let to = to.join(from.file_name().unwrap());
                if from.is_dir() {
                    copy(&from, &to);
                } else {
                    fs::copy(from, to).unwrap();
                }
            }
        }
        let scene = Self::empty();
        copy(directory, scene.path());
        scene
    }

    /// With one file more; its folders are made.
    pub fn with(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Replaces a text that the file must have.
    #[track_caller]
    pub fn edit(&self, name: &str, before: &str, after: &str) {
        let text = self.read(name);
        assert!(text.contains(before), "{before} in {name}");
        self.write(name, &text.replace(before, after));
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// The JSON of a file.
    #[track_caller]
    pub fn value(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The program with arguments, parted by spaces outside of single quotes.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = program();
        let parts = arguments.split('\'').enumerate();
        for (place, part) in parts {
            if place % 2 == 1 {
                command.arg(part);
            } else {
                command.args(part.split_whitespace());
            }
        }
        command.current_dir(self.path());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &str) -> Ended {
        self.end(&mut self.command(arguments))
    }

    /// Runs a shell's line, in which the program is `$0`.
    pub fn shell(&self, line: &str) -> Ended {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).arg(program().get_program());
        self.end(shell.current_dir(self.path()))
    }

    /// Runs a command to its end.
    pub fn end(&self, command: &mut Command) -> Ended {
        Ended {
            output: command.output().unwrap(),
            directory: self.path().to_owned(),
        }
    }

    /// What a command prints that must succeed.
    #[track_caller]
    pub fn text(&self, arguments: &str) -> String {
        self.run(arguments).ends(0).text()
    }

    /// The same, as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        self.run(arguments).ends(0).json()
    }
}

/// A program that has ended.
pub struct Ended {
    pub output: Output,
    directory: PathBuf,
}

impl Ended {
    /// Fails on another exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        let ended = self.output.status.code();
        assert_eq!(ended, Some(code), "{}{}", self.text(), self.message());
        self
    }

    /// Fails unless standard output or error hold every word.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        holds(&(self.text() + &self.message()), words);
        self
    }

    /// Standard output.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Standard error.
    pub fn message(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout).unwrap()
    }

    /// What is said of bad input, without its excerpt: the line of the place, and a mark below the column.
    #[track_caller]
    pub fn refusal(self) -> String {
        let refused = self.ends(2);
        let message = refused.message();
        let place: Vec<&str> = message.split(": ").nth(1).unwrap().split(':').collect();
        let [file, line, column] = place[..] else {
            return message;
        };
        let [row, column] = [line, column].map(|number| number.parse::<usize>().unwrap());
        let text = fs::read_to_string(refused.directory.join(file)).unwrap();
        let (shown, margin) = (text.lines().nth(row - 1).unwrap(), line.len());
        let excerpt = format!("\n {line} | {shown}\n {:margin$} | {:>column$}\n", "", "^");
        holds(&message, &[&excerpt]);
        message.replacen(&excerpt, "\n", 1)
    }

    /// Exit code, standard output and error for a snapshot: the same in every directory.
    pub fn shown(&self) -> String {
        let directory = self.directory.display().to_string();
        let shown = format!(
            "exit {}\n{}{}",
            self.output.status,
            self.text(),
            self.message()
        );
        shown
            .replace("exit exit status: ", "exit ")
            .replace(&directory, "DIRECTORY")
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An experiment as it is read without options.
#[track_caller]
pub fn load(file: &Path) -> Experiment {
    let experiment = Experiment::load(file, &Options::default());
    experiment.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The text of a file of the repository.
pub fn shipped(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The items of a list in JSON.
#[track_caller]
pub fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap()
}

/// An experiment in virtual time that has sizes alone: these lines, and before them every usual one that is not
/// among them.
pub fn sized(lines: &str) -> String {
    let usual = "schema: 1\nname: x\nplatform: sim\ndataset: {name: cifar10}\nmodel: mobilenet\nworkers: 4\n\
                 batch_size: 64\nbatches_per_worker: 3\nepochs: 1\nevaluate: never\nmemory_mb: 3008\n";
    completed(lines, usual)
}

/// One that trains on this machine, in the same way.
pub fn trained(lines: &str) -> String {
    let usual = "schema: 1\nname: x\ndataset: {name: synthetic-mnist, train: 256, test: 32}\nmodel: lenet5\n\
                 workers: 2\nbatch_size: 8\nbatches_per_worker: 1\nepochs: 1\n";
    completed(lines, usual)
}

fn completed(lines: &str, usual: &str) -> String {
    let field = |line: &str| line.split(':').next().unwrap().to_owned();
    let own: Vec<String> = lines.lines().map(field).collect();
    let usual = usual.split_inclusive('\n');
    let missing = usual.filter(|line| !own.contains(&field(line)));
    missing.chain([lines]).collect()
}
