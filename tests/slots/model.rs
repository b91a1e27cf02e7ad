//! Random sequences of calls against a plain model: a table of slots, each with a state, a value and its accesses.
//!
//! The value records who wrote it, so that what the pool shows is compared by content and never by trusting a handle.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pagestamp::{
    CapacityPlan, CapacityProof, Generation, PageState, Reset, SlotClaimError, SlotConfig, SlotError, SlotGroup,
    SlotHandle, SlotMut, SlotPool, SlotRef, Whose,
};
use proptest::prelude::*;

use crate::stage::owner;

const SLOTS: u32 = 5;
const LARGEST: u32 = 3;
const LAST_LIFE: u64 = 6;
const OWNERS: u64 = 3;

/// Who wrote a slot, and when; `sore` makes its reset panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Mark {
    owner: u64,
    step: u64,
    sore: bool,
}

impl Reset for Mark {
    fn reset(&mut self) {
        if self.sore {
            std::panic::panic_any("sore");
        }
        *self = Self::default();
    }
}

/// A call. Numbers choose among what is there: the handles ever given, the groups and guards that exist.
#[derive(Clone, Copy, Debug)]
enum Op {
    ClaimOne(u64),
    Claim(u64, u32),
    Init(usize, u64, bool),
    Read(usize, u64),
    Change(usize, u64),
    PanicInChange(usize, u64),
    PanicInInit(usize, u64),
    KeepReading(usize, u64),
    KeepWriting(usize, u64),
    EndGuard(usize),
    ForgetGuard(usize),
    Release(usize, u64),
    ReleaseGroup(usize),
    Dissolve(usize),
    Reclaim(u64),
    Maintain(usize),
    Walk(Option<u64>),
    ProveAgain(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let (who, which) = (1..=OWNERS, 0..64usize);
    prop_oneof![
        3 => who.clone().prop_map(Op::ClaimOne),
        3 => (who.clone(), 1..=LARGEST + 1).prop_map(|(o, n)| Op::Claim(o, n)),
        6 => (which.clone(), who.clone(), prop::bool::weighted(0.05)).prop_map(|(h, o, sore)| Op::Init(h, o, sore)),
        3 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::Read(h, o)),
        3 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::Change(h, o)),
        1 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::PanicInChange(h, o)),
        1 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::PanicInInit(h, o)),
        3 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::KeepReading(h, o)),
        2 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::KeepWriting(h, o)),
        4 => which.clone().prop_map(Op::EndGuard),
        1 => which.clone().prop_map(Op::ForgetGuard),
        4 => (which.clone(), who.clone()).prop_map(|(h, o)| Op::Release(h, o)),
        2 => which.clone().prop_map(Op::ReleaseGroup),
        1 => which.clone().prop_map(Op::Dissolve),
        1 => who.clone().prop_map(Op::Reclaim),
        2 => (0..3usize).prop_map(Op::Maintain),
        1 => prop::option::of(who).prop_map(Op::Walk),
        1 => (1..=u64::from(LARGEST)).prop_map(Op::ProveAgain),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Live { owner: u64, value: Option<Mark>, poisoned: bool },
    Quarantined { sore: bool },
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    life: u64,
    state: State,
    readers: u16,
    written: bool,
}

/// What an access is expected to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Value(Mark),
    Blank,
    Stale,
    Foreign,
    Poisoned,
    Uninitialised,
    AlreadyInitialised,
    Busy,
}

fn found(error: &SlotError) -> Found {
    match error {
        SlotError::Stale { .. } | SlotError::Revoked { .. } => Found::Stale,
        SlotError::ForeignOwner { .. } => Found::Foreign,
        SlotError::Poisoned { .. } => Found::Poisoned,
        SlotError::Uninitialised { .. } => Found::Uninitialised,
        SlotError::AlreadyInitialised { .. } => Found::AlreadyInitialised,
        SlotError::Busy { .. } => Found::Busy,
        other => panic!("no call here can give {other}"),
    }
}

