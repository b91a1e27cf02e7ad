//! Each call of the driver fails once: nothing panics, no page is handed out dirty, an error names its call, nothing is lost
//! but what the driver itself would not take back.

use std::collections::BTreeMap;
use std::fmt::Debug;

use pagestamp::geometry::*;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, CudaPlane, Driver, GuardTable};
use pagestamp::*;

use crate::driver::{
    EngineBytes, EngineStream, Live, calls, context, fail, is_stand_in, kill_context, live, peek, start_anew, turn,
    without_context,
};
use crate::life::{owner, settle};
use crate::standin::driver_path;

const P: u64 = 4;
const PAGES: u32 = 10;
/// Runs for one function and one code; between the first call and the last they are spread evenly.
const MOST_RUNS: u64 = 6;

/// Every function that the library calls, as its table has them.
fn functions() -> Vec<&'static str> {
    let source = include_str!("../../src/memory/cuda/driver.rs");
    let table = source.split_once("\ntable! {").unwrap().1.split_once("\n}").unwrap().0;
    let starts = table.lines().filter_map(|line| line.trim_start().split_once('('));
    starts.map(|(name, _)| name).filter(|name| name.starts_with("cu")).collect()
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Nothing,
    /// A call of a function, once.
    Call(&'static str, u64, u32),
    /// The context dies in front of a step.
    Death(u64),
}

/// One run of the scenario: lets calls of the library fail, never those of the engine, and keeps what surfaced.
struct Run {
    plan: Plan,
    counts: BTreeMap<&'static str, u64>,
    steps: u64,
    errors: Vec<String>,
}

impl Run {
    fn new(plan: Plan) -> Self {
        Self { plan, counts: functions().into_iter().map(|name| (name, 0)).collect(), steps: 0, errors: Vec::new() }
    }

    fn is_over(&self) -> bool {
        match self.plan {
            Plan::Nothing => false,
            Plan::Call(name, nth, _) => self.counts[name] >= nth,
            Plan::Death(step) => self.steps > step,
        }
    }

    /// Does something with the library, on a thread that has no context of its own.
    fn lib<T>(&mut self, step: impl FnOnce() -> T) -> T {
        if matches!(self.plan, Plan::Death(at) if at == self.steps) {
            kill_context();
        }
        self.steps += 1;
        let is_dead = matches!(self.plan, Plan::Death(at) if at < self.steps);
        if !is_dead {
            without_context();
        }
        let before: Vec<_> = self.counts.keys().map(|name| (*name, calls(name))).collect();
        if let Plan::Call(name, nth, code) = self.plan {
            fail(name, nth.saturating_sub(self.counts[name]), code);
        }
        let done = step();
        if let Plan::Call(name, ..) = self.plan {
            fail(name, 0, 0);
        }
        for (name, before) in before {
            *self.counts.get_mut(name).unwrap() += calls(name) - before;
        }
        if !is_dead {
            context();
        }
        done
    }

