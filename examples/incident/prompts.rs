//! The two tenants' requests.

use std::error::Error;
use std::fmt;

use crate::kv_cache::PAGE_TOKENS;
use crate::tokenizer::Tokenizer;

/// Pages that tenant B's request claims, and the most that tenant A's prompt may take.
pub(crate) const CLAIM_PAGES: usize = 8;
/// Tokens that tenant B's request claims to have.
pub(crate) const CLAIM_TOKENS: usize = CLAIM_PAGES * PAGE_TOKENS;
/// Pages that tenant B's answer takes.
pub(crate) const ANSWER_PAGES: usize = 3;
/// Tokens that are decoded for tenant B: B often begins in the middle of a secret and repeats it whole.
pub(crate) const ANSWER_TOKENS: usize = ANSWER_PAGES * PAGE_TOKENS;

/// The secret in tenant A's prompt, unless another one is given.
pub(crate) const DEFAULT_SECRET: &str = "ORCHID-7421-ZEPHYR";

/// Why a secret cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretError {
    /// There is nothing to leak.
    Empty,
    /// Tenant A's prompt would not fit its pages.
    TooLong { at_least_tokens: usize },
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the secret is empty"),
            Self::TooLong { at_least_tokens } => write!(
                f,
                "the secret is too long: with it tenant A's prompt has {at_least_tokens} tokens or more, \
                 and its {CLAIM_PAGES} pages hold {CLAIM_TOKENS}"
            ),
        }
    }
}

impl Error for SecretError {}

/// Tokens of tenant A's prompt, which holds the secret three times.
///
/// # Errors
/// [`SecretError`].
pub(crate) fn tenant_a(secret: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, SecretError> {
    if secret.trim().is_empty() {
        return Err(SecretError::Empty);
    }
    let text = memo(secret);
    // A huge secret is refused before its tokens are counted one by one.
    let at_least_tokens = text.len() / tokenizer.longest_token_bytes();
    if at_least_tokens > CLAIM_TOKENS {
        return Err(SecretError::TooLong { at_least_tokens });
    }
    let tokens = tokenizer.encode(&text);
    match tokens.len() {
        ..=CLAIM_TOKENS => Ok(tokens),
        at_least_tokens => Err(SecretError::TooLong { at_least_tokens }),
    }
}

fn memo(secret: &str) -> String {
    format!(
        "Internal memo of Harlow Bank, tenant A, confidential. Customer Alice Harlow opened a vault on the ninth of \
         March in the Lisbon office. The vault passphrase of Alice Harlow is {secret}. She visits every Monday before \
         noon and speaks to the same clerk each time. Reminder for the clerk: The vault passphrase of Alice Harlow is \
         {secret}. Ask for it twice. The vault passphrase of Alice Harlow is {secret}.\n"
    )
}

/// What runs in place of tenant B's rejected request: one special token that stands for nothing.
pub(crate) const PLACEHOLDER: &str = "<|endoftext|>";

/// Tenant B's honest prompt; it shares no name with tenant A's.
pub(crate) const PUBLIC: &str = "The three largest cities of France are Paris, Marseille and";
