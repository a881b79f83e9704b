//! The line by which a file names its schema.

use std::path::{Component, Path};

/// Directory of the schemas, in a checkout and in what `list --write` writes.
pub const DIRECTORY: &str = "docs/schemas";

/// Start of the line by which a file names its schema, for the YAML language server.
const LINE: &str = "# yaml-language-server: $schema=";

/// Returns a file's text with its schema named from `depth` directories below that of the schemas.
pub fn relocated(text: &str, depth: usize) -> String {
    let parts = text
        .strip_prefix(LINE)
        .and_then(|rest| rest.split_once(DIRECTORY));
    let is_above = |above: &str| above.split('/').all(|part| ["..", ""].contains(&part));
    let Some((_, rest)) = parts.filter(|(above, _)| is_above(above)) else {
        return text.to_owned();
    };
    let (name, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    format!("{LINE}{}{DIRECTORY}{name}\n{rest}", "../".repeat(depth))
}

/// Returns the line by which a new file names its schema; empty where no schemas are below the
/// current directory, or the file is not.
pub fn line(kind: &str, file: &Path) -> String {
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(DIRECTORY).is_dir() || !file.components().all(is_below) {
        return String::new();
    }
    let parts = file.components();
    let depth = parts
        .filter(|part| matches!(part, Component::Normal(_)))
        .count();
    let above = "../".repeat(depth.saturating_sub(1));
    format!("{LINE}{above}{DIRECTORY}/{kind}.json\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_schema_from_where_it_is() {
        let file = "# yaml-language-server: $schema=../../docs/schemas/place.json\nschema: 1\n";
        let moved = relocated(file, 1);
        assert_eq!(moved, file.replace("../../", "../"));
        assert_eq!(relocated(&moved, 2), file);
        for other in [
            "schema: 1\n",
            "# yaml-language-server: $schema=http://x/docs/schemas/a.json\n",
        ] {
            assert_eq!(relocated(other, 3), other);
        }
        assert_eq!(line("place", Path::new("/elsewhere/a.yaml")), "");
    }
}
