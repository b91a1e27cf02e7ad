//! The parent: starts the processes, prints what they say, and judges what they found. It owns no page.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::arguments::{Checks, Faults, ModelKind, Output, Play};
use crate::fault::Fault;
use crate::findings::Findings;
use crate::json::Object;
use crate::lines::{Lines, note};
use crate::scene::{self, SHARED_PAGES};
use crate::system::{self, Shared};

/// When a handoff counts as stuck, and its processes are killed.
const TINY_LIMIT: Duration = Duration::from_secs(60);
const REAL_LIMIT: Duration = Duration::from_secs(300);
/// Most bytes of a line that a child may say.
const LINE_BYTES: u64 = 1 << 16;
/// Most characters of an error in the table.
const WORDS: usize = 150;
/// The signal that kills.
const KILL: i32 = 9;

/// Plays one fault or all of them; says whether every outcome was right.
///
/// # Errors
/// A process could not be started, there is no model, or stdout is full.
pub(crate) fn run(
    report: &mut Lines<impl Write>,
    play: &Play,
    faults: Faults,
    output: Output,
) -> Result<bool, Failure> {
    if cfg!(debug_assertions) && play.model == ModelKind::Real {
        note(format_args!("built without --release: the real model takes longer than a handoff may"));
    }
    // The model is fetched here and not in the children, so that it takes time from nobody.
    let bytes = Shared::bytes(&scene::geometry(play.model)?, SHARED_PAGES)?;
    match faults {
        Faults::One => one(report, play, bytes, output),
        Faults::All => all(report, play, bytes, output),
    }
}

fn one(report: &mut Lines<impl Write>, play: &Play, bytes: u64, output: Output) -> Result<bool, Failure> {
    report.line(format_args!("{}: {}", play.fault.name(), play.fault.what()))?;
    let findings = handoff(play, bytes, &mut |line| Ok(report.line(format_args!("  {line}"))?))?;
    if !findings.words().is_empty() {
        report.line(format_args!("first error: {}", findings.words()))?;
    }
    report.line(format_args!("{}", verdict(play, &findings)))?;
    if output == Output::Json {
        report.line(format_args!("{}", findings.json(play.fault).line()))?;
    }
    Ok(is_right(play, &findings))
}

fn all(report: &mut Lines<impl Write>, play: &Play, bytes: u64, output: Output) -> Result<bool, Failure> {
    let mut results = Vec::new();
    for fault in Fault::ALL {
        let play = Play { fault, ..*play };
        let findings = row(report, &play, bytes)?;
        results.push((play, findings));
    }
    let without = Play { fault: Fault::Short, checks: Checks::Off, ..*play };
    let leak = row(report, &without, bytes)?;
    let right = results.iter().all(|(play, findings)| is_right(play, findings)) && is_right(&without, &leak);
    report.line(format_args!("{}", if right { "every outcome is right" } else { "NOT every outcome is right" }))?;
    if output == Output::Json {
        let object = Object::default()
            .objects("faults", results.iter().map(|(play, findings)| findings.json(play.fault)))
            .object("without_checks", &leak.json(Fault::Short))
            .flag("right", right);
        report.line(format_args!("{}", object.line()))?;
    }
    Ok(right)
}

/// Plays one fault and prints its line of the table; before it, when it is wrong, what the processes said.
fn row(report: &mut Lines<impl Write>, play: &Play, bytes: u64) -> Result<Findings, Failure> {
    let mut lines = Vec::new();
    let mut keep = |line: &str| {
        lines.push(line.to_owned());
        Ok(())
    };
    let findings = handoff(play, bytes, &mut keep)?;
    if !is_right(play, &findings) {
        for line in &lines {
            report.line(format_args!("  {line}"))?;
        }
    }
    report.line(format_args!("{}", verdict(play, &findings)))?;
    Ok(findings)
}

/// Without checks the leak is what is to be seen.
fn is_right(play: &Play, findings: &Findings) -> bool {
    match play.checks {
        Checks::On => findings.are_right(play.fault),
        Checks::Off => findings.failure.is_none() && findings.leaked == Some(true),
    }
}

