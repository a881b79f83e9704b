//! Programs of the machine that draw, typeset or show what was written.

use std::io::{ErrorKind, Write};
use std::process::Command;

use super::*;

/// A document of LaTeX that takes the appendix in.
const PAPER: &str = r"\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{array,booktabs,longtable}
\begin{document}
\input{appendix}
\end{document}
";

/// Runs pdflatex in a directory; what it said. None where there is no LaTeX.
fn typeset(directory: &Path, file: &str) -> Option<String> {
    let mut latex = Command::new("pdflatex");
    latex.args(["-interaction=nonstopmode", "-halt-on-error", file]);
    let ended = latex.current_dir(directory).output();
    let is_missing = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    if ended.as_ref().is_err_and(is_missing) {
        let what = "no pdflatex; to run it: apt-get install texlive-latex-recommended";
        // Not `eprintln`, which libtest shows of tests that fail alone.
        let _ = writeln!(std::io::stderr(), "SKIPPED {file}: {what}");
        return None;
    }
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}");
    Some(said)
}

#[test]
fn tables_and_appendix_are_typeset_where_there_is_latex() {
    let scene = Scene::empty();
    written(&scene.file("run"), fixture::CLAIMS);
    scene.run("report run --figures out").ends(3);
    let record = root().join(RECORD);
    let record = record.display();
    scene.text(&format!("report appendix --record {record} --out out"));
    scene.write("out/paper.tex", PAPER);
    // A paper in two columns with every table, which is not told how wide they may be.
    let tables = scene.read("out/tables.tex");
    let tables = tables.replace("{article}", "[twocolumn]{article}");
    let columns = tables.replace("\\end{document}", "\\input{appendix}\n\\end{document}");
    holds(&columns, &["[twocolumn]", "{appendix}"]);
    scene.write("out/columns.tex", &columns);
    let out = scene.file("out");
    if typeset(&out, "columns.tex").is_none() {
        return;
    }
    for file in ["tables.tex", "paper.tex"] {
        let Some(said) = typeset(&out, file) else {
            return;
        };
        // What reaches into the margin is not read.
        let beyond = said.lines().filter_map(|line| {
            let rest = line.strip_prefix("Overfull \\hbox (")?;
            rest.split("pt").next()?.parse::<f64>().ok()
        });
        let widest = beyond.fold(0.0, f64::max);
        let is_narrow = widest < 40.0;
        assert!(is_narrow, "{file}: {widest} points too wide: {said}");
        assert!(out.join(file).with_extension("pdf").is_file());
    }
}
