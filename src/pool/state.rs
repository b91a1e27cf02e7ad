//! What the pool's one lock guards: the lists of pages, the counters, the registries.
//!
//! *Owns* every list a page can stand in, and the moves between them that need no memory. *Does not know* bytes.
//!
//! **Invariants** (checked by `audit`). A page stands in exactly one place: `free`, `dirty`, `fenced`, in the hand of a
//! thread that cleans it, `quarantined`, behind `steps`, `parked`, the lists of its holders, the cached pages of the index, or the engine's
//! own arrays (detached).
//! `promised <= free`. Every counter equals a full walk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;

use slotmap::SlotMap;

use crate::free_list::FreeList;
use crate::id::{Generation, OwnerId};
use crate::lease::Core;
use crate::memory::{CleanPage, Fence};
use crate::pool::claims::PageClaims;
use crate::pool::quota::Book;
use crate::pool::steps::Steps;
use crate::pool::waiting::Waiting;
use crate::prefix::Index;
use crate::sync::Ordering;
use crate::ticket::Ticket;
use crate::transfer::Transfer;

slotmap::new_key_type! {
    /// A record of a reservation. Records are reused, not removed, so that keys hardly ever age.
    pub(crate) struct RecordKey;
}

/// What a record stands for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Nobody's; its core waits in `idle`.
    Idle,
    /// An admission without pages.
    Admitted,
    /// A reservation.
    Reserved,
    /// Revoked; pages went back.
    Revoked,
    /// Revoked while borrowed; the last borrower hands the pages back.
    Zombie,
}

/// The pool's side of a reservation.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) core: Arc<Core>,
    pub(crate) owner: OwnerId,
    /// Free pages kept for its growth.
    pub(crate) promised: u64,
    pub(crate) status: Status,
    /// The handoff that it is one end of.
    pub(crate) transfer: Option<NonZeroU64>,
}

/// Pages whose zeroing was begun and ends behind a fence.
#[derive(Debug)]
pub(crate) struct Fenced {
    pub(crate) fence: Fence,
    pub(crate) pages: Vec<u32>,
}

/// Live pages whose zeroing still runs on the device, in front of the lane that uses them.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) fence: Fence,
    pub(crate) pages: Vec<u32>,
    pub(crate) core: Arc<Core>,
}

/// A life of a page that ended, whose owner's bytes are in the page still although it is in a later life: a lane took it
/// before its zeroing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Former {
    pub(crate) page: u32,
    pub(crate) owner: OwnerId,
    pub(crate) ended: Generation,
}

/// Events since the pool was made. They only rise.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Totals {
    pub(crate) admitted: u64,
    pub(crate) full: u64,
    pub(crate) rejected: u64,
    pub(crate) pages_issued: u64,
    pub(crate) pages_released: u64,
    pub(crate) pages_cleaned: u64,
    pub(crate) bytes_zeroed: u64,
    pub(crate) clean_errors: u64,
    pub(crate) poisoned: u64,
    pub(crate) late_tickets: u64,
    pub(crate) late_transfers: u64,
    pub(crate) trusted_ends: u64,
    pub(crate) proven_ends: u64,
    pub(crate) assumed_tokens: u64,
    pub(crate) pages_moved: u64,
    pub(crate) hit_pages: u64,
    pub(crate) evicted: u64,
    pub(crate) step_ends: u64,
    pub(crate) revoked_steps: u64,
    pub(crate) late_steps: u64,
    pub(crate) callback_panics: u64,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) free: FreeList,
    pub(crate) dirty: VecDeque<u32>,
    pub(crate) fenced: VecDeque<Fenced>,
    /// Live pages that a lane waits for; the host keeps off until their fence is done.
    pub(crate) pending: Vec<Pending>,
    /// Lives that ended and are not zeroed, in pages that a lane has.
    pub(crate) former: Vec<Former>,
    pub(crate) in_hand: u64,
    /// The pool's own pages are behind a fence, which somebody has to ask about.
    pub(crate) own_pages_pending: bool,
    pub(crate) quarantined: Vec<u32>,
    /// Open steps, and the pages that wait for them: quarantined ones too.
    pub(crate) steps: Steps,
    pub(crate) parked: Vec<u32>,
    /// Parked pages whose memory was not given back yet; a part of `parked`.
    pub(crate) parked_resident: Vec<u32>,
    pub(crate) live: u64,
    pub(crate) detached: u64,
    pub(crate) retired: u64,
    pub(crate) promised: u64,
    /// Pages that should be in circulation, the pool's own and retired ones included.
    pub(crate) target: u32,
    pub(crate) epoch: u64,
    pub(crate) suspended: bool,
    pub(crate) records: SlotMap<RecordKey, Record>,
    pub(crate) idle: Vec<Arc<Core>>,
    /// Open tickets by their numbers, which are never used twice.
    pub(crate) tickets: BTreeMap<NonZeroU64, Ticket>,
    pub(crate) next_ticket: NonZeroU64,
    /// Open handoffs by their numbers, which are never used twice.
    pub(crate) transfers: BTreeMap<NonZeroU64, Transfer>,
    pub(crate) next_transfer: NonZeroU64,
    /// Transfers of receivers, packed, and which of the open handoffs serves each.
    pub(crate) served: HashMap<u128, NonZeroU64>,
    /// Owners with a quota.
    pub(crate) quotas: HashMap<OwnerId, Book>,
    /// Published pages, and the order in which cached ones go.
    pub(crate) index: Index,
    pub(crate) claims: PageClaims,
    pub(crate) totals: Totals,
    /// Those who wait for room.
    pub(crate) waiting: Waiting,
    /// Scratch: pages announced by readers, while a release looks at them.
    pub(crate) announced: Vec<u32>,
    /// Scratch: pages that became cached in the release at hand.
    pub(crate) just_cached: Vec<u32>,
    /// Scratch: batches that come back after their cleaning, so that a release allocates nothing.
    pub(crate) batches: Vec<Vec<CleanPage>>,
}

