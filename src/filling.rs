//! A reservation whose next tokens are filled in any order of pages and planes, before any of them counts as written.
//!
//! *Owns* the reservation meanwhile, so that nobody reads or writes it, and the one step that makes all the tokens written
//! and committed. *Does not know* what the bytes should be: whoever finishes says so.
//!
//! **Invariant** [`WriteBorrow::again`](crate::access::WriteBorrow::again) is sound because a `Filling` exists only after
//! the pages were prepared, keeps the reservation to itself, and ends when the tokens become written.

use std::fmt;
use std::ops::Range;

use crate::access::WriteBorrow;
use crate::error::{Refused, TicketError, WriteError};
use crate::memory::PageMemory;
use crate::reservation::Reservation;
use crate::ticket::{HolderId, TicketId};

pub(crate) struct Filling<M: PageMemory> {
    reservation: Reservation<M>,
    tokens: Range<u64>,
}

impl<M: PageMemory> Filling<M> {
    /// Takes a reservation over, to fill the `tokens` tokens after those that are written. The reservation comes back with
    /// an error.
    pub(crate) fn begin(
        mut reservation: Reservation<M>,
        tokens: u64,
    ) -> Result<Self, Refused<Reservation<M>, WriteError>> {
        match reservation.prepare_filling(tokens) {
            Ok(tokens) => Ok(Self { reservation, tokens }),
            Err(error) => Err(Refused::new(reservation, error)),
        }
    }

    pub(crate) const fn reservation(&self) -> &Reservation<M> {
        &self.reservation
    }

    /// Lets an outside party write pages of the reservation, by ordinal, until its ticket ends.
    pub(crate) fn pin_write(
        &mut self,
        pages: Range<u32>,
        holder: HolderId,
        deadline_ns: Option<u64>,
    ) -> Result<TicketId, TicketError> {
        self.reservation.pin_write(pages, holder, deadline_ns)
    }

    /// The right to store parts, and to look at what was stored.
    pub(crate) fn right(&mut self) -> Result<WriteBorrow<'_, M>, WriteError> {
        self.reservation.right_to_fill(self.tokens.clone())
    }

    /// Makes all the tokens written and committed if `check` finds them good, without letting go in between. Else the
    /// reservation comes back as it was before.
    pub(crate) fn finish<E: From<WriteError>>(
        mut self,
        check: impl FnOnce(&mut WriteBorrow<'_, M>) -> Result<(), E>,
    ) -> Result<Reservation<M>, (Reservation<M>, E)> {
        let checked = self.right().map_err(E::from).and_then(|mut right| {
            check(&mut right)?;
            right.publish();
            Ok(())
        });
        match checked {
            Ok(()) => Ok(self.reservation.filled(self.tokens.end)),
            Err(error) => Err((self.reservation, error)),
        }
    }

    /// Gives the reservation back, with none of the tokens written.
    pub(crate) fn abandon(self) -> Reservation<M> {
        self.reservation
    }
}

