//! The index: published pages by what they continue and what they hold.
//!
//! *Owns* the table that finds pages, the namespaces that have some, and, in files beside it, the entries and the order in
//! which cached ones go. *Does not know* stamps: whether a page is live or cached is told to it.
//!
//! **Invariants.** A page has at most one entry, an entry one page. No two entries have the same parent, tokens and extras.
//! Names of entries are never used twice, so that what continued a removed entry is never found again.

use std::collections::{HashMap, TryReserveError};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashTable;

use super::entries::{CACHED, EXTRAS, Entries, Entry, PINNED, RETAINED, ROOT};
use super::order::Order;
use super::{EventRing, Namespace, PageName, PrefixEvent, PrefixKey, Retention};
use crate::id::OwnerId;

/// What an entry continues: another entry, or nothing but a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parent {
    pub(crate) id: NonZeroU64,
    pub(crate) is_root: bool,
}

/// A namespace that has first pages.
#[derive(Debug)]
struct Root {
    namespace: Arc<Namespace>,
    entries: u32,
}

/// See the module.
pub(crate) struct Index {
    /// Pages of the pool: as many places the table has from the first one on, so that it never grows under the lock.
    max_pages: u32,
    entries: Entries,
    table: HashTable<u32>,
    extras: HashMap<u32, Box<[u8]>>,
    roots: HashMap<NonZeroU64, Root>,
    root_ids: HashMap<Arc<Namespace>, NonZeroU64>,
    order: Order,
    next_id: NonZeroU64,
    pub(crate) events: EventRing,
}

/// Shows how much, never what: prompts are secrets.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("pages", &self.len()).field("cached", &self.cached()).finish_non_exhaustive()
    }
}

/// The place of a page in the table: its own hash, and what it continues.
fn place(page_hash: u64, parent: NonZeroU64) -> u32 {
    let mixed = (page_hash ^ parent.get().wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32) as u32
}