impl State {
    pub(crate) fn new(target: u32, index: Index) -> Self {
        Self {
            free: FreeList::default(),
            dirty: VecDeque::new(),
            fenced: VecDeque::new(),
            pending: Vec::new(),
            former: Vec::new(),
            in_hand: 0,
            own_pages_pending: false,
            quarantined: Vec::new(),
            steps: Steps::new(),
            parked: Vec::new(),
            parked_resident: Vec::new(),
            live: 0,
            detached: 0,
            retired: 0,
            promised: 0,
            target,
            epoch: 1,
            suspended: false,
            records: SlotMap::with_key(),
            idle: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: NonZeroU64::MIN,
            transfers: BTreeMap::new(),
            next_transfer: NonZeroU64::MIN,
            served: HashMap::new(),
            quotas: HashMap::new(),
            index,
            claims: PageClaims::default(),
            totals: Totals::default(),
            waiting: Waiting::new(),
            announced: Vec::new(),
            just_cached: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Free pages that no promise holds.
    pub(crate) fn unpromised(&self) -> u64 {
        (self.free.len() as u64).saturating_sub(self.promised)
    }

    /// Pages that are being zeroed or wait for it.
    pub(crate) fn cleaning(&self) -> u64 {
        let fenced: u64 = self.fenced.iter().map(|f| f.pages.len() as u64).sum();
        self.dirty.len() as u64 + fenced + self.in_hand
    }

    /// Pages on their way back to `free`.
    pub(crate) fn coming(&self) -> u64 {
        self.cleaning() + self.in_quarantine()
    }

    /// Of these, pages that come without anybody's doing: behind cleaning and steps. Guards and tickets may never end.
    pub(crate) fn coming_surely(&self) -> u64 {
        self.cleaning() + self.steps.pages()
    }

    /// Takes a record for `owner`, a used one, else a new one, and promises it pages that are free.
    #[inline]
    pub(crate) fn open_record(&mut self, owner: OwnerId, status: Status, promised: u64) -> Arc<Core> {
        self.promised += promised;
        self.count_in(owner, promised);
        if let Some(core) = self.idle.pop()
            && let Some(record) = self.records.get_mut(core.key)
        {
            record.owner = owner;
            record.status = status;
            record.promised = promised;
            return core;
        }
        self.make_record(owner, status, promised)
    }

    #[cold]
    fn make_record(&mut self, owner: OwnerId, status: Status, promised: u64) -> Arc<Core> {
        let make = |key| Record { core: Arc::new(Core::new(key)), owner, promised, status, transfer: None };
        let key = self.records.insert_with_key(make);
        Arc::clone(&self.records[key].core)
    }

    /// Gives a record back after its pages went, and its promise. A core that grew large, was revoked, or that a forgotten
    /// guard or an open ticket still counts in is not kept.
    #[inline]
    pub(crate) fn close_record(&mut self, core: Arc<Core>) {
        const KEPT_PAGES: usize = 4096;
        self.end_transfer(core.key);
        let Some(record) = self.records.get_mut(core.key) else { return };
        let (owner, promised) = (record.owner, std::mem::take(&mut record.promised));
        record.status = Status::Idle;
        self.promised -= promised;
        self.count_out(owner, promised);
        let counted_in = core.header.borrows() > 0 || core.off_limits.load(Ordering::Acquire) > 0;
        if core.header.is_revoked() || counted_in || core.pages.has_room_past(KEPT_PAGES) {
            self.records.remove(core.key);
            return;
        }
        core.pages.truncate(0);
        core.exports.clear();
        self.idle.push(core);
    }
}