    /// As [`lib`](Self::lib), of a call that may be refused.
    fn try_lib<T, E: Debug>(&mut self, step: impl FnOnce() -> Result<T, E>) -> Option<T> {
        match self.lib(step) {
            Ok(done) => Some(done),
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    fn note(&mut self, error: &impl Debug) {
        self.errors.push(format!("{error:?}").replace('\\', "")); // of an error that was text before
    }

    fn settle<M: PageMemory>(&mut self, pool: &PagePool<M>) {
        for _ in 0..2_000 {
            let maintained = self.lib(|| pool.maintain(usize::MAX));
            if maintained.dirty_pages + maintained.fenced_pages == 0 {
                return;
            }
            if self.is_over() {
                std::thread::yield_now();
            } else {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        assert!(self.is_over(), "the device does not clean: {:?}", pool.stats());
    }

    fn take<M: PageMemory>(&mut self, pool: &PagePool<M>, id: u64, tokens: u64) -> Option<Reservation<M>> {
        self.try_lib(|| -> Result<_, Box<dyn std::error::Error>> {
            let proof = pool.prove(CapacityPlan::new(tokens))?;
            Ok(pool.reserve(&proof, Request::new(owner(id), tokens), tokens)?)
        })
    }

    /// Writes a tenant's own bytes, and nobody else's are read of the pages before or afterwards.
    fn write<M: PageMemory>(&mut self, kv: &mut Reservation<M>, tokens: u64) {
        let id = kv.owner().get() as u8;
        let planes: Vec<_> = planes_of(kv.pool()).map(|bytes| vec![id; tokens as usize * bytes]).collect();
        let planes: Vec<_> = planes.iter().map(Vec::as_slice).collect();
        let is_written = self.try_lib(|| kv.write(tokens, &planes)).is_some();
        if !is_written {
            // the engine says that a kernel of its own wrote them; what is there is nothing, or its own
            let _ = kv.assume_written(tokens);
        }
        self.look(kv, &[id, if is_written { id } else { 0 }]);
    }

    /// Reads everything that a tenant may read, and finds such bytes alone.
    fn look<M: PageMemory>(&mut self, kv: &Reservation<M>, expected: &[u8]) {
        for (plane, token_bytes) in planes_of(kv.pool()).enumerate() {
            let mut bytes = vec![expected[0]; kv.written_tokens() as usize * token_bytes];
            self.try_lib(|| kv.read(0..kv.written_tokens())?.copy(plane, &mut bytes));
            let foreign = bytes.iter().find(|byte| !expected.contains(byte));
            assert_eq!(foreign, None, "owner {} reads another's byte, {:?}", kv.owner(), self.plan);
        }
    }

    /// Where errors surfaced, each names the call that failed, or says what became of the pages by it.
    fn judge(&self) {
        const BY_IT: [&str; 8] = [
            "Full {",
            "PoolTooSmall",
            "ProofVoid",
            "Pending {",
            "NeverChecked",
            "NullPageDirty",
            "Unfinished",
            "CloseError",
        ];
        for error in &self.errors {
            let is_named = match self.plan {
                Plan::Nothing => false,
                Plan::Call(name, _, code) => {
                    error.contains(&format!("call: {name:?}")) && error.contains(&format!("code: {code}"))
                }
                Plan::Death(_) => error.contains("call: \"cu") && error.contains("code: 700"),
            };
            let is_by_it = BY_IT.iter().any(|word| error.contains(word)) && self.is_over();
            assert!(is_named || is_by_it, "{:?}: {error}", self.plan);
        }
    }
}

fn planes_of<M: PageMemory>(pool: &PagePool<M>) -> impl Iterator<Item = usize> + use<M> {
    let planes: Vec<_> = pool.geometry().planes().iter().map(|plane| plane.token_bytes() as usize).collect();
    planes.into_iter()
}

fn model() -> ModelLayout {
    let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16)).with_order(HeadOrder::Hnd);
    ModelLayout::new("tiny", "r1", KvLayout::new(P as u32, 1, cache)).unwrap()
}

/// What the engine has, whatever becomes of the library.
struct Engine {
    streams: [EngineStream; 2],
    planes: Vec<EngineBytes>,
    cells: EngineBytes,
}

impl Engine {
    fn new() -> Self {
        let model = model();
        let geometry = model.geometry(&Slice::whole(&model)).unwrap();
        let page_bytes = |plane| geometry.page_bytes(plane).unwrap() as usize;
        let planes = (0..geometry.planes().len()).map(|plane| EngineBytes::new(page_bytes(plane) * PAGES as usize));
        let streams = [EngineStream::new(), EngineStream::new()];
        Self { planes: planes.collect(), cells: EngineBytes::new(64), streams }
    }

    fn finish(&self) {
        self.streams.iter().for_each(EngineStream::finish);
    }

    /// Frees everything, or nothing that died with the context.
    fn leave(self, is_dead: bool) {
        if is_dead {
            std::mem::forget(self);
        }
    }
}

type Pool = PagePool<CudaMemory>;

fn pools(run: &mut Run, engine: &Engine) -> Option<(Pool, Pool)> {
    let model = model();
    let geometry = || model.geometry(&Slice::whole(&model)).unwrap();
    // SAFETY: (1) the stand-in.
    let driver = run.try_lib(|| unsafe { Driver::open(driver_path()) })?;
    run.try_lib(|| driver.version());
    run.try_lib(|| driver.devices());
    run.try_lib(|| driver.device_name(0));
    let memory = run.try_lib(|| CudaMemory::new(&driver, 0, geometry(), PAGES))?;
    let own = run.try_lib(|| PagePool::new(PoolConfig::new(PAGES), memory))?;
    let plane = |bytes: &EngineBytes, plane| {
        let stride_bytes = geometry().page_bytes(plane).unwrap();
        CudaPlane { address: bytes.0, stride_bytes, len_bytes: stride_bytes * u64::from(PAGES) }
    };
    let planes: Vec<_> = engine.planes.iter().zip(0..).map(|(bytes, at)| plane(bytes, at)).collect();
    let context = context();
    // SAFETY: (1) the primary context lives for ever. (2) the engine frees its planes last. (3) nobody else has them.
    let memory = run.try_lib(|| unsafe { CudaMemory::over_planes(&driver, context, geometry(), PAGES, &planes) });
    let theirs = memory.and_then(|memory| run.try_lib(|| PagePool::new(PoolConfig::new(PAGES), memory)));
    match theirs {
        Some(theirs) => Some((own, theirs)),
        None => {
            run.lib(|| drop(own));
            None
        }
    }
}

/// Everything that the library does with a device. Whatever fails, it goes on with what it has, as an engine would.
fn scenario(run: &mut Run, engine: &Engine) {
    let Some((own, theirs)) = pools(run, engine) else { return };
    let host = PagePool::new(PoolConfig::new(PAGES), HostMemory::new(own.geometry().clone(), PAGES).unwrap()).unwrap();
    // SAFETY: (1) of `PagePool::memory`: nothing is written but by the addresses of pages that are held.
    let memory = unsafe { own.memory() };
    // SAFETY: (1) the streams outlive the pools. (2) they are all that the engine uses.
    let lanes = [0, 1].map(|at| unsafe { memory.add_lane(engine.streams[at].0) }.unwrap());
    // SAFETY: as above.
    let memory_of_theirs = unsafe { theirs.memory() };
    // SAFETY: as above.
    unsafe { memory_of_theirs.add_lane(engine.streams[0].0) }.unwrap();
    run.settle(&own);
    run.settle(&theirs);
    let first = run.take(&own, 1, 3 * P);
    let mut stale = run.try_lib(|| GuardTable::new(&own, 4, 16));
    if let (Some(mut kv), Some(table)) = (first, &mut stale) {
        run.write(&mut kv, 3 * P);
        check(run, engine, table, lanes[0], &kv, &[1]);
        replay(run, engine, lanes[1], &kv);
        late_kernel(run, engine, &own, lanes, kv);
        // what was pushed before the page left, checked when it is somebody else's
        // SAFETY: (1) no cells.
        run.try_lib(|| unsafe { table.check(lanes[0], None) });
        if !run.is_dead() {
            engine.finish();
        }
        let flagged = run.try_lib(|| table.verdict().map(|verdict| verdict.is_flagged(0)));
        assert_ne!(flagged, Some(false), "a stale table passes, {:?}", run.plan);
    }
    run.lib(|| drop(stale));
    hand_over(run, &own, &theirs);
    to_the_host_and_back(run, &own, &host);
    run.try_lib(|| own.resize(PAGES - 3));
    run.settle(&own);
    run.try_lib(|| own.resize(PAGES));
    run.settle(&own);
    run.settle(&theirs);
    if !run.is_dead() {
        look_at_free_pages(run.plan, &own, engine);
        look_at_free_pages(run.plan, &theirs, engine);
    }
    own.audit().unwrap();
    theirs.audit().unwrap();
    host.audit().unwrap();
    let memory = run.try_lib(|| own.close());
    run.lib(|| drop(memory));
    run.lib(|| drop(theirs));
}

/// A check of a row that is right; a page whose stamp could not be written is refused, which is safe.
fn check(
    run: &mut Run,
    engine: &Engine,
    table: &mut GuardTable,
    lane: memory::Lane,
    kv: &Reservation<CudaMemory>,
    ids: &[u64],
) {
    assert_eq!(ids, [kv.owner().get()]);
    run.try_lib(|| table.push(kv, kv.written_tokens()));
    let pages: Vec<_> = kv.handles().map(|handle| handle.index()).collect();
    if !run.is_dead() {
        engine.streams[0].put(engine.cells.0, &pages.iter().flat_map(|page| page.to_ne_bytes()).collect::<Vec<_>>());
    }
    let cells = AttentionTable { address: engine.cells.0, row_cells: pages.len() as u32 };
    // SAFETY: (1) so many cells are there, and the engine has them until the end.
    run.try_lib(|| unsafe { table.check(lane, Some(cells)) });
    if !run.is_dead() {
        engine.finish();
    }
    let is_clean = run.try_lib(|| table.verdict().map(|verdict| verdict.is_clean()));
    assert!(is_clean != Some(false) || run.is_over(), "a right row is refused");
}

/// A check that was captured once, and armed for its launch.
fn replay(run: &mut Run, engine: &Engine, lane: memory::Lane, kv: &Reservation<CudaMemory>) {
    if run.is_dead() {
        return;
    }
    let Some(mut table) = run.try_lib(|| GuardTable::new(kv.pool(), 2, 8)) else { return };
    run.try_lib(|| table.push(kv, P));
    if run.is_dead() {
        return run.lib(|| drop(table));
    }
    let mut is_captured = false;
    let graph = engine.streams[1].capture(|| {
        // SAFETY: (1) no cells. (2) armed below.
        let capture = || unsafe { table.capture(lane, None) };
        is_captured = match run.plan {
            Plan::Death(_) => capture().is_ok(), // the engine would have to end its capture with a dead context
            _ => run.try_lib(capture).is_some(),
        };
    });
    let is_armed = run.try_lib(|| table.arm(lane)).is_some();
    if is_captured && is_armed && !run.is_dead() {
        graph.launch(&engine.streams[1]);
        engine.finish();
        assert!(run.is_over() || table.verdict().unwrap().is_clean());
    }
    run.lib(|| drop(table));
    if run.is_dead() {
        std::mem::forget(graph);
    }
}

/// The pages leave with a kernel behind them, and are taken by another lane in front of their fence.
fn late_kernel(run: &mut Run, engine: &Engine, pool: &Pool, lanes: [memory::Lane; 2], kv: Reservation<CudaMemory>) {
    if run.is_dead() {
        return run.lib(|| drop(kv));
    }
    // SAFETY: (1) of `PagePool::memory`: by the address of a page that is held.
    let base = unsafe { pool.memory() }.plane_address(0).unwrap();
    let page_bytes = pool.geometry().page_bytes(0).unwrap();
    let page = u64::from(kv.handle(0).unwrap().index());
    engine.streams[0].hold();
    engine.streams[0].fill(base + page * page_bytes, 0xEE, page_bytes as usize);
    run.lib(|| kv.release());
    run.lib(|| pool.maintain(usize::MAX));
    let tokens = (pool.stats().free_pages + pool.stats().fenced_pages) * P;
    let theirs = run.try_lib(|| -> Result<_, Box<dyn std::error::Error>> {
        let proof = pool.prove(CapacityPlan::new(tokens))?;
        Ok(pool.reserve(&proof, Request::new(owner(4), tokens).on_lane(lanes[1]), tokens)?)
    });
    let dies = matches!(run.plan, Plan::Death(_));
    engine.streams[0].release();
    if !run.is_dead() {
        engine.finish();
    }
    if let Some(mut kv) = theirs {
        let pages: Vec<_> = kv.handles().map(|handle| u64::from(handle.index())).collect();
        if !run.is_dead() && !dies {
            // the lane is behind the fence: what its kernels would see
            for page in pages {
                let bytes = peek(base + page * page_bytes, page_bytes as usize);
                assert!(bytes.iter().all(|byte| *byte == 0), "dirty on the lane, {:?}", run.plan);
            }
        }
        kv.assume_written(tokens).unwrap();
        for _ in 0..2_000 {
            if run.lib(|| kv.read(0..1).is_ok()) {
                break;
            }
            std::thread::yield_now();
        }
        run.look(&kv, &[0]);
        run.lib(|| drop(kv));
    }
    run.settle(pool);
}

/// A move and a handoff with digests, from the one pool to the other.
fn hand_over(run: &mut Run, own: &Pool, theirs: &Pool) {
    if let Some(mut kv) = run.take(own, 5, 2 * P) {
        run.write(&mut kv, 2 * P);
        if let Some(target) = run.take(theirs, 5, 2 * P) {
            match run.lib(|| kv.move_into(target)) {
                Ok(kv) => {
                    run.look(&kv, &[5, 0]);
                    run.lib(|| drop(kv));
                }
                Err(refused) => {
                    let ((kv, target), error) = refused.into_parts();
                    run.note(&error);
                    run.look(&kv, &[5, 0]);
                    run.look(&target, &[5, 0]);
                    run.lib(|| drop((kv, target)));
                }
            }
        } else {
            run.lib(|| drop(kv));
        }
    }
    let model = model();
    let slice = Slice::whole(&model);
    let Some(mut kv) = run.take(own, 6, 11) else { return };
    run.write(&mut kv, 11);
    kv.commit(11).unwrap();
    let Some(target) = run.take(theirs, 6, 11) else { return run.lib(|| drop(kv)) };
    let arrived = run.try_lib(|| -> Result<_, String> {
        let mut outbound = Outbound::seal(kv, &model, &slice).map_err(|error| format!("{error:?}"))?;
        let plan = InboundPlan::new(&model, &slice, 11).with_checksum(Checksum::Crc32c);
        let mut inbound = Inbound::open(target, plan).map_err(|error| format!("{error:?}"))?;
        let offer = inbound.offer();
        let receipt = {
            let mut landing = inbound.landing(Writer::ONLY).map_err(|error| format!("{error:?}"))?;
            outbound.send(&offer, &mut landing).map_err(|error| format!("{error:?}"))?
        };
        inbound.receive(&receipt).map_err(|error| format!("{error:?}"))?;
        inbound.accept().map_err(|error| format!("{error:?}"))
    });
    if let Some(kv) = arrived {
        run.look(&kv, &[6, 0]);
        run.lib(|| drop(kv));
    }
}

fn to_the_host_and_back(run: &mut Run, own: &Pool, host: &PagePool<HostMemory>) {
    let (Some(mut kv), Some(target)) = (run.take(own, 7, 3 * P), run.take(host, 7, 3 * P)) else { return };
    run.write(&mut kv, 2 * P + 1);
    match run.lib(|| kv.move_into(target)) {
        Ok(kv) => {
            run.look(&kv, &[7, 0]);
            let Some(target) = run.take(own, 7, 3 * P) else { return };
            match run.lib(|| kv.move_into(target)) {
                Ok(kv) => {
                    run.look(&kv, &[7, 0]);
                    run.lib(|| drop(kv));
                }
                Err(refused) => {
                    let (both, error) = refused.into_parts();
                    run.note(&error);
                    run.lib(|| drop(both));
                }
            }
        }
        Err(refused) => {
            let (both, error) = refused.into_parts();
            run.note(&error);
            run.lib(|| drop(both));
        }
    }
}

/// Takes all free pages and looks at the device's bytes of each.
fn look_at_free_pages(plan: Plan, pool: &Pool, engine: &Engine) {
    settle(pool);
    engine.finish();
    let tokens = pool.stats().free_pages * P;
    let lost = u64::from(PAGES - 2) - pool.stats().free_pages;
    assert_eq!(lost, pool.stats().retired_pages, "{plan:?}");
    if tokens == 0 {
        return;
    }
    let proof = pool.prove(CapacityPlan::new(tokens)).unwrap();
    let kv = pool.reserve(&proof, Request::new(owner(9), tokens), tokens).unwrap();
    // SAFETY: (1) of `PagePool::memory`: nothing is written.
    let memory = unsafe { pool.memory() };
    for handle in kv.handles() {
        for plane in 0..pool.geometry().planes().len() {
            let (base, bytes) = (memory.plane_address(plane).unwrap(), pool.geometry().page_bytes(plane).unwrap());
            let there = peek(base + u64::from(handle.index()) * bytes, bytes as usize);
            assert!(there.iter().all(|byte| *byte == 0), "page {} is free and dirty, {plan:?}", handle.index());
        }
    }
    drop(kv);
    settle(pool);
    pool.audit_bytes(0..PAGES).unwrap();
}

impl Run {
    fn is_dead(&self) -> bool {
        matches!(self.plan, Plan::Death(at) if at < self.steps)
    }
}

/// Runs the scenario, and says what is left of it on the device.
fn run(plan: Plan) -> (Run, Live, Live) {
    let before = live().unwrap();
    let engine = Engine::new();
    let mut run = Run::new(plan);
    scenario(&mut run, &engine);
    run.judge();
    if !run.is_dead() {
        engine.finish();
    }
    engine.leave(run.is_dead());
    (run, before, left(before))
}

/// What is live, once streams that were destroyed are gone.
fn left(before: Live) -> Live {
    for _ in 0..1_000 {
        if live().unwrap() == before {
            break;
        }
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
    live().unwrap()
}

/// What may be left when a function failed: the one thing that it would have taken back. A context that cannot be entered
/// takes nothing back either.
fn excused(name: &str, before: Live) -> Vec<Live> {
    let with = |change: fn(&mut Live)| {
        let mut live = before;
        change(&mut live);
        live
    };
    let all = [
        ("cuMemFree_v2", with(|live| live.device_allocations += 1)),
        ("cuMemFreeHost", with(|live| live.pinned += 1)),
        ("cuStreamDestroy_v2", with(|live| live.streams += 1)),
        ("cuEventDestroy_v2", with(|live| live.events += 1)),
        ("cuModuleUnload", with(|live| live.modules += 1)),
        ("cuDevicePrimaryCtxRelease_v2", with(|live| live.retained += 1)),
    ];
    let enters = ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuThreadExchangeStreamCaptureMode"].contains(&name);
    let may_stay = |of: &str| of == name || enters && of != "cuDevicePrimaryCtxRelease_v2";
    all.into_iter().filter(|(of, _)| may_stay(of)).map(|(_, live)| live).collect()
}

fn fail_each(codes: &[u32]) {
    let (clean, before, after) = run(Plan::Nothing);
    assert_eq!((clean.errors, after), (Vec::new(), before));
    for (name, count) in clean.counts {
        assert!(count > 0, "{name} is never called: the scenario does not touch everything");
        for (at, code) in codes.iter().enumerate() {
            // Codes take turns between the calls of a function that has many.
            let runs = count.min(MOST_RUNS);
            for nth in (0..runs).map(|run| 1 + run * (count - 1) / (runs - 1).max(1)).skip(at).step_by(codes.len()) {
                let (_, before, after) = run(Plan::Call(name, nth, *code));
                if after != before {
                    let excused = excused(name, before);
                    assert!(excused.contains(&after), "{name} {nth} {code} left {after:?} after {before:?}");
                    start_anew();
                }
            }
        }
    }
}

// C3, C11
#[test]
fn whichever_call_of_the_driver_fails_no_page_is_handed_out_dirty_and_nothing_is_lost() {
    let _turn = turn();
    if !is_stand_in() {
        return; // a real driver cannot be made to fail
    }
    fail_each(&[1, 999, 2, 700]);
}

// C3, C11
#[test]
fn a_context_that_dies_at_any_step_is_an_error_that_says_so() {
    let turn = turn();
    if !is_stand_in() {
        return;
    }
    let (clean, ..) = run(Plan::Nothing);
    for step in 0..clean.steps.min(60) {
        let (run, ..) = run(Plan::Death(step));
        assert!(!run.errors.is_empty(), "nobody was told, step {step}");
        start_anew(); // what a dead context had goes with it
    }
    turn.counts_anew();
}
