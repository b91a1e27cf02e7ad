//! The table, and the line for scripts.

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::race::Times;

pub(crate) struct Report {
    machine: String,
    driver: String,
    gpu: String,
    is_standin: bool,
    rows: Vec<Value>,
}

/// A row beside what is said of all: what was measured, whose it is, and the sizes.
pub(crate) struct Row<'a> {
    pub(crate) what: &'a str,
    pub(crate) who: &'a str,
    /// Name and number of each size.
    pub(crate) sizes: &'a [(&'a str, u64)],
    pub(crate) times: Times,
    /// Whose time it is a multiple of, and that time.
    pub(crate) base: Option<(&'a str, Times)>,
    /// Bytes that were zeroed.
    pub(crate) bytes: Option<u64>,
}

impl Report {
    pub(crate) fn new(engine: &Engine) -> Self {
        println!("{}", engine.describe());
        let is_standin = engine.is_standin();
        if is_standin {
            println!("no GPU: ran on the stand-in, times mean nothing");
        } else if cfg!(debug_assertions) {
            println!("built without optimisation: times of the host mean nothing");
        }
        println!(
            "{:<10}{:<34}{:<44}{:>10}{:>11}{:>11}{:>9}  times the device time of",
            "what", "who", "sizes", "host us", "wall us", "device us", "GB/s"
        );
        Self { machine: machine(), driver: engine.driver_version(), gpu: engine.gpu(), is_standin, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: &Row<'_>) {
        let Times { host_us, wall_us, device_us } = row.times;
        let sizes: Vec<String> = row.sizes.iter().map(|(name, number)| format!("{name} {number}")).collect();
        let gb_per_s = row.bytes.map(|bytes| bytes as f64 / device_us / 1e3);
        let ratio = row.base.map(|(name, base)| (name, device_us / base.device_us));
        println!(
            "{:<10}{:<34}{:<44}{host_us:>10.1}{wall_us:>11.1}{device_us:>11.1}{:>9}  {}",
            row.what,
            row.who,
            sizes.join(", "),
            gb_per_s.map_or(String::new(), |it| format!("{it:.0}")),
            ratio.map_or(String::new(), |(name, ratio)| format!("{ratio:.2} {name}")),
        );
        let mut json = json!({
            "what": row.what, "who": row.who, "host_us": number(host_us), "wall_us": number(wall_us),
            "device_us": number(device_us),
        });
        for (name, number) in row.sizes {
            json[name] = json!(number);
        }
        if let Some(gb_per_s) = gb_per_s {
            json["gb_per_s"] = number(gb_per_s);
        }
        if let Some((name, ratio)) = ratio {
            json["device_ratio"] = json!({ "to": name, "times": number(ratio) });
        }
        self.rows.push(json);
    }

    pub(crate) fn print(self) {
        // Which tree was measured is known to whoever built it.
        let commit = std::env::var("PAGESTAMP_COMMIT").unwrap_or_else(|_| "unknown".into());
        let line = json!({
            "machine": self.machine, "driver": self.driver, "gpu": self.gpu, "standin": self.is_standin,
            "optimised": !cfg!(debug_assertions), "commit": commit, "rows": self.rows,
        });
        println!("{line}");
    }
}

/// A number with as many digits as mean something.
fn number(value: f64) -> Value {
    json!((value * 1e3).round() / 1e3)
}

fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("an unknown processor", |(_, name)| name.trim()))
}
