//! The machine: does each call on the pool and on the model, and compares all that can be seen.
#![expect(unsafe_code, reason = "ends tickets, looks at raw bytes, and holds guards beside what they borrow")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use pagestamp::geometry::{PageGeometry, Plane};
use pagestamp::memory::{HeldControl, Lane};
use pagestamp::{
    AdmitError, Admitted, CapacityPlan, CapacityProof, ClaimToken, Generation, HolderId, HolderProcess, OwnerId,
    PageGuard, PageHandle, PagePool, PlaneWriter, PoolConfig, ReadGuard, ReleaseError, Released, Request, Reservation,
    Resized, Step, StepId, StepLoss, Suspended, TicketId,
};

use crate::memory::{Cleaned, Spy, Under};
use crate::model::{Claim, Kind, Model, Outcome, Proof, St, Standing};
use crate::ops::{End, Op, StepEnds};

type Memory<M> = Spy<M>;

/// What is really forgotten: kept where the leak sanitizer finds it.
static FORGOTTEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn forget<T>(value: T) {
    FORGOTTEN.lock().unwrap().push(Box::into_raw(Box::new(value)) as usize);
}

/// The name of an error's variant.
fn variant(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned()
}

#[track_caller]
fn same<T, E: Debug>(real: &Result<T, E>, model: &Outcome) {
    let real = real.as_ref().map(|_| ()).map_err(variant);
    assert_eq!(real, model.map_err(str::to_owned));
}

/// A handle and the owner it was given to.
type Seen<M> = (PageHandle<Memory<M>>, u64);
/// Copies a plane of what a guard shows.
type Copy<'a> = &'a dyn Fn(usize, &mut [u8]) -> bool;

enum Value<M: Under> {
    Admitted(Admitted<Memory<M>>),
    /// Owned; a raw pointer so that guards can be held beside it.
    Reserved(*mut Reservation<Memory<M>>),
}

struct Slot<M: Under> {
    rec: usize,
    value: Value<M>,
}

