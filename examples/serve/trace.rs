//! Traces as they were recorded: three formats, each line checked.

use std::error::Error;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::words::mix;

/// Tokens of a request beyond which a line is taken to be damaged.
const MOST_TOKENS: u64 = 100_000_000;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// Seconds after the first one.
    pub(crate) at: f64,
    /// Requests of one session share its blocks, if they have any.
    pub(crate) session: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Ids of the blocks of the prompt, each of `block_tokens` tokens; empty where none are known.
    pub(crate) blocks: Vec<u64>,
    pub(crate) block_tokens: u64,
}

/// What a trace looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Mooncake,
    Azure,
    Claude,
}

impl Format {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "mooncake" => Some(Self::Mooncake),
            "azure" => Some(Self::Azure),
            "claude" => Some(Self::Claude),
            _ => None,
        }
    }

    fn guess(text: &str) -> Option<Self> {
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        if first.starts_with("TIMESTAMP,") {
            Some(Self::Azure)
        } else if first.contains("\"input_length\"") {
            Some(Self::Mooncake)
        } else if text.contains("\"requests\"") {
            Some(Self::Claude)
        } else {
            None
        }
    }
}

/// What is done with a line that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    Refuse,
    Skip,
}

/// Requests in the order in which they come, and the lines that could not be read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trace {
    pub(crate) jobs: Vec<Job>,
    pub(crate) skipped: Vec<BadLine>,
    pub(crate) origin: &'static str,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Its number, from 1 on; of a session's file, the number of the request.
    pub(crate) line: usize,
    why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// A trace that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TraceError {
    Unreadable { path: String, why: String },
    UnknownFormat,
    Malformed(BadLine),
    Empty,
}

impl TraceError {
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::Unreadable { path: path.display().to_string(), why: error.to_string() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "{path}: {why}"),
            Self::UnknownFormat => write!(f, "the trace is of no known format; --format names one"),
            Self::Malformed(bad) => write!(f, "{bad}; --malformed skip goes on without such lines"),
            Self::Empty => write!(f, "the trace has no request"),
        }
    }
}

impl Error for TraceError {}

impl Trace {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// [`TraceError`].
    pub(crate) fn parse(text: &str, format: Option<Format>, malformed: Malformed) -> Result<Self, TraceError> {
        let format = format.or_else(|| Format::guess(text)).ok_or(TraceError::UnknownFormat)?;
        let (origin, lines) = match format {
            Format::Mooncake => ("mooncake", by_line(text, 0, mooncake)),
            Format::Azure => ("azure", by_line(text, 1, azure)),
            Format::Claude => ("claude", claude(text)),
        };
        let mut trace = Self { origin, ..Self::default() };
        for line in lines {
            match (line, malformed) {
                (Ok(job), _) => trace.jobs.push(job),
                (Err(bad), Malformed::Skip) => trace.skipped.push(bad),
                (Err(bad), Malformed::Refuse) => return Err(TraceError::Malformed(bad)),
            }
        }
        if trace.jobs.is_empty() {
            return Err(TraceError::Empty);
        }
        trace.jobs.sort_by(|a, b| a.at.total_cmp(&b.at));
        let first = trace.jobs[0].at;
        trace.jobs.iter_mut().for_each(|job| job.at -= first);
        Ok(trace)
    }
}

/// Reads a trace that has a request on each line, behind so many lines of heading.
fn by_line(text: &str, heading: usize, read: impl Fn(u64, &str) -> Result<Job, String>) -> Vec<Result<Job, BadLine>> {
    let lines = text.lines().enumerate().skip(heading).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| read(at as u64, line).map_err(|why| BadLine { line: at + 1, why })).collect()
}

/// `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}`, ids of 512 tokens, global.
fn mooncake(_line: u64, text: &str) -> Result<Job, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let blocks = ids(&value["hash_ids"])?;
    let input_tokens = tokens(&value["input_length"], "input_length")?;
    check_blocks(&blocks, 512, input_tokens)?;
    // Nobody recorded sessions: requests that have their first own block in common belong together.
    let session = mix(blocks.get(1).or(blocks.first()).copied().unwrap_or(0), 1);
    let at = seconds(&value["timestamp"], "timestamp")? / 1000.0;
    let output_tokens = tokens(&value["output_length"], "output_length")?;
    Ok(Job { at, session, input_tokens, output_tokens, blocks, block_tokens: 512 })
}

/// `TIMESTAMP,ContextTokens,GeneratedTokens`.
fn azure(line: u64, text: &str) -> Result<Job, String> {
    let fields: Vec<&str> = text.split(',').collect();
    let [time, input, output] = fields[..] else {
        return Err(format!("3 fields are expected, {} are there", fields.len()));
    };
    let number = |text: &str, name| {
        let number = text.trim().parse().ok().filter(|number| (1..=MOST_TOKENS).contains(number));
        number.ok_or_else(|| format!("{name} is no number of tokens"))
    };
    let (input_tokens, output_tokens) = (number(input, "ContextTokens")?, number(output, "GeneratedTokens")?);
    let at = time_of_day(time).ok_or("TIMESTAMP is no date and time")?;
    Ok(Job { at, session: mix(line, 2), input_tokens, output_tokens, blocks: Vec::new(), block_tokens: 1 })
}

/// `YYYY-MM-DD hh:mm:ss.fffffff` in seconds.
fn time_of_day(text: &str) -> Option<f64> {
    let (date, time) = text.trim().split_once(' ')?;
    let date: Vec<u32> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [_, _, day] = date[..] else { return None };
    let (hours, rest) = time.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (0.0..61.0).contains(seconds))?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(f64::from(day * 86_400 + hours * 3600 + minutes * 60) + seconds)
}