/// A line of the table.
fn verdict(play: &Play, findings: &Findings) -> String {
    let leaked = match findings.leaked {
        Some(false) => "no leak",
        Some(true) => "LEAKED",
        None => "leak unknown",
    };
    if play.checks == Checks::Off {
        let outcome = findings.outcome_text();
        let name = format!("{}, unchecked", play.fault.name());
        return format!("{name:<13}{outcome:<10} {leaked} {}", findings.words());
    }
    let flag = |value, yes, no| if value == Some(true) { yes } else { no };
    let intact = flag(findings.next_tenant_intact, "next tenant intact", "next tenant NOT INTACT");
    let restored = flag(findings.free_pages_restored, "pages back", "pages MISSING");
    let audit = findings.audit.as_deref().unwrap_or("none");
    let right = if findings.are_right(play.fault) { "right" } else { "WRONG" };
    let (name, outcome, words) = (play.fault.name(), findings.outcome_text(), findings.words());
    let cut: String = words.chars().take(WORDS).collect();
    let (because, end) = (if cut.is_empty() { "" } else { "; " }, if cut.len() < words.len() { "…" } else { "" });
    format!("{name:<13}{outcome:<10}{right:<6} {leaked}, {intact}, {restored}, audit {audit}{because}{cut}{end}")
}

/// What a child said, or that it says nothing any more.
enum Said {
    Line(&'static str, String),
    Nothing,
}

/// Runs the processes of one handoff to their end. `tell` gets each line that is for people.
fn handoff(play: &Play, bytes: u64, tell: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<Findings, Failure> {
    let limit = if play.model == ModelKind::Tiny { TINY_LIMIT } else { REAL_LIMIT };
    let deadline = Instant::now() + limit;
    let memory = system::create(bytes)?;
    let mut findings = Findings::default();
    {
        let (to_decode, from_prefill) = io::pipe()?;
        let (to_prefill, from_decode) = io::pipe()?;
        let mut cast = Cast::new(play, &memory);
        let prefill = cast.start("prefill", &[], to_prefill.into(), from_prefill.into())?;
        let number = format!("--prefill={prefill}");
        cast.start("decode", &[number], to_decode.into(), from_decode.into())?;
        cast.run(deadline, &mut findings, tell)?;
    }
    // Prefill has ended, so that nobody writes the memory any more.
    if play.fault == Fault::KillDecode && findings.failure.is_none() {
        let mut cast = Cast::new(play, &memory);
        cast.start("heir", &[], Stdio::null(), Stdio::null())?;
        cast.run(deadline, &mut findings, tell)?;
    }
    Ok(findings)
}

/// The processes of a handoff. They end with it, the last one first: until decode has ended, prefill's number is prefill's.
struct Cast<'p> {
    play: &'p Play,
    memory: &'p File,
    children: Vec<(&'static str, Child)>,
    to: Sender<Said>,
    said: Receiver<Said>,
}

impl<'p> Cast<'p> {
    fn new(play: &'p Play, memory: &'p File) -> Self {
        let (to, said) = mpsc::channel();
        Self { play, memory, children: Vec::new(), to, said }
    }

    /// Starts this program in another role, and answers with its number.
    fn start(&mut self, role: &'static str, more: &[String], stdin: Stdio, stdout: Stdio) -> Result<u32, Failure> {
        let Play { fault, model, checks } = self.play;
        let mut command = Command::new(env::current_exe()?);
        command.args(["--fault", fault.name(), "--model", model.name(), "--role", role]);
        command.arg(format!("--memory={}", self.memory.as_raw_fd())).args(more);
        if *checks == Checks::Off {
            command.arg("--unchecked");
        }
        let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn()?;
        let number = child.id();
        self.hear(role, child);
        Ok(number)
    }

    /// Takes a process in, and listens to it.
    fn hear(&mut self, role: &'static str, mut child: Child) {
        let (stderr, to) = (child.stderr.take(), self.to.clone());
        self.children.push((role, child));
        thread::spawn(move || {
            if let Some(stderr) = stderr {
                listen(role, stderr, &to);
            }
            // The parent may have given up.
            let _ = to.send(Said::Nothing);
        });
    }

    /// Hears all of them out, and ends those that are not through in time.
    fn run(
        &mut self,
        deadline: Instant,
        findings: &mut Findings,
        tell: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut talking = self.children.len();
        while talking > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(Said::Line(role, line)) => {
                    if !findings.hear(&line) {
                        tell(&format!("{role}: {line}"))?;
                    }
                }
                Ok(Said::Nothing) => talking -= 1,
                Err(_) => {
                    findings.failure = Some("the processes did not come to an end in time".into());
                    return Ok(());
                }
            }
        }
        // Decode first, as when they are dropped.
        for (role, child) in self.children.iter_mut().rev() {
            let status = wait(child, deadline)?;
            let killed = match *role {
                "prefill" => self.play.fault == Fault::KillPrefill,
                "decode" => self.play.fault == Fault::KillDecode,
                _ => false,
            };
            let fine = match status {
                Some(status) if killed => status.signal() == Some(KILL),
                Some(status) => status.success(),
                None => false,
            };
            if !fine {
                findings.failure.get_or_insert_with(|| match status {
                    Some(status) => format!("{role} ended with {status}"),
                    None => format!("{role} did not come to its end in time"),
                });
            }
        }
        Ok(())
    }
}