enum Guard<M: Under> {
    Page { guard: PageGuard<'static, Memory<M>>, page: u32, bytes: Vec<Vec<u8>> },
    Read { guard: ReadGuard<'static, Memory<M>>, rec: usize, bytes: Vec<Vec<u8>> },
    Write { writer: PlaneWriter<'static, Memory<M>>, rec: usize, tokens: u64, stored: Vec<bool> },
}

impl<M: Under> Guard<M> {
    fn rec(&self) -> Option<usize> {
        match self {
            Self::Page { .. } => None,
            Self::Read { rec, .. } | Self::Write { rec, .. } => Some(*rec),
        }
    }
}

pub(crate) struct World<M: Under> {
    pool: &'static PagePool<Memory<M>>,
    control: Option<HeldControl>,
    log: std::sync::Arc<Mutex<Vec<Cleaned>>>,
    model: Model,
    proofs: Vec<(CapacityProof, Proof)>,
    slots: Vec<Slot<M>>,
    guards: Vec<Guard<M>>,
    forgotten_guards: Vec<Guard<M>>,
    forgotten: Vec<Slot<M>>,
    tickets: Vec<TicketId>,
    /// every handle ever seen, with its owner
    seen: BTreeMap<(u32, u64), Seen<M>>,
    detached: Vec<PageHandle<Memory<M>>>,
    refused_reads: u64,
    /// open steps whose values are here; those whose were lost or revoked
    steps: Vec<Step>,
    lost: Vec<StepId>,
    /// tokens that kernels may write: step, reservation, page, place in the page
    launched: Vec<(u64, usize, u32, u32)>,
    /// pages waited for, and calls so far
    rooms: Vec<(u64, Arc<AtomicU64>)>,
}

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

/// A child of this process that ended.
fn ended_process() -> HolderProcess {
    static ENDED: LazyLock<HolderProcess> = LazyLock::new(|| {
        let mut child = Command::new("true").spawn().unwrap();
        let process = HolderProcess::of_child(&child).unwrap();
        child.wait().unwrap();
        process
    });
    ENDED.clone()
}

fn owner_of(n: u8) -> u64 {
    u64::from(n % 3) + 1
}

impl<M: Under> World<M> {
    pub(crate) fn new(config: &PoolConfig, geometry: PageGeometry, max_pages: u32) -> Self {
        let (under, control) = M::make(geometry.clone(), max_pages);
        let spy = Spy { under, log: std::sync::Arc::default() };
        let log = spy.log.clone();
        let pool = Box::leak(Box::new(PagePool::new(config.clone(), spy).unwrap()));
        let model = Model::new(geometry, M::HAS_BYTES, config, max_pages);
        let mut world = Self {
            pool,
            control,
            log,
            model,
            proofs: Vec::new(),
            slots: Vec::new(),
            guards: Vec::new(),
            forgotten_guards: Vec::new(),
            forgotten: Vec::new(),
            tickets: Vec::new(),
            seen: BTreeMap::new(),
            detached: Vec::new(),
            refused_reads: 0,
            steps: Vec::new(),
            lost: Vec::new(),
            launched: Vec::new(),
            rooms: Vec::new(),
        };
        let most = world.model.usable() * world.model.page_tokens();
        assert!(world.prove(most.div_ceil(2)));
        world.check();
        world
    }

    fn prove(&mut self, max_tokens: u64) -> bool {
        let proof = self.pool.prove(CapacityPlan::new(max_tokens));
        let required = self.model.geometry.pages_for_tokens(max_tokens);
        let usable = self.model.usable();
        assert_eq!(proof.is_ok(), max_tokens > 0 && required <= usable);
        let Ok(proof) = proof else { return false };
        self.proofs.push((proof, Proof { max_tokens, required, epoch: self.model.epoch, usable }));
        true
    }

    fn loaned(&self, rec: usize) -> bool {
        self.guards.iter().any(|guard| guard.rec() == Some(rec))
    }

    /// A slot with a reservation that nothing of Rust's borrows.
    fn reserved(&self, n: u8, exclusive: bool) -> Option<(usize, &'static mut Reservation<Memory<M>>)> {
        let slot = self.slots.get(usize::from(n).checked_rem(self.slots.len())?)?;
        let Value::Reserved(value) = &slot.value else { return None };
        if exclusive && self.loaned(slot.rec) {
            return None;
        }
        // A shared use beside a writer is what Rust refuses too.
        if self.guards.iter().any(|guard| matches!(guard, Guard::Write { rec, .. } if *rec == slot.rec)) {
            return None;
        }
        // SAFETY: the slot owns the value; `exclusive` callers are alone with it by the checks above, others use it shared.
        Some((slot.rec, unsafe { &mut **value }))
    }

    fn tokens(&self, rec: usize, n: u8) -> u64 {
        let it = &self.model.recs[rec];
        match n {
            255 => u64::MAX,
            220.. => u64::from(n) % (it.max.max(it.reserved) + self.model.page_tokens() + 2),
            120.. => it.written + u64::from(n) % (it.reserved - it.written + 1),
            _ => u64::from(n) % (it.max.max(it.reserved) + 1),
        }
    }

    fn pull_log(&mut self) {
        self.model.log.extend(self.log.lock().unwrap().drain(..));
    }

    /// Pages that a reservation has been given since the model last looked.
    fn learn(&mut self, rec: usize, kv: &Reservation<Memory<M>>, behind: u64) {
        let known = self.model.recs[rec].pages.len();
        let handles: Vec<_> = kv.handles().collect();
        let fresh = &handles[known..];
        let pages: Vec<u32> = fresh.iter().map(PageHandle::index).collect();
        self.model.given(rec, &pages, behind);
        for handle in fresh {
            self.learn_handle(rec, *handle, true);
        }
    }

    fn learn_handle(&mut self, rec: usize, handle: PageHandle<Memory<M>>, zero: bool) {
        let page = handle.index();
        let generation = handle.generation().get();
        assert_eq!(generation, self.model.pages[page as usize].generation);
        let newest = self.seen.range((page, 0)..=(page, u64::MAX)).next_back();
        assert!(newest.is_none_or(|((_, old), _)| *old < generation), "generation {generation} of page {page} again");
        self.seen.insert((page, generation), (handle, self.model.recs[rec].owner));
        // C3: zero in every byte, unless a lane waits for its fence. Raw, past every check.
        if zero && M::HAS_BYTES && !self.model.pages[page as usize].pending {
            for plane in 0..self.model.geometry.planes().len() {
                let zero = self.raw(plane, page).iter().all(|byte| *byte == 0);
                assert!(zero, "page {page} is handed out soiled");
            }
        }
    }

    fn raw(&self, plane: usize, page: u32) -> Vec<u8> {
        // SAFETY: (1), (2) of `memory`: one thread looks, gives the bytes to nobody and calls nothing.
        unsafe { self.pool.memory() }.bytes(plane, page).unwrap_or_default()
    }

    fn reserve(&mut self, who: u64, max: u64, tokens: u64, claim: Option<u8>, lane: bool, proof: usize) {
        let (proof, model_proof) = self.proofs[proof % self.proofs.len()];
        let mut request = Request::new(owner(who), max);
        if let Some(id) = claim {
            request = request.with_claim(ClaimToken { id: u128::from(id), expires_at_ns: u64::from(id) });
        }
        if lane {
            request = request.on_lane(Lane::from_raw(3));
        }
        let real = self.pool.reserve(&proof, request, tokens);
        self.pull_log();
        let mut again = None;
        let model = 'model: {
            if tokens > max {
                break 'model Err("PastMax");
            }
            if let Some(id) = claim {
                match self.model.claimed(id, who, max, tokens) {
                    Ok(None) => {}
                    Ok(Some(rec)) => {
                        again = Some(rec);
                        break 'model Ok((0, 0));
                    }
                    Err(error) => break 'model Err(error),
                }
            }
            let now = self.model.geometry.pages_for_tokens(tokens);
            self.model.room(&model_proof, max, now, lane)
        };
        same(&real, &model.map(|_| ()));
        match real {
            Ok(kv) => {
                let (needed, behind) = model.unwrap();
                let rec = again.unwrap_or_else(|| {
                    let rec = self.model.open_rec(who, Kind::Reserved, max, 0);
                    let it = &mut self.model.recs[rec];
                    (it.reserved, it.claim) = (tokens, claim);
                    it.promised = needed - self.model.geometry.pages_for_tokens(tokens);
                    if let Some(id) = claim {
                        self.model.claims.insert(id, Claim { owner: who, max, tokens, standing: Standing::Out });
                    }
                    rec
                });
                self.learn(rec, &kv, behind);
                self.slots.push(Slot { rec, value: Value::Reserved(Box::into_raw(Box::new(kv))) });
            }
            Err(error) => self.check_refusal(&error, max),
        }
    }

    fn check_refusal(&self, error: &AdmitError, max: u64) {
        if let AdmitError::Full { request, needed_pages, free_pages, pending_pages, promised_pages, .. } = error {
            let model = &self.model;
            assert_eq!(request.max_tokens(), max);
            assert_eq!(
                (*needed_pages, *free_pages, *pending_pages, *promised_pages),
                (model.geometry.pages_for_tokens(max), model.unpromised(), model.coming(), model.promised())
            );
        }
    }

    fn pattern(&self, plane: usize, tokens: u64, seed: u8) -> Vec<u8> {
        let len = (self.model.geometry.planes()[plane].token_bytes() * tokens) as usize;
        (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
    }

    /// After a write was prepared: learns which pages moved.
    fn learn_moves(&mut self, rec: usize, moves: &[(usize, u32)], now: &[PageHandle<Memory<M>>]) {
        for (ordinal, from) in moves {
            self.model.moved(rec, *ordinal, *from, now[*ordinal].index());
            // Written already; that the rest is zero is seen when all bytes are compared.
            self.learn_handle(rec, now[*ordinal], false);
        }
    }

    fn take_slot(&mut self, n: u8) -> Option<Slot<M>> {
        let at = usize::from(n).checked_rem(self.slots.len())?;
        if self.loaned(self.slots[at].rec) {
            return None;
        }
        Some(self.slots.swap_remove(at))
    }

    fn end_slot(&mut self, slot: Slot<M>, how: End) {
        let rec = slot.rec;
        let (mut real, mut keeps) = (None, false);
        let who = owner(self.model.recs[rec].owner);
        match (slot.value, how) {
            (value, End::Forget) => return self.forgotten.push(Slot { rec, value }),
            (Value::Admitted(admitted), End::Reject) => assert_eq!(admitted.reject("no").owner(), who),
            (Value::Admitted(admitted), End::OtherThread) => std::thread::spawn(|| drop(admitted)).join().unwrap(),
            (Value::Admitted(admitted), _) => drop(admitted),
            (Value::Reserved(value), how) => {
                // SAFETY: the slot owned the value, which came from a box; no guard is held on it.
                let kv = *unsafe { Box::from_raw(value) };
                match how {
                    End::Call => real = Some(kv.release()),
                    End::Reject => assert_eq!(kv.reject("no").owner(), who),
                    _ => {
                        keeps = self.model.keeps(rec);
                        if matches!(how, End::OtherThread) {
                            std::thread::spawn(|| drop(kv)).join().unwrap();
                        } else {
                            drop(kv);
                        }
                    }
                }
            }
        }
        self.pull_log();
        if keeps {
            return;
        }
        self.model.end_claim(rec);
        let (pages, quarantined_pages, was_revoked) = self.model.end(rec);
        if let Some(Released { pages: real_pages, quarantined_pages: real_quarantined, was_revoked: revoked, .. }) =
            real
        {
            assert_eq!((real_pages, real_quarantined, revoked), (pages, quarantined_pages, was_revoked));
        }
    }

    fn end_guard(&mut self, guard: Guard<M>, how: End) {
        if matches!(how, End::Forget) {
            match guard {
                // Has no value to come back to: its page stays in quarantine for as long as the machine runs.
                Guard::Page { .. } => self.forgotten_guards.push(guard),
                Guard::Read { guard, .. } => forget(guard),
                Guard::Write { writer, .. } => forget(writer),
            }
            return;
        }
        let (rec, page) = (guard.rec(), if let Guard::Page { page, .. } = &guard { Some(*page) } else { None });
        match guard {
            Guard::Page { guard, .. } if matches!(how, End::OtherThread) => {
                std::thread::spawn(|| drop(guard)).join().unwrap();
            }
            guard => drop(guard),
        }
        if let Some(rec) = rec {
            self.model.end_borrow(rec);
        }
        if let Some(page) = page {
            self.model.end_reader(page);
        }
    }

    pub(crate) fn step(&mut self, op: &Op) {
        self.apply(op);
        self.check();
    }

    /// Whoever waits for room that there is was called, once, by the call that made it.
    fn check_rooms(&mut self) {
        for (pages, calls) in &self.rooms {
            let calls = calls.load(Ordering::Relaxed);
            assert!(calls == 1 || calls == 0 && !self.model.has_room(*pages), "{calls} calls for {pages} pages");
        }
        self.rooms.retain(|(_, calls)| calls.load(Ordering::Relaxed) == 0);
    }

    /// A step: mostly one that is here, sometimes one that was lost or revoked.
    fn step_of(&self, n: u8) -> Option<&Step> {
        self.steps.get(usize::from(n).checked_rem(self.steps.len())?)
    }

    fn end_step(&mut self, at: usize, how: StepEnds) {
        let step = self.steps.swap_remove(at);
        let (id, number) = (step.id(), step.id().sequence());
        let (real, revoked) = match how {
            StepEnds::Lost => return self.lost.push(id),
            // SAFETY: (1) the machine plays the kernels, which write under open steps only, between calls.
            StepEnds::Ended => (unsafe { self.pool.end_step(step) }.map_err(|refused| *refused.error()), false),
            StepEnds::Revoked => {
                // The value stays, and is good for nothing any more.
                self.steps.push(step);
                // SAFETY: as above.
                (unsafe { self.pool.revoke_step(id, StepLoss::Finished) }, true)
            }
        };
        self.pull_log();
        self.check_step_end(real, number, revoked);
    }

    fn check_step_end(&mut self, real: Result<pagestamp::StepEnd, pagestamp::StepError>, number: u64, revoked: bool) {
        match (real, self.model.end_step(number, revoked)) {
            (Ok(real), Ok(model)) => {
                assert_eq!((real.pages, real.quarantined_pages, real.waiting_pages), model);
                self.launched.retain(|launched| launched.0 != number);
            }
            (Err(real), Err(_)) => assert_eq!(variant(&real), "Over"),
            (real, model) => panic!("{real:?}, {model:?}"),
        }
    }

    fn apply(&mut self, op: &Op) {
        let pt = self.model.page_tokens();
        match *op {
            Op::Prove { max } => {
                let most = (self.model.usable() + 1) * pt;
                self.prove(u64::from(max) % (most + 1));
            }
            Op::Admit { owner: who, max, proof } => {
                let (proof, model_proof) = self.proofs[usize::from(proof) % self.proofs.len()];
                let (who, max) = (owner_of(who), u64::from(max) % (model_proof.max_tokens + 2));
                let real = self.pool.admit(&proof, Request::new(owner(who), max));
                self.pull_log();
                let model = self.model.room(&model_proof, max, 0, false);
                same(&real, &model.map(|_| ()));
                match real {
                    Ok(admitted) => {
                        let rec = self.model.open_rec(who, Kind::Admitted, max, model.unwrap().0);
                        self.slots.push(Slot { rec, value: Value::Admitted(admitted) });
                    }
                    Err(error) => self.check_refusal(&error, max),
                }
            }
            Op::Reserve { owner: who, max, tokens, claim, lane, proof } => {
                let max_tokens = self.proofs[usize::from(proof) % self.proofs.len()].1.max_tokens;
                let max = u64::from(max) % (max_tokens + 2);
                let tokens = if tokens == 255 { u64::MAX } else { u64::from(tokens) % (max + 2) };
                // Half of the tries under a claim repeat the first try exactly.
                let (mut who, mut max, mut tokens) = (owner_of(who), max, tokens);
                if let Some(claim) = claim.and_then(|id| self.model.claims.get(&id))
                    && tokens % 2 == 0
                {
                    (who, max, tokens) = (claim.owner, claim.max, claim.tokens);
                }
                self.reserve(who, max, tokens, claim, lane, usize::from(proof));
            }
            Op::Take { slot, tokens } => {
                let Some(at) = usize::from(slot).checked_rem(self.slots.len()) else { return };
                if !matches!(self.slots[at].value, Value::Admitted(_)) {
                    return;
                }
                let Slot { rec, value: Value::Admitted(admitted) } = self.slots.swap_remove(at) else { return };
                let tokens = self.tokens(rec, tokens);
                let real = admitted.reserve(tokens);
                let it = &mut self.model.recs[rec];
                let model = match () {
                    () if tokens > it.max => Err("PastMax"),
                    () if it.revoked => Err("Revoked"),
                    () => Ok(()),
                };
                let value = match real {
                    Ok(kv) => {
                        assert_eq!(model, Ok(()));
                        let pages = self.model.geometry.pages_for_tokens(tokens);
                        let it = &mut self.model.recs[rec];
                        (it.kind, it.reserved) = (Kind::Reserved, tokens);
                        it.promised -= pages;
                        self.learn(rec, &kv, 0);
                        Value::Reserved(Box::into_raw(Box::new(kv)))
                    }
                    Err(refused) => {
                        let (admitted, error) = refused.into_parts();
                        same(&Err::<(), _>(error), &model);
                        Value::Admitted(admitted)
                    }
                };
                self.slots.push(Slot { rec, value });
            }
            Op::End { slot, how } => {
                if let Some(slot) = self.take_slot(slot) {
                    self.end_slot(slot, how);
                }
            }
            Op::Grow { slot, to } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let to = self.tokens(rec, to);
                let real = kv.grow(to);
                self.pull_log();
                same(&real, &self.model.grow(rec, to));
                if real.is_ok() {
                    self.learn(rec, kv, 0);
                }
            }
            Op::Write { slot, tokens, seed } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let it = &self.model.recs[rec];
                let tokens = u64::from(tokens) % (it.reserved - it.written + 2);
                let planes: Vec<_> = (0..self.model.geometry.planes().len())
                    .map(|plane| self.pattern(plane, tokens, seed.wrapping_add(plane as u8)))
                    .collect();
                let slices: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
                assert_eq!(variant(&kv.write(tokens, &slices[1..]).unwrap_err()), "PlaneCount");
                if tokens > 0 {
                    assert_eq!(variant(&kv.write(tokens - 1, &slices).unwrap_err()), "Length");
                }
                let real = kv.write(tokens, &slices);
                self.pull_log();
                let prepared = self.model.prepare(rec, tokens);
                let (from, to) = (self.model.recs[rec].written, self.model.recs[rec].written.saturating_add(tokens));
                match &prepared {
                    Err(error) => same(&real, &Err(error)),
                    Ok(moves) => {
                        self.learn_moves(rec, moves, &kv.handles().collect::<Vec<_>>());
                        self.model.prepared(rec, tokens);
                        if tokens > 0 && !M::HAS_BYTES {
                            return same(&real, &Err("Memory"));
                        }
                        same(&real, &Ok(()));
                        for (plane, src) in planes.iter().enumerate() {
                            self.model.store(rec, from, to, plane, src);
                        }
                        self.model.set_written(rec, to, false);
                    }
                }
            }
            Op::Writer { slot, tokens } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let it = &self.model.recs[rec];
                let tokens = u64::from(tokens) % (it.reserved - it.written + 2);
                let kv: *mut Reservation<Memory<M>> = kv;
                // SAFETY: the slot owns the value; while the writer is held nothing else uses it exclusively.
                let real = unsafe { &mut *kv }.writer(tokens);
                self.pull_log();
                let prepared = self.model.prepare(rec, tokens);
                same(&real, &prepared.clone().map(|_| ()));
                if let (Ok(writer), Ok(moves)) = (real, prepared) {
                    // SAFETY: as above; only the handles are looked at, which takes a counted borrow of its own.
                    let handles: Vec<_> = unsafe { &*kv }.handles().collect();
                    self.learn_moves(rec, &moves, &handles);
                    self.model.prepared(rec, tokens);
                    self.model.recs[rec].borrows += 1;
                    let stored = vec![false; self.model.geometry.planes().len()];
                    self.guards.push(Guard::Write { writer, rec, tokens, stored });
                }
            }
            Op::Plane { held, plane, seed } => {
                let writers = self.guards.iter().filter(|guard| matches!(guard, Guard::Write { .. })).count();
                let Some(nth) = usize::from(held).checked_rem(writers) else { return };
                let planes = self.model.geometry.planes().len();
                let plane = usize::from(plane) % (planes + 1);
                let mut at = 0;
                let mut guards = std::mem::take(&mut self.guards);
                for guard in &mut guards {
                    let Guard::Write { writer, rec, tokens, stored } = guard else { continue };
                    at += 1;
                    if at != nth + 1 {
                        continue;
                    }
                    let src = if plane < planes { self.pattern(plane, *tokens, seed) } else { Vec::new() };
                    let real = writer.plane(plane, &src);
                    let model = match stored.get(plane) {
                        None => Err("NoSuchPlane"),
                        Some(true) => Err("PlaneTwice"),
                        Some(false) if *tokens > 0 && !M::HAS_BYTES => Err("Memory"),
                        Some(false) => Ok(()),
                    };
                    same(&real, &model);
                    if model.is_ok() {
                        stored[plane] = true;
                        let from = self.model.recs[*rec].written;
                        self.model.store(*rec, from, from + *tokens, plane, &src);
                        if stored.iter().all(|stored| *stored) {
                            self.model.set_written(*rec, from + *tokens, false);
                        }
                    }
                }
                self.guards = guards;
            }
            Op::Assume { slot, to } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let to = self.tokens(rec, to);
                let it = &self.model.recs[rec];
                let model = match () {
                    () if to > it.reserved => Err("PastReserved"),
                    () if to < it.written => Err("Backward"),
                    () if self.model.not_exported(rec).is_err() => Err("Exported"),
                    () if self.model.recs[rec].revoked => Err("Revoked"),
                    () if self.model.any_writing(rec, self.model.recs[rec].written, to) => Err("Busy"),
                    () => Ok(()),
                };
                same(&kv.assume_written(to), &model);
                if model.is_ok() {
                    self.model.totals.assumed_tokens += to - self.model.recs[rec].written;
                    self.model.set_written(rec, to, true);
                }
            }
            Op::Commit { slot, to } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let to = self.tokens(rec, to);
                let it = &mut self.model.recs[rec];
                let model = match () {
                    () if to > it.written => Err("PastWritten"),
                    () if to < it.committed => Err("Backward"),
                    () if it.revoked => Err("Revoked"),
                    () => Ok(()),
                };
                same(&kv.commit(to), &model);
                if model.is_ok() {
                    it.committed = to;
                }
            }
            Op::Truncate { slot, to } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let to = u64::from(to) % (self.model.recs[rec].written + 1) + u64::from(to > 250);
                let it = &self.model.recs[rec];
                let model = match () {
                    () if to > it.written => Err("Upward"),
                    () if self.model.not_exported(rec).is_err() => Err("Exported"),
                    () if self.model.recs[rec].revoked => Err("Revoked"),
                    () if self.model.any_writing(rec, to, self.model.recs[rec].written) => Err("Busy"),
                    () => Ok(()),
                };
                same(&kv.truncate(to), &model);
                if model.is_ok() {
                    self.model.set_written(rec, to, false);
                }
            }
            Op::Shrink { slot, to } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let to = self.tokens(rec, to);
                let before = self.model.totals.pages_released;
                let real = kv.shrink(to);
                self.pull_log();
                same(&real, &self.model.shrink(rec, to));
                if let Ok(released) = real {
                    assert_eq!(released.pages, self.model.totals.pages_released - before);
                }
            }
            Op::Read { slot, from, to, hold } => {
                let Some((rec, kv)) = self.reserved(slot, false) else { return };
                let written = self.model.recs[rec].written;
                let (from, to) = (u64::from(from) % (written + 1), u64::from(to) % (written + 2));
                let real = kv.read(from..to);
                let model = self.model.read(rec, from, to);
                same(&real, &model);
                let Ok(guard) = real else { return };
                self.model.recs[rec].borrows += 1;
                let planes = 0..if M::HAS_BYTES { self.model.geometry.planes().len() } else { 0 };
                let bytes = planes.map(|plane| self.model.load_rec(rec, from, to, plane));
                let guard = Guard::Read { guard, rec, bytes: bytes.collect() };
                self.check_guard(&guard);
                if hold {
                    self.guards.push(guard);
                } else {
                    self.end_guard(guard, End::Drop);
                }
            }
            Op::ReadHandle { slot, ordinal, owner: who, hold } => {
                let live: Vec<u32> = self.with_handles();
                let Some(at) = (usize::from(slot) * 7 + usize::from(ordinal)).checked_rem(live.len()) else { return };
                let page = live[at];
                let generation = self.model.pages[page as usize].generation;
                let (handle, its) = self.seen[&(page, generation)];
                let who = if who < 200 { its } else { owner_of(who) };
                let real = self.pool.read(owner(who), handle);
                let model = self.model.read_page(page, generation, who);
                same(&real, &model);
                match real {
                    Err(_) => self.refused_reads += 1,
                    Ok(guard) => {
                        let written = self.model.pages[page as usize].written;
                        assert_eq!(guard.written_tokens(), written);
                        self.model.page(page).readers += 1;
                        let planes = 0..if M::HAS_BYTES { self.model.geometry.planes().len() } else { 0 };
                        let bytes = planes.map(|plane| self.model.load(page, 0, written, plane));
                        let guard = Guard::Page { guard, page, bytes: bytes.collect() };
                        self.check_guard(&guard);
                        if hold {
                            self.guards.push(guard);
                        } else {
                            self.end_guard(guard, End::Drop);
                        }
                    }
                }
            }
            Op::ReadDead { dead, owner: who } => {
                let dead_handles = self.dead();
                let Some(at) = usize::from(dead).checked_rem(dead_handles.len()) else { return };
                let error = self.pool.read(owner(owner_of(who)), dead_handles[at].0).unwrap_err();
                assert_eq!(variant(&error), "Stale");
                self.refused_reads += 1;
                assert!(matches!(
                    self.pool.release_pages(owner(owner_of(who)), &[dead_handles[at].0]),
                    Err(ReleaseError::Handle { position: 0, .. })
                ));
            }
            Op::Forge { slot, ordinal, bit } => {
                let live = self.with_handles();
                let Some(at) = (usize::from(slot) * 7 + usize::from(ordinal)).checked_rem(live.len()) else { return };
                let generation = self.model.pages[live[at] as usize].generation;
                let (handle, its) = self.seen[&(live[at], generation)];
                let Some(forged) = PageHandle::from_bits(handle.to_bits() ^ 1 << bit) else { return };
                let real = self.pool.check(owner(its), forged);
                let (page, generation) = (forged.index(), forged.generation().get());
                let model = match bit {
                    0..32 if page as usize >= self.model.pages.len() => Err("OutOfRange"),
                    // Another page in the same life: a handle that was issued, not a forged one.
                    0..32 | 64..104 => self.model.read_page(page, generation, its),
                    _ => Err("ForeignPool"),
                };
                same(&real, &model);
                match real {
                    Ok(()) => self.model.collect(),
                    Err(_) => self.refused_reads += 1,
                }
            }
            Op::EndGuard { held, how } => {
                let Some(at) = usize::from(held).checked_rem(self.guards.len()) else { return };
                let guard = self.guards.swap_remove(at);
                self.end_guard(guard, how);
            }
            Op::Pin { slot, from, to, write } => {
                let Some((rec, kv)) = self.reserved(slot, write) else { return };
                let pages = self.model.recs[rec].pages.len() as u32;
                let first = u32::from(from) % (pages + 1);
                let ordinals = first..first + u32::from(to) % (pages.saturating_sub(first) + 2);
                let real = match write {
                    true => kv.pin_write(ordinals.clone(), HolderId(1), Some(5)),
                    false => kv.pin_read(ordinals.clone(), HolderId(2), None),
                };
                same(&real, &self.model.pin(rec, ordinals, write));
                self.tickets.extend(real.ok());
            }
            Op::PinHandles { owner: who, pick, count } => {
                let live = self.with_handles();
                let who = owner_of(who);
                let picked: Vec<u32> = (0..usize::from(count % 4))
                    .filter_map(|at| live.get((usize::from(pick) + at).checked_rem(live.len())?).copied())
                    .collect();
                let handle = |page: &u32| self.seen[&(*page, self.model.pages[*page as usize].generation)].0;
                let handles: Vec<_> = picked.iter().map(handle).collect();
                let real = self.pool.pin(owner(who), &handles, HolderId(3), None);
                let mut sorted = picked.clone();
                sorted.sort_unstable();
                let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
                if !picked.is_empty() && !twice {
                    self.model.poll_for_pin();
                }
                let bad = picked.iter().any(|page| {
                    let it = &self.model.pages[*page as usize];
                    it.owner != Some(who) || it.writing || it.pending || it.written == 0 && !it.detached
                });
                let model = if picked.is_empty() {
                    Err("Empty")
                } else if twice {
                    Err("Twice")
                } else if bad {
                    Err("Handle")
                } else {
                    Ok(())
                };
                same(&real, &model);
                if let Ok(ticket) = real {
                    picked.iter().for_each(|page| self.model.page(*page).holds += 1);
                    self.model.tickets.push(Some(crate::model::Ticket {
                        pages: picked,
                        write: false,
                        rec: None,
                        dead: None,
                    }));
                    self.tickets.push(ticket);
                }
            }
            Op::Poke { ticket, offset, value } => {
                let open = self.model.tickets.iter().flatten().filter(|ticket| ticket.write).collect::<Vec<_>>();
                let Some(at) = usize::from(ticket).checked_rem(open.len()) else { return };
                let page = open[at].pages[usize::from(value) % open[at].pages.len()];
                let plane = usize::from(offset) % self.model.geometry.planes().len();
                // SAFETY: (1) of `memory`: the page has an open write ticket, so that nobody of the library reads it.
                unsafe { self.pool.memory() }.poke(plane, page, usize::from(offset), value);
                if M::HAS_BYTES {
                    let bytes = &mut self.model.page(page).bytes[plane];
                    let len = bytes.len();
                    bytes[usize::from(offset) % len] = value;
                }
            }
            Op::EndTicket { ticket, revoke } => {
                let Some(at) = usize::from(ticket).checked_rem(self.tickets.len()) else { return };
                let id = self.tickets[at];
                let real = match revoke {
                    // SAFETY: (1) the outside party is the machine, which writes under open tickets only.
                    true => unsafe { self.pool.ticket_revoke(id) },
                    // SAFETY: as above.
                    false => unsafe { self.pool.ticket_done(id) },
                };
                same(&real, &self.model.end_ticket(at));
            }
            Op::NameHolder { ticket, dead } => {
                let Some(at) = usize::from(ticket).checked_rem(self.tickets.len()) else { return };
                let process = if dead { ended_process() } else { HolderProcess::of_pid(std::process::id()).unwrap() };
                // SAFETY: (1) the machine alone pokes, on this thread and between calls, and only under open tickets.
                let real = unsafe { self.pool.name_holder(self.tickets[at], process) };
                same(&real, &self.model.name_holder(at, dead));
            }
            Op::EndDead { ticket } => {
                let Some(at) = usize::from(ticket).checked_rem(self.tickets.len()) else { return };
                let real = self.pool.end_dead_holder(self.tickets[at]);
                same(&real, &self.model.end_dead(at));
            }
            Op::EndAllDead => assert_eq!(self.pool.end_dead_holders(), self.model.end_all_dead()),
            Op::Detach { slot } => {
                let Some(slot) = self.take_slot(slot) else { return };
                let Slot { rec, value: Value::Reserved(value) } = slot else { return self.slots.push(slot) };
                // SAFETY: the slot owned the value, which came from a box; no guard is held on it.
                let kv = *unsafe { Box::from_raw(value) };
                let pages = self.model.recs[rec].pages.clone();
                let real = kv.into_handles();
                let model = self.model.detach(rec);
                match real {
                    Ok(handles) => {
                        assert_eq!(model, Ok(()));
                        assert_eq!(handles.iter().map(PageHandle::index).collect::<Vec<_>>(), pages);
                        self.model.end_claim(rec);
                        self.detached.extend(handles);
                    }
                    Err(refused) => {
                        let (kv, error) = refused.into_parts();
                        same(&Err::<(), _>(error), &model);
                        self.slots.push(Slot { rec, value: Value::Reserved(Box::into_raw(Box::new(kv))) });
                    }
                }
            }
            Op::ReleasePages { owner: who, count, spoil, pick } => {
                let who = owner_of(who);
                let is_detached = |handle: &&PageHandle<_>| {
                    let it = &self.model.pages[handle.index() as usize];
                    it.detached && it.generation == handle.generation().get()
                };
                self.detached = self.detached.iter().filter(is_detached).copied().collect();
                let own =
                    self.detached.iter().filter(|handle| self.model.pages[handle.index() as usize].owner == Some(who));
                let mut handles: Vec<_> = own.take(usize::from(count % 5)).copied().collect();
                let model = match spoil % 8 {
                    0 if !handles.is_empty() => {
                        handles.push(handles[0]);
                        Err("Twice")
                    }
                    1 | 2 => match self
                        .dead()
                        .get(usize::from(pick))
                        .filter(|(h, _)| handles.iter().all(|o| o.index() != h.index()))
                    {
                        Some((dead, _)) => {
                            handles.push(*dead);
                            Err("Handle")
                        }
                        None => Ok(()),
                    },
                    3 => {
                        let held =
                            self.with_handles().into_iter().find(|page| !self.model.pages[*page as usize].detached);
                        match held {
                            Some(page) => {
                                let it = &self.model.pages[page as usize];
                                handles.push(self.seen[&(page, it.generation)].0);
                                if it.owner == Some(who) { Err("Held") } else { Err("Handle") }
                            }
                            None => Ok(()),
                        }
                    }
                    _ => Ok(()),
                };
                let real = self.pool.release_pages(owner(who), &handles);
                self.pull_log();
                same(&real, &model);
                if real.is_ok() {
                    self.model.release_pages(&handles.iter().map(PageHandle::index).collect::<Vec<_>>());
                }
            }
            Op::Reclaim { owner: who } => {
                let real = self.pool.reclaim(owner(owner_of(who)));
                self.pull_log();
                let model = self.model.reclaim(Some(owner_of(who)));
                assert_eq!((real.revoked, real.pages, real.quarantined_pages), model);
            }
            Op::Clear => {
                let real = self.pool.clear();
                self.pull_log();
                assert_eq!((real.revoked, real.pages, real.quarantined_pages), self.model.reclaim(None));
            }
            Op::Erase { owner: who } => {
                let who = owner_of(who);
                let receipt = self.pool.erase(owner(who));
                self.pull_log();
                let before = self.model.pages_of(who);
                let former: Vec<_> = self.model.former.iter().filter(|former| former.1 == who).copied().collect();
                let soiled: Vec<u32> = before.iter().map(|(page, _)| self.model.dirty_tokens(*page)).collect();
                self.model.reclaim(Some(who));
                let pages: Vec<u32> = before.iter().map(|(page, _)| *page).collect();
                self.model.clean_now(&pages);
                let mut real: Vec<(u32, u64)> = receipt.pages.iter().map(|(page, life)| (*page, life.get())).collect();
                let mut expected = before.clone();
                expected.extend(former.iter().map(|(page, _, life)| (*page, *life)));
                real.sort_unstable();
                expected.sort_unstable();
                assert_eq!(real, expected);
                for former in &former {
                    let zero = !self.model.former.contains(former);
                    assert!(zero || receipt.in_flight.contains(&former.0), "{former:?} is called erased and is not");
                }
                let token_bytes = if M::HAS_BYTES { self.pool.geometry().token_bytes() } else { 0 };
                let zeroed = pages.iter().zip(&soiled).filter(|(page, _)| !receipt.in_flight.contains(page));
                assert_eq!(
                    receipt.bytes_zeroed,
                    zeroed.map(|(_, tokens)| u64::from(*tokens) * token_bytes).sum::<u64>()
                );
                for page in pages {
                    let zero = self.model.pages[page as usize].bytes.iter().flatten().all(|byte| *byte == 0);
                    assert!(zero || receipt.in_flight.contains(&page), "page {page} is called erased and is not");
                }
            }
            Op::Suspend => {
                let real = self.pool.suspend();
                self.pull_log();
                let waiting = |rec: &&crate::model::Rec| rec.kind == Kind::Admitted && rec.promised > 0;
                let busy = self.model.recs.iter().any(|rec| waiting(&rec))
                    || self.model.tickets.iter().flatten().count() + self.model.steps.len() > 0;
                assert_eq!(real.is_err(), busy);
                let Ok(real) = real else { return };
                self.model.suspended = true;
                self.model.epoch += 1;
                let (revoked, _, _) = self.model.reclaim(None);
                self.model.maintain(u64::MAX);
                let in_flight = self.model.coming() + self.model.count(St::Live);
                match real {
                    Suspended::Pending { in_flight_pages } => {
                        assert_eq!((in_flight_pages, in_flight > 0), (in_flight, true))
                    }
                    Suspended::Done { revoked: real } => {
                        assert_eq!((real, in_flight), (revoked, 0));
                        // The memory was given back, poisoned pages included.
                        self.model.pages.iter_mut().for_each(|it| it.bytes.iter_mut().for_each(|plane| plane.fill(0)));
                    }
                    other => panic!("{other:?}"),
                }
            }
            Op::Resume => {
                assert_eq!(self.pool.resume().is_ok(), self.model.suspended);
                self.model.epoch += u64::from(std::mem::take(&mut self.model.suspended));
            }
            Op::Resize { pages } => {
                let max_pages = self.pool.max_pages();
                let pages = u32::from(pages) % (max_pages + 2);
                let own = self.pool.config().own_page_count();
                let real = self.pool.resize(pages);
                self.pull_log();
                let model = match () {
                    () if pages > max_pages => Err("PastMax"),
                    () if pages <= own => Err("NoPages"),
                    () if self.model.suspended => Err("Suspended"),
                    () => Ok(()),
                };
                same(&real, &model);
                let Ok(real) = real else { return };
                let more = u64::from(pages).saturating_sub(self.model.circulating());
                self.model.parked -= more;
                self.model.free += more;
                self.model.target = u64::from(pages);
                self.model.epoch += 1;
                self.model.park_surplus();
                let now = self.model.circulating() as u32;
                let expected = if now == pages {
                    Resized::Done { pages }
                } else {
                    Resized::Pending { target_pages: pages, pages: now }
                };
                assert_eq!(real, expected);
            }
            Op::Maintain { pages } => {
                let pages = usize::from(pages % 6);
                let real = self.pool.maintain(pages);
                self.pull_log();
                assert_eq!(real.begun_pages, self.model.maintain(pages as u64));
            }
            Op::Confirm { slot } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                kv.confirm_claim();
                self.model.end_claim(rec);
            }
            Op::Expire => {
                // Claim `n` expires at `n`: time goes just so far that one kept claim may be given up.
                let kept = self.model.claims.iter().find_map(|(id, claim)| match claim.standing {
                    Standing::Kept(rec) => Some((*id, rec)),
                    _ => None,
                });
                let now = kept.map_or(0, |(id, _)| u64::from(id));
                let real = self.pool.expire_claims(now);
                self.pull_log();
                assert_eq!(real, u64::from(kept.is_some()));
                if let Some((_, rec)) = kept {
                    self.model.end_claim(rec);
                    self.model.end(rec);
                }
            }
            Op::FinishFence { which } => {
                let Some(control) = &self.control else { return };
                let open = control.open_fences();
                let Some(at) = usize::from(which).checked_rem(open.len()) else { return };
                control.finish(open[at]).unwrap();
                self.model.finish_fence(open[at]);
            }
            Op::OpenStep => {
                if self.model.steps.len() < 6 {
                    let step = self.pool.open_step();
                    self.model.steps.push(step.id().sequence());
                    self.model.opened = step.id().sequence();
                    self.steps.push(step);
                }
            }
            Op::EndStep { which, how } => {
                if matches!(how, StepEnds::Revoked)
                    && let Some(id) = self.lost.pop()
                {
                    // SAFETY: (1) as in `end_step`.
                    let real = unsafe { self.pool.revoke_step(id, StepLoss::NeverLaunched) };
                    self.pull_log();
                    return self.check_step_end(real, id.sequence(), true);
                }
                if let Some(at) = usize::from(which).checked_rem(self.steps.len()) {
                    self.end_step(at, how);
                }
            }
            Op::Export { slot, step, tokens } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let Some(step) = self.step_of(step) else { return };
                let number = step.id().sequence();
                let room = self.model.recs[rec].reserved.saturating_sub(self.model.pending(rec));
                let tokens = if tokens == 255 { u64::MAX } else { u64::from(tokens) % (room + 2) };
                let real = kv.export(step, tokens);
                self.pull_log();
                let model = self.model.export(rec, number, tokens);
                same(&real, &model.clone().map(|_| ()));
                if let (Ok(pending), Ok(moves)) = (real, model) {
                    self.learn_moves(rec, &moves, &kv.handles().collect::<Vec<_>>());
                    self.model.exported(rec, pending.start, pending.end);
                    assert_eq!((pending.end - pending.start, pending.end), (tokens, self.model.pending(rec)));
                    for token in pending {
                        let (at, place) = self.model.geometry.locate_token(token);
                        self.launched.push((number, rec, self.model.recs[rec].pages[at as usize], place));
                    }
                }
            }
            Op::Report { slot, step, wrote } => {
                let Some((rec, kv)) = self.reserved(slot, true) else { return };
                let Some(step) = self.step_of(step) else { return };
                let number = step.id().sequence();
                let before = self.model.recs[rec].exports.clone();
                let (real, model) = match wrote {
                    true => (kv.wrote(step), self.model.wrote(rec, number)),
                    false => (kv.aborted(step), self.model.aborted(rec, number)),
                };
                same(&real, &model);
                if let Ok(end) = real {
                    let is_over = |number: u64| {
                        let has = |exports: &[(u64, u64)]| exports.iter().any(|(step, _)| *step == number);
                        has(&before) && !has(&self.model.recs[rec].exports)
                    };
                    let it = &self.model.recs[rec];
                    assert_eq!(end, if wrote { it.written } else { self.model.pending(rec) });
                    let over: Vec<u64> =
                        self.launched.iter().map(|launched| launched.0).filter(|n| is_over(*n)).collect();
                    self.launched.retain(|launched| launched.1 != rec || !over.contains(&launched.0));
                }
            }
            Op::Kernel { which, plane, value } => {
                let Some(at) = usize::from(which).checked_rem(self.launched.len()) else { return };
                let (_, _, page, place) = self.launched[at];
                let plane = usize::from(plane) % self.model.geometry.planes().len();
                let offset = self.model.geometry.run_offset(plane, 0, place).unwrap() as usize;
                // SAFETY: (1) of `memory`: the token is pending under an open step, so that nobody else looks at it.
                unsafe { self.pool.memory() }.poke(plane, page, offset, value);
                if M::HAS_BYTES {
                    self.model.page(page).bytes[plane][offset] = value;
                }
            }
            Op::OnRoom { pages } => {
                let pages = u64::from(pages) % 9;
                let calls = Arc::new(AtomicU64::new(0));
                let call = Arc::clone(&calls);
                let waits = self.pool.on_room(pages, move || drop(call.fetch_add(1, Ordering::Relaxed).to_string()));
                assert_eq!(waits.is_none(), self.model.has_room(pages));
                if waits.is_some() {
                    self.rooms.push((pages, calls));
                }
            }
            Op::FailFence => {
                let Some(fence) = self.control.as_ref().and_then(HeldControl::fail_next) else { return };
                self.model.fail_fence(fence);
            }
            Op::RefuseCleans { calls } => {
                if let Some(control) = &self.control {
                    control.fail_clean_calls(usize::from(calls));
                }
            }
        }
    }

    /// Pages that are live, in order: those there is a handle of that should be good.
    fn with_handles(&self) -> Vec<u32> {
        (0..self.model.pages.len() as u32).filter(|page| self.model.pages[*page as usize].st == St::Live).collect()
    }

    /// Every handle that was ever given out and whose page has left its owner.
    fn dead(&self) -> Vec<Seen<M>> {
        let is_dead = |(key, _): &(&(u32, u64), &(PageHandle<_>, u64))| {
            let it = &self.model.pages[key.0 as usize];
            it.st != St::Live || it.generation != key.1
        };
        self.seen.iter().filter(is_dead).map(|(_, seen)| *seen).collect()
    }

    /// What a guard shows is what was there when it was taken.
    fn check_guard(&self, guard: &Guard<M>) {
        let (bytes, copy): (_, Copy<'_>) = match guard {
            Guard::Page { guard, bytes, .. } => (bytes, &|plane, dst| guard.copy(plane, dst).is_ok()),
            Guard::Read { guard, bytes, .. } => (bytes, &|plane, dst| guard.copy(plane, dst).is_ok()),
            Guard::Write { .. } => return,
        };
        for (plane, bytes) in bytes.iter().enumerate() {
            let mut seen = vec![0; bytes.len()];
            assert!(copy(plane, &mut seen));
            assert_eq!(&seen, bytes, "a guard shows other bytes than when it was taken");
        }
    }

    fn check(&mut self) {
        assert!(
            self.model.log.is_empty() && self.log.lock().unwrap().is_empty(),
            "cleaned unasked: {:?}",
            self.model.log
        );
        // Before any call that would call back by itself.
        self.check_rooms();
        self.pool.audit().unwrap();
        self.pool.audit_bytes(0..self.pool.max_pages()).unwrap();
        self.model.totals.refused_reads = self.refused_reads;
        let mut stats = self.model.stats();
        stats.room_waiters = self.rooms.len() as u64;
        assert_eq!(self.pool.stats(), stats);
        let shown: Vec<_> = self.pool.open_steps();
        assert_eq!(shown.iter().map(|step| step.id.sequence()).collect::<Vec<_>>(), self.model.steps);
        for step in shown {
            assert_eq!((step.waiting_pages, step.exports), self.model.shown(step.id.sequence()));
        }
        let total = self.pool.stats();
        let sum = total.free_pages + total.live_pages + total.cached_pages + total.quarantined_pages;
        let sum = sum + total.cleaning_pages + total.parked_pages + total.retired_pages + total.reserved_pages;
        assert_eq!(sum, u64::from(self.pool.max_pages()));
        if M::HAS_BYTES {
            for (page, it) in self.model.pages.iter().enumerate() {
                for (plane, bytes) in it.bytes.iter().enumerate() {
                    assert_eq!(&self.raw(plane, page as u32), bytes, "page {page}, plane {plane}: {:?}", it.st);
                }
            }
        }
        for (handle, its) in self.dead() {
            let error = self.pool.check(owner(its), handle).unwrap_err();
            assert_eq!(variant(&error), "Stale", "{handle:?}");
            self.refused_reads += 1;
        }
        self.guards.iter().chain(&self.forgotten_guards).for_each(|guard| self.check_guard(guard));
        for slot in &self.slots {
            let Value::Reserved(kv) = slot.value else { continue };
            let it = &self.model.recs[slot.rec];
            if self.loaned(slot.rec) {
                continue;
            }
            // SAFETY: the slot owns the value and nothing is held on it.
            let kv = unsafe { &*kv };
            assert_eq!(
                (kv.max_tokens(), kv.reserved_tokens(), kv.written_tokens(), kv.committed_tokens(), kv.is_revoked()),
                (it.max, it.reserved, it.written, it.committed, it.revoked)
            );
            let pages: Vec<u32> = kv.handles().map(|handle| handle.index()).collect();
            assert_eq!(pages, if it.revoked { Vec::new() } else { it.pages.clone() });
        }
    }

    /// Ends everything, in the order that `seed` says; then nothing may be missing, and the memory comes back.
    pub(crate) fn finish(mut self, seed: u8) {
        self.apply(&Op::Resume);
        while let Some(at) = usize::from(seed).checked_rem(self.guards.len()) {
            let guard = self.guards.swap_remove(at);
            self.end_guard(guard, End::Drop);
        }
        self.check();
        while let Some(guard) = self.forgotten_guards.pop() {
            self.end_guard(guard, End::Drop);
        }
        for ticket in 0..self.tickets.len() {
            self.apply(&Op::EndTicket { ticket: ticket as u8, revoke: seed.is_multiple_of(2) });
        }
        while !self.steps.is_empty() || !self.lost.is_empty() {
            let how = if self.steps.is_empty() { StepEnds::Revoked } else { StepEnds::Ended };
            self.apply(&Op::EndStep { which: seed, how });
            self.check();
        }
        let forgotten = std::mem::take(&mut self.forgotten);
        self.slots.extend(forgotten);
        while let Some(slot) = self.take_slot(seed) {
            self.end_slot(slot, End::Drop);
            self.check();
        }
        self.apply(&Op::Clear);
        self.apply(&Op::RefuseCleans { calls: 0 });
        for _ in 0..3 {
            while self.control.as_ref().is_some_and(|control| !control.open_fences().is_empty()) {
                self.apply(&Op::FinishFence { which: seed });
            }
            for _ in 0..self.model.pages.len() {
                self.apply(&Op::Maintain { pages: 5 });
            }
            self.check();
        }
        let stats = self.pool.stats();
        assert_eq!((stats.live_pages, stats.cleaning_pages, stats.promised_pages, stats.tickets), (0, 0, 0, 0));
        let borrowed: u64 =
            self.model.recs.iter().filter(|rec| rec.borrows > 0).map(|rec| rec.pages.len() as u64).sum();
        assert_eq!(
            stats.quarantined_pages, borrowed,
            "only what really forgotten guards borrow is still in quarantine"
        );
        let pool: *const PagePool<Memory<M>> = self.pool;
        drop(self);
        // SAFETY: the pool was leaked from a box in `new`, and whatever borrowed it has ended or was forgotten for good.
        let pool = unsafe { Box::from_raw(pool.cast_mut()) };
        if borrowed == 0 {
            drop(pool.close().unwrap());
        }
    }
}

/// Geometries: one plane or several with different runs, pages of one token or of sixteen.
pub(crate) fn geometries() -> [PageGeometry; 4] {
    let nhd = [Plane::per_token(1, 6)];
    let hnd = [Plane::per_token(2, 8), Plane::per_token(1, 5), Plane::per_token(3, 1)];
    [(1, &nhd[..]), (16, &nhd[..]), (1, &hnd[..]), (16, &hnd[..])]
        .map(|(tokens, planes)| PageGeometry::new(tokens, planes).unwrap())
}

/// Configurations beside the memory: both clean modes, with and without own pages, many lives or few.
pub(crate) fn configs() -> Vec<PoolConfig> {
    use pagestamp::{CleanMode, OwnPages};
    let mut configs = Vec::new();
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        for own in [OwnPages::NullAndSink, OwnPages::None] {
            for last in [Generation::MAX, Generation::new(5).unwrap()] {
                configs.push(PoolConfig::new(7).with_clean_mode(mode).with_own_pages(own).with_last_generation(last));
            }
        }
    }
    configs
}
