//! The scheduler: admits what has room, finds what is cached, grows what runs, preempts, publishes and releases.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use pagestamp::{
    AdmitError, CapacityProof, GrowError, NullMemory, OwnerId, PagePool, PrefixTokens, Request, Reservation, Retention,
};

use crate::arguments::{Admit, Plan};
use crate::clock::{self, TICK_TOKENS};
use crate::progress::Progress;
use crate::trace::Job;
use crate::words;

/// What became of the requests, and of the pool.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) completed: u64,
    pub(crate) never_fits: u64,
    pub(crate) preempted: u64,
    pub(crate) tokens: u64,
    pub(crate) hit_tokens: u64,
    pub(crate) peak_live_pages: u64,
    /// Time spent in calls of the pool, by all threads.
    pub(crate) in_pool: Duration,
    pub(crate) elapsed: Duration,
    pub(crate) hit_pages: u64,
    pub(crate) evicted_pages: u64,
    pub(crate) page_ops: u64,
    pub(crate) lost_pages: u64,
    pub(crate) audit: Option<String>,
    /// Errors that no engine should see; each ends the request that met it.
    pub(crate) failures: Vec<String>,
}

impl Served {
    /// Adds what another thread did.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.requests += other.requests;
        self.completed += other.completed;
        self.never_fits += other.never_fits;
        self.preempted += other.preempted;
        self.tokens += other.tokens;
        self.hit_tokens += other.hit_tokens;
        self.peak_live_pages = self.peak_live_pages.max(other.peak_live_pages);
        self.in_pool += other.in_pool;
        self.failures.extend(other.failures);
        self
    }

    /// Looks at the pool after the last request ended.
    pub(crate) fn close(&mut self, pool: &PagePool<NullMemory>, elapsed: Duration) {
        let stats = pool.stats();
        self.elapsed = elapsed;
        self.hit_pages = stats.hit_pages;
        self.evicted_pages = stats.evicted_pages;
        self.page_ops = stats.pages_issued + stats.pages_released + 2 * stats.hit_pages;
        self.lost_pages = stats.usable_pages.abs_diff(stats.free_pages + stats.cached_pages + stats.cleaning_pages);
        self.audit = pool.audit().err().map(|error| error.to_string());
    }

    /// Whether the books add up: every request ended one way or the other, and every page came back.
    pub(crate) fn is_sound(&self) -> bool {
        let all_ended = self.completed + self.never_fits == self.requests;
        self.audit.is_none() && self.lost_pages == 0 && self.failures.is_empty() && all_ended
    }
}

/// A request that waits, or waits again.
#[derive(Debug)]
struct Waiting {
    number: u64,
    owner: OwnerId,
    job: Job,
    /// Tokens answered before it was preempted.
    answered: u64,
}

impl Waiting {
    /// Token ids of the prompt and of what was answered.
    fn tokens(&self) -> Vec<u32> {
        let Job { input_tokens, block_tokens, blocks, .. } = &self.job;
        let mut tokens = Vec::with_capacity((*input_tokens + self.answered) as usize);
        for id in blocks {
            let rest = input_tokens - tokens.len() as u64;
            words::block(*id, rest.min(*block_tokens), &mut tokens);
        }
        let own = *input_tokens - tokens.len() as u64;
        words::block(words::mix(self.number, 4), own, &mut tokens);
        tokens.extend((0..self.answered).map(|at| words::answer(self.number, at)));
        tokens
    }
}

/// A request that runs.
#[derive(Debug)]
struct Running {
    request: Waiting,
    tokens: Vec<u32>,
    kv: Reservation<NullMemory>,
    /// Ticks until its prefill is done.
    prefill_ticks: u64,
}

/// What a tick did to a request.
enum Ticked {
    GoesOn,
    Done,
    /// Another request has to make room.
    NeedsRoom,
    /// It has outgrown the pool.
    NeverFits,
    Failed(String),
}

