//! Replays, on a real language model, the incident in which one tenant's request answered with another's secret.
//!
//! `cargo run --release --example incident`; `--help` shows the options.
//!
//! The model half: [`fetch`] finds the file, [`gguf`] reads it, [`tokenizer`] and [`llama`] run it over any
//! [`kv_cache::KvCache`]. The runs: [`unchecked`] is what engines do, [`checked`] the same through pagestamp.

mod arguments;
mod attention;
mod block;
mod checked;
mod contiguous;
mod fetch;
mod gguf;
mod gguf_cursor;
mod identical;
mod json;
mod kv_cache;
mod layer;
mod lines;
mod llama;
mod matrix;
mod pip;
mod plain_list;
mod pooled;
mod progress;
mod prompts;
#[cfg(test)]
mod random;
mod receipt;
mod report;
mod shape;
mod tenant_a;
mod tokenizer;
mod unchecked;
mod words;
mod zero;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use arguments::{ArgumentError, Arguments, Output};
use gguf::Gguf;
use llama::Llama;
use prompts::SecretError;
use report::{Findings, Report};
use tenant_a::TenantA;
use tokenizer::Tokenizer;
use unchecked::NotLeaked;

fn main() -> ExitCode {
    let mut report = Report::new(io::stdout().lock());
    match act(&mut report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            lines::note(format_args!("incident: {error}"));
            let usage = error.is::<ArgumentError>() || error.is::<SecretError>();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

fn act(report: &mut Report<impl Write>) -> Result<(), Box<dyn Error>> {
    match Arguments::parse(env::args_os().skip(1))? {
        Arguments::Help => Ok(report.line(format_args!("{}", arguments::HELP.trim_end()))?),
        Arguments::Run { model, secret, output } => run(report, model.as_deref(), &secret, output),
    }
}

fn run(
    report: &mut Report<impl Write>,
    file: Option<&Path>,
    secret: &str,
    output: Output,
) -> Result<(), Box<dyn Error>> {
    if cfg!(debug_assertions) {
        lines::note(format_args!("built without --release: this takes a quarter of an hour instead of ten seconds"));
    }
    let (model, tokenizer) = load(file)?;
    let tokens = prompts::tenant_a(secret, &tokenizer)?;
    let tenant_a = TenantA::prefill(&model, tokens);
    report.tenant_a(&tenant_a, secret)?;
    let placeholder = tokenizer.special(prompts::PLACEHOLDER).ok_or("the model has no placeholder token")?;
    let unchecked = unchecked::run(&model, &tokenizer, &tenant_a, placeholder)?;
    report.unchecked(&unchecked, secret)?;
    let checked = checked::run(&model, &tokenizer, &tenant_a, secret, placeholder)?;
    report.checked(&checked)?;
    let findings = Findings { secret, unchecked: &unchecked, checked: &checked };
    report.verdict(&findings)?;
    if output == Output::Json {
        report.json(&findings)?;
    }
    // The leak is the incident: without it there is nothing to check against.
    if !unchecked.leaks(secret) {
        return Err(NotLeaked.into());
    }
    checked.verdict(secret)
}

fn load(file: Option<&Path>) -> Result<(Llama, Tokenizer), Box<dyn Error>> {
    let file = Gguf::parse(fetch::model(file)?)?;
    Ok((Llama::read(&file)?, Tokenizer::read(&file)?))
}
