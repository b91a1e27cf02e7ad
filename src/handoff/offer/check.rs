//! Whether an offer asks for what a sender sealed.
//!
//! *Owns* the comparison, field by field, before a byte moves. *Does not know* how bytes move.

use crate::geometry::Slice;
use crate::handle::PageHandle;
use crate::handoff::offer::tiling::lies_within;
use crate::handoff::{Checksum, Offer, Outbound, OutboundError};
use crate::memory::PageMemory;

/// Compares, and answers what this sender is to send.
pub(in crate::handoff) fn check_offer<M: PageMemory>(
    sealed: &Outbound<M>,
    offer: &Offer,
) -> Result<Slice, OutboundError> {
    if offer.owner() != sealed.owner() {
        return Err(OutboundError::Owner { expected: sealed.owner(), found: offer.owner() });
    }
    if offer.model() != sealed.model() {
        let (expected, found) = (Box::new(sealed.model().clone()), Box::new(offer.model().clone()));
        return Err(OutboundError::Layout { expected, found });
    }
    let slice = check_slice(sealed, offer)?;
    check_extent(sealed, offer)?;
    check_destinations(offer)?;
    match offer.checksum() {
        Checksum::BytesUnverified if !sealed.may_be_unverified => Err(OutboundError::Unverified),
        // A sender that has a key serves no offer without one: who could ask for less could forge.
        checksum => checksum.check_key(sealed.key.as_ref()).map_err(OutboundError::from),
    }?;
    Ok(slice)
}

fn check_slice<M: PageMemory>(sealed: &Outbound<M>, offer: &Offer) -> Result<Slice, OutboundError> {
    let writer = sealed.writer();
    let named = offer.writers().iter().find(|named| named.holder() == writer);
    let slice = named.ok_or(OutboundError::Writer { writer })?.slice();
    if !lies_within(slice, sealed.slice()) {
        return Err(OutboundError::Slice { expected: sealed.slice().clone(), found: slice.clone() });
    }
    if !lies_within(slice, offer.slice()) {
        return Err(OutboundError::Slice { expected: offer.slice().clone(), found: slice.clone() });
    }
    Ok(slice.clone())
}

fn check_extent<M: PageMemory>(sealed: &Outbound<M>, offer: &Offer) -> Result<(), OutboundError> {
    let (sealed_tokens, found_tokens) = (sealed.tokens(), offer.tokens());
    let (expected_pages, found_pages) = (u64::from(sealed.pages()), offer.destinations().len() as u64);
    if found_pages != expected_pages {
        return Err(OutboundError::Pages { expected_pages, sealed_tokens, found_pages, found_tokens });
    }
    if found_tokens != sealed_tokens {
        return Err(OutboundError::Tokens { expected_tokens: sealed_tokens, found_tokens });
    }
    let (held_tokens, page_tokens) = (offer.held_tokens(), sealed.model().page_tokens());
    if held_tokens > sealed_tokens || !held_tokens.is_multiple_of(u64::from(page_tokens)) {
        return Err(OutboundError::Held { held_tokens, sealed_tokens, page_tokens });
    }
    Ok(())
}

/// Checks that the destinations are different pages of the pool that gave the transfer its number.
fn check_destinations(offer: &Offer) -> Result<(), OutboundError> {
    let identity = offer.transfer().identity();
    let mut pages = Vec::with_capacity(offer.destinations().len());
    for (position, bits) in offer.destinations().iter().enumerate() {
        let handle = PageHandle::<()>::from_bits(*bits);
        let ours = handle.filter(|handle| handle.pool() == identity.pool && handle.nonce() == identity.nonce);
        let handle = ours.ok_or(OutboundError::ForeignDestination { position })?;
        pages.push((handle.index(), position));
    }
    pages.sort_unstable();
    match pages.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(OutboundError::SameDestination { first: pair[0].1, second: pair[1].1 }),
        None => Ok(()),
    }
}
