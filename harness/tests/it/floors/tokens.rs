//! Rust source as far as imports need it: tokens, without comments, the content
//! of literals and test code.

/// A word, `::`, or one other character.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub text: String,
    /// Line in the file, from 1.
    pub line: usize,
}

/// Returns the tokens of a file; every literal is one token `""`.
pub fn tokens(source: &str) -> Vec<Token> {
    let characters: Vec<char> = source.chars().collect();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < characters.len() {
        let rest = &characters[at..];
        let (length, text) = next(rest);
        if let Some(text) = text {
            tokens.push(Token { text, line });
        }
        line += rest[..length].iter().filter(|c| **c == '\n').count();
        at += length;
    }
    tokens
}

/// Returns the length of what comes first, and its token if it is one.
fn next(rest: &[char]) -> (usize, Option<String>) {
    let second = rest.get(1).copied().unwrap_or(' ');
    match rest[0] {
        c if c.is_whitespace() => (1, None),
        '/' if second == '/' => (until(rest, |c| c == '\n'), None),
        '/' if second == '*' => (block_comment(rest), None),
        '"' => (string(rest), Some("\"\"".into())),
        'r' | 'b' | 'c' if literal_prefix(rest).is_some() => {
            let prefix = literal_prefix(rest).unwrap_or(1);
            let hashes = rest[..prefix].iter().filter(|c| **c == '#').count();
            let is_raw = rest[..prefix].contains(&'r');
            let length = prefix
                + if is_raw {
                    raw_string(&rest[prefix..], hashes)
                } else {
                    string(&rest[prefix..])
                };
            (length, Some("\"\"".into()))
        }
        '\'' => match character(rest) {
            Some(length) => (length, Some("\"\"".into())),
            // A lifetime: its name follows as a word.
            None => (1, None),
        },
        c if is_word(c) => {
            let length = until(rest, |c| !is_word(c));
            (length, Some(rest[..length].iter().collect()))
        }
        ':' if second == ':' => (2, Some("::".into())),
        c => (1, Some(c.into())),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn until(rest: &[char], ends: impl Fn(char) -> bool) -> usize {
    rest.iter().position(|c| ends(*c)).unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of a string that begins with its quotation mark.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Returns the length of `r`, `b`, `br#` and the like before a quotation mark.
fn literal_prefix(rest: &[char]) -> Option<usize> {
    let letters = until(rest, |c| !matches!(c, 'r' | 'b' | 'c'));
    let hashes = until(&rest[letters..], |c| c != '#');
    let is_prefix = letters <= 2 && rest.get(letters + hashes) == Some(&'"');
    is_prefix.then_some(letters + hashes)
}

fn raw_string(rest: &[char], hashes: usize) -> usize {
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let ends = rest[1..].windows(end.len()).position(|part| part == end);
    ends.map_or(rest.len(), |at| 1 + at + end.len())
}

/// Returns the length of a character literal; none for a lifetime.
fn character(rest: &[char]) -> Option<usize> {
    match (rest.get(1)?, rest.get(2)?) {
        ('\\', _) => Some(3 + until(&rest[3..], |c| c == '\'') + 1),
        (_, '\'') => Some(3),
        _ => None,
    }
}

/// Takes out every item under `#[cfg(test)]`, and returns the names of the
/// modules among them that are files.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut files, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        let is_test = (TEST.iter().enumerate()).all(|(i, text)| is(tokens.get(at + i), text));
        if !is_test {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += TEST.len();
        let item = &tokens[at..];
        if is(item.first(), "mod") && is(item.get(2), ";") {
            files.push(item[1].text.clone());
        }
        at += item_length(item);
    }
    (kept, files)
}

/// Returns the tokens of an item, its further attributes included.
fn item_length(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        let ends_block = token.text == "}" && depth == 0;
        if ends_block || (token.text == ";" && depth == 0) {
            return index + 1;
        }
    }
    tokens.len()
}

/// Whether there is a token of that text.
pub fn is(token: Option<&Token>, text: &str) -> bool {
    token.is_some_and(|token| token.text == text)
}
