//! A load of the shape that the recorded ones have: long and short prompts, sessions that come back with all they said before,
//! one prefix that everybody shares.

use crate::trace::{Job, Trace};
use crate::words::mix;

/// Numbers that look random and are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0, 0x5eed)
    }

    /// Between 0 and 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around `median`, with a long tail.
    fn skewed(&mut self, median: f64, most: f64) -> u64 {
        let spread = (self.part() + self.part() + self.part() - 1.5) * 2.0;
        (median * spread.exp()).clamp(1.0, most) as u64
    }
}

/// Tokens of a block of the load.
const BLOCK_TOKENS: u64 = 512;

/// Makes `requests` requests.
pub(crate) fn make(seed: u64, requests: usize) -> Trace {
    let mut chance = Chance(mix(seed, 3));
    let mut sessions: Vec<Job> = Vec::new();
    let mut jobs = Vec::with_capacity(requests);
    let mut at = 0.0;
    while jobs.len() < requests {
        // Three in a second, in bursts.
        at += if chance.part() < 0.3 { 0.0 } else { chance.part() * 0.95 };
        let goes_on = !sessions.is_empty() && chance.part() < 0.6;
        let mut job = if goes_on {
            let which = chance.next() as usize % sessions.len();
            sessions.swap_remove(which)
        } else {
            let session = chance.next();
            Job {
                at,
                session,
                input_tokens: BLOCK_TOKENS,
                output_tokens: 0,
                blocks: vec![0],
                block_tokens: BLOCK_TOKENS,
            }
        };
        // The block that was not full is another one now.
        let kept = (job.input_tokens / BLOCK_TOKENS) as usize;
        job.blocks.truncate(kept);
        job.at = at;
        job.input_tokens += job.output_tokens + chance.skewed(900.0, 20_000.0);
        while (job.blocks.len() as u64) < job.input_tokens.div_ceil(BLOCK_TOKENS) {
            job.blocks.push(chance.next());
        }
        job.output_tokens = chance.skewed(250.0, 2000.0);
        jobs.push(job.clone());
        if job.input_tokens < 60_000 {
            sessions.push(job);
        }
    }
    Trace { jobs, skipped: Vec::new(), origin: "seeded" }
}

#[test]
fn a_load_is_the_same_for_the_same_seed_and_shares_prefixes() {
    assert_eq!(make(7, 300), make(7, 300));
    let trace = make(7, 300);
    assert_ne!(trace.jobs, make(8, 300).jobs);
    assert!(trace.jobs.is_sorted_by(|a, b| a.at <= b.at));
    assert!(trace.jobs.iter().all(|job| job.blocks.len() as u64 == job.input_tokens.div_ceil(BLOCK_TOKENS)));
    let again = trace.jobs.iter().filter(|job| job.input_tokens > 5000).count();
    assert!(again > 30, "some sessions grow long: {again}");
}
