//! Programs of the machine that draw, typeset or show what was written.

use super::*;

/// A machine without a program that draws says what to install; one with a program gets a
/// picture beside every image.
#[test]
fn figures_are_drawn_by_a_program_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    written(&run, fixture::CLAIMS);
    let programs = directory.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let drawn = || {
        program()
            .arg("report")
            .arg(&run)
            .arg("--figures")
            .arg(&out)
            .arg("--png")
            .env("PATH", &programs)
            .output()
            .unwrap()
    };
    let lacking = drawn();
    let message = String::from_utf8_lossy(&lacking.stderr).into_owned();
    assert_eq!(lacking.status.code(), Some(5), "{message}");
    assert!(
        message.contains("apt-get install librsvg2-bin"),
        "{message}"
    );

    let stand_in = programs.join("rsvg-convert");
    fs::write(&stand_in, "#!/bin/sh\necho \"$5\" > \"$4\"\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&stand_in, mode).unwrap();
    let ended = drawn();
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{message}");
    let of_kind = |kind: &str| {
        let entries = fs::read_dir(&out).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let names = names.filter_map(|name| name.strip_suffix(kind).map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(of_kind(".png"), of_kind(".svg"));
    assert!(of_kind(".png").len() > 6);
}

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
        .join(analysis::record::RECORD);
    let appendix = program()
        .arg("artifact")
        .arg("--record")
        .arg(&record)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(appendix.status.success());
    fs::write(out.join("paper.tex"), PAPER).unwrap();
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
