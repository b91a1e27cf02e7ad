//! Replays, on a real language model, the incident in which one tenant's request answered with another's secret.
//!
//! `cargo run --release --example incident`; `--help` shows the options.
//!
//! The model half: [`fetch`] finds the file, [`gguf`] reads it, [`tokenizer`] and [`llama`] run it over any
//! [`kv_cache::KvCache`]. The runs: [`unchecked`] is what engines do.

mod arguments;
mod attention;
mod block;
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
mod shape;
mod tenant_a;
mod tokenizer;
mod unchecked;
mod words;

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use arguments::{Arguments, Output};
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
    check_identical(&model, &tokenizer)?;
    let tenant_a = TenantA::prefill(&model, tokens);
    println!("tenant A: {} tokens with the secret {secret:?}", tenant_a.tokens.len());
    let leak = run_unchecked(&model, &tokenizer, &tenant_a)?;
    let leaked = leak.answer.contains(secret);
    report_unchecked(&leak, leaked);
    if output == Output::Json {
        println!("{}", json(secret, &tenant_a, &leak, leaked).line());
    }
    // The leak is the incident: without it there is nothing to check against.
    if leaked { Ok(()) } else { Err(NotLeaked.into()) }
}

fn load(file: Option<&Path>) -> Result<(Llama, Tokenizer), Box<dyn Error>> {
    let file = Gguf::parse(fetch::model(file)?)?;
    Ok((Llama::read(&file)?, Tokenizer::read(&file)?))
}

fn check_identical(model: &Llama, tokenizer: &Tokenizer) -> Result<(), Box<dyn Error>> {
    let logits = identical::check(model, &tokenizer.encode(prompts::PUBLIC))?;
    println!("one buffer and scattered pages: {logits} logits, bit-identical");
    Ok(())
}

fn run_unchecked(model: &Llama, tokenizer: &Tokenizer, tenant_a: &TenantA) -> Result<Unchecked, Box<dyn Error>> {
    let placeholder = tokenizer.special(prompts::PLACEHOLDER).ok_or("the model has no placeholder token")?;
    Ok(unchecked::run(model, tokenizer, tenant_a, placeholder)?)
}

fn report_unchecked(leak: &Unchecked, leaked: bool) {
    if let Some(rejection) = &leak.rejection {
        println!("unchecked: tenant B is rejected ({rejection}), and admitted all the same");
    }
    println!("unchecked: {} of B's {} pages are A's; B receives:", leak.foreign_pages, leak.table_pages);
    println!("  {:?}", leak.answer);
    println!("  {}", if leaked { "A's secret LEAKED to B" } else { "A's secret is not in it" });
}

fn json(secret: &str, tenant_a: &TenantA, leak: &Unchecked, leaked: bool) -> Object {
    Object::default()
        .text("secret", secret)
        .number("tenant_a_tokens", tenant_a.tokens.len())
        .number("unchecked_pages", leak.table_pages)
        .number("unchecked_foreign_pages", leak.foreign_pages)
        .text("unchecked_answer", &leak.answer)
        .flag("unchecked_leaked", leaked)
}
