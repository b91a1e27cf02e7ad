//! The reference: what the contract says about a pool, in plain lists and counts, without a stamp, a lock or an atomic.
//!
//! It says *that* a page is free, not *which*: the machine tells it which pages it was given, and the model says whether
//! it could be. It says which pages have to be zeroed, and checks each `clean` that the memory saw against that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pagestamp::memory::Fence;
use pagestamp::{CleanMode, PageGeometry, PoolStats};

use crate::memory::Cleaned;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum St {
    /// Free or parked; how many are which is counted.
    Idle,
    Live,
    Quarantined,
    Dirty,
    Fenced,
    Retired,
    Own,
}

#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) generation: u64,
    pub(crate) st: St,
    pub(crate) owner: Option<u64>,
    pub(crate) written: u32,
    pub(crate) high: u32,
    pub(crate) whole: bool,
    pub(crate) holds: u32,
    pub(crate) writing: bool,
    pub(crate) borrowed: bool,
    pub(crate) pending: bool,
    pub(crate) detached: bool,
    /// the last step that was opened before it left; 0 when it waits for none
    pub(crate) step: u64,
    /// guards by handle, forgotten ones too
    pub(crate) readers: u32,
    pub(crate) bytes: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Admitted,
    Reserved,
    Ended,
}

#[derive(Clone, Debug)]
pub(crate) struct Rec {
    pub(crate) owner: u64,
    pub(crate) kind: Kind,
    pub(crate) pages: Vec<u32>,
    pub(crate) max: u64,
    pub(crate) reserved: u64,
    pub(crate) written: u64,
    pub(crate) committed: u64,
    pub(crate) promised: u64,
    pub(crate) revoked: bool,
    /// the pool still keeps a record of it
    pub(crate) counted: bool,
    pub(crate) borrows: u32,
    /// write tickets and lane fences that its reads have to look out for
    pub(crate) off: u32,
    pub(crate) claim: Option<u8>,
    /// steps that write it, and where the tokens of each end
    pub(crate) exports: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) pages: Vec<u32>,
    pub(crate) write: bool,
    pub(crate) rec: Option<usize>,
    /// Whether the process behind it has ended; `None` while none was named.
    pub(crate) dead: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Out,
    Kept(usize),
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) owner: u64,
    pub(crate) max: u64,
    pub(crate) tokens: u64,
    pub(crate) standing: Standing,
}

#[derive(Clone, Debug)]
struct Fenced {
    fence: Fence,
    pages: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    pub(crate) max_tokens: u64,
    pub(crate) required: u64,
    pub(crate) epoch: u64,
    pub(crate) usable: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) geometry: PageGeometry,
    pub(crate) has_bytes: bool,
    mode: CleanMode,
    last: u64,
    own: u64,
    pub(crate) pages: Vec<Page>,
    pub(crate) free: u64,
    pub(crate) parked: u64,
    pub(crate) target: u64,
    pub(crate) epoch: u64,
    pub(crate) suspended: bool,
    pub(crate) recs: Vec<Rec>,
    pub(crate) tickets: Vec<Option<Ticket>>,
    pub(crate) claims: BTreeMap<u8, Claim>,
    fenced: Vec<Fenced>,
    /// open steps, oldest first, and how many there were
    pub(crate) steps: Vec<u64>,
    pub(crate) opened: u64,
    /// page, owner and life whose bytes are in a page that a lane took before it was zero
    pub(crate) former: Vec<(u32, u64, u64)>,
    lanes: Vec<(Fence, Vec<u32>, usize)>,
    /// what each open fence zeroes when it is finished
    open: BTreeMap<Fence, Vec<(u32, u32)>>,
    failed: BTreeSet<Fence>,
    /// cleans that the memory saw during the call that is being modelled
    pub(crate) log: VecDeque<Cleaned>,
    pub(crate) totals: PoolStats,
}

/// A call's outcome: `Ok`, or the name of the error's variant.
pub(crate) type Outcome = Result<(), &'static str>;

impl Page {
    /// Why the host keeps off.
    fn off_limits(&self) -> Outcome {
        match (self.writing, self.pending, self.holds) {
            (true, ..) => Err("Busy"),
            (false, true, 0) => Err("CleaningFailed"),
            (false, true, _) => Err("Pending"),
            (false, false, _) => Ok(()),
        }
    }
}

impl Model {
    pub(crate) fn new(geometry: PageGeometry, has_bytes: bool, config: &pagestamp::PoolConfig, max_pages: u32) -> Self {
        let zero: Vec<Vec<u8>> = (0..geometry.planes().len())
            .map(|plane| vec![0; if has_bytes { geometry.page_bytes(plane).unwrap() as usize } else { 0 }])
            .collect();
        let own = config.own_page_count();
        let page = |index: u32| Page {
            generation: 1,
            st: if index < own { St::Own } else { St::Idle },
            owner: None,
            written: 0,
            high: 0,
            whole: false,
            holds: 0,
            writing: false,
            borrowed: false,
            pending: false,
            detached: false,
            step: 0,
            readers: 0,
            bytes: zero.clone(),
        };
        Self {
            has_bytes,
            mode: config.clean_mode(),
            last: config.last_generation().get(),
            own: u64::from(own),
            pages: (0..max_pages).map(page).collect(),
            free: u64::from(config.pages() - own),
            parked: u64::from(max_pages - config.pages()),
            target: u64::from(config.pages()),
            epoch: 1,
            suspended: false,
            recs: Vec::new(),
            tickets: Vec::new(),
            claims: BTreeMap::new(),
            fenced: Vec::new(),
            steps: Vec::new(),
            opened: 0,
            former: Vec::new(),
            lanes: Vec::new(),
            open: BTreeMap::new(),
            failed: BTreeSet::new(),
            log: VecDeque::new(),
            totals: PoolStats::default(),
            geometry,
        }
    }

