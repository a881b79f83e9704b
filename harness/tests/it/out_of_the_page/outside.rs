//! Programs of the machine that draw, typeset or show what was written.

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
    let ended = match latex.current_dir(directory).output() {
        Ok(ended) => ended,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "no pdflatex; to run it: apt-get install texlive-latex-recommended";
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("SKIPPED {file}: {what}\n").as_bytes(),
            );
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}");
    Some(said)
}

#[test]
fn tables_and_appendix_are_typeset_where_there_is_latex() {
    let directory = tempfile::tempdir().unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    written(&run, fixture::CLAIMS);
    let figures = program()
        .arg("report")
        .arg(&run)
        .arg("--figures")
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(figures.status.code(), Some(3));
    let record = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join("results/records/reproduction/summary.json");
    let appendix = program()
        .args(["report", "appendix"])
        .arg("--record")
        .arg(&record)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(appendix.status.success());
    fs::write(out.join("paper.tex"), PAPER).unwrap();
    // A paper in two columns with every table, which is not told how wide they may be.
    let tables = fs::read_to_string(out.join("tables.tex")).unwrap();
    let tables = tables.replace("{article}", "[twocolumn]{article}");
    let columns = tables.replace("\\end{document}", "\\input{appendix}\n\\end{document}");
    assert!(columns.contains("[twocolumn]") && columns.contains("{appendix}"));
    fs::write(out.join("columns.tex"), columns).unwrap();
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
        assert!(
            widest < 40.0,
            "{file}: {widest} points beyond the margin: {said}"
        );
        assert!(out.join(file).with_extension("pdf").is_file());
    }
}
