//! Publishing pages and finding them again.
//!
//! *Owns* the walk from page to page along a prefix, for both. Tokens are hashed outside the lock, a batch of pages at a
//! time; compared under it.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use super::{Inner, PagePool, State, Status};
use crate::error::{PublishError, ReadError, TicketError};
use crate::id::OwnerId;
use crate::lease::{Core, Lease};
use crate::memory::PageMemory;
use crate::prefix::{Chain, Namespace, PageNames, Parent, Prefix, PrefixTokens, Retention};
use crate::stamp::PageState;

/// Pages hashed, then looked at under one lock: at first, so that a miss is cheap, and at the most.
const FIRST_BATCH: u32 = 4;
const BATCH: u32 = 64;

impl<M: PageMemory> PagePool<M> {
    /// Finds the longest prefix of these tokens that `owner` has in full pages, live or cached, and holds it. `None` when not
    /// even the first page is here.
    ///
    /// Leave the last token of a prompt out when the model has to compute it anyway.
    ///
    /// # Cost
    ///
    /// O(pages found), hashed outside the lock, compared under it; one lock for each 64 pages. A page that thousands hold is
    /// no slower than another: holders are counted under the lock, and readers write to no line that others use.
    ///
    /// # Examples
    ///
    /// See [`PrefixTokens`].
    #[must_use = "dropping the prefix lets go of its pages"]
    pub fn lookup(&self, owner: OwnerId, prefix: &PrefixTokens<'_>) -> Option<Prefix<M>> {
        let inner = &*self.inner;
        let mut names = PageNames::new(inner.page_tokens(), prefix);
        let mut walk = Walk { namespace: Namespace::new(owner, prefix), parent: None, core: None, pages: 0 };
        loop {
            let batch = walk.pages.clamp(FIRST_BATCH, BATCH);
            names.hash(&inner.hashes, walk.pages..walk.pages.saturating_add(batch));
            if names.is_empty() || !inner.walk_on(&mut walk, &names) {
                break;
            }
        }
        let Walk { core, parent, pages, .. } = walk;
        let (lease, parent) = (Lease::new(self.clone(), owner, core?), parent?);
        Some(Prefix::new(
            lease,
            Chain { pages, parent: Some(parent.id), is_broken: false },
            u64::from(pages) * u64::from(inner.page_tokens()),
        ))
    }
}

/// How far a lookup has come.
struct Walk {
    namespace: Namespace,
    /// The entry of the last page found.
    parent: Option<Parent>,
    core: Option<Arc<Core>>,
    pages: u32,
}

impl<M: PageMemory> Inner<M> {
    /// Holds the pages that continue the walk. `false` when it is over.
    fn walk_on(&self, walk: &mut Walk, names: &PageNames<'_>) -> bool {
        let mut found = [0; BATCH as usize];
        let mut count = 0;
        let mut state = self.state.lock();
        if walk.core.as_ref().is_some_and(|core| core.header.is_revoked()) {
            return false;
        }
        let Some(mut parent) = walk.parent.or_else(|| state.index.root(&walk.namespace)) else { return false };
        for ordinal in names.ordinals() {
            let hit = state.index.find(parent, &names.get(ordinal));
            let Some(page) = hit.filter(|page| self.may_hold(&state, *page, walk.namespace.owner)) else { break };
            let Some(id) = state.index.id(page) else { break };
            self.hold_page(&mut state, page);
            parent = Parent { id, is_root: false };
            found[count] = page;
            count += 1;
        }
        if count == 0 {
            return false;
        }
        let core = walk.core.get_or_insert_with(|| state.open_record(walk.namespace.owner, Status::Reserved, 0));
        core.pages.extend(found[..count].iter().copied());
        state.totals.hit_pages += count as u64;
        walk.parent = Some(parent);
        walk.pages += count as u32;
        count == names.ordinals().len()
    }

    /// Says, under the lock, whether a published page takes one holder more, which its owner's quota allows. It is the
    /// owner's by the namespace already.
    fn may_hold(&self, state: &State, page: u32, owner: OwnerId) -> bool {
        let within_quota = state.quota_room(owner) > 0 || self.meta(page).word().state() == PageState::Live;
        within_quota && self.has_room(page) && self.meta(page).owner() == Some(owner)
    }