    pub(crate) fn page(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    pub(crate) fn page_tokens(&self) -> u64 {
        u64::from(self.geometry.page_tokens())
    }

    pub(crate) fn count(&self, st: St) -> u64 {
        self.pages.iter().filter(|page| page.st == st).count() as u64
    }

    pub(crate) fn promised(&self) -> u64 {
        self.recs.iter().map(|rec| rec.promised).sum()
    }

    pub(crate) fn unpromised(&self) -> u64 {
        self.free - self.promised()
    }

    pub(crate) fn coming(&self) -> u64 {
        self.count(St::Dirty) + self.count(St::Fenced) + self.count(St::Quarantined)
    }

    pub(crate) fn circulating(&self) -> u64 {
        self.pages.len() as u64 - self.parked
    }

    fn crowded(&self) -> bool {
        self.circulating() > self.target
    }

    pub(crate) fn usable(&self) -> u64 {
        self.circulating().min(self.target).saturating_sub(self.own + self.count(St::Retired))
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let mut stats = self.totals;
        stats.free_pages = self.free;
        stats.live_pages = self.count(St::Live);
        stats.quarantined_pages = self.count(St::Quarantined);
        stats.cleaning_pages = self.count(St::Dirty) + self.count(St::Fenced);
        stats.parked_pages = self.parked;
        stats.retired_pages = self.count(St::Retired);
        stats.reserved_pages = self.own;
        stats.promised_pages = self.promised();
        stats.detached_pages = self.pages.iter().filter(|page| page.detached).count() as u64;
        stats.fenced_pages = self.count(St::Fenced) + self.lanes.iter().map(|lane| lane.1.len() as u64).sum::<u64>();
        stats.usable_pages = self.usable();
        stats.epoch = self.epoch;
        stats.reservations = self.recs.iter().filter(|rec| rec.counted).count() as u64;
        stats.steps = self.steps.len() as u64;
        stats.step_pages = self.pages.iter().filter(|it| it.step > 0).count() as u64;
        stats.tickets = self.tickets.iter().flatten().count() as u64;
        let pinned: BTreeSet<u32> = self.tickets.iter().flatten().flat_map(|ticket| &ticket.pages).copied().collect();
        stats.pinned_pages = pinned.len() as u64;
        assert_eq!(self.count(St::Idle), self.free + self.parked, "the model lost a page");
        stats
    }

    // ---- cleaning

    pub(crate) fn dirty_tokens(&self, page: u32) -> u32 {
        let page = &self.pages[page as usize];
        if page.whole { self.geometry.page_tokens() } else { page.high }
    }

    fn zero_prefix(&mut self, page: u32, tokens: u32) {
        if !self.has_bytes {
            return;
        }
        let geometry = self.geometry.clone();
        for (plane, shape) in geometry.planes().iter().enumerate() {
            for run in 0..shape.runs() {
                let begin = geometry.run_offset(plane, run, 0).unwrap() as usize;
                let len = tokens as usize * shape.run_bytes() as usize;
                self.page(page).bytes[plane][begin..begin + len].fill(0);
            }
        }
    }

    fn make_free(&mut self, page: u32) {
        let (crowded, last) = (self.crowded(), self.last);
        let it = self.page(page);
        let soiled = it.bytes.iter().flatten().any(|byte| *byte != 0);
        assert!(!soiled, "page {page} becomes free and is not zero: too little of it was cleaned");
        (it.owner, it.written, it.high, it.whole) = (None, 0, 0, false);
        self.former.retain(|former| former.0 != page);
        let it = self.page(page);
        if it.generation >= last {
            it.st = St::Retired;
            self.epoch += 1;
        } else {
            it.st = St::Idle;
            if crowded { self.parked += 1 } else { self.free += 1 }
        }
    }

    fn poison(&mut self, page: u32) {
        let it = self.page(page);
        (it.whole, it.st) = (true, St::Retired);
        self.totals.poisoned_pages += 1;
        self.epoch += 1;
    }

    /// One `clean` that the memory saw: `true` unless it was refused.
    fn cleaned(&mut self, seen: &Cleaned) -> bool {
        let mut bytes = 0;
        for clean in &seen.batch {
            let it = &self.pages[clean.page as usize];
            assert!(it.st == St::Dirty && it.holds == 0 && it.readers == 0 && !it.borrowed, "cleaned in use: {it:?}");
            assert_eq!(clean.tokens, self.dirty_tokens(clean.page), "page {}", clean.page);
            bytes += u64::from(clean.tokens) * self.geometry.token_bytes();
        }
        let Some(fence) = seen.fence else {
            self.totals.clean_errors += 1;
            return false;
        };
        self.totals.bytes_zeroed += bytes;
        if fence == Fence::DONE {
            self.totals.pages_cleaned += seen.batch.len() as u64;
            for clean in &seen.batch {
                self.zero_prefix(clean.page, clean.tokens);
                self.make_free(clean.page);
            }
        } else {
            seen.batch.iter().for_each(|clean| self.page(clean.page).st = St::Fenced);
            self.open.insert(fence, seen.batch.iter().map(|clean| (clean.page, clean.tokens)).collect());
            self.fenced.push(Fenced { fence, pages: seen.batch.iter().map(|clean| clean.page).collect() });
        }
        true
    }

    /// The next `clean` that the memory saw has to be of `pages` dirty pages.
    fn clean_some(&mut self, pages: u64) -> bool {
        let seen = self.log.pop_front().unwrap_or_else(|| panic!("{pages} pages should have been cleaned"));
        assert_eq!(seen.batch.len() as u64, pages);
        self.cleaned(&seen)
    }

    /// What a release sends to cleaning: at once as one batch each, or later.
    fn finish(&mut self, mut batches: Vec<BTreeSet<u32>>) {
        self.park_surplus();
        if self.mode == CleanMode::Later {
            return;
        }
        batches.retain(|batch| !batch.is_empty());
        while !batches.is_empty() {
            let seen = self.log.pop_front().unwrap_or_else(|| panic!("{batches:?} should have been cleaned"));
            let pages: BTreeSet<u32> = seen.batch.iter().map(|clean| clean.page).collect();
            let at = batches.iter().position(|batch| *batch == pages);
            batches.remove(at.unwrap_or_else(|| panic!("{pages:?} cleaned, {batches:?} left their owner")));
            self.cleaned(&seen);
        }
    }

    pub(crate) fn finish_fence(&mut self, fence: Fence) {
        for (page, tokens) in self.open.remove(&fence).unwrap() {
            self.zero_prefix(page, tokens);
        }
    }

    pub(crate) fn fail_fence(&mut self, fence: Fence) {
        self.open.remove(&fence).unwrap();
        self.failed.insert(fence);
    }

    pub(crate) fn poll_fences(&mut self) {
        for fenced in std::mem::take(&mut self.fenced) {
            if self.open.contains_key(&fenced.fence) {
                self.fenced.push(fenced);
            } else if self.failed.contains(&fenced.fence) {
                fenced.pages.iter().for_each(|page| self.poison(*page));
            } else {
                self.totals.pages_cleaned += fenced.pages.len() as u64;
                fenced.pages.iter().for_each(|page| self.make_free(*page));
            }
        }
        for (fence, pages, rec) in std::mem::take(&mut self.lanes) {
            if self.open.contains_key(&fence) {
                self.lanes.push((fence, pages, rec));
                continue;
            }
            let failed = self.failed.contains(&fence);
            self.former.retain(|former| failed || !pages.contains(&former.0));
            for page in pages {
                let it = self.page(page);
                it.holds -= 1;
                it.pending = failed && it.st == St::Live;
            }
            self.recs[rec].off -= u32::from(!failed);
        }
    }

    pub(crate) fn collect(&mut self) {
        for it in self.pages.iter_mut().filter(|it| it.st == St::Quarantined) {
            if it.holds == 0 && !it.borrowed && it.readers == 0 && it.step == 0 {
                it.st = St::Dirty;
            }
        }
    }

    pub(crate) fn park_surplus(&mut self) {
        let pages = self.circulating().saturating_sub(self.target).min(self.unpromised());
        self.free -= pages;
        self.parked += pages;
    }

    pub(crate) fn maintain(&mut self, pages: u64) -> u64 {
        self.poll_fences();
        self.collect();
        let begun = pages.min(self.count(St::Dirty));
        if begun > 0 {
            self.clean_some(begun);
        }
        begun
    }

    /// `false` when nothing more is to be had.
    fn gather(&mut self, needed: u64) -> bool {
        self.poll_fences();
        self.collect();
        if self.unpromised() >= needed {
            return true;
        }
        let missing = needed - self.unpromised();
        self.count(St::Dirty) >= missing && self.clean_some(missing)
    }

    // ---- the door

    fn gate(&mut self, proof: &Proof, max: u64) -> Outcome {
        if self.suspended {
            return Err("Suspended");
        }
        let usable = if proof.epoch == self.epoch { proof.usable } else { self.usable() };
        if max == 0 || max > proof.max_tokens {
            self.totals.rejected += 1;
            return Err("Rejected");
        }
        if proof.required > usable { Err("ProofVoid") } else { Ok(()) }
    }

    /// Room for `max` tokens: pages needed, and how many of the first `now` are behind fences.
    pub(crate) fn room(&mut self, proof: &Proof, max: u64, now: u64, lane: bool) -> Result<(u64, u64), &'static str> {
        let needed = self.geometry.pages_for_tokens(max);
        loop {
            self.gate(proof, max)?;
            if self.unpromised() >= needed {
                self.totals.admitted += 1;
                return Ok((needed, 0));
            }
            if self.gather(needed) {
                continue;
            }
            let missing = needed - self.unpromised();
            let last = self.last;
            let behind = self.pages.iter().filter(|it| it.st == St::Fenced && it.generation < last).count() as u64;
            if lane && missing <= now && behind >= missing {
                self.totals.admitted += 1;
                return Ok((needed, missing));
            }
            self.totals.full += 1;
            return Err("Full");
        }
    }

