//! The same through pagestamp: the same reader, the same wrong tables, over pages that carry a generation and an owner.
#![expect(unsafe_code, reason = "writes and reads pages of the device by their addresses, as an engine does")]

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, Driver, GuardFault, GuardReason, GuardTable};
use pagestamp::{CapacityPlan, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, Reservation};

use crate::Failure;
use crate::engine::Engine;
use crate::prompt::{Answer, HEAD, PAGE_TOKENS, PAGES, Prompt, TOKENS};
use crate::reader::{MAX_ROWS, Planes, Reader};

/// The tenants' owner ids.
const ALICE: u64 = 1;
const BOB: u64 = 2;
/// Pages of the pool: two of its own, eight for a prompt, one more.
const POOL_PAGES: u32 = PAGES as u32 + 3;

/// What came out.
#[derive(Debug)]
pub(crate) struct Pooled {
    /// Attention over Bob's own page and zeros: what he may see.
    pub(crate) own: Answer,
    /// The host's answer to a table over tokens that were not written.
    pub(crate) refused: String,
    /// The flow of the plain list, unchecked.
    pub(crate) cleaned: Answer,
    /// A table that names pages of Alice's, unchecked: Bob's row, and hers.
    pub(crate) unchecked: [Answer; MAX_ROWS],
    /// The same table behind the guard.
    pub(crate) guarded: [Answer; MAX_ROWS],
    pub(crate) flagged: Vec<u32>,
    pub(crate) fault: Option<GuardFault>,
    /// What the audit said; `None` if all is well.
    pub(crate) audit: Option<String>,
}

impl Pooled {
    /// The row of the tenant whose table is wrong.
    pub(crate) const BOB: usize = 0;
    const ALICE: usize = 1;

    /// Whether the guard left Bob nothing but his own page and zeros.
    pub(crate) fn is_confined(&self) -> bool {
        self.guarded[Self::BOB] == self.own
    }

    /// Whether the guard changed nothing for Alice, who reads her own prompt.
    pub(crate) fn is_honest_row_intact(&self) -> bool {
        let [before, after] = [&self.unchecked, &self.guarded].map(|answers| &answers[Self::ALICE]);
        before == after && after.leaks()
    }

    /// Whether the verdict is right: from its second entry on, Bob's row names pages that left him, and are Alice's now.
    pub(crate) fn is_fault_right(&self) -> bool {
        self.fault.is_some_and(|fault| {
            fault.reason == GuardReason::Released
                && (fault.row, fault.index, fault.faults) == (Self::BOB as u32, 1, PAGES as u64 - 1)
                && (fault.expected_owner, fault.found_owner) == (OwnerId::new(BOB), OwnerId::new(ALICE))
        })
    }
}

pub(crate) fn run(
    driver: &Driver,
    engine: &Engine,
    reader: &Reader<'_>,
    alice: &Prompt,
    bob: &Prompt,
) -> Result<Pooled, Failure> {
    let token_bytes = (HEAD * size_of::<f32>()) as u32;
    let geometry = PageGeometry::new(PAGE_TOKENS as u32, &[Plane::per_token(1, token_bytes); 2])?;
    let memory = CudaMemory::new(driver, 0, geometry, POOL_PAGES)?;
    let (Some(k), Some(v)) = (memory.plane_address(0), memory.plane_address(1)) else {
        return Err("a pool without K and V".into());
    };
    // SAFETY: (1) the engine outlives the pool. (2) its copies and kernels run on this stream alone.
    let lane = unsafe { memory.add_lane(engine.stream() as u64) }?;
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory)?;
    // The engine writes by addresses: from now on every page counts as written.
    // SAFETY: (1) `write` goes to pages of a reservation, past what is written, and waits. (2) none is called.
    let _ = unsafe { pool.expose() };
    settle(&pool)?;
    let scene = Scene { pool, planes: Planes { k, v }, lane, reader };
    let pooled = scene.play(alice, bob)?;
    settle(&scene.pool)?;
    Ok(Pooled { audit: scene.audit(), ..pooled })
}

struct Scene<'s, 'e> {
    pool: PagePool<CudaMemory>,
    planes: Planes,
    lane: Lane,
    reader: &'s Reader<'e>,
}