    /// Publishes the full pages of a reservation up to ordinal `end`, and answers how many were not published before.
    pub(crate) fn publish(
        &self,
        lease: &Lease<M>,
        chain: &mut Chain,
        end: u32,
        prefix: &PrefixTokens<'_>,
        retention: Retention,
    ) -> Result<u32, PublishError> {
        let namespace = Namespace::new(lease.owner(), prefix);
        let mut names = PageNames::new(self.page_tokens(), prefix);
        let mut published = 0;
        while chain.pages < end && !chain.is_broken {
            names.hash(&self.hashes, chain.pages..end.min(chain.pages.saturating_add(BATCH)));
            if names.is_empty() {
                break;
            }
            published += self.publish_batch(lease, chain, &namespace, &names, retention)?;
        }
        Ok(published)
    }

    fn publish_batch(
        &self,
        lease: &Lease<M>,
        chain: &mut Chain,
        namespace: &Namespace,
        names: &PageNames<'_>,
        retention: Retention,
    ) -> Result<u32, PublishError> {
        let core = lease.core();
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(PublishError::Revoked);
        }
        self.check_publishable(&state, core, names)?;
        let first = match chain.parent {
            Some(id) => Parent { id, is_root: false },
            None => state.index.make_root(namespace.clone()),
        };
        let mut parent = first;
        let mut published = 0;
        for ordinal in names.ordinals() {
            let step = self.publish_page(&mut state, lease, ordinal, parent, names, retention);
            let Some((id, is_new)) = step.inspect_err(|_| state.index.drop_root(first.id))? else {
                chain.is_broken = true;
                break;
            };
            published += u32::from(is_new);
            parent = Parent { id, is_root: false };
            (chain.pages, chain.parent) = (ordinal + 1, Some(id));
        }
        state.index.drop_root(first.id);
        if let Retention::Cached { priority } = retention {
            raise_before(&mut state, core, names.ordinals().start, priority);
        }
        Ok(published)
    }

    /// Publishes one page, or finds who published its tokens before: the name of the entry, and whether it is new. `None` when
    /// the page is gone and nobody has published it.
    fn publish_page(
        &self,
        state: &mut State,
        lease: &Lease<M>,
        ordinal: u32,
        parent: Parent,
        names: &PageNames<'_>,
        retention: Retention,
    ) -> Result<Option<(NonZeroU64, bool)>, PublishError> {
        let name = names.get(ordinal);
        let before = state.index.find(parent, &name).and_then(|page| state.index.id(page));
        if let Some(id) = before {
            return Ok(Some((id, false)));
        }
        let Some(page) = lease.core().pages.get(ordinal) else { return Ok(None) };
        if state.index.is_published(page) {
            if state.index.tokens(page) != name.tokens {
                return Err(PublishError::OtherTokens { ordinal });
            }
            // What it continued is gone. It is found again as a continuation of what is there now.
            self.unpublish(state, page);
        }
        let meta = self.meta(page);
        let id = state.index.insert(page, lease.owner(), parent, &name, retention);
        let id = id.map_err(|_| PublishError::NoMemory)?;
        meta.publish(meta.word().with_kept(true));
        Ok(Some((id, true)))
    }

    /// Checks all pages before any is published.
    fn check_publishable(&self, state: &State, core: &Core, names: &PageNames<'_>) -> Result<(), PublishError> {
        for ordinal in names.ordinals() {
            let Some(page) = core.pages.get(ordinal) else { continue };
            if let Some(why) = self.meta(page).word().off_limits() {
                return Err(PublishError::OffLimits { page, source: ReadError::off_limits(page, why) });
            }
            if state.index.is_published(page) && state.index.tokens(page) != names.get(ordinal).tokens {
                return Err(PublishError::OtherTokens { ordinal });
            }
        }
        Ok(())
    }

    /// Makes a second list with the pages `first..end` of a reservation: all of them or none.
    pub(crate) fn share(&self, lease: &Lease<M>, end: u32) -> Result<Arc<Core>, TicketError> {
        let core = lease.core();
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(TicketError::Revoked);
        }
        let first = core.pages.first();
        for page in (first..end).filter_map(|ordinal| core.pages.get(ordinal)) {
            if let Some(why) = self.meta(page).word().off_limits() {
                return Err(TicketError::off_limits(page, why));
            }
            if !self.has_room(page) {
                return Err(TicketError::TooMany { page });
            }
        }
        let copy = state.open_record(lease.owner(), Status::Reserved, 0);
        copy.pages.begin_at(first.min(end));
        for page in (first..end).filter_map(|ordinal| core.pages.get(ordinal)) {
            self.hold_page(&mut state, page);
            copy.pages.extend(std::iter::once(page));
        }
        Ok(copy)
    }
}

