//! A hit is checked by content: whatever is published, cut, rewritten, evicted and found, the bytes are those of the tokens.

use pagestamp::{HostMemory, OwnerId, PagePool, PrefixTokens, Request, Reservation, Retention};
use proptest::prelude::*;

use super::stage::{assert_sound, host_pool, owner, proof};

const MAX: u64 = 80;

/// A request that knows its tokens; the byte of a token is a function of all tokens up to it and of its owner, as KV is.
struct Request1 {
    owner: OwnerId,
    tokens: Vec<u32>,
    kv: Reservation<HostMemory>,
}

fn byte_of(owner: OwnerId, tokens: &[u32]) -> u8 {
    let mix = |sum: u32, token: &u32| sum.wrapping_mul(31).wrapping_add(*token + 1);
    (tokens.iter().fold(owner.get() as u32, mix) % 251 + 1) as u8
}

impl Request1 {
    fn begin(pool: &PagePool<HostMemory>, owner: OwnerId, tokens: &[u32]) -> Option<Self> {
        let plan = proof(pool, MAX);
        let request = Request::new(owner, MAX);
        let kv = match pool.lookup(owner, &PrefixTokens::new(tokens)) {
            Some(hit) => pool.reserve_with_prefix(&plan, request, hit, MAX).ok()?,
            None => pool.reserve(&plan, request, MAX).ok()?,
        };
        let known = tokens[..kv.written_tokens() as usize].to_vec();
        let mut this = Self { owner, tokens: known, kv };
        this.check();
        this.go_on(&tokens[this.tokens.len()..]);
        Some(this)
    }

    fn go_on(&mut self, tokens: &[u32]) {
        let room = (MAX as usize - self.tokens.len()).min(tokens.len());
        let from = self.tokens.len();
        self.tokens.extend(&tokens[..room]);
        let bytes: Vec<u8> = (from..self.tokens.len()).map(|at| byte_of(self.owner, &self.tokens[..=at])).collect();
        let planes: Vec<Vec<u8>> =
            [8, 6].iter().map(|size| bytes.iter().flat_map(|b| vec![*b; *size]).collect()).collect();
        if self.kv.write(room as u64, &[&planes[0], &planes[1]]).is_err() {
            self.tokens.truncate(from);
        }
    }

    fn publish(&mut self) {
        self.kv.commit(self.kv.written_tokens()).unwrap();
        self.kv.publish(&PrefixTokens::new(&self.tokens), Retention::default()).unwrap();
    }

    fn cut(&mut self, to: usize) {
        let to = to.min(self.tokens.len());
        self.kv.truncate(to as u64).unwrap();
        self.tokens.truncate(to);
    }

    fn check(&self) {
        assert_eq!(self.kv.written_tokens(), self.tokens.len() as u64);
        let guard = self.kv.read(0..self.kv.written_tokens()).unwrap();
        let mut plane = vec![0; self.tokens.len() * 8];
        guard.copy(0, &mut plane).unwrap();
        for (at, bytes) in plane.chunks(8).enumerate() {
            let right = byte_of(self.owner, &self.tokens[..=at]);
            assert!(bytes.iter().all(|byte| *byte == right), "C2, C5: token {at} has bytes of other tokens");
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Begin { owner: u64, tokens: Vec<u32> },
    GoOn { which: usize, tokens: Vec<u32> },
    Publish { which: usize },
    Cut { which: usize, to: usize },
    Fork { which: usize },
    Release { which: usize },
    Evict { pages: u64 },
    Reclaim { owner: u64 },
}

/// Few different tokens, so that prompts meet often.
fn tokens() -> impl Strategy<Value = Vec<u32>> {
    let page = prop_oneof![Just(vec![1; 16]), Just(vec![2; 16]), prop::collection::vec(1..3u32, 1..20)];
    prop::collection::vec(page, 0..4).prop_map(|pages| pages.concat())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..3u64, tokens()).prop_map(|(owner, tokens)| Op::Begin { owner, tokens }),
        3 => (0..8usize, tokens()).prop_map(|(which, tokens)| Op::GoOn { which, tokens }),
        4 => (0..8usize).prop_map(|which| Op::Publish { which }),
        3 => (0..8usize, 0..64usize).prop_map(|(which, to)| Op::Cut { which, to }),
        2 => (0..8usize).prop_map(|which| Op::Fork { which }),
        3 => (0..8usize).prop_map(|which| Op::Release { which }),
        1 => (0..6u64).prop_map(|pages| Op::Evict { pages }),
        1 => (1..3u64).prop_map(|owner| Op::Reclaim { owner }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    // C2, C5, C12
    #[test]
    fn a_hit_has_the_bytes_of_its_tokens(ops in prop::collection::vec(op(), 1..60), pages in 6..40u32) {
        let pool = host_pool(pages);
        let mut open: Vec<Request1> = Vec::new();
        for op in ops {
            match op {
                Op::Begin { owner: who, tokens } => open.extend(Request1::begin(&pool, owner(who), &tokens)),
                Op::GoOn { which, tokens } => if let Some(request) = open.get_mut(which) { request.go_on(&tokens) },
                Op::Publish { which } => if let Some(request) = open.get_mut(which) { request.publish() },
                Op::Cut { which, to } => if let Some(request) = open.get_mut(which) { request.cut(to) },
                Op::Fork { which } => if let Some(request) = open.get(which) {
                    let copy = request.kv.fork(&proof(&pool, MAX), Request::new(request.owner, MAX));
                    let (owner, tokens) = (request.owner, request.tokens.clone());
                    open.extend(copy.ok().map(|kv| Request1 { owner, tokens, kv }));
                },
                Op::Release { which } => if which < open.len() { open.remove(which).kv.release(); },
                Op::Evict { pages } => drop(pool.evict(pages)),
                Op::Reclaim { owner: who } => {
                    open.retain(|request| request.owner != owner(who));
                    pool.reclaim(owner(who));
                }
            }
            open.iter().for_each(Request1::check);
            assert_sound(&pool);
        }
    }
}
