//! The order in which cached pages go: a list for each priority, the least recently used in front.
//!
//! *Owns* the ends of the lists; the links are in the entries. A page that a ticket names would make no room: it stands in a
//! list of its own, so that whoever looks for room never passes it. *Does not know* stamps.
//!
//! O(1) to put a page in and to take it out; O(1) for each page that goes.

use std::collections::{BTreeMap, HashMap};

use super::entries::{CACHED, Entries, NONE, PINNED};
use crate::id::OwnerId;

/// The list of pages that tickets name, behind those of all priorities.
const APART: u16 = 256;

/// Ends of a list.
#[derive(Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

/// See the module.
#[derive(Default, Debug)]
pub(super) struct Order {
    lists: BTreeMap<u16, Ends>,
    cached: u64,
    /// Cached pages that may go, of each owner that has some.
    loose: HashMap<OwnerId, u64>,
}

/// The list that a cached page stands in.
fn list_of(entries: &Entries, page: u32) -> u16 {
    entries.get(page).map_or(APART, |entry| if entry.has(PINNED) { APART } else { entry.priority.into() })
}

impl Order {
    pub(super) const fn cached(&self) -> u64 {
        self.cached
    }

    pub(super) fn loose_of(&self, owner: OwnerId) -> u64 {
        self.loose.get(&owner).copied().unwrap_or(0)
    }

    pub(super) fn loose_owners(&self) -> usize {
        self.loose.len()
    }

    /// Puts a published page in, as the most recently used of its priority. Nothing happens to one that is in.
    pub(super) fn put(&mut self, entries: &mut Entries, page: u32, owner: OwnerId, is_pinned: bool) {
        let Some(entry) = entries.get_mut(page).filter(|entry| !entry.has(CACHED)) else { return };
        entry.set(CACHED, true);
        entry.set(PINNED, is_pinned);
        let list = list_of(entries, page);
        let older = match self.lists.get_mut(&list) {
            Some(ends) => std::mem::replace(&mut ends.newest, page),
            None => {
                self.lists.insert(list, Ends { oldest: page, newest: page });
                NONE
            }
        };
        if let Some(older) = entries.get_mut(older) {
            older.newer = page;
        }
        if let Some(entry) = entries.get_mut(page) {
            (entry.older, entry.newer) = (older, NONE);
        }
        self.cached += 1;
        if !is_pinned {
            *self.loose.entry(owner).or_default() += 1;
        }
    }

    /// Takes a page out; it stays published. `false` when it was not in.
    pub(super) fn take(&mut self, entries: &mut Entries, page: u32, owner: OwnerId) -> bool {
        let list = list_of(entries, page);
        let Some(entry) = entries.get_mut(page).filter(|entry| entry.has(CACHED)) else { return false };
        let (older, newer, was_pinned) = (entry.older, entry.newer, entry.has(PINNED));
        entry.set(CACHED, false);
        entry.set(PINNED, false);
        if let Some(older) = entries.get_mut(older) {
            older.newer = newer;
        }
        if let Some(newer) = entries.get_mut(newer) {
            newer.older = older;
        }
        if let Some(ends) = self.lists.get_mut(&list) {
            if ends.oldest == page {
                ends.oldest = newer;
            }
            if ends.newest == page {
                ends.newest = older;
            }
            if ends.oldest == NONE {
                self.lists.remove(&list);
            }
        }
        self.cached -= 1;
        if !was_pinned {
            self.count_loose_out(owner);
        }
        true
    }

    fn count_loose_out(&mut self, owner: OwnerId) {
        if let Some(loose) = self.loose.get_mut(&owner) {
            *loose -= 1;
            if *loose == 0 {
                self.loose.remove(&owner);
            }
        }
    }

    /// Cached pages that may go, those that go first first.
    pub(super) fn loose<'a>(&'a self, entries: &'a Entries) -> impl Iterator<Item = u32> + 'a {
        self.lists.range(..APART).flat_map(|(_, ends)| pages_from(entries, ends.oldest))
    }

    /// Cached pages that tickets name.
    pub(super) fn pinned<'a>(&'a self, entries: &'a Entries) -> impl Iterator<Item = u32> + 'a {
        self.lists.range(APART..).flat_map(|(_, ends)| pages_from(entries, ends.oldest))
    }
}

fn pages_from(entries: &Entries, oldest: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::successors(Some(oldest), |page| entries.get(*page).map(|entry| entry.newer).filter(|page| *page != NONE))
}
