//! Tickets of processes that died: the kernel says that a holder has ended, nobody is believed, and time says nothing.
//!
//! With `PAGESTAMP_TEST_LEADERLESS` in its environment this program is a process whose first thread ends while another runs on.
#![expect(
    unsafe_code,
    reason = "ends tickets and names holders as an engine would, and asks the system about children"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::mem::MaybeUninit;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use pagestamp::*;

const LEADERLESS: &str = "PAGESTAMP_TEST_LEADERLESS";

/// The state of a thread of this process, as `ps` shows it.
fn state_of(thread: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Runs before `main`, on the first thread.
extern "C" fn leave_the_first_thread() {
    if std::env::var_os(LEADERLESS).is_none() {
        return;
    }
    std::thread::spawn(|| {
        while state_of(std::process::id()) != Some('Z') {
            std::thread::yield_now();
        }
        println!("first thread gone");
        loop {
            std::thread::park();
        }
    });
    // SAFETY: ends this thread and nothing else; no memory is touched.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once, on the first thread.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = leave_the_first_thread;

/// A child that runs until it is killed.
struct Holder(Child);

impl Holder {
    fn start() -> Self {
        Self(Command::new("sleep").arg("100000").spawn().unwrap())
    }

    fn start_leaderless() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let child = command.env(LEADERLESS, "1").stdout(Stdio::piped()).spawn().unwrap();
        let mut holder = Self(child);
        let mut said = String::new();
        BufReader::new(holder.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "first thread gone\n");
        holder
    }

    fn process(&self) -> HolderProcess {
        HolderProcess::of_child(&self.0).unwrap()
    }

    /// SIGKILL, then sleeps until the kernel has ended it. It stays a zombie.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        let mut unused = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the third argument has room for what the call stores there.
        let answer =
            unsafe { libc::waitid(libc::P_PID, self.0.id(), unused.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
        assert_eq!(answer, 0);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn alice() -> OwnerId {
    OwnerId::new(1).unwrap()
}

fn stage() -> (PagePool<HostMemory>, Reservation<HostMemory>) {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4)]).unwrap();
    let pool = PagePool::new(PoolConfig::new(8), HostMemory::new(geometry, 8).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(64)).unwrap();
    let mut kv = pool.reserve(&proof, Request::new(alice(), 64), 64).unwrap();
    kv.write(32, &[&[7; 128]]).unwrap();
    (pool, kv)
}

fn name<M: PageMemory>(pool: &PagePool<M>, ticket: TicketId, process: HolderProcess) -> Result<(), TicketError> {
    // SAFETY: (1) nobody reaches the pages under the tickets of these tests.
    unsafe { pool.name_holder(ticket, process) }
}

// C7
#[test]
fn pages_of_a_killed_writer_come_back_when_the_kernel_says_so_and_never_by_time() {
    let (pool, mut kv) = stage();
    let mut holder = Holder::start();
    let ticket = kv.pin_write(0..2, HolderId(3), Some(0)).unwrap();
    name(&pool, ticket, holder.process()).unwrap();
    let handle = kv.handle(0).unwrap();
    assert_eq!(kv.release().quarantined_pages, 2);
    let before = pool.stats();

    // Overdue for ever, asked again and again: the process lives, so nothing moves.
    assert_eq!(pool.overdue_tickets(u64::MAX).len(), 1);
    for _ in 0..3 {
        let process_id = holder.0.id();
        assert_eq!(pool.end_dead_holder(ticket), Err(TicketError::HolderAlive { ticket, process_id }));
        assert_eq!(pool.end_dead_holders(), 0);
        pool.maintain(8);
    }
    assert!(pool.ticket_is_open(ticket));
    assert_eq!(pool.stats(), before);

    // Dead, and the pool was not told: still nothing moves.
    holder.kill();
    pool.maintain(8);
    assert_eq!(pool.stats(), before);

    // A zombie that nobody waited for has ended.
    pool.end_dead_holder(ticket).unwrap();
    assert!(!pool.ticket_is_open(ticket));
    let ended = pool.stats();
    assert_eq!((ended.tickets, ended.quarantined_pages, ended.cleaning_pages), (0, 0, 2));
    assert_eq!((ended.proven_ticket_ends, ended.trusted_ticket_ends, ended.late_tickets), (1, 0, 0));
    assert_eq!(ended.free_pages, before.free_pages);
    pool.maintain(8);
    assert_eq!(pool.stats().free_pages, before.free_pages + 2);
    pool.audit_bytes(0..8).unwrap();
    assert!(matches!(pool.read(alice(), handle), Err(ReadError::Stale { .. })));
}

// C7, C12
#[test]
fn a_reservation_is_readable_again_when_its_dead_writers_have_been_ended() {
    let (pool, mut kv) = stage();
    let (mut one, other) = (Holder::start(), Holder::start());
    let dead: Vec<TicketId> = (0..2).map(|_| kv.pin_write(0..1, HolderId(1), None).unwrap()).collect();
    let alive = kv.pin_write(1..2, HolderId(2), None).unwrap();
    let process = one.process();
    dead.iter().for_each(|ticket| name(&pool, *ticket, process.clone()).unwrap());
    name(&pool, alive, other.process()).unwrap();
    let unnamed = kv.pin_write(3..4, HolderId(9), None).unwrap();
    let shown: Vec<_> = pool.tickets().iter().map(|ticket| ticket.process_id).collect();
    assert_eq!(shown, [Some(one.0.id()), Some(one.0.id()), Some(other.0.id()), None]);

    one.kill();
    assert!(matches!(kv.read(0..16), Err(ReadError::Busy { .. })));
    assert_eq!(pool.end_dead_holders(), 2);
    let mut bytes = [0; 64];
    kv.read(0..16).unwrap().copy(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 64]);
    assert!(matches!(kv.read(16..32), Err(ReadError::Busy { .. })));
    assert_eq!((pool.stats().proven_ticket_ends, pool.stats().tickets), (2, 2));
    assert!(pool.ticket_is_open(alive) && pool.ticket_is_open(unnamed));
    assert_eq!(pool.end_dead_holders(), 0);
}

