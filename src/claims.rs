//! The table of claims: what was asked under a token, so that asking again gives the same and not more.
//!
//! *Owns* the tokens, for pages and slots alike. A claim is *out* while what it gave exists somewhere, *kept* when that was
//! dropped before it was confirmed (the answer was lost), and *ended* afterwards. Only kept claims expire, by the caller's
//! clock. *Does not know* what is given: `A` is what was asked, `O` what tells whether it still exists, `K` what is kept.

use std::collections::HashMap;

use crate::id::OwnerId;
use crate::pool::ClaimToken;

/// Ended claims that are remembered, so that a late try is told so instead of getting more.
const REMEMBERED: usize = 4096;

/// Where a claim stands.
#[derive(Debug)]
pub(crate) enum Standing<O, K> {
    Out(O),
    Kept(K),
    Ended,
}

/// A claim, as its pool keeps it.
#[derive(Debug)]
pub(crate) struct Claim<A, O, K> {
    owner: OwnerId,
    asked: A,
    pub(crate) expires_at_ns: u64,
    pub(crate) standing: Standing<O, K>,
}

/// How a try differs from the first one under its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch<A> {
    Owner,
    /// The first one asked for this.
    Asked(A),
}

/// Claims by token.
#[derive(Debug)]
pub(crate) struct Claims<A, O, K> {
    by_id: HashMap<u128, Claim<A, O, K>>,
    /// So many claims are looked through for ended ones.
    enough: usize,
}

impl<A, O, K> Default for Claims<A, O, K> {
    fn default() -> Self {
        Self { by_id: HashMap::new(), enough: 2 * REMEMBERED }
    }
}

impl<A: Copy + PartialEq, O, K> Claims<A, O, K> {
    pub(crate) fn contains(&self, token: ClaimToken) -> bool {
        self.by_id.contains_key(&token.id)
    }

    /// The claim that gave what `is_it` knows, and not one of the same name that came when the first was forgotten.
    pub(crate) fn out_mut(&mut self, token: ClaimToken, is_it: impl FnOnce(&O) -> bool) -> Option<&mut Claim<A, O, K>> {
        let claim = self.by_id.get_mut(&token.id)?;
        matches!(&claim.standing, Standing::Out(out) if is_it(out)).then_some(claim)
    }

    /// Notes a first try that was answered.
    pub(crate) fn note(&mut self, token: ClaimToken, owner: OwnerId, asked: A, out: O) {
        let ClaimToken { id, expires_at_ns } = token;
        self.by_id.insert(id, Claim { owner, asked, expires_at_ns, standing: Standing::Out(out) });
    }

    /// The claim of an earlier try that asked the same for the same owner.
    pub(crate) fn find(
        &mut self,
        token: ClaimToken,
        owner: OwnerId,
        asked: A,
    ) -> Result<Option<&mut Claim<A, O, K>>, Mismatch<A>> {
        let Some(claim) = self.by_id.get_mut(&token.id) else { return Ok(None) };
        if claim.owner != owner {
            Err(Mismatch::Owner)
        } else if claim.asked != asked {
            Err(Mismatch::Asked(claim.asked))
        } else {
            Ok(Some(claim))
        }
    }

    /// Ends the claim that gave what `is_it` knows, and remembers it.
    pub(crate) fn end(&mut self, token: ClaimToken, is_it: impl FnOnce(&O) -> bool) {
        if let Some(claim) = self.out_mut(token, is_it) {
            claim.standing = Standing::Ended;
        }
        self.forget_old();
    }

    /// Ends the kept claims that nobody asked for again in time, and gives what they kept. One that is out ends with what it
    /// gave, which `is_gone` tells.
    pub(crate) fn expire(&mut self, now_ns: u64, is_gone: impl Fn(&O) -> bool) -> Vec<(OwnerId, K)> {
        let mut expired = Vec::new();
        for claim in self.by_id.values_mut().filter(|claim| claim.expires_at_ns <= now_ns) {
            match std::mem::replace(&mut claim.standing, Standing::Ended) {
                Standing::Kept(kept) => expired.push((claim.owner, kept)),
                Standing::Out(out) if is_gone(&out) => {}
                before => claim.standing = before,
            }
        }
        self.forget_old();
        expired
    }

    /// Forgets the ended claims that expire first once there are too many.
    fn forget_old(&mut self) {
        if self.by_id.len() < self.enough {
            return;
        }
        let is_ended = |claim: &Claim<A, O, K>| matches!(claim.standing, Standing::Ended);
        let mut ended: Vec<(u64, u128)> =
            self.by_id.iter().filter(|(_, c)| is_ended(c)).map(|(id, c)| (c.expires_at_ns, *id)).collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(REMEMBERED);
        for (_, id) in ended.into_iter().take(surplus) {
            self.by_id.remove(&id);
        }
        // However many are not ended, so many new ones come between two looks.
        self.enough = self.by_id.len() + REMEMBERED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_are_not_ended_are_not_looked_through_again_and_again() {
        let (mut claims, owner) = (Claims::<(), u128, ()>::default(), OwnerId::new(1).expect("non-zero"));
        let token = |id| ClaimToken { id, expires_at_ns: 0 };
        let many = 3 * REMEMBERED as u128;
        (0..many).for_each(|id| claims.note(token(id), owner, (), id));
        for id in 0..many {
            claims.end(token(id), |out| *out == id);
            assert!(claims.by_id.len() < claims.enough, "the next end looks through all of them");
        }
        // Later ones let the ended go.
        (many..2 * many).for_each(|id| {
            claims.note(token(id), owner, (), id);
            claims.end(token(id), |out| *out == id);
        });
        assert!(claims.by_id.len() <= 2 * REMEMBERED);
    }
}
