//! Owners on threads of their own reserve, write, read each other's handles, release and forget, while others reclaim,
//! resize and audit. Every token that anybody reads has to name the owner and the reservation that its handle was given
//! to, and to stay as it is for as long as the guard lives.
//!
//! `pagestamp-stress [rounds] [threads] [seed]`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use pagestamp::geometry::{PageGeometry, Plane};
use pagestamp::memory::HostMemory;
use pagestamp::{
    AdmitError, CapacityPlan, CapacityProof, CleanMode, HolderId, MoveError, OwnerId, PageHandle, PagePool, PoolConfig,
    ReadError, Request, Reservation, WriteError,
};
// Not the standard library's, whose slow path is not rebuilt for the thread sanitizer.
use parking_lot::Mutex;

const PAGE_TOKENS: u64 = 8;
/// A token: owner, serial number of the reservation; the second plane has two runs of one word.
const TOKEN_BYTES: usize = 16;
const PAGES: u32 = 48;
const LARGEST: u64 = 6 * PAGE_TOKENS;
/// Reservations that one run forgets for good.
const MOST_FORGOTTEN: u64 = 200;

type Handle = PageHandle<HostMemory>;

#[derive(Clone, Copy)]
struct Seen {
    owner: u64,
    serial: u64,
    handle: Handle,
}

struct Shared {
    pool: PagePool<HostMemory>,
    proof: CapacityProof,
    board: Mutex<Vec<Seen>>,
    serial: AtomicU64,
    forgotten: AtomicU64,
    reads: AtomicU64,
    stale: AtomicU64,
    moved: AtomicU64,
    over: AtomicBool,
}

/// xorshift64*: the same seed gives the same calls, if not the same interleaving.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }
}

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).expect("owners count from 1")
}

fn pattern(owner: u64, serial: u64, tokens: u64) -> Vec<u8> {
    let token = [owner.to_le_bytes(), serial.to_le_bytes()].concat();
    token.repeat(tokens as usize)
}

