//! What was measured, for programs and for people.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::{ELEMENTS, GRADIENTS};

/// One way to do one operation.
pub struct Arm {
    name: &'static str,
    operation: &'static str,
    allocator: Option<&'static str>,
    milliseconds: Vec<f64>,
    worst_ping_ms: Option<f64>,
}

impl Arm {
    pub const fn new(name: &'static str, operation: &'static str, milliseconds: Vec<f64>) -> Self {
        Self {
            name,
            operation,
            allocator: None,
            milliseconds,
            worst_ping_ms: None,
        }
    }

    pub fn with(self, allocator: &'static str, worst_ping_ms: f64) -> Self {
        self.with_ping(worst_ping_ms).with_allocator(allocator)
    }

    pub const fn with_allocator(mut self, allocator: &'static str) -> Self {
        self.allocator = Some(allocator);
        self
    }

    pub const fn with_ping(mut self, worst_ping_ms: f64) -> Self {
        self.worst_ping_ms = Some(worst_ping_ms);
        self
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted[sorted.len() / 2]
    }

    fn json(&self) -> Value {
        json!({
            "arm": self.name,
            "operation": self.operation,
            "allocator": self.allocator,
            "ms": self.milliseconds,
            "worst_ping_ms": self.worst_ping_ms,
        })
    }
}

/// Peak resident memory of servers, in MB.
#[derive(Default)]
pub struct Memory {
    pub idle_mb: f64,
    pub store_then_average_mb: f64,
    pub accumulate_on_write_mb: f64,
}

/// The Lua script on JSON texts of the whole gradient.
pub struct Lua {
    pub text_mb: f64,
    pub one_gradient_ms: f64,
    pub two_gradients_ms: f64,
}

impl Lua {
    /// Each further gradient takes what the second took.
    fn extrapolated_ms(&self) -> f64 {
        let further = self.two_gradients_ms - self.one_gradient_ms;
        self.one_gradient_ms + (GRADIENTS - 1) as f64 * further
    }
}

#[derive(Default)]
pub struct Record {
    repetitions: usize,
    pub arms: Vec<Arm>,
    pub memory: Memory,
    pub lua: Option<Lua>,
}

impl Record {
    pub fn new(repetitions: usize) -> Self {
        Self {
            repetitions,
            ..Self::default()
        }
    }

    /// A Markdown table of medians with their ranges, and what follows it.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| operation | arm | allocator | median ms | range | worst PING ms |\n\
             | --- | --- | --- | --- | --- | --- |\n",
        );
        let mut arms: Vec<_> = self.arms.iter().collect();
        arms.sort_by_key(|arm| arm.operation);
        for arm in arms {
            let sorted = arm.sorted();
            let ping = arm
                .worst_ping_ms
                .map_or("–".into(), |ms| format!("{ms:.1}"));
            let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} | {low:.1}–{high:.1} | {ping} |",
                arm.operation,
                arm.name,
                arm.allocator.unwrap_or("–"),
                arm.median(),
            );
        }
        let memory = &self.memory;
        let _ = writeln!(
            text,
            "\nPeak memory, MB: {:.1} idle, {:.1} storing {GRADIENTS} gradients and averaging, \
             {:.1} accumulating ({:.3} of it).",
            memory.idle_mb,
            memory.store_then_average_mb,
            memory.accumulate_on_write_mb,
            memory.accumulate_on_write_mb / memory.store_then_average_mb,
        );
        if let Some(lua) = &self.lua {
            let _ = writeln!(
                text,
                "\nLua on JSON ({:.0} MB a gradient): one gradient {:.1} s, two {:.1} s; \
                 {GRADIENTS} extrapolated: {:.0} s.",
                lua.text_mb,
                lua.one_gradient_ms / 1e3,
                lua.two_gradients_ms / 1e3,
                lua.extrapolated_ms() / 1e3,
            );
        }
        text
    }

    /// Writes the record to `file`, a path from the repository's root.
    pub fn write(&self, file: &str) {
        let lua = self.lua.as_ref().map(|lua| {
            json!({
                "text_mb": lua.text_mb,
                "one_gradient_ms": lua.one_gradient_ms,
                "two_gradients_ms": lua.two_gradients_ms,
            })
        });
        let record = json!({
            "what": "the tensor store's module, a client that fetches, computes and stores, and the published Lua script",
            "command": "just bench-store",
            "elements": ELEMENTS,
            "gradients": GRADIENTS,
            "repetitions": self.repetitions,
            "client": "the workers' own (fetch, compute, store); a bare blocking client (module, Lua, PING)",
            "redis": output("redis-server", &["--version"]),
            "cpu": cpu(),
            "load_average_at_the_end": read("/proc/loadavg"),
            "arms": self.arms.iter().map(Arm::json).collect::<Vec<_>>(),
            "peak_memory_mb": {
                "idle": self.memory.idle_mb,
                "store_then_average": self.memory.store_then_average_mb,
                "accumulate_on_write": self.memory.accumulate_on_write_mb,
            },
            "lua_on_json": lua,
        });
        let text = serde_json::to_string_pretty(&record).unwrap();
        // Cargo runs a benchmark in its package's directory.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::write(root.join(file), text + "\n").unwrap();
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn cpu() -> String {
    let text = read("/proc/cpuinfo");
    let names = || {
        text.lines()
            .filter_map(|line| line.strip_prefix("model name"))
    };
    let name = names().next().unwrap_or_default();
    format!(
        "{} × {}",
        names().count(),
        name.trim_start_matches([' ', '\t', ':'])
    )
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
