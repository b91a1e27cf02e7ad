//! Moves within a process: offload to a pool on the host, load back, defragment.
//!
//! The same protocol with both ends here: the tokens are copied and digested in one pass, read back and compared, and count
//! in the target only then. Until that the source is untouched; after it, it is released. Whatever a ticket, a step or a
//! guard holds is a page in one life of it, never a place in a sequence, so that two moves that exchange their pages cannot
//! meet.

use thiserror::Error;

use crate::error::{ReadError, Refused, WriteError};
use crate::filling::Filling;
use crate::geometry::{Fingerprint, PageGeometry, PlaneWindow};
use crate::handoff::bytes::pass::{Onto, Pass};
use crate::handoff::error::Shape;
use crate::handoff::verdict::expected::tokens_in_page;
use crate::handoff::verdict::verify::Reader;
use crate::handoff::{Checksum, Digest, Digester};
use crate::id::{OwnerId, TransferId};
use crate::memory::PageMemory;
use crate::reservation::Reservation;
use crate::transfer::Side;

/// Says why tokens were not moved. Both reservations come back, the source as it was, the target with nothing written.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// The target is another owner's.
    #[error("owner {expected}'s tokens cannot move to owner {found}; reserve the target for the same owner")]
    Owner {
        /// Whose tokens they are.
        expected: OwnerId,
        /// Whose pages the target has.
        found: OwnerId,
    },
    /// The target's pages have another shape.
    #[error("{} cannot move to {}; make both pools of one geometry", Shape(expected), Shape(found))]
    Geometry {
        /// Shape of the source's pages.
        expected: Box<PageGeometry>,
        /// Shape of the target's.
        found: Box<PageGeometry>,
    },
    /// The target is too small.
    #[error("{written_tokens} tokens are to move, the target has room for {reserved_tokens}; grow it first")]
    TooSmall {
        /// Tokens of the source.
        written_tokens: u64,
        /// Tokens reserved in the target.
        reserved_tokens: u64,
    },
    /// The target is not empty.
    #[error("the target holds {written_tokens} tokens; move into an empty reservation")]
    NotEmpty {
        /// Tokens of the target.
        written_tokens: u64,
    },
    /// A page does not read back as it was written: the target's memory changed it.
    #[error("page {page} does not read back as it was written; distrust the target's memory")]
    Digest {
        /// The page's ordinal.
        page: u32,
    },
    /// The source cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The target cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Both ends of a move that was not made.
type NotMoved<M, N> = Refused<(Reservation<M>, Reservation<N>), MoveError>;

impl<M: PageMemory> Reservation<M> {
    /// Moves the written tokens into an empty reservation of the same owner, in this pool or in another one of the process,
    /// and releases this one. Written and committed tokens are in the target what they were here.
    ///
    /// For offload to the host and the way back, and, into a pool that [places pages side by side](crate::PoolConfig), to
    /// defragment. Pages of the source that a reader from outside holds a ticket for stay quarantined until that ends.
    ///
    /// # Cost
    ///
    /// O(bytes): two copies (through a chunk in the first-level cache), one read back and two digests. Between pools of one
    /// device it makes one copy and the two digests, and no byte comes to the host.
    ///
    /// # Errors
    ///
    /// [`MoveError`], with both reservations: the source as it was, the target with nothing written.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let fast = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry.clone(), 6)?)?;
    /// let large = PagePool::new(PoolConfig::new(66), HostMemory::new(geometry, 66)?)?;
    /// let alice = OwnerId::new(1).ok_or("zero")?;
    /// let mut kv = fast.reserve(&fast.prove(CapacityPlan::new(64))?, Request::new(alice, 64), 20)?;
    /// kv.write(20, &[&[7; 20 * 64]])?;
    ///
    /// let room = large.reserve(&large.prove(CapacityPlan::new(64))?, Request::new(alice, 64), 20)?;
    /// let kv = kv.move_into(room)?;
    /// assert_eq!((kv.pool().id(), kv.written_tokens()), (large.id(), 20));
    /// assert_eq!(fast.stats().free_pages, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_into<N: PageMemory>(self, target: Reservation<N>) -> Result<Reservation<N>, NotMoved<M, N>> {
        if let Err(error) = check(&self, &target) {
            return Err(Refused::new((self, target), error));
        }
        match fill(&self, target) {
            Ok(target) => {
                self.release();
                Ok(target)
            }
            Err(refused) => {
                let (target, error) = refused.into_parts();
                Err(Refused::new((self, target), error))
            }
        }
    }
}