// C7
#[test]
fn a_process_whose_first_thread_ended_is_alive_until_its_last_thread_has() {
    let (pool, mut kv) = stage();
    let mut holder = Holder::start_leaderless();
    let ticket = kv.pin_write(0..1, HolderId(3), None).unwrap();
    name(&pool, ticket, holder.process()).unwrap();
    assert!(!holder.process().has_ended());
    assert!(matches!(pool.end_dead_holder(ticket), Err(TicketError::HolderAlive { .. })));
    assert_eq!(pool.end_dead_holders(), 0);
    holder.kill();
    assert_eq!(pool.end_dead_holders(), 1);
}

// C7, C8
#[test]
fn an_end_that_cannot_be_proved_leaves_pool_unchanged() {
    let (pool, mut kv) = stage();
    let mut holder = Holder::start();
    let unnamed = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let named = kv.pin_read(1..2, HolderId(2), None).unwrap();
    name(&pool, named, holder.process()).unwrap();
    let before = pool.stats();
    assert_eq!(pool.end_dead_holder(unnamed), Err(TicketError::HolderUnnamed(unnamed)));
    let process_id = holder.0.id();
    let twice = TicketError::HolderNamed { ticket: named, process_id };
    assert_eq!(name(&pool, named, HolderProcess::of_pid(std::process::id()).unwrap()), Err(twice));
    assert_eq!(pool.stats(), before);
    // The first name stands.
    holder.kill();
    assert_eq!(pool.end_dead_holder(named), Ok(()));
    pool.audit().unwrap();
}

// C7, C8
#[test]
fn a_ticket_that_ended_or_is_of_another_pool_is_refused_and_counted() {
    let (pool, kv) = stage();
    let (other, mut theirs) = stage();
    let mut holder = Holder::start();
    let ticket = kv.pin_read(0..1, HolderId(1), None).unwrap();
    // The same number there: only the pool tells them apart.
    let foreign = theirs.pin_write(0..1, HolderId(1), None).unwrap();
    assert_eq!(foreign.sequence(), ticket.sequence());
    name(&pool, ticket, holder.process()).unwrap();
    holder.kill();
    assert_eq!(pool.end_dead_holder(foreign), Err(TicketError::Unknown(foreign)));
    assert_eq!(name(&pool, foreign, holder.process()), Err(TicketError::Unknown(foreign)));
    assert!(pool.ticket_is_open(ticket) && !pool.ticket_is_open(foreign) && other.ticket_is_open(foreign));
    assert_eq!(pool.end_dead_holder(ticket), Ok(()));
    assert_eq!(pool.end_dead_holder(ticket), Err(TicketError::AlreadyDone(ticket)));
    assert_eq!(name(&pool, ticket, holder.process()), Err(TicketError::AlreadyDone(ticket)));
    // SAFETY: (1) of `ticket_done`: nobody reached the page.
    assert_eq!(unsafe { pool.ticket_done(ticket) }, Err(TicketError::AlreadyDone(ticket)));
    let stats = pool.stats();
    assert_eq!((stats.proven_ticket_ends, stats.trusted_ticket_ends, stats.late_tickets), (1, 0, 5));
}

// C7, C11
#[test]
fn many_threads_that_end_one_dead_holder_end_it_once() {
    let (pool, mut kv) = stage();
    let mut holder = Holder::start();
    holder.kill();
    let rounds: u64 = 5_000;
    for _ in 0..rounds {
        let ticket = kv.pin_write(0..4, HolderId(1), None).unwrap();
        name(&pool, ticket, holder.process()).unwrap();
        let ready = AtomicU64::new(0);
        let together = || {
            ready.fetch_add(1, Ordering::Relaxed);
            while ready.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
        };
        let (one, two) = std::thread::scope(|s| {
            let one = s.spawn(|| {
                together();
                pool.end_dead_holders()
            });
            together();
            let two = pool.end_dead_holder(ticket);
            (one.join().unwrap(), two)
        });
        match two {
            Ok(()) => assert_eq!(one, 0),
            Err(error) => assert_eq!((one, error), (1, TicketError::AlreadyDone(ticket))),
        }
    }
    assert_eq!(pool.stats().proven_ticket_ends, rounds);
    pool.audit().unwrap();
}

// C7
#[test]
fn a_child_that_was_waited_for_is_not_named_and_its_first_name_says_that_it_ended() {
    let mut holder = Holder::start();
    let named = holder.process();
    holder.kill();
    assert!(named.has_ended() && holder.process().has_ended(), "a zombie still has its number");
    holder.0.wait().unwrap();
    let process_id = holder.0.id();
    assert_eq!(HolderProcess::of_child(&holder.0).map(drop), Err(ProcessError::NotThere { process_id }));
    assert!(named.has_ended());
}