impl Drop for Cast<'_> {
    fn drop(&mut self) {
        for (_, child) in self.children.iter_mut().rev() {
            // One that ended and was waited for is left alone by both.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a child that has closed its stderr.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Passes on what a child says, line by line.
fn listen(role: &'static str, stderr: impl Read, to: &Sender<Said>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match stderr.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                note(format_args!("{role} cannot be heard: {error}"));
                return;
            }
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if to.send(Said::Line(role, line)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAY: Play = Play { fault: Fault::None, model: ModelKind::Tiny, checks: Checks::On };

    fn file() -> File {
        system::create(1).expect("a byte")
    }

    /// Runs commands in place of this program, to a deadline that has passed or that is far away.
    fn run(scripts: &[&str], limit: Duration) -> (Findings, Vec<String>) {
        let memory = file();
        let mut cast = Cast::new(&PLAY, &memory);
        for script in scripts {
            let child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().expect("a shell");
            cast.hear("prefill", child);
        }
        let (mut findings, mut lines) = (Findings::default(), Vec::new());
        let mut keep = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        cast.run(Instant::now() + limit, &mut findings, &mut keep).expect("nothing is printed");
        (findings, lines)
    }

    #[test]
    fn a_process_that_does_not_end_is_a_failure_and_no_hang() {
        let (findings, _) = run(&["true", "exec sleep 1000"], Duration::ZERO);
        assert!(findings.failure.is_some_and(|failure| failure.contains("in time")));
        let mut silent = Command::new("sleep").arg("1000").spawn().expect("a process");
        assert!(matches!(wait(&mut silent, Instant::now()), Ok(None)));
        silent.kill().and_then(|()| silent.wait()).expect("it is a child");
    }

    #[test]
    fn what_is_said_is_heard_and_a_bad_end_is_a_failure() {
        let hour = Duration::from_secs(3600);
        let (findings, lines) = run(&["echo hello >&2; echo '=outcome refused' >&2"], hour);
        assert_eq!((lines, findings.failure.clone()), (vec!["prefill: hello".to_owned()], None));
        assert_eq!(findings.outcome_text(), "refused");
        for bad in ["exit 3", "kill -9 $$"] {
            assert!(run(&[bad], hour).0.failure.is_some_and(|failure| failure.starts_with("prefill ended")), "{bad}");
        }
    }

    #[test]
    fn a_wrong_finding_is_called_wrong() {
        let right = Findings {
            outcome: Some(crate::fault::Outcome::Completed),
            leaked: Some(false),
            next_tenant_intact: Some(true),
            free_pages_restored: Some(true),
            audit: Some("ok".into()),
            ..Findings::default()
        };
        assert!(is_right(&PLAY, &right) && verdict(&PLAY, &right).contains("right"));
        let leaks = Findings { leaked: Some(true), ..right.clone() };
        assert!(!is_right(&PLAY, &leaks) && verdict(&PLAY, &leaks).contains("WRONG"));
        let without = Play { checks: Checks::Off, ..PLAY };
        assert!(is_right(&without, &leaks) && !is_right(&without, &right));
    }
}
