//! What every audit does: a census of states against counters, and lists against stamps.
//!
//! *Owns* the two comparisons. *Does not know* pools, pages or slots: what stands in a list is a number.

use crate::error::AuditError;
use crate::stamp::PageState;

/// How many stamps are in each state.
#[derive(Debug)]
pub(crate) struct Census([u64; PageState::ALL.len()]);

impl Census {
    pub(crate) fn of(states: impl Iterator<Item = PageState>) -> Self {
        let mut found = [0; PageState::ALL.len()];
        for state in states {
            found[state as usize] += 1;
        }
        Self(found)
    }

    pub(crate) const fn found(&self, state: PageState) -> u64 {
        self.0[state as usize]
    }

    /// Compares one state with its counter.
    pub(crate) const fn check(&self, state: PageState, counted: u64) -> Result<(), AuditError> {
        let found = self.found(state);
        if counted == found { Ok(()) } else { Err(AuditError::Count { state, counted, found }) }
    }
}

/// What was found in the lists so far.
#[derive(Debug)]
pub(crate) struct Listing {
    seen: Vec<bool>,
}

impl Listing {
    pub(crate) fn new(count: usize) -> Self {
        Self { seen: vec![false; count] }
    }

    /// Notes that `page` stands in `list`: in no other, and its stamp, which says `state`, agrees.
    pub(crate) fn stands(&mut self, page: u32, state: PageState, list: PageState) -> Result<(), AuditError> {
        let twice = std::mem::replace(&mut self.seen[page as usize], true);
        if twice || state != list { Err(AuditError::Listed { page, state, list }) } else { Ok(()) }
    }
}