impl<M: PageMemory> Inner<M> {
    /// Sets what becomes of published pages of a reservation, and answers of how many.
    pub(crate) fn retain(&self, lease: &Lease<M>, pages: Range<u32>, retention: Retention) -> u32 {
        let core = lease.core();
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return 0;
        }
        let (start, end) = (pages.start.max(core.pages.first()), pages.end.min(core.pages.len()));
        let mut set = 0;
        for page in (start..end).filter_map(|ordinal| core.pages.get(ordinal)) {
            set += u32::from(state.index.set_retention(page, retention));
        }
        if let Retention::Cached { priority } = retention {
            raise_before(&mut state, core, start, priority);
        }
        set
    }
}

/// Raises the priority of the pages of a list in front of an ordinal, as far back as it is lower: a page never goes before
/// one that continues it.
fn raise_before(state: &mut State, core: &Core, end: u32, priority: u8) {
    for page in (core.pages.first()..end).rev().filter_map(|ordinal| core.pages.get(ordinal)) {
        if !state.index.raise(page, priority) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::prefix::PageHashes;
    use crate::{
        CapacityPlan, NullMemory, OwnPages, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, PrefixTokens, Request,
        Retention,
    };

    /// A pool in which every page of tokens has the same hash.
    fn pool() -> PagePool<NullMemory> {
        let geometry = PageGeometry::new(4, &[Plane::per_token(1, 8)]).expect("valid");
        let config = PoolConfig::new(64).with_own_pages(OwnPages::None);
        let mut pool = PagePool::new(config, NullMemory::new(geometry, 64).expect("small")).expect("valid");
        Arc::get_mut(&mut pool.inner).expect("alone").hashes = PageHashes::Constant;
        pool
    }

    // C2
    #[test]
    fn under_a_constant_hash_nothing_is_shared_that_is_not_equal() {
        let (pool, owner) = (pool(), |id| OwnerId::new(id).expect("id"));
        let prompts: [[u32; 12]; 5] = [
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 11],
            [5, 6, 7, 8, 1, 2, 3, 4, 9, 10, 11, 12],
            [9, 10, 11, 12, 5, 6, 7, 8, 9, 10, 11, 12],
            [1, 33, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        ];
        let plan = pool.prove(CapacityPlan::new(12)).expect("room");
        let mut held = Vec::new();
        for prompt in &prompts {
            let mut kv = pool.reserve(&plan, Request::new(owner(1), 12), 12).expect("room");
            kv.assume_written(12).expect("reserved");
            kv.commit(12).expect("written");
            kv.publish(&PrefixTokens::new(prompt), Retention::default()).expect("fresh");
            held.push(kv);
        }
        // Of 15 pages two were published before: the first two of the second prompt.
        assert_eq!(pool.stats().published_pages, 13);
        for (prompt, kv) in prompts.iter().zip(&held) {
            let hit = pool.lookup(owner(1), &PrefixTokens::new(prompt)).expect("published");
            assert_eq!(hit.tokens(), 12);
            assert_eq!(hit.lease.core().pages.get(2), kv.lease().core().pages.get(2), "its own last page");
        }
        assert!(pool.lookup(owner(2), &PrefixTokens::new(&prompts[0])).is_none());
        assert!(pool.lookup(owner(1), &PrefixTokens::new(&prompts[0][1..])).is_none());
        assert!(pool.lookup(owner(1), &PrefixTokens::new(&prompts[0]).with_salt(b"x")).is_none());
        pool.audit().expect("sound");
    }
}