    pub(crate) fn open_rec(&mut self, owner: u64, kind: Kind, max: u64, promised: u64) -> usize {
        self.recs.push(Rec {
            owner,
            kind,
            pages: Vec::new(),
            max,
            reserved: 0,
            written: 0,
            committed: 0,
            promised,
            revoked: false,
            counted: true,
            borrows: 0,
            off: 0,
            claim: None,
            exports: Vec::new(),
        });
        self.recs.len() - 1
    }

    /// Pages that a reservation was given: free ones first, then `behind` ones that a lane waits for.
    pub(crate) fn given(&mut self, rec: usize, pages: &[u32], behind: u64) {
        let free = pages.len() as u64 - behind;
        let owner = self.recs[rec].owner;
        let mut former = Vec::new();
        for (at, page) in pages.iter().enumerate() {
            let last = self.last;
            let it = self.page(*page);
            assert!(it.generation < last, "page {page} should have retired");
            if (at as u64) < free {
                assert_eq!(it.st, St::Idle, "page {page} was given and is not free");
                assert_eq!((it.holds, it.readers, it.high, it.whole), (0, 0, 0, false), "page {page}");
            } else {
                assert_eq!(it.st, St::Fenced, "page {page} was given to a lane");
                former.extend(it.owner.map(|owner| (*page, owner, it.generation - 1)));
                (it.holds, it.pending, it.whole, it.high) = (1, true, true, 0);
            }
            (it.st, it.owner, it.written) = (St::Live, Some(owner), 0);
        }
        self.former.append(&mut former);
        self.free -= free;
        self.totals.pages_issued += pages.len() as u64;
        let mut lanes: BTreeMap<Fence, Vec<u32>> = BTreeMap::new();
        for page in &pages[free as usize..] {
            let fenced = self.fenced.iter_mut().find(|fenced| fenced.pages.contains(page)).unwrap();
            fenced.pages.retain(|other| other != page);
            lanes.entry(fenced.fence).or_default().push(*page);
        }
        self.fenced.retain(|fenced| !fenced.pages.is_empty());
        for (fence, pages) in lanes {
            self.recs[rec].off += 1;
            self.lanes.push((fence, pages, rec));
        }
        self.recs[rec].pages.extend(pages);
    }

