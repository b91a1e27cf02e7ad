//! The index: published pages by what they continue and what they hold, and the order in which cached ones go.
//!
//! *Owns* an entry of 32 bytes and the tokens of each published page, the table that finds them, and one list per priority.
//! *Does not know* stamps: whether a page is live or cached is told to it.
//!
//! **Invariants.** A page has at most one entry, an entry one page. No two entries have the same parent, tokens and extras.
//! Names of entries are never used twice, so that what continued a removed entry is never found again.

use std::collections::{BTreeMap, HashMap, TryReserveError};
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashTable;

use super::{EventRing, Namespace, PageName, PrefixEvent, PrefixKey, Retention};
use crate::id::OwnerId;

/// Pages whose entries are allocated together.
const CHUNK: usize = 256;
/// No page.
const NONE: u32 = u32::MAX;

/// What an entry continues: another entry, or nothing but a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parent {
    pub(crate) id: NonZeroU64,
    pub(crate) is_root: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None`: the page is not published.
    id: Option<NonZeroU64>,
    parent: u64,
    hash: u32,
    /// Neighbours in the list of its priority, while the page is cached.
    older: u32,
    newer: u32,
    /// Among cached pages, the lower go first.
    priority: u8,
    flags: u8,
}

/// It continues a namespace, not another page.
const ROOT: u8 = 1;
const EXTRAS: u8 = 2;
/// It stays when its last holder leaves.
const RETAINED: u8 = 4;
/// It stands in the list of its priority.
const CACHED: u8 = 8;

impl Entry {
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    fn retain(&mut self, retention: Retention) {
        self.set(RETAINED, retention != Retention::WhileHeld);
        if let Retention::Cached { priority } = retention {
            self.priority = priority;
        }
    }
}

const EMPTY: Entry = Entry { id: None, parent: 0, hash: 0, older: NONE, newer: NONE, priority: 0, flags: 0 };

#[derive(Debug)]
struct Chunk {
    entries: Box<[Entry]>,
    tokens: Box<[u32]>,
}

impl Chunk {
    fn try_new(page_tokens: usize) -> Result<Self, TryReserveError> {
        let (mut entries, mut tokens) = (Vec::new(), Vec::new());
        entries.try_reserve_exact(CHUNK)?;
        tokens.try_reserve_exact(CHUNK * page_tokens)?;
        entries.resize(CHUNK, EMPTY);
        tokens.resize(CHUNK * page_tokens, 0);
        Ok(Self { entries: entries.into(), tokens: tokens.into() })
    }
}

/// Ends of a list of cached pages.
#[derive(Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

/// A namespace that has first pages.
#[derive(Debug)]
struct Root {
    namespace: Arc<Namespace>,
    entries: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    page_tokens: usize,
    chunks: Vec<Option<Chunk>>,
    table: HashTable<u32>,
    extras: HashMap<u32, Box<[u8]>>,
    roots: HashMap<NonZeroU64, Root>,
    root_ids: HashMap<Arc<Namespace>, NonZeroU64>,
    lists: BTreeMap<u8, Ends>,
    cached: u64,
    next_id: NonZeroU64,
    pub(crate) events: EventRing,
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
    pub(crate) fn new(page_tokens: u32, events: usize) -> Self {
        Self {
            page_tokens: page_tokens as usize,
            chunks: Vec::new(),
            table: HashTable::new(),
            extras: HashMap::new(),
            roots: HashMap::new(),
            root_ids: HashMap::new(),
            lists: BTreeMap::new(),
            cached: 0,
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
        self.cached
    }

    fn entry(&self, page: u32) -> Option<&Entry> {
        let chunk = self.chunks.get(page as usize / CHUNK)?.as_ref()?;
        Some(&chunk.entries[page as usize % CHUNK]).filter(|entry| entry.id.is_some())
    }

    fn entry_mut(&mut self, page: u32) -> Option<&mut Entry> {
        let chunk = self.chunks.get_mut(page as usize / CHUNK)?.as_mut()?;
        Some(&mut chunk.entries[page as usize % CHUNK]).filter(|entry| entry.id.is_some())
    }

    /// Tokens of a published page.
    pub(crate) fn tokens(&self, page: u32) -> &[u32] {
        let at = page as usize % CHUNK * self.page_tokens;
        self.chunks[page as usize / CHUNK].as_ref().map_or(&[], |chunk| &chunk.tokens[at..at + self.page_tokens])
    }

    fn extras_of(&self, page: u32, entry: &Entry) -> &[u8] {
        if entry.has(EXTRAS) { self.extras.get(&page).map_or(&[], |extras| extras) } else { &[] }
    }

    /// The name of a published page.
    pub(crate) fn id(&self, page: u32) -> Option<NonZeroU64> {
        self.entry(page)?.id
    }

    #[inline]
    pub(crate) fn is_published(&self, page: u32) -> bool {
        self.entry(page).is_some()
    }

    /// Whether a published page stays when its last holder leaves.
    pub(crate) fn is_retained(&self, page: u32) -> bool {
        self.entry(page).is_some_and(|entry| entry.has(RETAINED))
    }

    /// Sets what becomes of a published page that is not cached now.
    /// `false` when there is none.
    pub(crate) fn set_retention(&mut self, page: u32, retention: Retention) -> bool {
        let entry = self.entry_mut(page).filter(|entry| !entry.has(CACHED));
        entry.map(|entry| entry.retain(retention)).is_some()
    }

    /// Raises the priority of a page that another continues. `false` when it was high enough, or the page is not here.
    pub(crate) fn raise(&mut self, page: u32, priority: u8) -> bool {
        let low = self.entry_mut(page).filter(|entry| entry.has(RETAINED) && entry.priority < priority);
        low.map(|entry| entry.priority = priority).is_some()
    }

    /// Finds the root of a namespace that has pages.
    pub(crate) fn root(&self, namespace: &Namespace) -> Option<Parent> {
        self.root_ids.get(namespace).map(|id| Parent { id: *id, is_root: true })
    }

    /// Finds or makes the root of a namespace. Made for an [`insert`](Self::insert), else for [`drop_root`](Self::drop_root).
    pub(crate) fn make_root(&mut self, namespace: Namespace) -> Parent {
        if let Some(root) = self.root(&namespace) {
            return root;
        }
        let (id, namespace) = (self.take_id(), Arc::new(namespace));
        self.root_ids.insert(namespace.clone(), id);
        self.roots.insert(id, Root { namespace, entries: 0 });
        Parent { id, is_root: true }
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
            self.entry(*page).is_some_and(|entry| {
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
        let mut entry = Entry { id: Some(id), parent: parent.id.get(), hash, ..EMPTY };
        entry.set(ROOT, parent.is_root);
        entry.set(EXTRAS, !extras.is_empty());
        entry.retain(retention);
        if let Some(chunk) = self.chunks[page as usize / CHUNK].as_mut() {
            let at = page as usize % CHUNK;
            chunk.entries[at] = entry;
            chunk.tokens[at * self.page_tokens..(at + 1) * self.page_tokens].copy_from_slice(tokens);
        }
        let chunks = &self.chunks;
        self.table.insert_unique(spread(hash), page, |page| spread(hash_in(chunks, *page)));
        let parent = (!parent.is_root).then_some(PrefixKey(parent.id));
        self.events.push(|| PrefixEvent::Stored { key: PrefixKey(id), parent, owner, tokens: tokens.into() });
        Ok(id)
    }

    fn make_room(&mut self, page: u32) -> Result<(), TryReserveError> {
        let at = page as usize / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.try_reserve(at + 1 - self.chunks.len())?;
            self.chunks.resize_with(at + 1, || None);
        }
        if self.chunks[at].is_none() {
            self.chunks[at] = Some(Chunk::try_new(self.page_tokens)?);
        }
        let chunks = &self.chunks;
        // hashbrown's error is another type; what it says is the same: no memory.
        let full = self.table.try_reserve(1, |page| spread(hash_in(chunks, *page))).is_err();
        if full { Vec::<u64>::new().try_reserve(usize::MAX) } else { Ok(()) }
    }

    /// Takes a page out of the index, whatever it is in. Nothing happens to one that is not published.
    pub(crate) fn remove(&mut self, page: u32) {
        self.uncache(page);
        let Some(entry) = self.entry_mut(page) else { return };
        let removed = std::mem::replace(entry, EMPTY);
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

    /// Puts a published page among the cached ones, as the most recently used of its priority.
    pub(crate) fn cache(&mut self, page: u32) {
        let Some(entry) = self.entry(page).copied().filter(|entry| !entry.has(CACHED)) else { return };
        let priority = entry.priority;
        let older = match self.lists.get_mut(&priority) {
            Some(ends) => std::mem::replace(&mut ends.newest, page),
            None => {
                self.lists.insert(priority, Ends { oldest: page, newest: page });
                NONE
            }
        };
        if let Some(older) = self.entry_mut(older) {
            older.newer = page;
        }
        if let Some(entry) = self.entry_mut(page) {
            (entry.older, entry.newer) = (older, NONE);
            entry.set(CACHED, true);
        }
        self.cached += 1;
    }

    /// Takes a page out from among the cached ones; it stays published.
    pub(crate) fn uncache(&mut self, page: u32) {
        let Some(entry) = self.entry_mut(page).filter(|entry| entry.has(CACHED)) else { return };
        entry.set(CACHED, false);
        let (older, newer, priority) = (entry.older, entry.newer, entry.priority);
        if let Some(older) = self.entry_mut(older) {
            older.newer = newer;
        }
        if let Some(newer) = self.entry_mut(newer) {
            newer.older = older;
        }
        if let Some(ends) = self.lists.get_mut(&priority) {
            if ends.oldest == page {
                ends.oldest = newer;
            }
            if ends.newest == page {
                ends.newest = older;
            }
            if ends.oldest == NONE {
                self.lists.remove(&priority);
            }
        }
        self.cached -= 1;
    }

    /// Cached pages, those that go first first.
    pub(crate) fn cached_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.values().flat_map(|ends| {
            let next = |page: &u32| self.entry(*page).map(|entry| entry.newer).filter(|page| *page != NONE);
            std::iter::successors(Some(ends.oldest), next)
        })
    }

    /// Published pages, in no order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.iter().copied()
    }
}

fn hash_in(chunks: &[Option<Chunk>], page: u32) -> u32 {
    let chunk = chunks.get(page as usize / CHUNK).and_then(Option::as_ref);
    chunk.map_or(0, |chunk| chunk.entries[page as usize % CHUNK].hash)
}
