use std::str::FromStr;

use crate::CommandError;
use crate::command::MAX_SOURCES;

/// The arguments of a command, taken from the front, each as what the command
/// expects of it.
///
/// Generic over how a server holds an argument, so that a large one is handed
/// on as it is and never copied.
#[derive(Debug)]
pub struct Arguments<'a, A> {
    command: &'a str,
    rest: &'a [A],
}

type Parsed<T> = Result<T, CommandError>;

impl<'a, A: AsRef<[u8]>> Arguments<'a, A> {
    /// Returns the arguments `all` of `command`.
    #[must_use]
    pub fn new(command: &'a str, all: &'a [A]) -> Self {
        Self { command, rest: all }
    }

    /// Returns the next argument as it is.
    ///
    /// # Errors
    /// [`CommandError::WrongCount`] if there is none.
    pub fn blob(&mut self) -> Parsed<&'a A> {
        let (first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| CommandError::wrong_count(self.command))?;
        self.rest = rest;
        Ok(first)
    }

    /// Returns the next argument as a key: UTF-8.
    ///
    /// # Errors
    /// [`CommandError::KeyNotText`], or as [`blob`](Self::blob).
    pub fn key(&mut self) -> Parsed<String> {
        let key = self.blob()?.as_ref();
        std::str::from_utf8(key)
            .map(str::to_owned)
            .map_err(|_| CommandError::KeyNotText)
    }

    /// Returns the next argument as a whole number.
    ///
    /// # Errors
    /// [`CommandError::NotAnInteger`], or as [`blob`](Self::blob).
    pub fn integer<T: FromStr>(&mut self) -> Parsed<T> {
        self.number()?.ok_or(CommandError::NotAnInteger)
    }

    /// Returns the next argument as the nearest finite f32.
    ///
    /// # Errors
    /// [`CommandError::NotAFloat`], or as [`blob`](Self::blob).
    pub fn float(&mut self) -> Parsed<f32> {
        self.number()?
            .filter(|value: &f32| value.is_finite())
            .ok_or(CommandError::NotAFloat)
    }

    fn number<T: FromStr>(&mut self) -> Parsed<Option<T>> {
        let text = std::str::from_utf8(self.blob()?.as_ref()).ok();
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Returns all that is left, at least one, as keys.
    ///
    /// # Errors
    /// Those of [`key`](Self::key).
    pub fn keys(&mut self) -> Parsed<Vec<String>> {
        let mut keys = vec![self.key()?];
        while !self.rest.is_empty() {
            keys.push(self.key()?);
        }
        Ok(keys)
    }

    /// `count source…`: all that is left, as many keys as announced.
    ///
    /// # Errors
    /// [`CommandError::NoSources`], [`CommandError::SourceCount`],
    /// [`CommandError::TooManySources`], or as [`key`](Self::key).
    pub fn counted_keys(&mut self) -> Parsed<Vec<String>> {
        let count: usize = self.integer()?;
        if count == 0 {
            return Err(CommandError::NoSources);
        }
        if count != self.rest.len() {
            return Err(CommandError::SourceCount);
        }
        if count > MAX_SOURCES {
            return Err(CommandError::TooManySources {
                count,
                most: MAX_SOURCES,
            });
        }
        self.keys()
    }

    /// Returns all that is left, at least one, as it is.
    ///
    /// # Errors
    /// Those of [`blob`](Self::blob).
    pub fn blobs(mut self) -> Parsed<&'a [A]> {
        let all = self.rest;
        self.blob()?;
        Ok(all)
    }

    /// Refuses arguments that are left over.
    ///
    /// # Errors
    /// [`CommandError::WrongCount`].
    pub fn end(self) -> Parsed<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(CommandError::wrong_count(self.command))
        }
    }
}