    pub(crate) fn grow(&mut self, rec: usize, to: u64) -> Outcome {
        let it = &self.recs[rec];
        let (pages, has) = (self.geometry.pages_for_tokens(to), it.pages.len() as u64);
        if to < it.reserved {
            return Err("Backward");
        }
        loop {
            let it = &self.recs[rec];
            if it.revoked {
                return Err("Revoked");
            }
            if pages > self.usable().max(has) && pages > it.promised + has {
                return Err("NeverFits");
            }
            let missing = pages.saturating_sub(has);
            let beyond = missing.saturating_sub(it.promised);
            if self.unpromised() >= beyond {
                self.recs[rec].promised -= missing - beyond;
                self.recs[rec].reserved = to;
                return Ok(());
            }
            if !self.gather(beyond) {
                return Err("Full");
            }
        }
    }

    // ---- leaving

    fn let_go(&mut self, pages: &[u32], borrowed: bool) -> BTreeSet<u32> {
        let crowded = self.crowded();
        let (has_bytes, last) = (self.has_bytes, self.last);
        let step = if self.steps.is_empty() { 0 } else { self.opened };
        let mut batch = BTreeSet::new();
        for page in pages {
            let it = self.page(*page);
            assert_eq!(it.st, St::Live);
            it.generation += 1;
            (it.writing, it.detached, it.pending) = (false, false, false);
            let untouched = it.high == 0 && !it.whole;
            let quick = (!has_bytes || untouched) && !crowded && it.generation < last;
            if borrowed || step > 0 || it.holds > 0 || it.readers > 0 {
                it.st = St::Quarantined;
                (it.borrowed, it.step) = (borrowed, step);
                // What would have been free at once carries no name any more.
                if quick && !borrowed && step == 0 && it.holds == 0 {
                    (it.owner, it.written, it.high, it.whole) = (None, 0, 0, false);
                }
            } else if quick {
                (it.st, it.owner, it.written, it.high, it.whole) = (St::Idle, None, 0, 0, false);
                self.free += 1;
            } else {
                it.st = St::Dirty;
                batch.insert(*page);
            }
        }
        self.totals.pages_released += pages.len() as u64;
        batch
    }

    /// The value of a reservation or an admission ended; pages that left and pages quarantined.
    pub(crate) fn end(&mut self, rec: usize) -> (u64, u64, bool) {
        let it = &mut self.recs[rec];
        it.kind = Kind::Ended;
        it.promised = 0;
        if it.revoked {
            it.counted &= it.borrows > 0;
            return (0, 0, true);
        }
        let borrowed = it.borrows > 0;
        (it.revoked, it.counted) = (borrowed, borrowed);
        let pages = if borrowed { it.pages.clone() } else { std::mem::take(&mut it.pages) };
        let batch = self.let_go(&pages, borrowed);
        let quarantined = pages.iter().filter(|page| self.pages[**page as usize].st == St::Quarantined).count() as u64;
        self.finish(vec![batch]);
        (pages.len() as u64, quarantined, false)
    }

    pub(crate) fn end_borrow(&mut self, rec: usize) {
        let it = &mut self.recs[rec];
        it.borrows -= 1;
        if it.revoked && it.borrows == 0 {
            it.counted = false;
            for page in self.recs[rec].pages.clone() {
                self.page(page).borrowed = false;
            }
            self.collect();
        }
    }

    pub(crate) fn end_reader(&mut self, page: u32) {
        self.page(page).readers -= 1;
        if self.pages[page as usize].st == St::Quarantined {
            self.collect();
        }
    }