/// One session: `{"id", "block_size", "requests": [{"t", "in", "out", "hash_ids"}]}`, or several in a list, or one on each
/// line. Ids are local to a session.
fn claude(text: &str) -> Vec<Result<Job, BadLine>> {
    let bad = |line, why: String| vec![Err(BadLine { line, why })];
    let sessions: Vec<Value> = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(sessions)) => sessions,
        Ok(session) => vec![session],
        Err(error) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str);
            match lines.collect() {
                Ok(sessions) => sessions,
                Err(_) => return bad(error.line(), error.to_string()),
            }
        }
    };
    let mut jobs = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let (Some(requests), Ok(block_tokens)) =
            (session["requests"].as_array(), tokens(&session["block_size"], "block_size"))
        else {
            return bad(1, "requests and block_size are expected".to_owned());
        };
        let name =
            session["id"].as_str().unwrap_or_default().bytes().fold(number as u64, |sum, b| mix(sum, u64::from(b)));
        let read = |(at, request): (usize, &Value)| {
            one_of_session(name, block_tokens, request).map_err(|why| BadLine { line: at + 1, why })
        };
        jobs.extend(requests.iter().enumerate().map(read));
    }
    jobs
}

fn one_of_session(session: u64, block_tokens: u64, request: &Value) -> Result<Job, String> {
    let (at, input_tokens) = (seconds(&request["t"], "t")?, tokens(&request["in"], "in")?);
    let blocks = ids(&request["hash_ids"])?;
    check_blocks(&blocks, block_tokens, input_tokens)?;
    let blocks = blocks.into_iter().map(|id| mix(session, id)).collect();
    // A request that was cut off before its first token.
    let output_tokens = if request["out"].as_u64() == Some(0) { 0 } else { tokens(&request["out"], "out")? };
    Ok(Job { at, session, input_tokens, output_tokens, blocks, block_tokens })
}

fn tokens(value: &Value, name: &str) -> Result<u64, String> {
    let number = value.as_u64().filter(|number| (1..=MOST_TOKENS).contains(number));
    number.ok_or_else(|| format!("{name} is no number of tokens"))
}

fn seconds(value: &Value, name: &str) -> Result<f64, String> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("{name} is no time"))
}

fn ids(value: &Value) -> Result<Vec<u64>, String> {
    let ids = value.as_array().and_then(|ids| ids.iter().map(Value::as_u64).collect());
    ids.ok_or_else(|| "hash_ids is no list of numbers".to_owned())
}

/// Blocks may cover less than the prompt (the rest is the request's own), never more.
fn check_blocks(blocks: &[u64], block_tokens: u64, input_tokens: u64) -> Result<(), String> {
    let most = input_tokens.div_ceil(block_tokens);
    if blocks.len() as u64 > most {
        return Err(format!("{} blocks of {block_tokens} tokens are more than {input_tokens} tokens", blocks.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOONCAKE: &str = "\
{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 7]}\n\
{\"timestamp\": 500, \"input_length\": 10, \"output_length\": 1, \"hash_ids\": [0]}\n";

    fn parse(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text, None, Malformed::Refuse)
    }

    #[test]
    fn each_format_is_guessed_and_read_in_order_of_time() {
        let trace = parse(MOONCAKE).expect("well formed");
        assert_eq!(
            trace.jobs.iter().map(|job| (job.at, job.input_tokens)).collect::<Vec<_>>(),
            [(0.0, 10), (0.5, 600)]
        );
        assert_eq!(trace.jobs[1].blocks, [0, 7]);
        let text =
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5,3,4\n2023-11-17 00:00:00.0000000,1,2\n";
        let trace = parse(text).expect("well formed");
        assert_eq!(trace.jobs.iter().map(|job| (job.at, job.output_tokens)).collect::<Vec<_>>(), [(0.0, 4), (0.5, 2)]);
        let session = |id| {
            format!(
                "{{\"id\": \"{id}\", \"block_size\": 64, \"requests\": [{{\"t\": 2.5, \"in\": 65, \"out\": 1, \"hash_ids\": [0, 1]}}]}}"
            )
        };
        let trace = parse(&format!("[{}, {}]", session("a"), session("b"))).expect("well formed");
        assert_eq!(trace.jobs.len(), 2);
        assert_ne!(trace.jobs[0].blocks, trace.jobs[1].blocks, "ids are local to a session");
        assert_eq!(parse(&session("a")).expect("well formed").jobs[0], trace.jobs[0]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_number_and_refused_or_skipped() {
        for wrong in [
            "{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 5}",
            "{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}",
            "{\"timestamp\": -1, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0]}",
            "{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 5, \"hash_ids\": []}",
            "{\"timestamp\": 1, \"input_length\": 1e99, \"output_length\": 5, \"hash_ids\": [0]}",
            "{\"timestamp\": 1, \"input",
        ] {
            let text = format!("{MOONCAKE}{wrong}\n{MOONCAKE}");
            let Err(TraceError::Malformed(bad)) = parse(&text) else { panic!("{wrong} was taken") };
            assert_eq!(bad.line, 3, "{wrong}");
            let trace = Trace::parse(&text, None, Malformed::Skip).expect("the rest is well formed");
            assert_eq!((trace.jobs.len(), trace.skipped), (4, vec![bad]));
        }
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5,3\n";
        assert!(matches!(parse(text), Err(TraceError::Malformed(BadLine { line: 2, .. }))));
        assert_eq!(Trace::parse(text, None, Malformed::Skip), Err(TraceError::Empty));
        assert_eq!(parse("x"), Err(TraceError::UnknownFormat));
        assert_eq!(parse(""), Err(TraceError::UnknownFormat));
    }
}