impl Slot {
    fn look(&self, life: u64, asks: u64, wants: Wants) -> Found {
        let State::Live { owner, value, poisoned } = self.state else { return Found::Stale };
        match (value, wants) {
            _ if self.life != life => Found::Stale,
            _ if owner != asks => Found::Foreign,
            _ if poisoned => Found::Poisoned,
            (None, Wants::Read | Wants::Write) => Found::Uninitialised,
            (Some(_), Wants::Init) => Found::AlreadyInitialised,
            _ if self.written || (wants != Wants::Read && self.readers > 0) => Found::Busy,
            (Some(value), _) => Found::Value(value),
            (None, Wants::Init) => Found::Blank,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Read,
    Write,
    Init,
}

enum Guard<'a> {
    Read(SlotRef<'a, Mark>),
    Write(SlotMut<'a, Mark>),
}

struct World<'a> {
    pool: &'a SlotPool<Mark>,
    proof: CapacityProof,
    slots: Vec<Slot>,
    handles: Vec<SlotHandle<Mark>>,
    groups: Vec<SlotGroup<Mark>>,
    guards: Vec<(Guard<'a>, Mark)>,
    step: u64,
}

impl<'a> World<'a> {
    fn usable(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.state != State::Retired).count() as u64
    }

    fn pick(&self, at: usize) -> Option<SlotHandle<Mark>> {
        // Mostly late ones first would be dull: half of the choices are among the last.
        let last = self.handles.len().saturating_sub(SLOTS as usize);
        let among = if at.is_multiple_of(2) { &self.handles[last..] } else { &self.handles[..] };
        among.get(at / 2 % among.len().max(1)).copied()
    }

    fn slot(&mut self, handle: SlotHandle<Mark>) -> &mut Slot {
        &mut self.slots[handle.index() as usize]
    }

    fn look(&self, handle: SlotHandle<Mark>, asks: u64, wants: Wants) -> Found {
        self.slots[handle.index() as usize].look(handle.generation().get(), asks, wants)
    }

    /// A claim of `n` slots: what the model expects, from what is free and what may be collected.
    fn claim(&mut self, who: u64, n: u32, result: Result<Vec<SlotHandle<Mark>>, SlotClaimError>) {
        let usable = self.usable();
        let is_gone = u64::from(SLOTS) - usable;
        let void = self.proof.epoch() != 1 + is_gone && self.proof.required_pages() > usable;
        let free = self.slots.iter().filter(|slot| slot.state == State::Free).count();
        let idle = |slot: &&Slot| matches!(slot.state, State::Quarantined { .. }) && slot.readers == 0 && !slot.written;
        let (idle, sore) = {
            let idle: Vec<_> = self.slots.iter().filter(idle).collect();
            let sore =
                idle.iter().filter(|slot| slot.state == State::Quarantined { sore: true } || slot.life >= LAST_LIFE);
            (idle.len(), sore.count())
        };
        match result {
            Ok(handles) => {
                assert!(!void && u64::from(n) <= self.proof.plan().max_request_tokens(), "C9: past the gate");
                assert_eq!(handles.len(), n as usize, "C8: all or none");
                for handle in &handles {
                    // A claim may have reset it on the way.
                    self.collect_one(handle.index());
                    let slot = self.slot(*handle);
                    assert_eq!((slot.state, slot.life), (State::Free, handle.generation().get()), "C2: not free");
                    slot.state = State::Live { owner: who, value: None, poisoned: false };
                }
                self.handles.extend(handles);
            }
            Err(SlotClaimError::Rejected(_)) => assert!(u64::from(n) > self.proof.plan().max_request_tokens()),
            Err(SlotClaimError::ProofVoid { .. }) => assert!(void),
            Err(SlotClaimError::Full { free_slots, .. }) => {
                // Slots that cannot be reset are found out on the way, and no longer count.
                assert!(free + idle - sore < n as usize, "C9: full is said, {free} free, {idle} idle, {n} asked for");
                assert!(free_slots < u64::from(n));
            }
            Err(other) => panic!("{other}"),
        }
        // The claim may have collected more than it was given, and retired some.
        self.learn_collected();
    }

    /// Takes over what a claim or `maintain` did to idle slots, as a late message sees it; each may only become what a
    /// reset makes of it, which `check` compares.
    fn learn_collected(&mut self) {
        for at in 0..SLOTS {
            let quarantined = matches!(self.slots[at as usize].state, State::Quarantined { .. });
            let Some(late) = self.handles.iter().rev().find(|handle| quarantined && handle.index() == at) else {
                continue;
            };
            match self.pool.check(owner(1), *late) {
                Err(SlotError::Stale { state: PageState::Quarantined, .. }) => {}
                Err(SlotError::Stale { .. }) => self.collect_one(at),
                other => panic!("C4: {other:?} for a slot that was released"),
            }
        }
    }

    fn collect_one(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        if let State::Quarantined { sore } = slot.state
            && slot.readers == 0
            && !slot.written
        {
            slot.state = if sore || slot.life >= LAST_LIFE { State::Retired } else { State::Free };
        }
    }

    /// The end of a life.
    fn leave(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let State::Live { value, .. } = slot.state else { panic!("not live") };
        slot.life += 1;
        slot.state = State::Quarantined { sore: value.is_some_and(|mark| mark.sore) };
        self.collect_one(at as u32);
    }

    /// Makes a panicking call, and marks the slot.
    fn panics(&mut self, handle: SlotHandle<Mark>, who: u64, wants: Wants) {
        let pool = self.pool;
        let spoil = |mark: &mut Mark| {
            mark.owner = 666;
            std::panic::panic_any("half done");
        };
        let result = catch_unwind(AssertUnwindSafe(|| match wants {
            Wants::Init => pool.init_with(owner(who), handle, spoil),
            _ => pool.with_mut(owner(who), handle, spoil),
        }));
        match (self.look(handle, who, wants), result) {
            (Found::Value(_) | Found::Blank, Err(_)) => {
                if let State::Live { poisoned, .. } = &mut self.slot(handle).state {
                    *poisoned = true;
                }
            }
            (expected, Ok(result)) => assert_eq!(result.map_err(|e| found(&e)), Err(expected), "C11"),
            (expected, Err(_)) => panic!("the closure ran, {expected:?} was expected"),
        }
    }

    fn run(&mut self, op: Op) {
        self.step += 1;
        let (pool, step) = (self.pool, self.step);
        match op {
            Op::ClaimOne(who) => {
                let result = pool.claim_one(&self.proof, owner(who)).map(|handle| vec![handle]);
                self.claim(who, 1, result);
            }
            Op::Claim(who, n) => {
                let group = pool.claim(&self.proof, owner(who), n);
                let result = group.map(|group| {
                    let handles = group.handles().to_vec();
                    self.groups.push(group);
                    handles
                });
                self.claim(who, n, result);
            }
            Op::Init(at, who, sore) => {
                let Some(handle) = self.pick(at) else { return };
                let mark = Mark { owner: who, step, sore };
                let expected = self.look(handle, who, Wants::Init);
                let result = pool.init_with(owner(who), handle, |value| std::mem::replace(value, mark));
                match result {
                    Ok(before) => {
                        assert_eq!((expected, before), (Found::Blank, Mark::default()), "C3: not blank");
                        if let State::Live { value, .. } = &mut self.slot(handle).state {
                            *value = Some(mark);
                        }
                    }
                    Err(error) => assert_eq!(found(&error), expected),
                }
            }
            Op::Read(at, who) => {
                let Some(handle) = self.pick(at) else { return };
                let seen = pool.with(owner(who), handle, |mark| Found::Value(*mark)).unwrap_or_else(|e| found(&e));
                assert_eq!(seen, self.look(handle, who, Wants::Read), "C4, C5");
                assert_eq!(pool.check(owner(who), handle).is_ok(), matches!(seen, Found::Value(_)));
            }
            Op::Change(at, who) => {
                let Some(handle) = self.pick(at) else { return };
                let expected = self.look(handle, who, Wants::Write);
                let change = |mark: &mut Mark| {
                    let before = *mark;
                    mark.step = step;
                    Found::Value(before)
                };
                let seen = pool.with_mut(owner(who), handle, change).unwrap_or_else(|e| found(&e));
                assert_eq!(seen, expected, "C12");
                if let (Found::Value(_), State::Live { value: Some(mark), .. }) = (seen, &mut self.slot(handle).state) {
                    mark.step = step;
                }
            }
            Op::PanicInChange(at, who) => {
                if let Some(handle) = self.pick(at) {
                    self.panics(handle, who, Wants::Write);
                }
            }
            Op::PanicInInit(at, who) => {
                if let Some(handle) = self.pick(at) {
                    self.panics(handle, who, Wants::Init);
                }
            }
            Op::KeepReading(at, who) => {
                let Some(handle) = self.pick(at) else { return };
                let expected = self.look(handle, who, Wants::Read);
                match (pool.read(owner(who), handle), expected) {
                    (Ok(guard), Found::Value(mark)) => {
                        self.guards.push((Guard::Read(guard), mark));
                        self.slot(handle).readers += 1;
                    }
                    (Err(error), _) => assert_eq!(found(&error), expected),
                    (Ok(_), _) => panic!("C4: read, {expected:?} was expected"),
                }
            }
            Op::KeepWriting(at, who) => {
                let Some(handle) = self.pick(at) else { return };
                let expected = self.look(handle, who, Wants::Write);
                match (pool.write(owner(who), handle), expected) {
                    (Ok(guard), Found::Value(mark)) => {
                        self.guards.push((Guard::Write(guard), mark));
                        self.slot(handle).written = true;
                    }
                    (Err(error), _) => assert_eq!(found(&error), expected),
                    (Ok(_), _) => panic!("C12: written, {expected:?} was expected"),
                }
            }
            Op::EndGuard(at) => {
                if self.guards.is_empty() {
                    return;
                }
                match self.guards.swap_remove(at % self.guards.len()).0 {
                    Guard::Read(guard) => self.slot(guard.handle()).readers -= 1,
                    Guard::Write(guard) => self.slot(guard.handle()).written = false,
                }
            }
            Op::ForgetGuard(at) => {
                if !self.guards.is_empty() {
                    std::mem::forget(self.guards.swap_remove(at % self.guards.len()));
                }
            }
            Op::Release(at, who) => {
                let Some(handle) = self.pick(at) else { return };
                let slot = self.slots[handle.index() as usize];
                let expected = match slot.state {
                    State::Live { owner, .. } if slot.life == handle.generation().get() => {
                        if owner == who {
                            None
                        } else {
                            Some(Found::Foreign)
                        }
                    }
                    _ => Some(Found::Stale),
                };
                let result = pool.release(owner(who), handle);
                assert_eq!(result.as_ref().err().map(found), expected, "C4");
                if result.is_ok() {
                    self.leave(handle.index() as usize);
                }
            }
            Op::ReleaseGroup(at) => {
                if self.groups.is_empty() {
                    return;
                }
                let group = self.groups.swap_remove(at % self.groups.len());
                let handles = group.handles().to_vec();
                let live = |world: &Self, handle: &SlotHandle<Mark>| {
                    let slot = &world.slots[handle.index() as usize];
                    slot.life == handle.generation().get() && matches!(slot.state, State::Live { .. })
                };
                let expected = handles.iter().filter(|handle| live(self, handle)).count() as u64;
                let released = group.release();
                assert_eq!((released.slots, released.stale_slots), (expected, handles.len() as u64 - expected));
                for handle in handles {
                    if live(self, &handle) {
                        self.leave(handle.index() as usize);
                    }
                }
            }
            Op::Dissolve(at) => {
                if !self.groups.is_empty() {
                    drop(self.groups.swap_remove(at % self.groups.len()).into_handles());
                }
            }
            Op::Reclaim(who) => {
                let mine = |slot: &Slot| matches!(slot.state, State::Live { owner, .. } if owner == who);
                let expected: Vec<usize> = (0..self.slots.len()).filter(|at| mine(&self.slots[*at])).collect();
                assert_eq!(pool.reclaim(owner(who)).slots, expected.len() as u64, "C2");
                expected.into_iter().for_each(|at| self.leave(at));
            }
            Op::Maintain(most) => {
                assert!(pool.maintain(most) <= most as u64);
                self.learn_collected();
            }
            Op::Walk(whose) => {
                let mut seen = Vec::new();
                let of = whose.map_or(Whose::All, |who| Whose::Owner(owner(who)));
                pool.for_each(of, |handle, mark| seen.push((handle.index(), *mark)));
                let expected = self.slots.iter().enumerate().filter_map(|(at, slot)| match slot.state {
                    State::Live { owner, value: Some(mark), poisoned: false }
                        if !slot.written && whose.is_none_or(|who| who == owner) =>
                    {
                        Some((at as u32, mark))
                    }
                    _ => None,
                });
                assert_eq!(seen, expected.collect::<Vec<_>>());
            }
            Op::ProveAgain(largest) => match pool.prove(CapacityPlan::new(largest)) {
                Ok(proof) => self.proof = proof,
                Err(_) => assert!(largest > self.usable(), "C9: it fits"),
            },
        }
    }

    fn check(&self) {
        let count = |is: fn(&Slot) -> bool| self.slots.iter().filter(|slot| is(slot)).count() as u64;
        let stats = self.pool.stats();
        let found =
            [stats.free_slots, stats.live_slots, stats.quarantined_slots, stats.cleaning_slots, stats.retired_slots];
        let expected = [
            count(|slot| slot.state == State::Free),
            count(|slot| matches!(slot.state, State::Live { .. })),
            count(|slot| matches!(slot.state, State::Quarantined { .. })),
            0,
            count(|slot| slot.state == State::Retired),
        ];
        assert_eq!(found, expected, "C1: free, live, quarantined, cleaning, retired");
        assert_eq!(stats.accessed_slots, count(|slot| slot.readers > 0 || slot.written), "C1");
        assert_eq!(self.pool.audit(), Ok(()), "C1");
        for (guard, mark) in &self.guards {
            let seen = match guard {
                Guard::Read(guard) => **guard,
                Guard::Write(guard) => **guard,
            };
            assert_eq!(seen, *mark, "C7: a guard shows another life");
        }
    }
}

fn run_all(ops: &[Op], magazines: u32) {
    let last = Generation::new(LAST_LIFE).unwrap();
    let config = SlotConfig::new(SLOTS).with_last_generation(last).with_magazines(magazines);
    let pool = SlotPool::resetting(config, Mark::default).unwrap();
    let proof = pool.prove(CapacityPlan::new(u64::from(LARGEST))).unwrap();
    let free = Slot { life: 1, state: State::Free, readers: 0, written: false };
    let mut world = World {
        pool: &pool,
        proof,
        slots: vec![free; SLOTS as usize],
        handles: Vec::new(),
        groups: Vec::new(),
        guards: Vec::new(),
        step: 0,
    };
    for op in ops {
        world.run(*op);
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // C1, C2, C3, C4, C5, C7, C8, C12
    #[test]
    fn any_sequence_of_calls_does_what_a_plain_table_of_slots_would(
        ops in prop::collection::vec(op(), 1..120), magazines in 1u32..4,
    ) {
        run_all(&ops, magazines);
    }
}
