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
mod shape;
mod tenant_a;
mod tokenizer;
mod unchecked;
mod words;
mod zero;

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use arguments::{Arguments, Output};
use checked::{Checked, Layer};
use gguf::Gguf;
use json::Object;
use llama::Llama;
use prompts::SecretError;
use tenant_a::TenantA;
use tokenizer::Tokenizer;
use unchecked::{NotLeaked, Unchecked};

fn main() -> ExitCode {
    let (model, secret, output) = match Arguments::parse(env::args_os().skip(1)) {
        Ok(Arguments::Help) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Arguments::Run { model, secret, output }) => (model, secret, output),
        Err(error) => return fail(&error, 2),
    };
    match run(model.as_deref(), &secret, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<SecretError>() => fail(&*error, 2),
        Err(error) => fail(&*error, 1),
    }
}

fn fail(error: &dyn Error, code: u8) -> ExitCode {
    eprintln!("incident: {error}");
    ExitCode::from(code)
}

fn run(file: Option<&Path>, secret: &str, output: Output) -> Result<(), Box<dyn Error>> {
    if cfg!(debug_assertions) {
        eprintln!("built without --release: this takes a quarter of an hour instead of five seconds");
    }
    let (model, tokenizer) = load(file)?;
    let tokens = prompts::tenant_a(secret, &tokenizer)?;
    let tenant_a = TenantA::prefill(&model, tokens);
    println!("tenant A: {} tokens with the secret {secret:?}", tenant_a.tokens.len());
    let placeholder = tokenizer.special(prompts::PLACEHOLDER).ok_or("the model has no placeholder token")?;
    let leak = unchecked::run(&model, &tokenizer, &tenant_a, placeholder)?;
    let leaked = leak.answer.contains(secret);
    report_unchecked(&leak, leaked);
    let checked = checked::run(&model, &tokenizer, &tenant_a, secret, placeholder)?;
    report_checked(&checked);
    if output == Output::Json {
        println!("{}", json(secret, &leak, leaked, &checked).line());
    }
    // The leak is the incident: without it there is nothing to check against.
    if !leaked {
        return Err(NotLeaked.into());
    }
    checked.verdict()
}

fn load(file: Option<&Path>) -> Result<(Llama, Tokenizer), Box<dyn Error>> {
    let file = Gguf::parse(fetch::model(file)?)?;
    Ok((Llama::read(&file)?, Tokenizer::read(&file)?))
}

fn report_unchecked(leak: &Unchecked, leaked: bool) {
    if let Some(rejection) = &leak.rejection {
        println!("unchecked: tenant B is rejected ({rejection}), and admitted all the same");
    }
    println!("unchecked: {} of B's {} pages are A's; B receives:", leak.foreign_pages, leak.table_pages);
    println!("  {:?}", leak.answer);
    println!("  {}", if leaked { "A's secret LEAKED to B" } else { "A's secret is not in it" });
}

fn report_checked(checked: &Checked) {
    for layer in &checked.layers {
        let verdict = if layer.refused { "refused" } else { "NOT REFUSED" };
        println!("pagestamp: {:<8}{verdict}: {}", layer.name, layer.error);
    }
    let same = if checked.honest.bit_identical { "bit-identical" } else { "DIFFERENT" };
    println!("pagestamp: honest  {} logits of both tenants, {same} to one buffer", checked.honest.logits);
    println!("pagestamp: audit   {}", checked.audit);
}

fn json(secret: &str, leak: &Unchecked, leaked: bool, checked: &Checked) -> Object {
    let unchecked = Object::default()
        .flag("leaked", leaked)
        .text("text", &leak.answer)
        .number("table_pages", leak.table_pages)
        .number("foreign_pages", leak.foreign_pages);
    let layer = |layer: &Layer| {
        Object::default().text("name", layer.name).flag("refused", layer.refused).text("error", &layer.error)
    };
    let honest =
        Object::default().flag("bit_identical", checked.honest.bit_identical).number("logits", checked.honest.logits);
    Object::default()
        .text("secret", secret)
        .object("unchecked", &unchecked)
        .objects("layers", checked.layers.iter().map(layer))
        .object("honest", &honest)
        .text("audit", &checked.audit)
}
