//! The pages that the browser opens.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use epochcost_judge::analysis;
use epochcost_report as report;
use serde_json::Value;

use crate::fixture;
use crate::support::{Scene, items, root, sized};

/// Two models, so that names are long; claims that agree, differ, and are open.
const TWO_MODELS: &str = "\
systems:
  - {system: spirt, model: mobilenet}
  - {system: scatterreduce, model: mobilenet}
  - {system: allreduce, model: resnet18}
  - {system: gpu_baseline, model: mobilenet}
beside: [{table: t, keys: {system: system}}]
statements: [{of: less, formula: \"puts[allreduce-resnet18-paper] < puts[scatterreduce-mobilenet-paper]\"}]
findings:
  - {says: the GPU takes less than an hour, formula: \"seconds_per_epoch[gpu_baseline] <= 3600\"}
";

/// A page with the directory that it reports of.
pub struct Page {
    /// What it is in.
    pub directory: PathBuf,
    /// Its address.
    pub url: String,
    /// What `summary.json` says.
    pub summary: Value,
}

impl Page {
    fn of(directory: PathBuf) -> Self {
        let text = fs::read_to_string(directory.join("summary.json")).unwrap();
        Self {
            url: format!("file://{}", directory.join("report.html").display()),
            summary: serde_json::from_str(&text).unwrap(),
            directory,
        }
    }

    /// The rows of the summary.
    pub fn rows(&self) -> &[Value] {
        items(&self.summary, "rows")
    }

    /// For messages and pictures.
    pub fn name(&self) -> &str {
        self.directory.file_name().unwrap().to_str().unwrap()
    }
}

/// Files that stay after the test.
pub fn kept(name: &str) -> PathBuf {
    let browser = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    browser.join(name)
}

/// One that is not there yet.
fn emptied(name: &str) -> PathBuf {
    let directory = kept(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

/// Five systems, two trials, a failure, verdicts of every kind.
pub static MEASURED: LazyLock<Page> = LazyLock::new(|| {
    let directory = emptied("measured");
    let run = fixture::finished(&directory, fixture::CLAIMS);
    report::write(&run, &analysis::summarise(&run).unwrap()).unwrap();
    Page::of(directory)
});

/// Four rows in virtual time.
pub static SIMULATED: LazyLock<Page> = LazyLock::new(|| {
    let experiment = experiment("simulated", TWO_MODELS);
    let paper = "cite: a paper\ntables:\n  t:\n    place: Table 1\n    file: t.csv\n    keys: [system]\n    \
                     columns:\n      seconds: {unit: s, metric: seconds_per_epoch}\n      \
                     usd: {unit: USD, metric: cost_paper_usd}\n";
    let says = "id,place,kind,weight,reading_of,says,formula,why\nless,§1,ranking,1,,AllReduce puts less,,drawn\n";
    for (name, text) in [
        ("paper.yaml", paper),
        ("t.csv", "system,seconds,usd\nscatterreduce,86,0.01\n"),
        ("statements.csv", says),
    ] {
        fs::write(experiment.with_file_name(name), text).unwrap();
    }
    simulate("simulated", &experiment, "")
});

/// Writes an experiment with these systems.
fn experiment(name: &str, systems: &str) -> PathBuf {
    let own = "batch_size: 128\nbatches_per_worker: 6\nepochs: 2\n\
               simulation: {profile: aws-us-east-1, compute: [stated-flops], limits: false}\n";
    let file = kept(&format!("{name}.yaml"));
    fs::create_dir_all(kept("")).unwrap();
    let text = sized(&format!("name: {name}\n{own}{systems}"));
    fs::write(&file, text).unwrap();
    file
}

fn simulate(name: &str, experiment: &Path, options: &str) -> Page {
    let directory = emptied(name);
    let (file, out) = (experiment.display(), directory.display());
    Scene::empty().text(&format!("run {file} {options} --out {out}"));
    Page::of(directory)
}

/// The fullest page there is: ten rows with as many published ones.
pub static TABLE2: LazyLock<Page> = LazyLock::new(|| {
    let table2 = root().join("experiments/cost-performance/table2.yaml");
    simulate("table2", &table2, "")
});

/// Shipped experiments, simulated: all systems once, towards a target, sweeps, tables
/// with and without published figures. One of each kind that takes seconds: others train their models,
/// or have thousands of workers.
pub static SHIPPED: LazyLock<Vec<Page>> = LazyLock::new(|| {
    // Draws decide rankings, and no chart shows them.
    let sweep = "--set findings=[] --set beside=[] --set statements=[]";
    let files = [
        ("smoke", "--platform sim"),
        ("own-model", ""),
        ("cost-performance/crossing", sweep),
        ("cost-performance/in-database", sweep),
        ("cost-performance/table1", sweep),
        ("kubeml/figure4", sweep),
        ("p2p/table1", sweep),
        ("robustness/cost", sweep),
    ];
    let page = |(file, options): (&str, &str)| {
        let experiment = root().join(format!("experiments/{file}.yaml"));
        let name = format!("shipped-{}", file.replace('/', "-"));
        simulate(&name, &experiment, options)
    };
    files.map(page).into()
});

/// Every system under the paper's settings and all but two tuned, too: as many rows as have a
/// colour and a mark of their own.
pub static MANY: LazyLock<Page> = LazyLock::new(|| {
    let plain = "spirt mlless scatterreduce allreduce gpu_baseline p2p p2p_lambda lambdaml_scatterreduce \
                 lambdaml_allreduce lambdaml_async";
    let kubeml = "system: kubeml, settings: {document_samples: 64, k: 2}";
    let mut entries: Vec<String> = plain
        .split(' ')
        .map(|name| format!("system: {name}"))
        .collect();
    entries.push(kubeml.to_owned());
    let tuned = entries
        .iter()
        .map(|entry| format!("{entry}, fidelity: tuned"));
    let tuned: Vec<String> = tuned.collect();
    entries.extend(
        [
            "system: mirrored, instance_type: g4dn.12xlarge",
            "system: ring",
        ]
        .map(str::to_owned),
    );
    entries.extend(tuned);
    let lines = entries.iter().map(|entry| format!("  - {{{entry}}}\n"));
    let systems = lines.collect::<String>();
    let experiment = experiment("many-systems", &format!("systems:\n{systems}"));
    simulate("many-systems", &experiment, "")
});

/// The page that a verb writes to the file that `--html` names.
fn written(name: &str, arguments: &str) -> Page {
    let directory = emptied(name);
    fs::create_dir_all(&directory).unwrap();
    let page = directory.join(format!("{name}.html"));
    let page = page.display();
    Scene::empty().text(&format!("{arguments} --html {page}"));
    Page {
        url: format!("file://{page}"),
        summary: Value::Null,
        directory,
    }
}

/// The page of a plan: two models, with limits and intervals.
pub static PLANNED: LazyLock<Page> = LazyLock::new(|| {
    LazyLock::force(&SIMULATED);
    let experiment = kept("simulated.yaml");
    let options = "--uncertainty 4 --cheapest-memory";
    written("plan", &format!("plan {} {options}", experiment.display()))
});

/// The page of the audit of all papers.
pub static AUDITED: LazyLock<Page> = LazyLock::new(|| written("audit", "audit"));

/// One page over both.
pub static OVERVIEW: LazyLock<Page> = LazyLock::new(|| {
    let directory = emptied("overview");
    let runs = [&MEASURED, &SIMULATED].map(|page| page.directory.display());
    let [measured, simulated] = runs;
    let out = directory.display();
    // A trial of the fixture failed.
    let report = format!("report {measured} {simulated} --out {out}");
    Scene::empty().run(&report).ends(3);
    Page::of(directory)
});

/// The page of a comparison, of the simulated run with smaller functions.
pub static COMPARISON: LazyLock<Page> = LazyLock::new(|| {
    let before = SIMULATED.directory.display();
    let smaller = "--set memory_mb=1769 --set findings=[]";
    let after = simulate("smaller", &kept("simulated.yaml"), smaller);
    let after = after.directory.display();
    written("comparison", &format!("compare {before} {after}"))
});
