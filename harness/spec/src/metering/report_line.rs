//! The REPORT line that ends every invocation of a Lambda function.
//!
//! ```text
//! REPORT RequestId: 3604209a-…<TAB>Duration: 12.34 ms<TAB>Billed Duration: 113 ms<TAB>
//! Memory Size: 128 MB<TAB>Max Memory Used: 55 MB<TAB>Init Duration: 100.00 ms<TAB>
//! ```
//!
//! Locally and on AWS, an invocation's figures come from this line and from
//! nothing else.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

const HEAD: &str = "REPORT RequestId: ";

/// The values of a REPORT line.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The invocation.
    pub request_id: Uuid,
    /// Run time without init, ms; the line carries two decimals.
    pub duration_ms: f64,
    /// Billed time, whole ms.
    pub billed_ms: u64,
    /// Memory size of the function, MB.
    pub memory_mb: u32,
    /// Peak memory of the sandbox so far, MB.
    pub peak_memory_mb: u32,
    /// Time from the start of the sandbox to its first request for work, ms; of
    /// cold invocations.
    pub init_ms: Option<f64>,
    /// How it ended, where that was not well.
    pub status: Option<Status>,
}

/// How an invocation ended that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The function's time was over.
    Timeout,
    /// The function failed.
    Error {
        /// Lambda's name for it, such as `Runtime.ExitError`.
        error_type: String,
    },
}

/// Why a line is not a REPORT line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReportError {
    /// The line does not begin like one.
    #[error("not a REPORT line: it does not begin with {HEAD:?}")]
    Head,
    /// The request id is no UUID.
    #[error("the request id {0:?} of a REPORT line is no UUID")]
    RequestId(String),
    /// A field is missing, or stands where another is expected.
    #[error("the REPORT line of {request_id} has {found} where {expected:?} is expected")]
    Expected {
        /// The invocation.
        request_id: Uuid,
        /// The field that must come next.
        expected: &'static str,
        /// What is there instead.
        found: String,
    },
    /// A field's value is no plain number in the field's unit.
    #[error(
        "the REPORT line of {request_id} has the {field} {value:?}, which is no number of {unit}"
    )]
    Value {
        /// The invocation.
        request_id: Uuid,
        /// The field.
        field: &'static str,
        /// Value.
        value: String,
        /// Unit.
        unit: &'static str,
    },
    /// Something follows that this version does not know.
    #[error("the REPORT line of {request_id} ends with {rest:?}, which is unknown")]
    Unknown {
        /// The invocation.
        request_id: Uuid,
        /// What follows.
        rest: String,
    },
}

impl fmt::Display for Report {
    /// Returns the line as Lambda writes it, with its tab at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, duration_ms, billed_ms) = (self.request_id, self.duration_ms, self.billed_ms);
        let (memory_mb, peak_memory_mb) = (self.memory_mb, self.peak_memory_mb);
        write!(
            f,
            "{HEAD}{id}\tDuration: {duration_ms:.2} ms\tBilled Duration: {billed_ms} ms\t\
             Memory Size: {memory_mb} MB\tMax Memory Used: {peak_memory_mb} MB\t"
        )?;
        if let Some(init_ms) = self.init_ms {
            write!(f, "Init Duration: {init_ms:.2} ms\t")?;
        }
        match &self.status {
            None => Ok(()),
            Some(Status::Timeout) => f.write_str("Status: timeout\t"),
            Some(Status::Error { error_type }) => {
                write!(f, "Status: error\tError Type: {error_type}\t")
            }
        }
    }
}

/// Names of the fields that are read.
const FIELDS: [&str; 7] = [
    "Duration",
    "Billed Duration",
    "Memory Size",
    "Max Memory Used",
    "Init Duration",
    "Status",
    "Error Type",
];

impl Report {
    /// Reads a line that Lambda itself wrote. Unlike [`str::parse`] it passes over fields
    /// that this version does not know, as the ids of a trace where tracing is on.
    ///
    /// # Errors
    /// When the fields that it knows are not those of a REPORT line.
    pub fn of_lambda(line: &str) -> Result<Self, ReportError> {
        let is_known = |part: &&str| {
            part.starts_with(HEAD) || FIELDS.iter().any(|name| field(part, name).is_some())
        };
        let known: Vec<&str> = line.split(['\t', '\n']).filter(is_known).collect();
        known.join("\t").parse()
    }
}