impl<M: PageMemory> fmt::Debug for Filling<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").field("reservation", &self.reservation).field("tokens", &self.tokens).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::geometry::PlaneWindow;
    use crate::{
        CapacityPlan, HolderId, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, ReadError, Request,
    };

    fn filling(reserved: u64, tokens: u64) -> Filling<HostMemory> {
        let geometry = PageGeometry::new(4, &[Plane::per_token(1, 2), Plane::per_token(2, 1)]).expect("a good shape");
        let pool = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry, 10).expect("a map")).expect("a pool");
        let proof = pool.prove(CapacityPlan::new(32)).expect("it fits");
        let owner = OwnerId::new(1).expect("non-zero");
        let reservation = pool.reserve(&proof, Request::new(owner, reserved), reserved).expect("room");
        Filling::begin(reservation, tokens).expect("nobody else is there")
    }

    // C10, C12
    #[test]
    fn a_part_outside_the_right_reaches_no_byte() {
        let mut filling = filling(12, 6);
        let windows = PlaneWindow::all(filling.reservation.pool().geometry());
        let mut right = filling.right().expect("not revoked");
        let past = |to_tokens| Err(WriteError::PastReserved { to_tokens, reserved_tokens: 6 });
        assert_eq!(right.store_part(1, &windows[0], 0..3, &[1; 6]), past(7), "reserved, but not of this right");
        assert_eq!(right.store_part(0, &windows[0], 3..5, &[1; 4]), past(5), "past the page");
        assert_eq!(right.store_part(2, &windows[0], 0..1, &[1; 2]), past(9));
        assert_eq!(right.store_part(9, &windows[0], 0..1, &[1; 2]), past(37), "past the reservation");
        #[expect(clippy::reversed_empty_ranges, reason = "a range that runs backward is what is tried")]
        let backward = right.store_part(0, &windows[0], 2..1, &[]);
        assert_eq!(backward, past(1));
        let three = [Plane::per_token(1, 2), Plane::per_token(1, 2), Plane::per_token(1, 2)];
        let other = PlaneWindow::all(&PageGeometry::new(4, &three).expect("a good shape"));
        for plane in [1, 2] {
            let found = right.store_part(0, &other[plane], 0..1, &[1; 2]);
            assert_eq!(found, Err(WriteError::NoSuchPlane { plane, planes: 2 }), "a window of other pages");
        }
        let wrong = WriteError::Length { plane: 1, tokens: 2, given_bytes: 3, expected_bytes: 4 };
        assert_eq!(right.store_part(0, &windows[1], 0..2, &[1; 3]), Err(wrong));
        let short = WriteError::Length { plane: 0, tokens: 2, given_bytes: 3, expected_bytes: 4 };
        assert_eq!(right.store_run(0, &windows[0], 0, 0..2, &[1; 3]), Err(short));
        assert_eq!(right.store_run(0, &windows[0], 0, 2..2, &[]), Ok(()), "no token is no byte");
        for (ordinal, tokens) in [(0, 0..4), (1, 0..2)] {
            let mut seen = Vec::new();
            let mut look = |tokens: Range<u32>, bytes: &[u8]| seen.push((tokens, bytes.to_vec()));
            right.look(ordinal, &windows[0], 0, tokens.clone(), &mut look).expect("of the right");
            assert_eq!(seen, [(tokens.clone(), vec![0; tokens.len() * 2])]);
        }
        let beyond = right.look(1, &windows[0], 0, 0..3, &mut |_, _| panic!("a token that is not of the right"));
        assert_eq!(beyond, past(7));
    }

    // C12
    #[test]
    fn nothing_is_stored_over_tokens_that_are_written_and_they_are_looked_at_all_the_same() {
        let mut reservation = filling(8, 8).abandon();
        reservation.write(4, &[&[7; 8], &[9; 8]]).expect("it is empty");
        let mut filling = Filling::begin(reservation, 4).expect("nobody else is there");
        let windows = PlaneWindow::all(filling.reservation.pool().geometry());
        let mut right = filling.right().expect("not revoked");
        for tokens in [0..4, 3..4] {
            let (count, to_tokens) = (tokens.len(), u64::from(tokens.end));
            let written = Err(WriteError::PastReserved { to_tokens, reserved_tokens: 8 });
            assert_eq!(right.store_part(0, &windows[0], tokens.clone(), &vec![1; count * 2]), written);
            assert_eq!(right.store_run(0, &windows[0], 0, tokens, &vec![1; count * 2]), written);
        }
        let mut seen = Vec::new();
        right.look(0, &windows[0], 0, 0..4, &mut |_, bytes| seen.extend_from_slice(bytes)).expect("its own");
        assert_eq!(seen, [7; 8]);
    }

    // C12
    #[test]
    fn nothing_is_stored_or_verified_while_an_outside_writer_is_on_the_page() {
        let mut filling = filling(8, 8);
        filling.reservation.pin_write(1..2, HolderId(1), None).expect("nobody reads");
        let page = filling.reservation.handle(1).expect("a page").index();
        let windows = PlaneWindow::all(filling.reservation.pool().geometry());
        let mut right = filling.right().expect("not revoked");
        right.store_part(0, &windows[0], 0..4, &[1; 8]).expect("the other page");
        assert_eq!(right.store_part(1, &windows[0], 0..4, &[1; 8]), Err(WriteError::Busy { page }));
        let look = right.look(1, &windows[0], 0, 0..4, &mut |_, _| panic!("somebody else writes it"));
        assert_eq!(look, Err(WriteError::Busy { page }));
    }

    // C5
    #[test]
    fn a_check_that_fails_gives_the_reservation_back_with_nothing_written() {
        let refuse = |right: &mut WriteBorrow<'_, HostMemory>| {
            let windows = PlaneWindow::all(right.geometry());
            right.store_part(0, &windows[0], 0..4, &[1; 8])?;
            Err(WriteError::TooManyGuards)
        };
        let (reservation, error) = filling(8, 8).finish(refuse).expect_err("it was refused");
        assert_eq!((reservation.written_tokens(), error), (0, WriteError::TooManyGuards));
        assert!(matches!(reservation.read(0..1), Err(ReadError::Unwritten { .. })));
        let accept = |_: &mut WriteBorrow<'_, HostMemory>| Ok::<(), WriteError>(());
        let reservation = filling(8, 6).finish(accept).expect("it was accepted");
        assert_eq!((reservation.written_tokens(), reservation.committed_tokens()), (6, 6));
    }
}