impl Scene<'_, '_> {
    fn play(&self, alice: &Prompt, bob: &Prompt) -> Result<Pooled, Failure> {
        let null_page = self.pool.null_page().ok_or("a pool without a null page")?;

        // The flow of the plain list: Alice's pages go back, and come to Bob, of whose eight pages one is transferred.
        let mut hers = self.reserve(ALICE)?;
        self.write(&mut hers, alice, PAGES)?;
        hers.release();
        settle(&self.pool)?;
        let mut his = self.reserve(BOB)?;
        self.write(&mut his, bob, 1)?;
        let mut guard = GuardTable::new(&self.pool, MAX_ROWS as u32, (MAX_ROWS * PAGES) as u32)?;
        let refused = match guard.push(&his, TOKENS as u64) {
            Ok(_) => return Err("the host took tokens into a table that nobody wrote".into()),
            Err(error) => error.to_string(),
        };
        // Prefill says that all eight have come, and the engine believes it.
        his.assume_written(TOKENS as u64)?;
        let row = pages(&his)?;
        let [cleaned] = self.attend([row])?;
        let mut own = [null_page; PAGES];
        own[0] = row[0];
        let [own] = self.attend([own])?;

        // Bob's row is in the next batch. Then the truth comes out, and his request is cut to the page that came; the other
        // seven leave him, and Alice's next prompt gets them. The engine's table is as it was.
        guard.push(&his, TOKENS as u64)?;
        his.truncate(PAGE_TOKENS as u64)?;
        his.shrink(PAGE_TOKENS as u64)?;
        settle(&self.pool)?;
        let mut hers = self.reserve(ALICE)?;
        self.write(&mut hers, alice, PAGES)?;
        guard.push(&hers, TOKENS as u64)?;
        let rows = [row, pages(&hers)?];
        let unchecked = self.attend(rows)?;
        let guarded = self.attend_checked(rows, &mut guard)?;
        let verdict = guard.verdict()?;
        let (flagged, fault) = (verdict.flagged().collect(), verdict.fault());
        Ok(Pooled { own, refused, cleaned, unchecked, guarded, flagged, fault, audit: None })
    }

    /// Eight pages for a tenant.
    fn reserve(&self, owner: u64) -> Result<Reservation<CudaMemory>, Failure> {
        let proof = self.pool.prove(CapacityPlan::new(TOKENS as u64))?;
        let owner = OwnerId::new(owner).ok_or("owner 0")?;
        Ok(self.pool.reserve(&proof, Request::new(owner, TOKENS as u64).on_lane(self.lane), TOKENS as u64)?)
    }

    /// Writes the first pages of a prompt by their addresses.
    fn write(&self, kv: &mut Reservation<CudaMemory>, prompt: &Prompt, count: usize) -> Result<(), Failure> {
        for (ordinal, page) in pages(kv)?.into_iter().enumerate().take(count) {
            // SAFETY: (1) of `store`: the page is this reservation's, and nothing of it is written.
            unsafe { self.reader.store(self.planes, page, prompt, ordinal) }?;
        }
        Ok(kv.assume_written((count * PAGE_TOKENS) as u64)?)
    }

    fn attend<const ROWS: usize>(&self, rows: [[u32; PAGES]; ROWS]) -> Result<[Answer; ROWS], Failure> {
        let table = self.reader.table(&rows)?;
        // SAFETY: (1) of `attend`: the pages are the pool's; what was to be written is, and cleaning has ended. Whose they
        // are is what this example is about.
        let answers = unsafe { self.reader.attend(self.planes, &table) }?;
        Ok(answers.try_into().map_err(|_| "attention answered other rows")?)
    }

    fn attend_checked<const ROWS: usize>(
        &self,
        rows: [[u32; PAGES]; ROWS],
        guard: &mut GuardTable,
    ) -> Result<[Answer; ROWS], Failure> {
        let table = self.reader.table(&rows)?;
        let cells = AttentionTable { address: table.address(), row_cells: PAGES as u32 };
        // SAFETY: (1) the table has as many rows of as many cells, is written, and is gone only when the stream is done with
        // it.
        unsafe { guard.check(self.lane, Some(cells)) }?;
        // SAFETY: (1) of `attend`: as above.
        let answers = unsafe { self.reader.attend(self.planes, &table) }?;
        Ok(answers.try_into().map_err(|_| "attention answered other rows")?)
    }

    fn audit(&self) -> Option<String> {
        let audit = self.pool.audit().and_then(|()| self.pool.audit_bytes(0..POOL_PAGES));
        audit.err().map(|error| error.to_string())
    }
}

fn pages(kv: &Reservation<CudaMemory>) -> Result<[u32; PAGES], Failure> {
    let pages: Vec<u32> = kv.handles().map(|handle| handle.index()).collect();
    Ok(pages.try_into().map_err(|_| "a request without its eight pages")?)
}

/// Waits until the device has cleaned what went back.
fn settle(pool: &PagePool<CudaMemory>) -> Result<(), Failure> {
    for _ in 0..1_000_000 {
        pool.maintain(usize::MAX);
        if pool.stats().cleaning_pages == 0 {
            return Ok(());
        }
        std::thread::yield_now();
    }
    Err("the device does not come to clean what went back".into())
}
