//! A command as files and messages show it: on one line, without what looks like a secret.

use epochcost_spec::format::shell_word;

/// Words of a name whose value is no one else's business.
const SECRET: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "auth",
    "authorization",
    "credential",
    "credentials",
];
/// Words before `key` in the name of one.
const KEYS: [&str; 5] = ["api", "access", "private", "secret", "account"];
/// Beginnings of tokens of well-known services.
const TOKENS: [&str; 9] = [
    "hf_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xoxb-",
    "AKIA",
    "Bearer ",
];
/// What is shown in place of a secret.
const HIDDEN: &str = "***";

/// Returns a command line as a shell reads it, on one line, with secrets hidden.
pub(super) fn command_line(command: &[String]) -> String {
    let mut words = Vec::with_capacity(command.len());
    let mut is_value = false;
    for word in command {
        let hidden = if is_value && !word.starts_with('-') {
            HIDDEN.to_owned()
        } else {
            hidden(word)
        };
        is_value = word.starts_with('-') && !word.contains('=') && is_secret(word);
        words.push(on_one_line(&hidden));
    }
    words.join(" ")
}

/// Returns a word without its secret.
fn hidden(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && (is_secret(name) || is_token(value))
    {
        return format!("{name}={HIDDEN}");
    }
    if is_token(word) {
        return HIDDEN.to_owned();
    }
    // User and password of an address.
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((_, place)) = rest.split_once('@')
        && rest
            .split('/')
            .next()
            .is_some_and(|host| host.contains('@'))
    {
        return format!("{scheme}://{HIDDEN}@{place}");
    }
    word.to_owned()
}

/// Returns whether the name of an option or a variable says that its value is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let is_key = |pair: &[&str]| pair[1] == "key" && KEYS.contains(&pair[0]);
    let has_key = words.windows(2).any(is_key);
    has_key || words.iter().any(|word| SECRET.contains(word))
}

fn is_token(value: &str) -> bool {
    TOKENS.iter().any(|begin| value.starts_with(begin))
}

/// Quotes a word as a shell would; one with control characters as `bash` writes them.
fn on_one_line(word: &str) -> String {
    if !word.chars().any(char::is_control) {
        return shell_word(word);
    }
    format!("${:?}", word).replace('"', "'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;

    /// A command line of words, between which there is one space.
    fn shown_of(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        command_line(&words)
    }

    #[test]
    fn secrets_are_hidden_and_nothing_else_is() {
        for ([words, expected], _) in cases(&[
            "python t.py --token=abc | python t.py '--token=***'",
            "--api-key abc --lr 0.1 | --api-key '***' --lr 0.1",
            "env WANDB_API_KEY=abc sh | env 'WANDB_API_KEY=***' sh",
            "--db postgres://me:abc@host/x | --db 'postgres://***@host/x'",
            "--login hf_abc | --login '***'",
            "--password --epochs 3 | --password --epochs 3",
            "--max-tokens 512 | --max-tokens 512",
            "--tokenizer=gpt2 --author x | --tokenizer=gpt2 --author x",
            "--mail https://host/a@b | --mail https://host/a@b",
        ]) {
            assert_eq!(shown_of(words), expected);
            assert!(!shown_of(words).contains("abc"));
        }
        let header = ["--header", "Bearer abc"].map(str::to_owned);
        assert_eq!(command_line(&header), "--header '***'");
    }

    #[test]
    fn a_line_break_stays_within_its_word() {
        let words = ["a", "b\nmodels: []\u{1b}"].map(str::to_owned);
        assert_eq!(command_line(&words), r"a $'b\nmodels: []\u{1b}'");
    }
}