impl FromStr for Report {
    type Err = ReportError;

    /// Reads one line: exact names, units and order.
    fn from_str(line: &str) -> Result<Self, ReportError> {
        let rest = line.strip_prefix(HEAD).ok_or(ReportError::Head)?;
        let rest = rest.strip_suffix('\n').unwrap_or(rest);
        let rest = rest.strip_suffix('\t').unwrap_or(rest);
        let mut parts = rest.split('\t');
        let id = parts.next().unwrap_or_default();
        let request_id = request_id(id).ok_or_else(|| ReportError::RequestId(id.to_owned()))?;
        let mut fields = Fields {
            request_id,
            parts: parts.peekable(),
        };
        let report = Self {
            request_id,
            duration_ms: fields.number("Duration", "ms")?,
            billed_ms: fields.number("Billed Duration", "ms")?,
            memory_mb: fields.number("Memory Size", "MB")?,
            peak_memory_mb: fields.number("Max Memory Used", "MB")?,
            init_ms: (fields.next_is("Init Duration"))
                .then(|| fields.number("Init Duration", "ms"))
                .transpose()?,
            status: fields.status()?,
        };
        let rest: Vec<&str> = fields.parts.collect();
        if rest.is_empty() {
            return Ok(report);
        }
        let rest = rest.join("\t");
        Err(ReportError::Unknown { request_id, rest })
    }
}

/// Returns a request id as Lambda writes it: hyphenated, lower case.
fn request_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.to_string() == text).then_some(id)
}

struct Fields<'a> {
    request_id: Uuid,
    parts: std::iter::Peekable<std::str::Split<'a, char>>,
}

impl<'a> Fields<'a> {
    fn next_is(&mut self, name: &str) -> bool {
        let next = self.parts.peek();
        next.is_some_and(|part| field(part, name).is_some())
    }

    fn value(&mut self, name: &'static str) -> Result<&'a str, ReportError> {
        let part = self.parts.next();
        part.and_then(|part| field(part, name))
            .ok_or_else(|| ReportError::Expected {
                request_id: self.request_id,
                expected: name,
                found: part.map_or_else(|| "nothing".to_owned(), |part| format!("{part:?}")),
            })
    }

    fn number<N: FromStr>(
        &mut self,
        field: &'static str,
        unit: &'static str,
    ) -> Result<N, ReportError> {
        let text = self.value(field)?;
        let number = text
            .strip_suffix(unit)
            .and_then(|value| value.strip_suffix(' '));
        let plain = number.filter(|number| is_plain(number));
        let parsed = plain.map(|number| number.parse().map_err(|_| number));
        parsed
            .unwrap_or(Err(text))
            .map_err(|value| ReportError::Value {
                request_id: self.request_id,
                field,
                value: value.to_owned(),
                unit,
            })
    }

    fn status(&mut self) -> Result<Option<Status>, ReportError> {
        if !self.next_is("Status") {
            return Ok(None);
        }
        match self.value("Status")? {
            "timeout" => Ok(Some(Status::Timeout)),
            "error" => Ok(Some(Status::Error {
                error_type: self.value("Error Type")?.to_owned(),
            })),
            other => Err(ReportError::Unknown {
                request_id: self.request_id,
                rest: format!("Status: {other}"),
            }),
        }
    }
}

fn field<'a>(part: &'a str, name: &str) -> Option<&'a str> {
    part.strip_prefix(name)?.strip_prefix(": ")
}