fn check<M: PageMemory, N: PageMemory>(source: &Reservation<M>, target: &Reservation<N>) -> Result<(), MoveError> {
    if source.owner() != target.owner() {
        return Err(MoveError::Owner { expected: source.owner(), found: target.owner() });
    }
    let (expected, found) = (source.pool().geometry(), target.pool().geometry());
    if expected != found {
        return Err(MoveError::Geometry { expected: Box::new(expected.clone()), found: Box::new(found.clone()) });
    }
    let (written_tokens, reserved_tokens) = (source.written_tokens(), target.reserved_tokens());
    if written_tokens > reserved_tokens {
        return Err(MoveError::TooSmall { written_tokens, reserved_tokens });
    }
    match target.written_tokens() {
        0 => Ok(()),
        written_tokens => Err(MoveError::NotEmpty { written_tokens }),
    }
}

fn fill<M: PageMemory, N: PageMemory>(
    source: &Reservation<M>,
    target: Reservation<N>,
) -> Result<Reservation<N>, Refused<Reservation<N>, MoveError>> {
    let tokens = source.written_tokens();
    let mut filling = match Filling::begin(target, tokens) {
        Ok(filling) => filling,
        Err(refused) => {
            let (target, error) = refused.into_parts();
            return Err(Refused::new(target, error.into()));
        }
    };
    let geometry = source.pool().geometry();
    let Some(transfer) = filling.reservation().open_transfer(Side::Receiver) else {
        return Err(Refused::new(filling.abandon(), WriteError::Revoked.into()));
    };
    let meaning = geometry.fingerprint();
    let moved = match copy(source, &mut filling, transfer, meaning) {
        Ok((digester, digests)) => filling.finish(|right| {
            let mut reader = Reader::new(right, digester, PlaneWindow::all(geometry));
            let mut expected = (0..).zip(digests);
            reader.digests(pages(tokens, geometry), |digest| match expected.next() {
                Some((_, expected)) if expected == digest => Ok(()),
                Some((page, _)) => Err(MoveError::Digest { page }),
                None => Ok(()),
            })
        }),
        Err(error) => Err((filling.abandon(), error)),
    };
    let committed_tokens = source.committed_tokens();
    moved
        .map(|target| target.end_transfer().with_committed(committed_tokens))
        .map_err(|(target, error)| Refused::new(target.end_transfer(), error))
}

/// The pages of so many tokens, each with its own.
fn pages(tokens: u64, geometry: &PageGeometry) -> impl Iterator<Item = (u32, u32)> + Clone {
    let page_tokens = geometry.page_tokens();
    // a reservation has fewer pages than a u32
    let count = geometry.pages_for_tokens(tokens) as u32;
    (0..count).map(move |page| (page, tokens_in_page(tokens, page_tokens, page)))
}

/// Copies all written tokens, and answers their digests, page by page: where they are, if the memories can do that, else
/// through the host in one pass.
fn copy<M: PageMemory, N: PageMemory>(
    source: &Reservation<M>,
    filling: &mut Filling<N>,
    transfer: TransferId,
    meaning: Fingerprint,
) -> Result<(Digester, Vec<Digest>), MoveError> {
    let (geometry, tokens) = (source.pool().geometry(), source.written_tokens());
    let (guard, mut right) = (source.read(0..tokens)?, filling.right()?);
    let over = |kind| {
        let Ok(digester) = Digester::over(kind, None, transfer, meaning) else {
            unreachable!("every build has the kind, which takes no key")
        };
        digester
    };
    if let Some(copied) = right.copy_from(&guard) {
        copied?;
        let digester = over(Checksum::Crc32c);
        if let Some(mut crcs) = digester.in_place(pages(tokens, geometry))
            && let Some(digested) = guard.crc32c(&PlaneWindow::all(geometry), &mut crcs)
        {
            digested?;
            let digests = crcs.iter().map(Digester::of_crc).collect();
            return Ok((digester, digests));
        }
        // Not digested there: once more, through the host.
    }
    let digester = over(Checksum::Xxh3);
    let mut onto = Onto { right, windows: PlaneWindow::all(geometry) };
    let mut pass = Pass::new(PlaneWindow::all(geometry), &mut onto, Some(digester.clone()));
    for ((ordinal, tokens), view) in pages(tokens, geometry).zip(guard.pages()) {
        pass.page::<M, MoveError>(ordinal, &view, tokens, true)?;
    }
    let digests = pass.into_digests();
    Ok((digester, digests))
}
