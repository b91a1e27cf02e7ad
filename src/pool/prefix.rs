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
use crate::prefix::{Chain, Link, Namespace, PageNames, Parent, Prefix, PrefixTokens, Retention};
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
        let mut walk = Walk { namespace: Namespace::new(owner, prefix), chain: Chain::default(), core: None };
        loop {
            let pages = walk.chain.pages;
            names.hash(&inner.hashes, pages..pages.saturating_add(pages.clamp(FIRST_BATCH, BATCH)));
            if names.is_empty() || !inner.walk_on(&mut walk, &names) {
                break;
            }
        }
        let Walk { core, chain, .. } = walk;
        let lease = Lease::new(self.clone(), owner, core?);
        Some(Prefix::new(lease, chain, u64::from(chain.pages) * u64::from(inner.page_tokens())))
    }
}

/// How far a lookup has come.
struct Walk {
    namespace: Namespace,
    chain: Chain,
    core: Option<Arc<Core>>,
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
        let mut chain = walk.chain;
        let Some(root) = chain.root.or_else(|| state.index.root(&walk.namespace)) else { return false };
        chain.root = Some(root);
        for ordinal in names.ordinals() {
            let hit = state.index.find(parent_of(&chain, root), &names.get(ordinal));
            let Some(page) = hit.filter(|page| self.may_hold(&state, *page, walk.namespace.owner)) else { break };
            let (Some(id), Some(retention)) = (state.index.id(page), state.index.retention(page)) else { break };
            self.hold_page(&mut state, page);
            chain = chain.extended(Link { id, page }, retention);
            found[count] = page;
            count += 1;
        }
        if count == 0 {
            return false;
        }
        let core = walk.core.get_or_insert_with(|| state.open_record(walk.namespace.owner, Status::Reserved, 0));
        core.pages.extend(found[..count].iter().copied());
        state.totals.hit_pages += count as u64;
        walk.chain = chain;
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
        *chain = self.begin_publishing(lease.core(), *chain, end, &namespace, prefix, retention)?;
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

    /// Checks all pages, and makes room in the index, before any is published; and answers from where on there is something
    /// to do. That is from the first page on when what was published has another name now, is gone, or is to stay longer.
    fn begin_publishing(
        &self,
        core: &Core,
        chain: Chain,
        end: u32,
        namespace: &Namespace,
        prefix: &PrefixTokens<'_>,
        retention: Retention,
    ) -> Result<Chain, PublishError> {
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(PublishError::Revoked);
        }
        let is_there = chain.end.is_none_or(|end| state.index.id(end.page) == Some(end.id));
        let goes_on = is_there && chain.root == state.index.root(namespace) && retention <= chain.least;
        let chain = if goes_on { chain } else { Chain::default() };
        if !chain.is_broken {
            self.check_publishable(&mut state, core, chain.pages..end, prefix)?;
        }
        Ok(chain)
    }

    fn publish_batch(
        &self,
        lease: &Lease<M>,
        chain: &mut Chain,
        namespace: &Namespace,
        names: &PageNames<'_>,
        retention: Retention,
    ) -> Result<u32, PublishError> {
        let mut state = self.state.lock();
        if lease.core().header.is_revoked() {
            return Err(PublishError::Revoked);
        }
        let root = chain.root.unwrap_or_else(|| state.index.make_root(namespace.clone()));
        chain.root = Some(root);
        let published = self.publish_pages(&mut state, lease, chain, root, names, retention);
        state.index.drop_root(root);
        published
    }

    fn publish_pages(
        &self,
        state: &mut State,
        lease: &Lease<M>,
        chain: &mut Chain,
        root: NonZeroU64,
        names: &PageNames<'_>,
        retention: Retention,
    ) -> Result<u32, PublishError> {
        let mut published = 0;
        for ordinal in names.ordinals() {
            let parent = parent_of(chain, root);
            let Some((page, is_new)) = self.publish_page(state, lease, ordinal, parent, names, retention)? else {
                chain.is_broken = true;
                break;
            };
            let stays = state.index.retain_at_least(page, lease.owner(), retention);
            let (Some(id), Some(stays)) = (state.index.id(page), stays) else { break };
            *chain = chain.extended(Link { id, page }, stays);
            published += u32::from(is_new);
        }
        Ok(published)
    }

    /// Publishes one page, or finds the one whose tokens were published before: which it is, and whether it is new. `None`
    /// when the page is gone and nobody has published it.
    fn publish_page(
        &self,
        state: &mut State,
        lease: &Lease<M>,
        ordinal: u32,
        parent: Parent,
        names: &PageNames<'_>,
        retention: Retention,
    ) -> Result<Option<(u32, bool)>, PublishError> {
        let name = names.get(ordinal);
        if let Some(before) = state.index.find(parent, &name) {
            return Ok(Some((before, false)));
        }
        let Some(page) = lease.core().pages.get(ordinal) else { return Ok(None) };
        if state.index.is_published(page) {
            if state.index.tokens(page) != name.tokens {
                return Err(PublishError::OtherTokens { ordinal });
            }
            // What it continued is gone, or it was named otherwise. It has one name, the last one.
            self.unpublish(state, page);
        }
        let meta = self.meta(page);
        let inserted = state.index.insert(page, lease.owner(), parent, &name, retention);
        inserted.map_err(|_| PublishError::NoMemory)?;
        meta.publish(meta.word().with_kept(true));
        Ok(Some((page, true)))
    }

    /// Checks pages, and makes room for their entries, before any is published.
    fn check_publishable(
        &self,
        state: &mut State,
        core: &Core,
        ordinals: Range<u32>,
        prefix: &PrefixTokens<'_>,
    ) -> Result<(), PublishError> {
        let first = ordinals.start as usize;
        let names = prefix.tokens.chunks_exact(self.page_tokens() as usize).skip(first);
        for (ordinal, tokens) in ordinals.zip(names) {
            let Some(page) = core.pages.get(ordinal) else { continue };
            if let Some(why) = self.meta(page).word().off_limits() {
                return Err(PublishError::OffLimits { page, source: ReadError::off_limits(page, why) });
            }
            if state.index.is_published(page) && state.index.tokens(page) != tokens {
                return Err(PublishError::OtherTokens { ordinal });
            }
            state.index.make_room(page).map_err(|_| PublishError::NoMemory)?;
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
        let before = (core.pages.first()..start).rev().filter_map(|ordinal| core.pages.get(ordinal));
        for page in before.filter(|_| set > 0) {
            // What stays long enough has nothing in front of it that does not, but for what another has published.
            if state.index.retention(page).is_some_and(|stays| stays >= retention) {
                break;
            }
            state.index.retain_at_least(page, lease.owner(), retention);
        }
        set
    }
}

/// What the page behind a chain continues.
fn parent_of(chain: &Chain, root: NonZeroU64) -> Parent {
    chain.end.map_or(Parent { id: root, is_root: true }, |end| Parent { id: end.id, is_root: false })
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
