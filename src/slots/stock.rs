//! The free slots: a central list, and a magazine for each thread that meets others there.
//!
//! *Owns* in which list a free slot stands, the lists' locks, and the two changes of a stamp that are made under them.
//! *Does not know* values, resets or the gate.
//!
//! **How it is fast.** Alone, a thread finds the central lock free and uses it: one lock, and the slot that came back last.
//! A thread that finds it taken turns to its magazine for some calls. Magazines are filled from the central list and
//! emptied into it in batches.
//!
//! **Invariants** (checked by `audit`). A slot whose stamp says `Free` stands in exactly one list, once; it enters and
//! leaves under that list's lock, and moves between lists under both. So who holds all locks sees every free slot, and
//! "full" is said only then. Locks are taken in one order: the central one, then magazines by their numbers.

use parking_lot::{Mutex, MutexGuard};

use super::lane::Lane;
use super::stamp::SlotStamp;
use crate::config::Placement;
use crate::free_list::FreeList;
use crate::id::{Generation, OwnerId};

/// Slots that move between a magazine and the central list at once.
const BATCH: usize = 16;
/// Slots in a magazine at the most.
const MOST: usize = 2 * BATCH;

/// A list of free slots, and what went through it.
#[derive(Default, Debug)]
pub(crate) struct Shelf {
    pub(crate) free: FreeList,
    /// Slots issued from it, and slots that came back to it; they only rise.
    pub(crate) issued: u64,
    pub(crate) returned: u64,
}

impl Shelf {
    /// Issues the slots that came back last, or none.
    #[inline]
    fn issue(
        &mut self,
        stamps: &[SlotStamp],
        owner: OwnerId,
        slots: usize,
        give: &mut impl FnMut(u32, Generation),
    ) -> bool {
        if self.free.len() < slots {
            return false;
        }
        for slot in self.free.top(slots).iter().rev() {
            give(*slot, stamps[*slot as usize].issue(owner));
        }
        self.free.drop_top(slots);
        self.issued += slots as u64;
        true
    }

    /// Makes slots in hand free.
    #[inline]
    fn put(&mut self, stamps: &[SlotStamp], slots: impl ExactSizeIterator<Item = u32>) {
        self.returned += slots.len() as u64;
        self.free.extend(slots.inspect(|slot| stamps[*slot as usize].free()));
    }

    fn move_to(&mut self, other: &mut Self, slots: usize) {
        let slots = slots.min(self.free.len());
        other.free.extend(self.free.top(slots).iter().copied());
        self.free.drop_top(slots);
    }
}

/// What the central lock guards.
#[derive(Default, Debug)]
pub(crate) struct Central {
    pub(crate) shelf: Shelf,
    /// Released slots that somebody was at.
    pub(crate) quarantined: Vec<u32>,
    /// Slots taken out of circulation.
    pub(crate) retired: u64,
}

/// A line of its own, and its neighbour, which the processor fetches with it.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// All lists of free slots.
#[derive(Debug)]
pub(crate) struct Stock {
    central: Apart<Mutex<Central>>,
    magazines: Box<[Apart<Mutex<Shelf>>]>,
}

/// Everything that stands in a list, while nobody can change it.
pub(crate) struct Stopped<'a> {
    pub(crate) central: MutexGuard<'a, Central>,
    pub(crate) magazines: Vec<MutexGuard<'a, Shelf>>,
}

impl Stock {
    /// Lists with room for `slots` slots, all of them free. Answers the bytes that could not be allocated.
    pub(crate) fn try_new(slots: u32, magazines: u32) -> Result<Self, usize> {
        let list =
            |slots: u32| FreeList::try_new(Placement::HotFirst, slots).map_err(|_| slots as usize * size_of::<u32>());
        let mut central = Central { shelf: Shelf { free: list(slots)?, ..Shelf::default() }, ..Central::default() };
        // Last in, first out: the lowest slot goes first.
        central.shelf.free.extend((0..slots).rev());
        let magazine = || list((MOST + BATCH) as u32).map(|free| Apart(Mutex::new(Shelf { free, ..Shelf::default() })));
        let magazines = (0..magazines).map(|_| magazine()).collect::<Result<_, _>>()?;
        Ok(Self { central: Apart(Mutex::new(central)), magazines })
    }

