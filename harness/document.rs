//! Blocks of code in documents, which build scripts take out of them.

/// Returns the block of Rust that follows the comment `name`.
pub fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let mark = format!("<!-- {name} -->\n```rust\n");
    let block = document
        .split_once(mark.as_str())
        .and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or_else(|| format!("a document has no block {name:?}"))?;
    Ok(block)
}
