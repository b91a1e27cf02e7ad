//! A pool, its addresses, and tenants who come by and take what is free.

use pagestamp::geometry::{ModelLayout, Slice};
use pagestamp::memory::{HostBytes, HostPlane};
use pagestamp::{
    AdmitError, CapacityPlan, CleanMode, HeldMemory, HostMemory, OwnPages, OwnerId, PageGeometry, PageMemory, PagePool,
    PoolConfig, Request, Reservation,
};

use crate::shape::{Name, Prompt, Shape};

/// Pages of each pool.
pub(crate) const PAGES: u32 = 9;

/// A memory that the test can make.
pub(crate) trait Under: HostBytes {
    type Control;
    fn make(geometry: PageGeometry) -> (Self, Self::Control);
    /// Ends the cleaning that is under way.
    fn finish(control: &Self::Control, fences: usize);
}

impl Under for HostMemory {
    type Control = ();
    fn make(geometry: PageGeometry) -> (Self, ()) {
        (Self::new(geometry, PAGES).unwrap(), ())
    }
    fn finish(_: &(), _: usize) {}
}

impl Under for HeldMemory {
    type Control = pagestamp::memory::HeldControl;
    fn make(geometry: PageGeometry) -> (Self, Self::Control) {
        let memory = Self::new(geometry, PAGES).unwrap();
        let control = memory.control();
        (memory, control)
    }
    fn finish(control: &Self::Control, fences: usize) {
        for _ in 0..fences {
            let _ = control.finish_next();
        }
    }
}

struct Tenant<M: PageMemory> {
    kv: Reservation<M>,
    pages: Vec<u32>,
    prompt: Prompt,
    tokens: u64,
}

pub(crate) struct Place<M: Under> {
    pub(crate) pool: PagePool<M>,
    pub(crate) slice: Slice,
    control: M::Control,
    /// Where planes lie: registered with the network card before the pool had the memory.
    planes: Vec<HostPlane>,
    tenants: Vec<Tenant<M>>,
    next_tenant: u64,
}

impl<M: Under> Place<M> {
    pub(crate) fn new(model: &ModelLayout, slice: &Slice, mode: CleanMode) -> Self {
        let geometry = model.geometry(slice).unwrap();
        let planes = geometry.planes().len();
        let (memory, control) = M::make(geometry);
        let planes = (0..planes).map(|plane| memory.plane(plane).unwrap()).collect();
        let config = PoolConfig::new(PAGES).with_own_pages(OwnPages::None).with_clean_mode(mode);
        let pool = PagePool::new(config, memory).unwrap();
        Self { pool, slice: slice.clone(), control, planes, tenants: Vec::new(), next_tenant: 1 }
    }

    /// Bytes of a page in a plane, past all checks.
    pub(crate) fn raw(&self, plane: u32, page: u32) -> &[u8] {
        let place = &self.planes[plane as usize];
        // SAFETY: the page is of the memory, which lives as long as the pool, and the test is the only thread: nobody
        // writes while it looks.
        unsafe { std::slice::from_raw_parts(place.page(page), place.page_bytes()) }
    }