/// The table takes the bucket from the low bits and a tag from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub(crate) fn new(page_tokens: u32, max_pages: u32, events: usize) -> Self {
        Self {
            max_pages,
            entries: Entries::new(page_tokens),
            table: HashTable::new(),
            extras: HashMap::new(),
            roots: HashMap::new(),
            root_ids: HashMap::new(),
            order: Order::default(),
            next_id: NonZeroU64::MIN,
            events: EventRing::new(events),
        }
    }

    /// Published pages.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Cached pages.
    #[inline]
    pub(crate) fn cached(&self) -> u64 {
        self.order.cached()
    }

    /// Tokens of a published page.
    pub(crate) fn tokens(&self, page: u32) -> &[u32] {
        self.entries.tokens(page)
    }

    fn extras_of(&self, page: u32, entry: &Entry) -> &[u8] {
        if entry.has(EXTRAS) { self.extras.get(&page).map_or(&[], |extras| extras) } else { &[] }
    }

    /// The name of a published page.
    pub(crate) fn id(&self, page: u32) -> Option<NonZeroU64> {
        self.entries.get(page)?.id
    }

    #[inline]
    pub(crate) fn is_published(&self, page: u32) -> bool {
        self.entries.get(page).is_some()
    }

    /// Whether a published page stays when its last holder leaves.
    pub(crate) fn is_retained(&self, page: u32) -> bool {
        self.entries.get(page).is_some_and(|entry| entry.has(RETAINED))
    }

    /// Sets what becomes of a published page that is not cached now.
    /// `false` when there is none.
    pub(crate) fn set_retention(&mut self, page: u32, retention: Retention) -> bool {
        let entry = self.entries.get_mut(page).filter(|entry| !entry.has(CACHED));
        entry.map(|entry| entry.retain(retention)).is_some()
    }

    /// Makes a published page stay at least as long, cached or not, and answers how long it stays then.
    pub(crate) fn retain_at_least(&mut self, page: u32, owner: OwnerId, retention: Retention) -> Option<Retention> {
        let before = self.entries.get(page)?.retention();
        if before >= retention {
            return Some(before);
        }
        // It stands in the list of its priority. A page that a ticket names comes back to that list when the ticket ends.
        let is_pinned = self.entries.get(page)?.has(PINNED);
        let was_cached = self.order.take(&mut self.entries, page, owner);
        self.entries.get_mut(page)?.retain(retention);
        if was_cached {
            self.order.put(&mut self.entries, page, owner, is_pinned);
        }
        Some(retention)
    }

    /// How long a published page stays.
    pub(crate) fn retention(&self, page: u32) -> Option<Retention> {
        self.entries.get(page).map(Entry::retention)
    }

    /// Finds the root of a namespace that has pages.
    pub(crate) fn root(&self, namespace: &Namespace) -> Option<NonZeroU64> {
        self.root_ids.get(namespace).copied()
    }

    /// Finds or makes the root of a namespace. Made for an [`insert`](Self::insert), else for [`drop_root`](Self::drop_root).
    pub(crate) fn make_root(&mut self, namespace: Namespace) -> NonZeroU64 {
        if let Some(root) = self.root(&namespace) {
            return root;
        }
        let (id, namespace) = (self.take_id(), Arc::new(namespace));
        self.root_ids.insert(namespace.clone(), id);
        self.roots.insert(id, Root { namespace, entries: 0 });
        id
    }

    /// Forgets a root that has no page.
    pub(crate) fn drop_root(&mut self, id: NonZeroU64) {
        if self.roots.get(&id).is_some_and(|root| root.entries == 0)
            && let Some(root) = self.roots.remove(&id)
        {
            self.root_ids.remove(&root.namespace);
        }
    }

    fn take_id(&mut self) -> NonZeroU64 {
        let id = self.next_id;
        // 2^64 names last longer than any machine.
        self.next_id = id.saturating_add(1);
        id
    }

    /// Finds the page that continues `parent` with these tokens and extras: compared, not only hashed.
    pub(crate) fn find(&self, parent: Parent, name: &PageName<'_>) -> Option<u32> {
        let hash = place(name.hash, parent.id);
        let is_it = |page: &u32| {
            self.entries.get(*page).is_some_and(|entry| {
                entry.hash == hash
                    && entry.parent == parent.id.get()
                    && self.tokens(*page) == name.tokens
                    && self.extras_of(*page, entry) == name.extras
            })
        };
        self.table.find(spread(hash), is_it).copied()
    }

    /// Publishes a page that is not published; nobody else has its place.
    pub(crate) fn insert(
        &mut self,
        page: u32,
        owner: OwnerId,
        parent: Parent,
        name: &PageName<'_>,
        retention: Retention,
    ) -> Result<NonZeroU64, TryReserveError> {
        let PageName { hash, tokens, extras } = *name;
        self.make_room(page)?;
        let (hash, id) = (place(hash, parent.id), self.take_id());
        if !extras.is_empty() {
            self.extras.insert(page, extras.into());
        }
        if parent.is_root
            && let Some(root) = self.roots.get_mut(&parent.id)
        {
            root.entries += 1;
        }
        let mut entry = Entry { id: Some(id), parent: parent.id.get(), hash, ..Entry::EMPTY };
        entry.set(ROOT, parent.is_root);
        entry.set(EXTRAS, !extras.is_empty());
        entry.retain(retention);
        self.entries.put(page, entry, tokens);
        let entries = &self.entries;
        self.table.insert_unique(spread(hash), page, |page| spread(hash_in(entries, *page)));
        let parent = (!parent.is_root).then_some(PrefixKey(parent.id));
        self.events.push(|| PrefixEvent::Stored { key: PrefixKey(id), parent, owner, tokens: tokens.into() });
        Ok(id)
    }

    /// Makes room for a page, so that an [`insert`](Self::insert) of it needs no memory but that of its extras.
    pub(crate) fn make_room(&mut self, page: u32) -> Result<(), TryReserveError> {
        self.entries.try_reserve(page)?;
        if self.table.capacity() > self.table.len() {
            return Ok(());
        }
        let (entries, missing) = (&self.entries, (self.max_pages as usize).saturating_sub(self.table.len()).max(1));
        // hashbrown's error is another type; what it says is the same: no memory.
        let full = self.table.try_reserve(missing, |page| spread(hash_in(entries, *page))).is_err();
        if full { Vec::<u64>::new().try_reserve(usize::MAX) } else { Ok(()) }
    }

    /// Takes a page of an owner out of the index, whatever it is in. Nothing happens to one that is not published.
    pub(crate) fn remove(&mut self, page: u32, owner: OwnerId) {
        self.uncache(page, owner);
        let Some(removed) = self.entries.take(page) else { return };
        if let Ok(found) = self.table.find_entry(spread(removed.hash), |at| *at == page) {
            found.remove();
        }
        if removed.has(EXTRAS) {
            self.extras.remove(&page);
        }
        if removed.has(ROOT)
            && let Some(id) = NonZeroU64::new(removed.parent)
        {
            if let Some(root) = self.roots.get_mut(&id) {
                root.entries -= 1;
            }
            self.drop_root(id);
        }
        if let Some(id) = removed.id {
            self.events.push(|| PrefixEvent::Removed { key: PrefixKey(id) });
        }
    }

    /// Puts a published page of an owner among the cached ones, as the most recently used of its priority; apart, while a
    /// ticket names it.
    pub(crate) fn cache(&mut self, page: u32, owner: OwnerId, is_pinned: bool) {
        self.order.put(&mut self.entries, page, owner, is_pinned);
    }

    /// Takes a page of an owner out from among the cached ones; it stays published.
    pub(crate) fn uncache(&mut self, page: u32, owner: OwnerId) {
        self.order.take(&mut self.entries, page, owner);
    }

    /// The last ticket on a cached page ended: it may go.
    pub(crate) fn unpin(&mut self, page: u32, owner: OwnerId) {
        if self.order.take(&mut self.entries, page, owner) {
            self.order.put(&mut self.entries, page, owner, false);
        }
    }

    /// Cached pages that may go, those that go first first.
    pub(crate) fn loose_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.loose(&self.entries)
    }

    /// Cached pages that tickets name.
    pub(crate) fn pinned_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.pinned(&self.entries)
    }

    /// How many cached pages of an owner may go.
    pub(crate) fn loose_of(&self, owner: OwnerId) -> u64 {
        self.order.loose_of(owner)
    }

    /// How many owners have cached pages that may go.
    pub(crate) fn loose_owners(&self) -> usize {
        self.order.loose_owners()
    }

    /// Published pages, in no order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.iter().copied()
    }
}

fn hash_in(entries: &Entries, page: u32) -> u32 {
    entries.get(page).map_or(0, |entry| entry.hash)
}