fn write(kv: &mut Reservation<HostMemory>, owner: u64, serial: u64, tokens: u64) {
    let bytes = pattern(owner, serial, tokens);
    match kv.write(tokens, &[&bytes, &bytes]) {
        Ok(()) | Err(WriteError::Revoked | WriteError::NoFreshPage { .. } | WriteError::Busy { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

impl Shared {
    /// Reads somebody's page by handle and checks every token, twice.
    fn read_one(&self, dice: &mut Dice) {
        let seen = {
            let board = self.board.lock();
            match board.len() {
                0 => return,
                len => board[dice.below(len as u64) as usize],
            }
        };
        let guard = match self.pool.read(owner(seen.owner), seen.handle) {
            Ok(guard) => guard,
            Err(ReadError::Stale { .. }) => {
                self.stale.fetch_add(1, Ordering::Relaxed);
                // Most of the board should be worth a read; some of the dead stay, to be refused for ever.
                if dice.below(8) > 0 {
                    self.board.lock().retain(|other| other.handle != seen.handle);
                }
                return;
            }
            Err(ReadError::Busy { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let tokens = u64::from(guard.written_tokens());
        let expected = pattern(seen.owner, seen.serial, tokens);
        for _ in 0..2 {
            assert_eq!(guard.run(0, 0).expect("plane 0"), expected, "another owner's bytes");
            thread::yield_now();
        }
        let mut copied = vec![0; expected.len()];
        guard.copy(1, &mut copied).expect("plane 1");
        assert_eq!(copied, expected, "another owner's bytes");
        let wrong = self.pool.read(owner(seen.owner + 1000), seen.handle);
        assert!(wrong.is_err(), "a stranger read the page");
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn publish(&self, owner: u64, serial: u64, kv: &Reservation<HostMemory>, dice: &mut Dice) {
        let mut board = self.board.lock();
        for handle in kv.handles() {
            let seen = Seen { owner, serial, handle };
            if board.len() < 256 {
                board.push(seen);
            } else {
                let at = dice.below(256) as usize;
                board[at] = seen;
            }
        }
    }

    /// `false` when there was no room.
    fn one_request(&self, id: u64, dice: &mut Dice) -> bool {
        let max = 1 + dice.below(LARGEST);
        let now = dice.below(max + 1);
        let mut kv = match self.pool.reserve(&self.proof, Request::new(owner(id), max), now) {
            Ok(kv) => kv,
            Err(AdmitError::Full { .. }) => {
                // What was forgotten comes back by nothing else.
                if dice.below(4) == 0 {
                    self.pool.reclaim(owner(id));
                }
                self.pool.maintain(4);
                thread::yield_now();
                return false;
            }
            Err(error) => panic!("{error}"),
        };
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let first = dice.below(now + 1);
        write(&mut kv, id, serial, first);
        self.publish(id, serial, &kv, dice);
        for _ in 0..dice.below(12) {
            if dice.below(9) == 0 {
                kv = self.move_on(id, serial, kv, dice);
            } else {
                self.step(id, serial, &mut kv, dice);
            }
        }
        match dice.below(10) {
            0..4 => drop(kv),
            4..8 => drop(kv.release()),
            8 => drop(kv.reject("stress")),
            _ if self.forgotten.fetch_add(1, Ordering::Relaxed) < MOST_FORGOTTEN => std::mem::forget(kv),
            _ => drop(kv),
        }
        true
    }

    /// Moves everything to other pages, if there is room, under the eyes of whoever reads the old ones.
    fn move_on(&self, id: u64, serial: u64, kv: Reservation<HostMemory>, dice: &mut Dice) -> Reservation<HostMemory> {
        let request = Request::new(owner(id), kv.max_tokens());
        let Ok(room) = self.pool.reserve(&self.proof, request, kv.reserved_tokens()) else { return kv };
        match kv.move_into(room) {
            Ok(kv) => {
                self.moved.fetch_add(1, Ordering::Relaxed);
                self.publish(id, serial, &kv, dice);
                kv
            }
            Err(refused) => {
                let ((kv, room), error) = refused.into_parts();
                let revoked =
                    matches!(error, MoveError::Read(ReadError::Revoked) | MoveError::Write(WriteError::Revoked));
                assert!(revoked, "{error}");
                assert_eq!(room.written_tokens(), 0);
                kv
            }
        }
    }

    fn step(&self, id: u64, serial: u64, kv: &mut Reservation<HostMemory>, dice: &mut Dice) {
        match dice.below(8) {
            0 => drop(kv.grow(kv.max_tokens().max(kv.reserved_tokens()))),
            1 => {
                let room = kv.reserved_tokens() - kv.written_tokens();
                write(kv, id, serial, dice.below(room + 1));
                self.publish(id, serial, kv, dice);
            }
            2 => {
                // Rolls back what readers may be on, and rewrites it.
                if kv.truncate(dice.below(kv.written_tokens() + 1)).is_ok() {
                    let room = kv.reserved_tokens() - kv.written_tokens();
                    write(kv, id, serial, dice.below(room + 1));
                    self.publish(id, serial, kv, dice);
                }
            }
            3 => {
                if let Ok(guard) = kv.read(0..kv.written_tokens()) {
                    let expected = pattern(id, serial, guard.tokens().end);
                    let mut copied = vec![0; expected.len()];
                    guard.copy(0, &mut copied).expect("plane 0");
                    assert_eq!(copied, expected, "own bytes");
                }
            }
            4 => {
                self.read_one(dice);
                if let Ok(ticket) = kv.pin_read(0..kv.pages(), HolderId(id), None) {
                    self.read_one(dice);
                    end(&self.pool, ticket);
                }
            }
            5 => {
                let room = kv.reserved_tokens() - kv.written_tokens();
                let tokens = dice.below(room + 1);
                let bytes = pattern(id, serial, tokens);
                if let Ok(mut writer) = kv.writer(tokens) {
                    writer.plane(1, &bytes).expect("plane 1");
                    if dice.below(3) > 0 {
                        writer.plane(0, &bytes).expect("plane 0");
                    }
                }
            }
            _ => (0..6).for_each(|_| self.read_one(dice)),
        }
    }

    /// Takes owners' pages away, changes the size, and audits.
    fn disturb(&self, owners: u64, dice: &mut Dice) {
        while !self.over.load(Ordering::Acquire) {
            match dice.below(12) {
                0 => drop(self.pool.reclaim(owner(1 + dice.below(owners)))),
                1 => drop(self.pool.erase(owner(1 + dice.below(owners)))),
                2 => drop(self.pool.resize(PAGES / 2 + dice.below(u64::from(PAGES / 2) + 1) as u32)),
                3 => drop(self.pool.maintain(8)),
                4 => self.pool.audit().expect("audit"),
                5 => {
                    let from = dice.below(u64::from(PAGES)) as u32;
                    self.pool.audit_bytes(from..from + 4).expect("audit of bytes");
                }
                _ => self.read_one(dice),
            }
            thread::yield_now();
        }
    }
}

fn end(pool: &PagePool<HostMemory>, ticket: pagestamp::TicketId) {
    // SAFETY: (1) the outside party is this thread, which reads by guard only.
    unsafe { pool.ticket_done(ticket) }.expect("an open ticket");
}

fn run(mode: CleanMode, rounds: u64, threads: u64, seed: u64) {
    let planes = [Plane::per_token(1, TOKEN_BYTES as u32), Plane::per_token(2, TOKEN_BYTES as u32 / 2)];
    let geometry = PageGeometry::new(PAGE_TOKENS as u32, &planes).expect("geometry");
    let memory = HostMemory::new(geometry, PAGES).expect("memory");
    let pool = PagePool::new(PoolConfig::new(PAGES).with_clean_mode(mode), memory).expect("pool");
    let proof = pool.prove(CapacityPlan::new(LARGEST)).expect("proof");
    let shared = Shared {
        pool,
        proof,
        board: Mutex::default(),
        serial: AtomicU64::new(1),
        forgotten: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        stale: AtomicU64::new(0),
        moved: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let scrubber = (mode == CleanMode::Later).then(|| shared.pool.start_scrubber().expect("scrubber"));
    thread::scope(|scope| {
        let disturber = scope.spawn(|| shared.disturb(threads, &mut Dice(seed ^ 0x9e37_79b9)));
        let worker = |id| {
            let shared = &shared;
            let mut dice = Dice(seed.wrapping_mul(id + 1) | 1);
            scope.spawn(move || {
                let mut given = 0;
                while given < rounds {
                    given += u64::from(shared.one_request(id, &mut dice));
                }
            })
        };
        let workers: Vec<_> = (1..=threads).map(worker).collect();
        let failed = workers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        shared.over.store(true, Ordering::Release);
        assert!(disturber.join().is_ok() && failed == 0, "{failed} owners failed");
    });
    drop(scrubber);
    shared.pool.clear();
    shared.pool.maintain(usize::MAX);
    shared.pool.audit().expect("audit");
    shared.pool.audit_bytes(0..PAGES).expect("audit of bytes");
    let stats = shared.pool.stats();
    assert_eq!((stats.live_pages, stats.quarantined_pages, stats.cleaning_pages, stats.promised_pages), (0, 0, 0, 0));
    let (reads, stale) = (shared.reads.load(Ordering::Relaxed), shared.stale.load(Ordering::Relaxed));
    let moved = shared.moved.load(Ordering::Relaxed);
    assert!(reads > rounds && stale > 0 && moved > 0, "{reads} reads, {stale} stale, {moved} moved: nothing was tried");
    println!(
        "{mode:?}: {} requests, {reads} reads checked, {stale} stale, {} moved, {} cleaned",
        stats.admitted, stats.moved_pages, stats.pages_cleaned
    );
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let rounds = numbers.next().unwrap_or(4000);
    let threads = numbers.next().unwrap_or(4);
    let seed = numbers.next().unwrap_or(0x5eed);
    println!("{rounds} rounds, {threads} threads, seed {seed}");
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        run(mode, rounds, threads, seed);
    }
}
