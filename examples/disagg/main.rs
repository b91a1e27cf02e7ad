//! Hands a prompt's KV cache from a prefill process to a decode process on one machine, and shows what becomes of each way
//! in which that can go wrong.
//!
//! `cargo run --release --example disagg`; `--help` shows the options.
//!
//! The pages of decode lie in a memory that both processes map, and prefill writes them there by the offer's page numbers,
//! as a network card would. The messages go through pipes, as the bytes of [`pagestamp::handoff::wire`].
//!
//! [`supervisor`] starts the processes and judges what they found. [`decode`] is the one, with [`round`] for each handoff
//! and [`tenants`] for who had the pages before and has them after; [`prefill`] is the other, with [`sender`] for the bytes.
//! Everything that is taken on trust is in [`system`]. The model is the one of the example `incident`.

#[path = "../incident/attention.rs"]
mod attention;
#[path = "../incident/block.rs"]
mod block;
#[path = "../incident/contiguous.rs"]
mod contiguous;
#[path = "../incident/fetch.rs"]
mod fetch;
#[path = "../incident/gguf.rs"]
mod gguf;
#[path = "../incident/gguf_cursor.rs"]
mod gguf_cursor;
#[cfg_attr(not(test), expect(dead_code, reason = "incident checks a cache that begins empty too"))]
#[path = "../incident/identical.rs"]
mod identical;
#[cfg_attr(not(test), expect(dead_code, reason = "incident prints numbers too"))]
#[path = "../incident/json.rs"]
mod json;
#[path = "../incident/kv_cache.rs"]
mod kv_cache;
#[path = "../incident/layer.rs"]
mod layer;
#[cfg_attr(not(test), expect(dead_code, reason = "incident decodes until a stop token too"))]
#[path = "../incident/llama.rs"]
mod llama;
#[path = "../incident/matrix.rs"]
mod matrix;
#[path = "../incident/pip.rs"]
mod pip;
#[cfg(test)]
#[path = "../incident/plain_list.rs"]
mod plain_list;
#[path = "../incident/progress.rs"]
mod progress;
#[expect(dead_code, reason = "incident's tenant B asks something else")]
#[path = "../incident/prompts.rs"]
mod prompts;
#[cfg(test)]
#[path = "../incident/random.rs"]
mod random;
#[path = "../incident/shape.rs"]
mod shape;
#[expect(dead_code, reason = "incident decodes until a stop token")]
#[path = "../incident/tokenizer.rs"]
mod tokenizer;
#[path = "../incident/words.rs"]
mod words;

mod arguments;
mod channel;
mod decode;
mod fault;
mod findings;
#[path = "../incident/lines.rs"]
mod lines;
mod needles;
mod paged;
mod prefill;
mod round;
mod scene;
mod sender;
mod supervisor;
mod system;
mod tenants;
mod tiny;
mod unchecked;

use std::env;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use arguments::{ArgumentError, Arguments, Role};
use findings::Findings;
use lines::Lines;

/// What ends a process of the example early.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    match act() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            lines::note(format_args!("disagg: {error}"));
            ExitCode::from(if error.is::<ArgumentError>() { 2 } else { 1 })
        }
    }
}

/// Says whether every outcome was right.
fn act() -> Result<bool, Failure> {
    match Arguments::parse(env::args_os().skip(1))? {
        Arguments::Help => {
            Lines::new(io::stdout().lock()).line(format_args!("{}", arguments::HELP.trim_end()))?;
            Ok(true)
        }
        Arguments::Run { play, faults, output } => {
            supervisor::run(&mut Lines::new(io::stdout().lock()), &play, faults, output)
        }
        Arguments::Child { play, role, memory } => {
            let ended = match role {
                Role::Prefill => prefill::run(&play, memory),
                Role::Decode { prefill } => decode::run(&play, memory, prefill),
                Role::Heir => decode::inherit(&play, memory),
            };
            if let Err(error) = &ended {
                Findings { failure: Some(error.to_string()), ..Findings::default() }.tell();
            }
            Ok(ended.is_ok())
        }
    }
}
