//! The incident without a check: an engine that reads pages by index.
//!
//! 1. Tenant A's prompt is in its pages. Tenant B asks for 128 tokens, 8 pages; fewer are free: B is rejected.
//! 2. The rejection is stored where admission does not look. A placeholder of one token is prefilled in B's place
//!    and fills a part of one fresh page.
//! 3. A ends; its pages go back to the list as they are.
//! 4. Decode was told of 128 tokens. It lengthens B's table to 8 pages: the fresh one and seven of A's. It decodes
//!    from position 128 on and attends over all of them.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;

use crate::llama::Llama;
use crate::plain_list::{OutOfPages, PlainList};
use crate::prompts::{ANSWER_PAGES, ANSWER_TOKENS, CLAIM_PAGES, CLAIM_TOKENS};
use crate::tenant_a::TenantA;
use crate::tokenizer::Tokenizer;

/// Pages of the engine: room for A and for B's placeholder and answer, not for both requests at once.
const POOL_PAGES: usize = CLAIM_PAGES + ANSWER_PAGES;

/// What tenant B got.
#[derive(Debug)]
pub(crate) struct Unchecked {
    /// B's answer.
    pub(crate) answer: String,
    /// Pages in B's table when decode began.
    pub(crate) table_pages: usize,
    /// Those of them that tenant A wrote.
    pub(crate) foreign_pages: usize,
    /// Why B was rejected. It is stored here, where admission does not look.
    pub(crate) rejection: Option<OutOfPages>,
}

impl Unchecked {
    /// Says whether B's answer holds A's secret.
    pub(crate) fn leaks(&self, secret: &str) -> bool {
        self.answer.contains(secret)
    }
}

/// The answer does not hold the secret, so the example has not shown what it is here to show.
#[derive(Debug)]
pub(crate) struct NotLeaked;

impl fmt::Display for NotLeaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the unchecked run did not leak this secret: the model did not copy it word for word")
    }
}

impl Error for NotLeaked {}

/// Runs the incident.
///
/// `placeholder` is the token that runs in B's place.
///
/// # Errors
/// [`OutOfPages`] if A's prompt is longer than its pages.
pub(crate) fn run(
    model: &Llama,
    tokenizer: &Tokenizer,
    tenant_a: &TenantA,
    placeholder: u32,
) -> Result<Unchecked, OutOfPages> {
    let mut list = PlainList::new(model.shape(), (0..POOL_PAGES).rev().collect());
    let mut table_a = Vec::new();
    tenant_a.kv.copy_to(&mut list.sequence(&mut table_a))?;

    let mut table = Vec::new();
    let rejection = list.extend(&mut table, CLAIM_TOKENS).err();
    let logits = model.forward(&mut list.sequence(&mut table), 0, &[placeholder])?;

    let pages_a: HashSet<usize> = table_a.iter().copied().collect();
    list.free(table_a);
    list.extend(&mut table, CLAIM_TOKENS)?;
    let foreign_pages = table.iter().filter(|page| pages_a.contains(page)).count();
    let table_pages = table.len();

    let mut cache = list.sequence(&mut table);
    let answer = model.decode(&mut cache, CLAIM_TOKENS, logits, ANSWER_TOKENS, tokenizer.stop())?;
    Ok(Unchecked { answer: tokenizer.decode(&answer), table_pages, foreign_pages, rejection })
}