    /// Reclaims from one owner, or from everybody: revoked, pages, quarantined.
    pub(crate) fn reclaim(&mut self, owner: Option<u64>) -> (u64, u64, u64) {
        let released = self.totals.pages_released;
        let before = self.pages.clone();
        let any_detached = self.pages.iter().any(|it| it.detached);
        let mut batches = Vec::new();
        let mut revoked = 0;
        for rec in 0..self.recs.len() {
            let it = &mut self.recs[rec];
            let kept = self.claims.values().any(|claim| claim.standing == Standing::Kept(rec));
            let lives = it.kind != Kind::Ended || kept;
            if !lives || it.revoked || owner.is_some_and(|owner| owner != it.owner) {
                continue;
            }
            revoked += 1;
            (it.revoked, it.promised) = (true, 0);
            let borrowed = it.borrows > 0;
            let pages = if borrowed { it.pages.clone() } else { std::mem::take(&mut it.pages) };
            batches.push(self.let_go(&pages, borrowed));
        }
        let of_them = |it: &Page| it.detached && owner.is_none_or(|owner| it.owner == Some(owner));
        let detached: Vec<u32> =
            (0..self.pages.len() as u32).filter(|page| of_them(&self.pages[*page as usize])).collect();
        batches.push(self.let_go(&detached, false));
        let moved = |(now, before): (&Page, &Page)| now.st == St::Quarantined && before.st == St::Live;
        let quarantined = self.pages.iter().zip(&before).filter(|pair| moved(*pair)).count() as u64;
        if revoked > 0 || any_detached {
            self.finish(vec![batches.into_iter().flatten().collect()]);
        }
        (revoked, self.totals.pages_released - released, quarantined)
    }

    /// Pages that carry an owner's name, with the life that ended or ends.
    pub(crate) fn pages_of(&self, owner: u64) -> Vec<(u32, u64)> {
        let named = self.pages.iter().enumerate().filter(|(_, it)| it.owner == Some(owner));
        named.map(|(page, it)| (page as u32, it.generation - u64::from(it.st != St::Live))).collect()
    }

    pub(crate) fn clean_now(&mut self, pages: &[u32]) {
        self.poll_fences();
        self.collect();
        let mine = pages.iter().filter(|page| self.pages[**page as usize].st == St::Dirty).count() as u64;
        if mine > 0 {
            self.clean_some(mine);
        }
    }

    pub(crate) fn shrink(&mut self, rec: usize, to: u64) -> Outcome {
        let it = &self.recs[rec];
        if to > it.reserved {
            return Err("PastReserved");
        }
        if to < it.written {
            return Err("PastWritten");
        }
        self.not_exported(rec)?;
        if self.recs[rec].revoked {
            return Err("Revoked");
        }
        let keep = self.geometry.pages_for_tokens(to) as usize;
        let it = &mut self.recs[rec];
        (it.promised, it.reserved, it.max) = (0, to, to);
        if it.borrows > 0 {
            self.park_surplus();
            return Ok(());
        }
        let leaving = it.pages.split_off(keep);
        let batch = self.let_go(&leaving, false);
        self.finish(vec![batch]);
        Ok(())
    }

    pub(crate) fn detach(&mut self, rec: usize) -> Outcome {
        let it = &self.recs[rec];
        if it.revoked {
            return Err("Revoked");
        }
        let (borrowed, pages) = (it.borrows > 0, it.pages.clone());
        if pages.iter().any(|page| borrowed || self.pages[*page as usize].writing) {
            return Err("Busy");
        }
        for page in &pages {
            (self.page(*page).detached, self.page(*page).whole) = (true, true);
        }
        let it = &mut self.recs[rec];
        (it.promised, it.counted, it.kind) = (0, false, Kind::Ended);
        it.pages.clear();
        self.park_surplus();
        Ok(())
    }

    pub(crate) fn release_pages(&mut self, pages: &[u32]) {
        let batch = self.let_go(pages, false);
        self.finish(vec![batch]);
    }

    // ---- bytes

    pub(crate) fn ordinals(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        if from >= to { 0..0 } else { (from / self.page_tokens()) as usize..to.div_ceil(self.page_tokens()) as usize }
    }

    /// Refuses a change while open steps write a reservation; what steps that ended did not report is forgotten.
    pub(crate) fn not_exported(&mut self, rec: usize) -> Outcome {
        if self.recs[rec].exports.iter().any(|(step, _)| self.steps.contains(step)) {
            return Err("Exported");
        }
        self.recs[rec].exports.clear();
        Ok(())
    }