    /// The central lock.
    pub(crate) fn central(&self) -> MutexGuard<'_, Central> {
        self.central.0.lock()
    }

    fn magazine(&self, lane: &Lane) -> &Mutex<Shelf> {
        &self.magazines[lane.magazine(self.magazines.len())].0
    }

    /// Issues `slots` slots together, the cheap way. `false` when it found too few where it looked: others may be elsewhere.
    #[inline]
    pub(crate) fn issue(
        &self,
        stamps: &[SlotStamp],
        owner: OwnerId,
        slots: usize,
        lane: &Lane,
        mut give: impl FnMut(u32, Generation),
    ) -> bool {
        if !lane.keeps_off() {
            if let Some(mut central) = self.central.0.try_lock() {
                return central.shelf.issue(stamps, owner, slots, &mut give);
            }
            lane.met_another();
        }
        let magazine = self.magazine(lane);
        if magazine.lock().issue(stamps, owner, slots, &mut give) {
            return true;
        }
        let mut central = self.central();
        if slots > BATCH {
            return central.shelf.issue(stamps, owner, slots, &mut give);
        }
        let mut magazine = magazine.lock();
        central.shelf.move_to(&mut magazine, BATCH);
        magazine.issue(stamps, owner, slots, &mut give)
    }

    /// Issues `slots` slots, or none: then it says how many are free. Looks through every list before it says so.
    pub(crate) fn issue_last(
        &self,
        central: &mut MutexGuard<'_, Central>,
        stamps: &[SlotStamp],
        owner: OwnerId,
        slots: usize,
        mut give: impl FnMut(u32, Generation),
    ) -> Result<(), usize> {
        if central.shelf.free.len() < slots {
            self.gather(central);
        }
        let free = central.shelf.free.len();
        if central.shelf.issue(stamps, owner, slots, &mut give) { Ok(()) } else { Err(free) }
    }

    /// Brings all free slots to the central list.
    fn gather(&self, central: &mut Central) {
        // All at once: between two of them a slot could pass from the one not looked at to the one that was.
        let mut magazines: Vec<_> = self.magazines.iter().map(|magazine| magazine.0.lock()).collect();
        for magazine in &mut magazines {
            let all = magazine.free.len();
            magazine.move_to(&mut central.shelf, all);
        }
    }

    /// Makes slots in hand free.
    #[inline]
    pub(crate) fn put(&self, stamps: &[SlotStamp], slots: impl ExactSizeIterator<Item = u32>, lane: &Lane) {
        if !lane.keeps_off() {
            if let Some(mut central) = self.central.0.try_lock() {
                return central.shelf.put(stamps, slots);
            }
            lane.met_another();
        }
        let magazine = self.magazine(lane);
        let mut shelf = magazine.lock();
        if shelf.free.len() + slots.len() <= MOST {
            return shelf.put(stamps, slots);
        }
        drop(shelf);
        let mut central = self.central();
        if slots.len() > BATCH {
            return central.shelf.put(stamps, slots);
        }
        let mut shelf = magazine.lock();
        shelf.move_to(&mut central.shelf, BATCH);
        shelf.put(stamps, slots);
    }

    /// Takes every lock.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        let central = self.central();
        Stopped { central, magazines: self.magazines.iter().map(|magazine| magazine.0.lock()).collect() }
    }
}

impl Stopped<'_> {
    /// Every list of free slots.
    pub(crate) fn shelves(&self) -> impl Iterator<Item = &Shelf> {
        std::iter::once(&self.central.shelf).chain(self.magazines.iter().map(|magazine| &**magazine))
    }
}