/// Digits with at most one point between them: no sign, exponent, `inf` or `nan`.
fn is_plain(number: &str) -> bool {
    let mut parts = number.split('.');
    let digits = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    digits(parts.next())
        && parts.next().is_none_or(|decimals| digits(Some(decimals)))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    fn statuses() -> impl Strategy<Value = Option<Status>> {
        prop_oneof![
            Just(None),
            Just(Some(Status::Timeout)),
            "[A-Z][A-Za-z.]{1,30}".prop_map(|error_type| Some(Status::Error { error_type })),
        ]
    }

    prop_compose! {
        fn reports()(
            id: u128,
            centi_ms in 0u64..100_000_000,
            billed_ms: u64,
            memory_mb: u32,
            peak_memory_mb: u32,
            init in option::of(0u64..1_000_000),
            status in statuses(),
        ) -> Report {
            Report {
                request_id: Uuid::from_u128(id),
                duration_ms: centi_ms as f64 / 100.0,
                billed_ms,
                memory_mb,
                peak_memory_mb,
                init_ms: init.map(|centi_ms| centi_ms as f64 / 100.0),
                status,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(report in reports()) {
            prop_assert_eq!(report.to_string().parse::<Report>(), Ok(report.clone()));
            prop_assert_eq!(format!("{report}\n").parse::<Report>(), Ok(report));
        }

        #[test]
        fn a_cut_line_is_refused_or_lacks_only_what_is_optional(report in reports(), at: prop::sample::Index) {
            let line = report.to_string();
            let cut = &line[..at.index(line.len())];
            if let Ok(read) = cut.parse::<Report>() {
                prop_assert_eq!(read.duration_ms, report.duration_ms);
                prop_assert_eq!(read.billed_ms, report.billed_ms);
                prop_assert_eq!(read.peak_memory_mb, report.peak_memory_mb);
            }
        }

        #[test]
        fn a_changed_character_never_goes_unseen_outside_values(report in reports(), at: prop::sample::Index) {
            let line = report.to_string();
            let at = at.index(line.len() - 1);
            let mut bytes = line.clone().into_bytes();
            prop_assume!(bytes[at].is_ascii_alphabetic() || b": ".contains(&bytes[at]));
            prop_assume!(!bytes[at].is_ascii_hexdigit() && !line[..at].contains("Error Type: "));
            bytes[at] = b'~';
            prop_assert!(String::from_utf8(bytes).unwrap().parse::<Report>().is_err());
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".*", tail in "[\\t: A-Za-z0-9.]*") {
            let _ = text.parse::<Report>();
            let _ = format!("{HEAD}{tail}").parse::<Report>();
        }
    }

    const LINE: &str = "REPORT RequestId: 3604209a-e9a3-11e6-939a-754dd98c7be3\tDuration: 12.34 ms\t\
        Billed Duration: 113 ms\tMemory Size: 128 MB\tMax Memory Used: 55 MB\t";

    #[test]
    fn lambdas_own_line_is_read() {
        let report: Report = LINE.parse().unwrap();
        assert_eq!((report.duration_ms, report.billed_ms), (12.34, 113));
        assert_eq!((report.memory_mb, report.peak_memory_mb), (128, 55));
        assert_eq!(report.init_ms, None);
        let cold: Report = format!("{LINE}Init Duration: 100.00 ms\t").parse().unwrap();
        assert_eq!(cold.init_ms, Some(100.0));
    }

    #[test]
    fn fields_of_lambda_that_are_unknown_are_passed_over() {
        let trace = "\nXRAY TraceId: 1-5bda1d6e-0b5a\tSegmentId: 53aa\tSampled: true\t\n";
        let (restored, init) = ("Restore Duration: 3.00 ms\t", "Init Duration: 100.00 ms\t");
        for (known, new) in [
            (String::new(), trace.to_owned()),
            (
                format!("{init}Status: timeout\t"),
                format!("{restored}{init}{trace}Status: timeout"),
            ),
        ] {
            let [known, new] = [known, new].map(|rest| format!("{LINE}{rest}"));
            assert!(new.parse::<Report>().is_err(), "{new}");
            assert_eq!(Report::of_lambda(&new), known.parse());
        }
        for bad in ["12.34 s", "-12.34 ms", "NaN ms"] {
            let line = LINE.replace("12.34 ms", bad);
            assert!(Report::of_lambda(&line).is_err(), "{line}");
        }
    }

    #[test]
    fn other_units_orders_and_repetitions_are_refused() {
        for ([from, to], _) in cases(&[
            "12.34 ms | 12.34 s",
            "12.34 ms | 12.34",
            "12.34 ms | -12.34 ms",
            "12.34 ms | 1e3 ms",
            "12.34 ms | NaN ms",
            "12.34 ms | 12. ms",
            "113 ms | 113.5 ms",
            "128 MB | 128 GB",
            "55 MB\t | 55 MB\tMax Memory Used: 55 MB\t",
            "Billed Duration: 113 ms\tMemory Size: 128 MB | Memory Size: 128 MB\tBilled Duration: 113 ms",
            "3604209a-e9a3 | 3604209A-E9A3",
            "REPORT | report",
        ]) {
            let line = LINE.replace(from, to);
            assert_ne!(line, LINE);
            assert!(line.parse::<Report>().is_err(), "{line}");
        }
    }
}