/// One engine: a queue, and what runs.
pub(crate) struct Engine<'a> {
    pool: &'a PagePool<NullMemory>,
    proof: &'a CapacityProof,
    plan: &'a Plan,
    progress: &'a Progress,
    queue: VecDeque<Waiting>,
    running: Vec<Running>,
    served: Served,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        pool: &'a PagePool<NullMemory>,
        proof: &'a CapacityProof,
        plan: &'a Plan,
        progress: &'a Progress,
    ) -> Self {
        let (queue, running) = (VecDeque::new(), Vec::new());
        Self { pool, proof, plan, progress, queue, running, served: Served::default() }
    }

    /// Serves all jobs, which are in order of time.
    pub(crate) fn serve(mut self, jobs: Vec<Job>) -> Served {
        self.served.requests = jobs.len() as u64;
        let mut coming = jobs.into_iter().enumerate().peekable();
        let mut now = 0.0;
        while coming.peek().is_some() || !self.queue.is_empty() || !self.running.is_empty() {
            while let Some((number, job)) = coming.next_if(|(_, job)| job.at / self.plan.rate <= now) {
                let owner = OwnerId::new(job.session % self.plan.owners + 1).expect("above 0");
                self.queue.push_back(Waiting {
                    number: words::mix(job.session, number as u64),
                    owner,
                    job,
                    answered: 0,
                });
            }
            self.admit_all();
            if self.running.is_empty() {
                match coming.peek() {
                    // Nothing to do until the next one comes.
                    Some((_, job)) if self.queue.is_empty() => now = now.max(job.at / self.plan.rate),
                    // The pages are with the other engines.
                    _ => thread::yield_now(),
                }
                now += clock::tick_seconds();
                continue;
            }
            self.tick();
            now += clock::tick_seconds();
        }
        self.served
    }

    /// Admits from the front of the queue until one finds no room.
    fn admit_all(&mut self) {
        while let Some(request) = self.queue.pop_front() {
            let tokens = request.tokens();
            let begun = Instant::now();
            let admitted = self.admit(&request, &tokens);
            self.served.in_pool += begun.elapsed();
            match admitted {
                Ok(kv) => {
                    let computed = tokens.len() as u64 - kv.written_tokens();
                    self.served.hit_tokens += kv.written_tokens();
                    let prefill_ticks = clock::prefill_ticks(computed);
                    self.running.push(Running { request, tokens, kv, prefill_ticks });
                }
                Err(AdmitError::Full { .. }) => {
                    self.queue.push_front(request);
                    break;
                }
                Err(AdmitError::Rejected(_)) => {
                    self.served.never_fits += 1;
                    self.progress.step();
                }
                Err(error) => self.fail(error.to_string()),
            }
        }
        let live = self.pool.stats().live_pages;
        self.served.peak_live_pages = self.served.peak_live_pages.max(live);
    }

    fn admit(&self, request: &Waiting, tokens: &[u32]) -> Result<Reservation<NullMemory>, AdmitError> {
        let prompt = tokens.len() as u64;
        let whole = request.job.input_tokens + request.job.output_tokens;
        let max = match self.plan.admit {
            Admit::Max => whole,
            Admit::Prompt => prompt,
        };
        // The model needs the last token's own output.
        let prefix = PrefixTokens::new(&tokens[..tokens.len() - 1]);
        let asked = Request::new(request.owner, max);
        match self.pool.lookup(request.owner, &prefix) {
            Some(hit) => {
                let reserved = self.pool.reserve_with_prefix(self.proof, asked, hit, prompt);
                reserved.map_err(|refused| refused.into_parts().1)
            }
            None => self.pool.reserve(self.proof, asked, prompt),
        }
    }

    /// One tick: every running request makes some tokens.
    fn tick(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            let begun = Instant::now();
            let ticked = self.running[at].tick();
            self.served.in_pool += begun.elapsed();
            match ticked {
                Ticked::GoesOn => at += 1,
                Ticked::Done => self.end(at),
                Ticked::NeedsRoom => {
                    if !self.preempt(at) {
                        // It is the last one itself.
                        continue;
                    }
                }
                Ticked::NeverFits => {
                    drop(self.running.swap_remove(at));
                    self.served.never_fits += 1;
                    self.progress.step();
                }
                Ticked::Failed(error) => {
                    drop(self.running.swap_remove(at));
                    self.fail(error);
                }
            }
        }
    }

    fn end(&mut self, at: usize) {
        let mut done = self.running.swap_remove(at);
        self.served.tokens += done.kv.committed_tokens();
        let begun = Instant::now();
        let published = done.publish();
        done.kv.release();
        self.served.in_pool += begun.elapsed();
        match published {
            Ok(()) => {
                self.served.completed += 1;
                self.progress.step();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Preempts the request that came last, so that the one at `at` can grow. `false` when that is the one itself.
    fn preempt(&mut self, at: usize) -> bool {
        let Some(mut victim) = self.running.pop() else { return false };
        let is_itself = at == self.running.len();
        self.served.preempted += 1;
        let begun = Instant::now();
        // What it has computed stays cached, if nobody needs the room more.
        let published = victim.publish();
        victim.kv.release();
        self.served.in_pool += begun.elapsed();
        match published {
            Ok(()) => self.queue.push_front(victim.request),
            Err(error) => self.fail(error),
        }
        !is_itself
    }

    fn fail(&mut self, error: String) {
        self.served.failures.push(error);
        self.progress.step();
    }
}

impl Running {
    fn tick(&mut self) -> Ticked {
        if self.prefill_ticks > 0 {
            self.prefill_ticks -= 1;
            if self.prefill_ticks > 0 {
                return Ticked::GoesOn;
            }
        }
        let prompt = self.tokens.len() as u64;
        if self.kv.written_tokens() < prompt {
            return match self.write(prompt).and_then(|()| self.publish()) {
                Ok(()) => Ticked::GoesOn,
                Err(error) => Ticked::Failed(error),
            };
        }
        let left = self.request.job.output_tokens - self.request.answered;
        let to = prompt + left.min(TICK_TOKENS);
        match self.kv.grow(to.max(self.kv.reserved_tokens())) {
            Ok(()) => {}
            Err(GrowError::Full { .. }) => return Ticked::NeedsRoom,
            Err(GrowError::NeverFits { .. }) => return Ticked::NeverFits,
            Err(error) => return Ticked::Failed(error.to_string()),
        }
        if let Err(error) = self.write(to) {
            return Ticked::Failed(error);
        }
        let (number, answered) = (self.request.number, self.request.answered);
        self.request.answered += to - prompt;
        self.tokens.extend((answered..self.request.answered).map(|at| words::answer(number, at)));
        if self.request.answered == self.request.job.output_tokens { Ticked::Done } else { Ticked::GoesOn }
    }

    /// A kernel wrote the tokens, and all were accepted.
    fn write(&mut self, to: u64) -> Result<(), String> {
        self.kv.assume_written(to).and_then(|()| self.kv.commit(to)).map_err(|error| error.to_string())
    }

    fn publish(&mut self) -> Result<(), String> {
        let published = self.kv.publish(&PrefixTokens::new(&self.tokens), Retention::default());
        published.map(drop).map_err(|error| error.to_string())
    }
}