    /// Stores bytes as a network card does, by address. The caller plays a writer whose ticket on the page is open.
    pub(crate) fn store(&self, plane: u32, page: u32, offset: usize, bytes: &[u8]) {
        let place = &self.planes[plane as usize];
        assert!(offset + bytes.len() <= place.page_bytes());
        let to = place.page(page).wrapping_add(offset);
        // SAFETY: inside the page by the line above, and no reference to these bytes exists: the ticket keeps readers off.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// All bytes of a page.
    pub(crate) fn image(&self, page: u32) -> Vec<u8> {
        (0..self.planes.len() as u32).flat_map(|plane| self.raw(plane, page).to_vec()).collect()
    }

    pub(crate) fn is_zero(&self, page: u32) -> bool {
        (0..self.planes.len() as u32).all(|plane| self.raw(plane, page).iter().all(|byte| *byte == 0))
    }

    /// Says whether pages hold the first tokens of a prompt, by the raw bytes.
    pub(crate) fn holds(&self, shape: &Shape, pages: &[u32], prompt: Prompt, tokens: u64) -> bool {
        let mut right = true;
        shape.for_each(&self.slice, 0..tokens, |name, bytes| {
            let (plane, offset) = shape.place(&self.slice, name);
            let page = pages[(name.token / u64::from(shape.page_tokens)) as usize];
            let found = &self.raw(plane, page)[offset..][..bytes as usize];
            right &= (0..bytes).all(|at| found[at as usize] == prompt.byte(Name { at, ..name }));
        });
        right
    }

    /// Reserves, if there is room; pages that are handed out are zero.
    pub(crate) fn reserve(&self, owner: u64, max: u64, now: u64) -> Option<Reservation<M>> {
        let owner = OwnerId::new(owner).unwrap();
        let proof = self.pool.prove(CapacityPlan::new(max.max(1))).ok()?;
        match self.pool.reserve(&proof, Request::new(owner, max.max(1)), now) {
            Ok(kv) => {
                let pages: Vec<u32> = kv.handles().map(|handle| handle.index()).collect();
                assert!(pages.iter().all(|page| self.is_zero(*page)), "a page is handed out with somebody's bytes");
                Some(kv)
            }
            Err(AdmitError::Full { .. } | AdmitError::ProofVoid { .. }) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Writes the next tokens of a prompt, and commits them.
    pub(crate) fn compute(&self, shape: &Shape, kv: &mut Reservation<M>, prompt: Prompt, tokens: u64) {
        let range = kv.written_tokens()..kv.written_tokens() + tokens;
        let planes = 0..shape.planes(&self.slice);
        let bytes: Vec<_> = planes.map(|plane| shape.token_major(&self.slice, plane, range.clone(), prompt)).collect();
        kv.write(tokens, &bytes.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        kv.commit(range.end).unwrap();
    }

    /// A tenant comes and fills some pages.
    pub(crate) fn tenant(&mut self, shape: &Shape, pages: u32) {
        let tokens = u64::from(pages) * u64::from(shape.page_tokens);
        let prompt = Prompt { owner: 100, request: 1_000 + self.next_tenant };
        let Some(mut kv) = self.reserve(prompt.owner, tokens, tokens) else { return };
        self.next_tenant += 1;
        let pages = kv.handles().map(|handle| handle.index()).collect();
        self.compute(shape, &mut kv, prompt, tokens);
        self.tenants.push(Tenant { kv, pages, prompt, tokens });
    }

    pub(crate) fn end_tenant(&mut self, tenant: u8) {
        if let Some(at) = usize::from(tenant).checked_rem(self.tenants.len()) {
            self.tenants.swap_remove(at).kv.release();
        }
    }

    pub(crate) fn clean(&self, pages: usize) {
        self.pool.maintain(pages);
        M::finish(&self.control, pages);
        self.pool.maintain(0);
    }

    /// The books are right, what is free is zero, and tenants' bytes are theirs.
    pub(crate) fn check(&self, shape: &Shape) {
        self.pool.audit().unwrap();
        self.pool.audit_bytes(0..PAGES).unwrap();
        for tenant in &self.tenants {
            assert!(self.holds(shape, &tenant.pages, tenant.prompt, tenant.tokens), "a tenant's bytes changed");
            assert_eq!((tenant.kv.written_tokens(), tenant.kv.is_revoked()), (tenant.tokens, false));
        }
    }

    /// All has ended: nothing is missing, and nothing is left in any byte.
    pub(crate) fn check_end(&mut self) {
        self.tenants.clear();
        self.pool.resize(PAGES).unwrap();
        for _ in 0..4 {
            self.clean(usize::from(u16::MAX));
        }
        let stats = self.pool.stats();
        assert_eq!((stats.free_pages, stats.tickets, stats.promised_pages), (u64::from(PAGES), 0, 0), "{stats:?}");
        assert_eq!((stats.inbound_transfers, stats.outbound_transfers), (0, 0));
        self.pool.audit().unwrap();
        assert!((0..PAGES).all(|page| self.is_zero(page)));
    }
}