    /// Prepares a write; pages that move, by ordinal and first token, need `fresh` pages.
    pub(crate) fn prepare(&mut self, rec: usize, tokens: u64) -> Result<Vec<(usize, u32)>, &'static str> {
        self.not_exported(rec)?;
        let it = &self.recs[rec];
        if it.written.saturating_add(tokens) > it.reserved {
            return Err("PastReserved");
        }
        if it.revoked {
            return Err("Revoked");
        }
        self.prepare_at(rec, it.written, tokens, None)
    }

    /// As `prepare`, of tokens from `begin` on; for a step, behind one that writes already or not.
    fn prepare_at(
        &mut self,
        rec: usize,
        begin: u64,
        tokens: u64,
        chained: Option<bool>,
    ) -> Result<Vec<(usize, u32)>, &'static str> {
        let it = self.recs[rec].clone();
        let end = begin + tokens;
        if it.off > 0 {
            self.poll_fences();
        }
        let pt = self.page_tokens();
        // A write of no token still looks at the page it would begin in.
        let ordinals = (begin / pt) as usize..end.div_ceil(pt) as usize;
        let touched: Vec<(usize, u32)> = ordinals.filter_map(|at| Some((at, *it.pages.get(at)?))).collect();
        for (_, page) in &touched {
            let it = &self.pages[*page as usize];
            match it.off_limits() {
                Err("Pending") if chained.is_some() && it.high == 0 => {}
                off_limits => off_limits?,
            }
        }
        let from = |at: usize| begin.saturating_sub(at as u64 * pt) as u32;
        let moves = |it: &Self| -> Vec<(usize, u32)> {
            let moves = touched.iter().filter(|(at, page)| {
                let it = &it.pages[*page as usize];
                let settled = chained == Some(true) && from(*at) > 0;
                !settled && it.high > from(*at) && (it.holds > 0 || it.readers > 0)
            });
            moves.map(|(at, _)| (*at, from(*at))).collect()
        };
        let needed = moves(self).len() as u64;
        if needed > self.unpromised() {
            self.gather(needed);
        }
        let moves = moves(self);
        if moves.len() as u64 > self.unpromised() {
            return Err("NoFreshPage");
        }
        Ok(moves)
    }

    /// A page of a reservation moved to a fresh one, up to token `from`.
    pub(crate) fn moved(&mut self, rec: usize, ordinal: usize, from: u32, fresh: u32) {
        let old = self.recs[rec].pages[ordinal];
        self.given(rec, &[fresh], 0);
        self.recs[rec].pages.pop();
        self.recs[rec].pages[ordinal] = fresh;
        self.totals.moved_pages += 1;
        let bytes = self.pages[old as usize].bytes.clone();
        if self.has_bytes {
            let geometry = self.geometry.clone();
            for (plane, shape) in geometry.planes().iter().enumerate() {
                for run in 0..shape.runs() {
                    let begin = geometry.run_offset(plane, run, 0).unwrap() as usize;
                    let range = begin..begin + from as usize * shape.run_bytes() as usize;
                    self.page(fresh).bytes[plane][range.clone()].copy_from_slice(&bytes[plane][range]);
                }
            }
        }
        let it = self.page(fresh);
        (it.written, it.high) = (from, from);
        let batch = self.let_go(&[old], false);
        self.finish(vec![batch]);
    }

    // ---- steps

    /// Where the tokens of a reservation end that are written or pending.
    pub(crate) fn pending(&self, rec: usize) -> u64 {
        self.recs[rec].exports.last().map_or(self.recs[rec].written, |(_, to)| *to)
    }

    fn find_step(&mut self, step: u64) -> Outcome {
        if self.steps.contains(&step) {
            return Ok(());
        }
        self.totals.late_steps += 1;
        Err("Step")
    }

    /// Makes tokens pending; pages that move, as `prepare`.
    pub(crate) fn export(&mut self, rec: usize, step: u64, tokens: u64) -> Result<Vec<(usize, u32)>, &'static str> {
        if tokens == 0 {
            return Err("NoTokens");
        }
        if self.recs[rec].revoked {
            return Err("Write");
        }
        self.find_step(step)?;
        let exports = &self.recs[rec].exports;
        let over = exports.iter().filter(|(step, _)| !self.steps.contains(step)).count();
        if over == exports.len() {
            self.recs[rec].exports.clear();
        } else if over > 0 {
            return Err("Write");
        }
        let (begin, before) = (self.pending(rec), self.recs[rec].exports.clone());
        let writes_on = before.last().is_some_and(|last| last.0 == step);
        if before.len() == 4 && !writes_on {
            return Err("TooMany");
        }
        if begin.saturating_add(tokens) > self.recs[rec].reserved {
            return Err("Write");
        }
        let moves = self.prepare_at(rec, begin, tokens, Some(!before.is_empty())).map_err(|_| "Write")?;
        if writes_on {
            self.recs[rec].exports.pop();
        }
        self.recs[rec].exports.push((step, begin + tokens));
        Ok(moves)
    }

    /// After `export`: all of the pages concerned may be written.
    pub(crate) fn exported(&mut self, rec: usize, from: u64, to: u64) {
        let pt = self.page_tokens();
        for at in self.ordinals(from, to) {
            let page = self.recs[rec].pages[at];
            let high = (to - at as u64 * pt).min(pt) as u32;
            let it = self.page(page);
            (it.high, it.whole) = (high.max(it.high), true);
        }
    }

    pub(crate) fn wrote(&mut self, rec: usize, step: u64) -> Outcome {
        if self.recs[rec].revoked {
            return Err("Write");
        }
        self.find_step(step)?;
        let exports = self.recs[rec].exports.clone();
        let Some((first, to)) = exports.first().copied().filter(|_| exports.iter().any(|(its, _)| *its == step)) else {
            return Err("NotExported");
        };
        if first != step {
            return Err(if self.steps.contains(&first) { "NotFirst" } else { "Step" });
        }
        assert!(!self.any_writing(rec, self.recs[rec].written, to), "two writers");
        self.recs[rec].exports.remove(0);
        self.totals.assumed_tokens += to - self.recs[rec].written;
        self.set_written(rec, to, true);
        Ok(())
    }

    pub(crate) fn aborted(&mut self, rec: usize, step: u64) -> Outcome {
        if self.recs[rec].revoked {
            return Err("Write");
        }
        self.find_step(step)?;
        let at = self.recs[rec].exports.iter().position(|(its, _)| *its == step).ok_or("NotExported")?;
        self.recs[rec].exports.truncate(at);
        Ok(())
    }

    /// Ends a step; pages that wait for none any more, pages of these that something else holds, pages that wait still.
    pub(crate) fn end_step(&mut self, step: u64, revoked: bool) -> Result<(u64, u64, u64), &'static str> {
        self.find_step(step)?;
        self.steps.retain(|open| *open != step);
        *(if revoked { &mut self.totals.revoked_steps } else { &mut self.totals.trusted_step_ends }) += 1;
        let oldest = self.steps.first().copied().unwrap_or(u64::MAX);
        let (mut passed, mut held, mut batch) = (0, 0, BTreeSet::new());
        for page in 0..self.pages.len() as u32 {
            let it = self.page(page);
            if it.step == 0 || it.step >= oldest {
                continue;
            }
            assert_eq!(it.st, St::Quarantined);
            (passed, it.step) = (passed + 1, 0);
            if it.holds > 0 || it.borrowed || it.readers > 0 {
                held += 1;
            } else {
                it.st = St::Dirty;
                batch.insert(page);
            }
        }
        self.finish(vec![batch]);
        Ok((passed, held, self.pages.iter().filter(|it| it.step > 0).count() as u64))
    }

    /// What `open_steps` shows of a step: waiting pages, exports.
    pub(crate) fn shown(&self, step: u64) -> (u64, u64) {
        let waiting = self.pages.iter().filter(|it| it.step >= step).count() as u64;
        let writes = |rec: &&Rec| rec.counted && rec.exports.iter().any(|(its, _)| *its == step);
        (waiting, self.recs.iter().filter(writes).count() as u64)
    }

    /// Whether an admission for so many pages would find them.
    pub(crate) fn has_room(&self, pages: u64) -> bool {
        self.unpromised() + self.count(St::Dirty) >= pages
    }

    /// After `prepare`: notes what will be written.
    pub(crate) fn prepared(&mut self, rec: usize, tokens: u64) {
        let (pt, begin) = (self.page_tokens(), self.recs[rec].written);
        let end = begin + tokens;
        for at in (begin / pt) as usize..end.div_ceil(pt) as usize {
            let Some(page) = self.recs[rec].pages.get(at).copied() else { continue };
            let high = (end - at as u64 * pt).min(pt) as u32;
            self.page(page).high = high.max(self.page(page).high);
        }
    }

    /// Stores one plane of tokens. src: token by token.
    pub(crate) fn store(&mut self, rec: usize, from: u64, to: u64, plane: usize, src: &[u8]) {
        if !self.has_bytes {
            return;
        }
        let geometry = self.geometry.clone();
        let shape = geometry.planes()[plane];
        let run_bytes = shape.run_bytes() as usize;
        let mut src = src.chunks(run_bytes);
        for token in from..to {
            let (at, in_page) = geometry.locate_token(token);
            let page = self.recs[rec].pages[at as usize];
            for run in 0..shape.runs() {
                let begin = geometry.run_offset(plane, run, in_page).unwrap() as usize;
                self.page(page).bytes[plane][begin..begin + run_bytes].copy_from_slice(src.next().unwrap());
            }
        }
    }

    /// Bytes of some tokens of one page, token by token.
    pub(crate) fn load(&self, page: u32, from: u32, to: u32, plane: usize) -> Vec<u8> {
        let shape = self.geometry.planes()[plane];
        let mut out = Vec::new();
        for token in from..to {
            for run in 0..shape.runs() {
                let begin = self.geometry.run_offset(plane, run, token).unwrap() as usize;
                out.extend(&self.pages[page as usize].bytes[plane][begin..begin + shape.run_bytes() as usize]);
            }
        }
        out
    }

    pub(crate) fn load_rec(&self, rec: usize, from: u64, to: u64, plane: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for at in self.ordinals(from, to) {
            let first = at as u64 * self.page_tokens();
            let (begin, end) = (from.saturating_sub(first) as u32, (to - first).min(self.page_tokens()) as u32);
            out.extend(self.load(self.recs[rec].pages[at], begin, end, plane));
        }
        out
    }

    /// Moves the written extent; forward it is taken on trust or stored, backward rolled back.
    pub(crate) fn set_written(&mut self, rec: usize, to: u64, trusted: bool) {
        let now = self.recs[rec].written;
        for at in self.ordinals(now.min(to), now.max(to)) {
            let page = self.recs[rec].pages[at];
            let written = to.saturating_sub(at as u64 * self.page_tokens()).min(self.page_tokens()) as u32;
            let it = self.page(page);
            it.written = written;
            it.high = it.high.max(written);
            it.whole |= trusted;
        }
        let it = &mut self.recs[rec];
        it.written = to;
        it.committed = it.committed.min(to);
    }

    pub(crate) fn any_writing(&self, rec: usize, from: u64, to: u64) -> bool {
        let pages = &self.recs[rec].pages;
        self.ordinals(from, to).filter_map(|at| pages.get(at)).any(|page| self.pages[*page as usize].writing)
    }

    pub(crate) fn read(&mut self, rec: usize, from: u64, to: u64) -> Outcome {
        let it = &self.recs[rec];
        if to > it.written {
            return Err("Unwritten");
        }
        if from > to {
            return Err("Backward");
        }
        if it.revoked {
            return Err("Revoked");
        }
        if it.off == 0 || from == to {
            return Ok(());
        }
        self.poll_fences();
        for at in self.ordinals(from, to) {
            self.pages[self.recs[rec].pages[at] as usize].off_limits()?;
        }
        Ok(())
    }

    /// A read by handle of a page in a life.
    pub(crate) fn read_page(&mut self, page: u32, generation: u64, owner: u64) -> Outcome {
        for again in [false, true] {
            let it = &self.pages[page as usize];
            if it.st != St::Live || it.generation != generation {
                return Err("Stale");
            }
            match it.off_limits() {
                Err("Pending") if !again => {
                    self.poll_fences();
                    continue;
                }
                off_limits => off_limits?,
            }
            return if it.owner == Some(owner) { Ok(()) } else { Err("ForeignOwner") };
        }
        Ok(())
    }

    // ---- tickets

    /// Whoever pins looks at fences first, if a lane waits for any.
    pub(crate) fn poll_for_pin(&mut self) {
        if !self.lanes.is_empty() {
            self.poll_fences();
        }
    }

    pub(crate) fn pin(&mut self, rec: usize, ordinals: std::ops::Range<u32>, write: bool) -> Outcome {
        if write && self.not_exported(rec).is_err() {
            let pt = self.page_tokens();
            let first = (self.recs[rec].written / pt).max(u64::from(ordinals.start));
            let end = self.pending(rec).div_ceil(pt).min(u64::from(ordinals.end));
            if first < end && self.recs[rec].pages.len() as u64 > first {
                return Err("Busy");
            }
        }
        if ordinals.is_empty() {
            return Err("Empty");
        }
        if self.recs[rec].revoked {
            return Err("Revoked");
        }
        let Some(pages) = self.recs[rec].pages.get(ordinals.start as usize..ordinals.end as usize) else {
            return Err("OutOfRange");
        };
        let pages = pages.to_vec();
        self.poll_for_pin();
        for page in &pages {
            let it = &self.pages[*page as usize];
            match it.off_limits() {
                Ok(()) if write && it.holds > 0 => return Err("Busy"),
                Err("Busy") if write => {}
                off_limits => off_limits?,
            }
            if !write && it.written == 0 {
                return Err("Unwritten");
            }
        }
        if write && pages.iter().any(|page| self.pages[*page as usize].readers > 0) {
            return Err("Busy");
        }
        for page in &pages {
            let it = self.page(*page);
            it.holds += 1;
            if write {
                (it.writing, it.whole) = (true, true);
            }
        }
        self.recs[rec].off += u32::from(write);
        self.tickets.push(Some(Ticket { pages, write, rec: write.then_some(rec), dead: None }));
        Ok(())
    }

    pub(crate) fn end_ticket(&mut self, at: usize) -> Outcome {
        let Some(ticket) = self.tickets[at].take() else {
            self.totals.late_tickets += 1;
            return Err("AlreadyDone");
        };
        self.totals.trusted_ticket_ends += 1;
        self.close_ticket(ticket);
        self.collect();
        Ok(())
    }

    fn close_ticket(&mut self, ticket: Ticket) {
        for page in ticket.pages {
            let it = self.page(page);
            it.holds -= 1;
            it.writing &= it.holds > 0;
        }
        if let Some(rec) = ticket.rec {
            self.recs[rec].off -= 1;
        }
    }

    pub(crate) fn name_holder(&mut self, at: usize, dead: bool) -> Outcome {
        let Some(ticket) = &mut self.tickets[at] else {
            self.totals.late_tickets += 1;
            return Err("AlreadyDone");
        };
        match ticket.dead.replace(dead) {
            None => Ok(()),
            named => {
                ticket.dead = named;
                Err("HolderNamed")
            }
        }
    }

    pub(crate) fn end_dead(&mut self, at: usize) -> Outcome {
        let Some(ticket) = &self.tickets[at] else {
            self.totals.late_tickets += 1;
            return Err("AlreadyDone");
        };
        match ticket.dead {
            None => Err("HolderUnnamed"),
            Some(false) => Err("HolderAlive"),
            Some(true) => {
                self.end_proven(&[at]);
                Ok(())
            }
        }
    }

    pub(crate) fn end_all_dead(&mut self) -> u64 {
        let is_dead = |ticket: &Option<Ticket>| ticket.as_ref().is_some_and(|ticket| ticket.dead == Some(true));
        let dead: Vec<usize> = (0..self.tickets.len()).filter(|&at| is_dead(&self.tickets[at])).collect();
        if !dead.is_empty() {
            self.end_proven(&dead);
        }
        dead.len() as u64
    }

    fn end_proven(&mut self, dead: &[usize]) {
        self.totals.proven_ticket_ends += dead.len() as u64;
        for &at in dead {
            let ticket = self.tickets[at].take().unwrap();
            self.close_ticket(ticket);
        }
        self.collect();
    }

    // ---- claims

    /// What asking under a claim gives: `Ok(None)` when nobody asked before.
    pub(crate) fn claimed(&mut self, id: u8, owner: u64, max: u64, tokens: u64) -> Result<Option<usize>, &'static str> {
        let Some(claim) = self.claims.get(&id).copied() else { return Ok(None) };
        let same = (claim.owner, claim.max, claim.tokens) == (owner, max, tokens);
        match claim.standing {
            Standing::Kept(rec) if same => {
                let revoked = self.recs[rec].revoked;
                self.claims.get_mut(&id).unwrap().standing = if revoked { Standing::Ended } else { Standing::Out };
                if revoked {
                    self.end(rec);
                    return Err("Claim");
                }
                self.recs[rec].kind = Kind::Reserved;
                Ok(Some(rec))
            }
            _ => Err("Claim"),
        }
    }

    pub(crate) fn end_claim(&mut self, rec: usize) {
        if let Some(id) = self.recs[rec].claim.take() {
            self.claims.get_mut(&id).unwrap().standing = Standing::Ended;
        }
    }

    /// The value was dropped: `true` when its claim keeps the pages.
    pub(crate) fn keeps(&mut self, rec: usize) -> bool {
        let Some(id) = self.recs[rec].claim else { return false };
        let keeps = !self.recs[rec].revoked;
        self.claims.get_mut(&id).unwrap().standing = if keeps { Standing::Kept(rec) } else { Standing::Ended };
        if keeps {
            self.recs[rec].kind = Kind::Ended;
        } else {
            self.recs[rec].claim = None;
        }
        keeps
    }
}
