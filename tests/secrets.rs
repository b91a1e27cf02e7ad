//! Secrets appear in no error and no `Debug`, and are gone from the arena when their owner is: also in a release build.
#![expect(unsafe_code, reason = "looks at bytes past all checks")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt::{Debug, Display};
use std::ptr::NonNull;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
use pagestamp::handoff::{
    AcceptError, Checksum, Digest, DigestKey, Digester, Inbound, InboundPlan, LandError, Landed, Message, MessageKind,
    MoveError, NotAccepted, NotYet, OpenError, Outbound, OutboundError, PageDigester, Receipt, SealError, Sending,
    SentPart, Side, TilingError, UnfitPool, Writer,
};
use pagestamp::memory::Heat;
use pagestamp::memory::{CleanPage, Fence, FenceState, ForeignPlane, HostBytes, HostOptions, Lane, MemoryError, Span};
use pagestamp::table::{BlockTable, RowMark, SlotMapping};
use pagestamp::{
    Access, AdmitError, AuditError, CapacityError, CapacityPlan, CapacityProof, ClaimToken, CleanMode, ConfigError,
    Error, ForeignMemory, Generation, HeldMemory, HolderId, HolderProcess, HostMemory, Limit, NullMemory, OwnPages,
    OwnerId, OwnerQuota, PageGeometry, PageHandle, PageMemory, PagePool, PageState, Placement, Plane, PoolConfig,
    PrefixEvent, PrefixExtra, PrefixTokens, Request, Reservation, Retention, SecondaryMap, SlotConfig, SlotPool,
    StepLoss, TableError, TransferError, Whose,
};

/// 8 bytes: one token of the plane; no two of them alike, none a digit or a brace.
const SECRET: [u8; 8] = *b"zQxJvWkY";
const P: u64 = 16;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 8), Plane::per_token(2, 4)]).unwrap()
}

/// The secret in any shape that a formatter could give it: text, `{:?}` of a slice, hexadecimal, a number.
fn shapes() -> Vec<String> {
    let mut shapes = Vec::new();
    for at in 0..SECRET.len() - 2 {
        let part = &SECRET[at..at + 3];
        shapes.push(String::from_utf8(part.to_vec()).unwrap());
        shapes.push(part.iter().map(|b| b.to_string()).collect::<Vec<_>>().join(", "));
        shapes.push(part.iter().map(|b| format!("{b:02x}")).collect());
        shapes.push(part.iter().map(|b| format!("{b:x}")).collect::<Vec<_>>().join(", "));
        shapes.push(part.iter().map(|b| format!("0x{b:x}")).collect::<Vec<_>>().join(", "));
    }
    shapes.push(u64::from_le_bytes(SECRET).to_string());
    shapes.push(u64::from_be_bytes(SECRET).to_string());
    shapes.push(u32::from_le_bytes(SECRET[..4].try_into().unwrap()).to_string());
    shapes
}

fn shows_secret(text: &str) -> bool {
    let folded = text.replace(",\n", ", ").split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    shapes().iter().any(|shape| folded.contains(&shape.to_lowercase()))
}

#[test]
fn the_search_finds_a_planted_secret_in_every_shape() {
    for planted in [
        format!("a page: {:?}", SECRET),
        format!("{:#?}", SECRET),
        format!("{:x?}", SECRET),
        format!("{:#x?}", SECRET),
        String::from_utf8_lossy(&SECRET).into_owned(),
        format!("{:016X}", u64::from_be_bytes(SECRET)),
        format!("{}", u64::from_le_bytes(SECRET)),
    ] {
        assert!(shows_secret(&planted), "{planted}");
    }
    assert!(!shows_secret("page 3 of 8 is @2"));
}

fn look_debug(value: &impl Debug) {
    for text in [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}")] {
        assert!(!shows_secret(&text), "{text}");
    }
}

fn look(value: &(impl Debug + Display)) {
    look_debug(value);
    assert!(!shows_secret(&value.to_string()), "{value}");
}

/// An error and what is behind it.
fn look_error(error: impl StdError + 'static) {
    let mut next: Option<&dyn StdError> = Some(&error);
    while let Some(error) = next {
        let texts = [error.to_string(), format!("{error:?}"), format!("{error:#?}")];
        assert!(texts.iter().all(|text| !text.is_empty() && !shows_secret(text)), "{texts:?}");
        next = error.source();
    }
}

fn tell<M: PageMemory>(kv: &mut Reservation<M>, tokens: u64) {
    let bytes = SECRET.repeat(tokens as usize);
    kv.write(tokens, &[&bytes, &bytes]).unwrap();
}

struct Stage {
    pool: PagePool<HostMemory>,
    proof: CapacityProof,
    mine: Reservation<HostMemory>,
}

fn stage() -> Stage {
    let pool = PagePool::new(PoolConfig::new(8), HostMemory::new(geometry(), 9).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(4 * P)).unwrap();
    let mut mine = pool.reserve(&proof, Request::new(owner(1), 4 * P), 3 * P).unwrap();
    tell(&mut mine, 2 * P + 3);
    Stage { pool, proof, mine }
}

// C11
#[test]
fn no_error_of_any_call_shows_what_pages_hold() {
    let Stage { pool, proof, mut mine } = stage();
    let (secret, handle) = (SECRET.repeat(99), mine.handle(0).unwrap());
    let forged = |bits: u128| PageHandle::<HostMemory>::from_bits(handle.to_bits() ^ bits).unwrap();

    // Writes that carry the secret and fail.
    look_error(mine.write(99, &[&secret, &secret]).unwrap_err());
    look_error(mine.write(1, &[&secret]).unwrap_err());
    look_error(mine.write(1, &[&secret, &secret]).unwrap_err());
    look_error(mine.writer(u64::MAX).unwrap_err());
    {
        let mut writer = mine.writer(1).unwrap();
        writer.plane(0, &SECRET).unwrap();
        look_error(writer.plane(0, &SECRET).unwrap_err());
        look_error(writer.plane(9, &SECRET).unwrap_err());
        look_error(writer.plane(1, &secret).unwrap_err());
        look_error(writer.run(9, 0, 0).unwrap_err());
        look_error(writer.run(0, 0, 9).unwrap_err());
        look_error(writer.run(0, 9, 0).unwrap_err());
        look_debug(&writer);
    }
    // Reads that fail.
    look_error(mine.read(0..99).unwrap_err());
    look_error(pool.read(owner(2), handle).unwrap_err());
    for bits in [0xff, 1 << 40, 1 << 64, 1 << 127] {
        look_error(pool.read(owner(1), forged(bits)).unwrap_err());
        look_error(pool.release_pages(owner(1), &[forged(bits)]).unwrap_err());
        look_error(pool.pin(owner(1), &[forged(bits)], HolderId(1), None).unwrap_err());
    }
    let guard = mine.read(0..P).unwrap();
    look_error(guard.copy(9, &mut []).unwrap_err());
    look_error(guard.copy(0, &mut []).unwrap_err());
    drop(guard);
    look_error(pool.release_pages(owner(1), &[handle, handle]).unwrap_err());
    look_error(pool.release_pages(owner(1), &[handle]).unwrap_err());
    // Extents and growth.
    look_error(mine.assume_written(99).unwrap_err());
    look_error(mine.assume_written(0).unwrap_err());
    look_error(mine.commit(99).unwrap_err());
    look_error(mine.truncate(99).unwrap_err());
    look_error(mine.shrink(0).unwrap_err());
    look_error(mine.grow(0).unwrap_err());
    look_error(mine.grow(u64::MAX).unwrap_err());
    // Tickets.
    look_error(mine.pin_read(0..0, HolderId(1), None).unwrap_err());
    look_error(mine.pin_read(0..99, HolderId(1), None).unwrap_err());
    let ticket = mine.pin_write(0..1, HolderId(1), None).unwrap();
    look(&ticket);
    look_error(pool.end_dead_holder(ticket).unwrap_err());
    let this = || HolderProcess::of_pid(std::process::id()).unwrap();
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.name_holder(ticket, this()) }.unwrap();
    // SAFETY: as above.
    look_error(unsafe { pool.name_holder(ticket, this()) }.unwrap_err());
    look_error(pool.end_dead_holder(ticket).unwrap_err());
    look_debug(&pool.tickets());
    look_error(pool.read(owner(1), handle).unwrap_err());
    look_error(mine.read(0..1).unwrap_err());
    look_error(mine.pin_read(0..1, HolderId(1), None).unwrap_err());
    look_error(mine.truncate(0).unwrap_err());
    look_error(pool.suspend().unwrap_err());
    let (mut mine, refused) = mine.into_handles().unwrap_err().into_parts();
    look_error(refused);
    // SAFETY: (1): nobody writes under the ticket.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    // SAFETY: as above.
    look_error(unsafe { pool.ticket_done(ticket) }.unwrap_err());
    // A rewrite that finds no fresh page.
    let rest = pool.stats().free_pages - pool.stats().promised_pages;
    let others = (rest > 0).then(|| pool.reserve(&proof, Request::new(owner(2), rest * P), 0).unwrap());
    look_error(mine.grow(6 * P).unwrap_err());
    let reader = pool.read(owner(1), handle).unwrap();
    mine.truncate(0).unwrap();
    look_error(mine.write(1, &[&SECRET, &SECRET]).unwrap_err());
    drop(reader);
    // The gate.
    for tokens in [0, P, 99 * P, u64::MAX] {
        look_error(pool.admit(&proof, Request::new(owner(2), tokens)).unwrap_err());
        look_error(Error::from(pool.admit(&proof, Request::new(owner(2), tokens)).unwrap_err()));
    }
    look_error(pool.reserve(&proof, Request::new(owner(2), P), 2 * P).unwrap_err());
    look_error(stage().pool.admit(&proof, Request::new(owner(2), P)).unwrap_err());
    look_error(pool.prove(CapacityPlan::new(u64::MAX)).unwrap_err());
    look_error(pool.prove(CapacityPlan::new(0)).unwrap_err());
    look_error(CapacityPlan::new(1).with_headroom(f64::NAN).unwrap_err());
    drop(others);
    let claim = || Request::new(owner(2), P).with_claim(ClaimToken { id: 1, expires_at_ns: 1 });
    let mut claimed = pool.reserve(&proof, claim(), P).unwrap();
    tell(&mut claimed, 2);
    look_error(pool.reserve(&proof, claim(), P).unwrap_err());
    look_error(pool.reserve(&proof, claim(), 1).unwrap_err());
    look_error(pool.admit(&proof, Request::new(owner(2), P)).unwrap().reserve(99).unwrap_err());
    // The pool as a whole.
    look_error(pool.resize(u32::MAX).unwrap_err());
    look_error(pool.resize(0).unwrap_err());
    look_error(pool.resume().unwrap_err());
    look_error(pool.clone().close().unwrap_err());
    look_error(PoolConfig::new(0).validate().unwrap_err());
    look_error(mine.reject("the caller's own words"));
    pool.suspend().unwrap();
    look_error(pool.resize(4).unwrap_err());
    look_error(pool.admit(&proof, Request::new(owner(2), P)).unwrap_err());
    look_error(claimed.write(1, &[&SECRET, &SECRET]).unwrap_err());
    look_error(claimed.read(0..1).unwrap_err());
    look_error(claimed.commit(1).unwrap_err());
    look_error(claimed.grow(P).unwrap_err());
}

// C11
#[test]
fn an_audit_that_finds_a_soiled_page_does_not_show_it() {
    let Stage { pool, mine, .. } = stage();
    let free = {
        let probe = pool.reserve(&pool.prove(CapacityPlan::new(P)).unwrap(), Request::new(owner(2), P), P).unwrap();
        probe.handle(0).unwrap().index()
    };
    // SAFETY: (1) and (2): the page is free, and nobody else works with this pool.
    let place = unsafe { pool.memory() }.plane(1).unwrap();
    // SAFETY: within the page, as above.
    unsafe { std::ptr::copy_nonoverlapping(SECRET.as_ptr(), place.page(free), SECRET.len()) };
    let found = pool.audit_bytes(0..9).unwrap_err();
    assert_eq!(found, AuditError::Byte { page: free, plane: 1 });
    look_error(found);
    drop(mine);
}

/// The public names of the crate's root.
fn public_names() -> BTreeSet<String> {
    let lib = include_str!("../src/lib.rs");
    let uses = lib.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let mut names = BTreeSet::new();
    for list in uses {
        let list = list.rsplit("::").next().unwrap_or(list);
        names.extend(
            list.trim_matches(['{', '}']).split(',').map(|name| name.trim().trim_matches(['{', '}']).to_owned()),
        );
    }
    names.remove("");
    names
}

/// Everything of a handoff, with the secret in its pages or behind its refusal.
struct Handoff {
    outbound: Outbound<HostMemory>,
    inbound: Inbound<HostMemory>,
    receipt: Receipt,
    digester: Digester,
    page: PageDigester,
    landed: Landed,
    not_accepted: NotAccepted,
    not_yet: NotYet<HostMemory>,
    writer_error: LandError,
    sending: Sending,
    outbound_error: OutboundError,
    land_error: LandError,
    open_error: OpenError,
    seal_error: SealError,
    unfit: UnfitPool,
}

fn hand_over() -> Handoff {
    // K and V of one layer are 8 bytes a token each.
    let cache = HeadCache::new(2, 4, ElementFormat::plain(Dtype::Int8));
    let model = ModelLayout::new("m", "r", KvLayout::new(P as u32, 1, cache)).unwrap();
    let slice = Slice::whole(&model);
    let memory = HostMemory::new(model.geometry(&slice).unwrap(), 16).unwrap();
    let pool = PagePool::new(PoolConfig::new(16), memory).unwrap();
    let proof = pool.prove(CapacityPlan::new(2 * P)).unwrap();
    let reserve = || pool.reserve(&proof, Request::new(owner(1), 2 * P), 2 * P).unwrap();
    let full = || {
        let mut kv = reserve();
        tell(&mut kv, P + 3);
        kv.commit(P + 3).unwrap();
        kv
    };
    let other = ModelLayout::new("m", "r", KvLayout::new(8, 1, HeadCache::new(1, 2, ElementFormat::plain(Dtype::F16))))
        .unwrap();
    let seal_error = Outbound::seal(full(), &other, &Slice::whole(&other)).unwrap_err().into_parts().1;
    let open_error = Inbound::open(full(), InboundPlan::new(&model, &slice, 1)).unwrap_err().into_parts().1;
    let SealError::Unfit(unfit) = seal_error.clone() else { panic!("{seal_error}") };
    let mut outbound = Outbound::seal(full(), &model, &slice).unwrap();
    let open = || Inbound::open(reserve(), InboundPlan::new(&model, &slice, P + 3)).unwrap();
    let mut refused = open();
    let offer = refused.offer();
    let sent = outbound.send(&offer, &mut refused.landing(Writer::ONLY).unwrap()).unwrap();
    let part = SentPart::new(slice.clone(), 0..2).with_digests(0..2, vec![Digest::from_bytes([1; 16]); 2]);
    refused.receive(&sent.with_parts(Checksum::Xxh3, vec![part])).unwrap();
    let AcceptError::Refused(not_accepted) = refused.accept().unwrap_err() else { panic!("a wrong digest") };
    let AcceptError::NotYet(not_yet) = open().accept().unwrap_err() else { panic!("nothing is there") };
    let mut inbound = open();
    let offer = inbound.offer();
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).unwrap()).unwrap();
    let writer_error = inbound.landing(HolderId(77)).unwrap_err();
    let sending = outbound.start(&offer).unwrap();
    let mut landing = inbound.landing(Writer::ONLY).unwrap();
    let landed = landing.put(0, 0, 0..P as u32, &SECRET.repeat(P as usize)).unwrap();
    let land_error = landing.put(0, 0, 0..1, &SECRET).unwrap_err();
    drop(landing);
    let outbound_error = outbound.check(&offer.with_checksum(Checksum::BytesUnverified)).unwrap_err();
    let digester = Digester::new(Checksum::Xxh3, None, receipt.transfer(), &model, &slice).unwrap();
    let mut page = digester.page(0, 1);
    page.update(&SECRET);
    Handoff {
        outbound,
        inbound,
        receipt,
        digester,
        page,
        landed,
        not_accepted,
        not_yet,
        writer_error,
        sending,
        outbound_error,
        land_error,
        open_error,
        seal_error,
        unfit,
    }
}

// C11
#[test]
fn no_debug_of_any_public_type_shows_what_pages_hold() {
    let mut covered = BTreeSet::from(["PageMemory", "Reset", "ZeroBytes"].map(str::to_owned)); // traits
    macro_rules! see {
        ($($name:ident: $value:expr),* $(,)?) => {$(
            covered.insert(stringify!($name).to_owned());
            {
                let value = $value;
                look_debug(&value);
            }
        )*};
    }
    let Stage { pool, proof, mut mine } = stage();
    let handle = mine.handle(0).unwrap();
    let guard = pool.read(owner(1), handle).unwrap();
    let mut other = pool.reserve(&proof, Request::new(owner(2), P), P).unwrap();
    tell(&mut other, 5);
    let read_error = pool.check(owner(3), handle).unwrap_err();
    let ticket = mine.pin_read(0..1, HolderId(u64::from_le_bytes([1; 8])), None).unwrap();
    see! {
        PagePool: &pool, PageGuard: &guard, PageView: guard.view(), CapacityProof: proof, Reservation: &mine,
        ReadGuard: mine.read(0..P).unwrap(), PageHandle: handle, PoolStats: pool.stats(), TicketId: ticket,
        TicketInfo: pool.tickets(), Access: Access::Write, HolderId: HolderId(1), OwnerId: owner(1), PoolId: pool.id(),
        Generation: handle.generation(), PageState: PageState::ALL, PageGeometry: pool.geometry(),
        Plane: pool.geometry().planes(), CapacityPlan: proof.plan(), Request: Request::new(owner(1), 1),
        ClaimToken: ClaimToken { id: 1, expires_at_ns: 1 }, PoolConfig: pool.config(), CleanMode: CleanMode::Later,
        OwnPages: OwnPages::None, Placement: Placement::Contiguous, ReadError: read_error, Maintained: pool.maintain(0),
        GrowError: mine.grow(u64::MAX).unwrap_err(), ExtentError: mine.commit(u64::MAX).unwrap_err(),
        WriteError: mine.write(1, &[]).unwrap_err(), TicketError: mine.pin_read(0..0, HolderId(1), None).unwrap_err(),
        ReleaseError: pool.release_pages(owner(1), &[handle]).unwrap_err(), ResizeError: pool.resize(0).unwrap_err(),
        SuspendError: pool.suspend().unwrap_err(), CapacityError: CapacityError::ZeroTokens,
        ConfigError: ConfigError::NoPoolIds, Error: Error::from(CapacityError::ZeroTokens),
        AuditError: AuditError::Promises { promised: 1, free: 0 }, CloseError: pool.clone().close().unwrap_err(),
        HolderProcess: HolderProcess::of_pid(std::process::id()).unwrap(),
        ProcessError: HolderProcess::of_pid(0).unwrap_err(), Scrubber: pool.start_scrubber().unwrap(), HostMemory: HostMemory::new(geometry(), 1).unwrap(),
        NullMemory: NullMemory::new(geometry(), 1).unwrap(),
    }
    // SAFETY: (1) and (2): only its `Debug` is used.
    look_debug(unsafe { pool.memory() });
    drop(guard);
    // SAFETY: (1): nobody reads under the ticket.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    mine.grow(4 * P).unwrap();
    let mut writer = mine.writer(1).unwrap();
    writer.plane(0, &SECRET).unwrap();
    see! { PlaneWriter: writer }
    let admit_error = pool.admit(&proof, Request::new(owner(2), 0)).unwrap_err();
    let AdmitError::Rejected(rejected) = admit_error else { panic!("{admit_error:?}") };
    see! { RejectReason: rejected.reason(), Rejected: &rejected, AdmitError: pool.admit(&proof, Request::new(owner(2), 4 * P)).unwrap_err() }
    let admitted = pool.admit(&proof, Request::new(owner(3), P)).unwrap();
    see! { Admitted: &admitted }
    let refused = admitted.reserve(99).unwrap_err();
    see! { ReserveError: refused.error(), Refused: &refused }
    drop(refused);
    let claim = || Request::new(owner(3), P).with_claim(ClaimToken { id: 3, expires_at_ns: 1 });
    let claimed = pool.reserve(&proof, claim(), P).unwrap();
    let again = pool.reserve(&proof, claim(), P).unwrap_err();
    let AdmitError::Claim { source, .. } = again else { panic!("{again:?}") };
    see! { ClaimError: source, Released: claimed.release(), EraseReceipt: pool.erase(owner(2)), Reclaimed: pool.reclaim(owner(1)) }
    see! { Suspended: pool.suspend().unwrap() }
    pool.resume().unwrap();
    see! { Resized: pool.resize(8).unwrap() }

    // Token ids, salts and what stands behind placeholders are secrets too.
    let text = [u32::from_le_bytes(SECRET[..4].try_into().unwrap()); P as usize];
    let extras = [PrefixExtra { tag: "image", tokens: 0..P, bytes: &SECRET }];
    let prefix = PrefixTokens::new(&text).with_salt(&SECRET).with_adapter(&SECRET).with_extras(&extras);
    let config = PoolConfig::new(8).with_prefix_events(8);
    let shared = PagePool::new(config, NullMemory::new(geometry(), 8).unwrap()).unwrap();
    let plan = shared.prove(CapacityPlan::new(2 * P)).unwrap();
    let mut kv = shared.reserve(&plan, Request::new(owner(1), P), P).unwrap();
    kv.assume_written(P).unwrap();
    kv.commit(P).unwrap();
    kv.publish(&prefix, Retention::default()).unwrap();
    look_debug(&shared);
    let mut events = Vec::new();
    shared.take_prefix_events(&mut events);
    let PrefixEvent::Stored { key, .. } = &events[0] else { panic!("{events:?}") };
    shared.set_quota(owner(1), OwnerQuota::NONE.with_hard_pages(1));
    see! {
        PrefixTokens: prefix, PrefixExtra: &extras, PrefixKey: key, PrefixEvent: &events, Retention: Retention::WhileHeld,
        Prefix: shared.lookup(owner(1), &prefix).unwrap(), Limit: Limit::HardQuota, OwnerQuota: OwnerQuota::NONE,
        QuotaInfo: shared.quota(owner(1)).unwrap(), ForkError: kv.fork(&plan, Request::new(owner(2), P)).unwrap_err(),
    }
    kv.truncate(0).unwrap();
    kv.own(P).unwrap();
    kv.assume_written(P).unwrap();
    kv.commit(P).unwrap();
    see! { PublishError: kv.publish(&PrefixTokens::new(&text[1..]), Retention::default()).unwrap_err() }

    let mut handoff = hand_over();
    let transfers = handoff.outbound.pool().transfers();
    see! { Appending: handoff.outbound.append() }
    look(&handoff.not_accepted.refusal());
    see! {
        Outbound: &handoff.outbound, Inbound: &handoff.inbound, Offer: handoff.inbound.offer(), Receipt: &handoff.receipt,
        TransferId: handoff.receipt.transfer(), Checksum: handoff.receipt.checksum(), Digest: handoff.receipt.parts()[0].digests(),
        Digester: &handoff.digester, PageDigester: &handoff.page, Landed: handoff.landed, Side: Side::Sender,
        SentPart: &handoff.receipt.parts()[0], Writer: handoff.inbound.offer().writers()[0].clone(), Sending: &handoff.sending,
        WriterError: &handoff.writer_error, NotYet: &handoff.not_yet, TransferInfo: transfers[0].clone(),
        NotAccepted: &handoff.not_accepted, InboundError: handoff.not_accepted.error(),
        Refusal: handoff.not_accepted.refusal(), OutboundError: &handoff.outbound_error, LandError: &handoff.land_error,
        OpenError: &handoff.open_error, SealError: &handoff.seal_error, UnfitPool: &handoff.unfit,
    }
    let mut inbound = handoff.inbound;
    see! { Landing: inbound.landing(Writer::ONLY).unwrap() }
    let offer = inbound.offer();
    let bytes = offer.to_bytes().unwrap();
    let message = Message::from_bytes(&bytes).unwrap();
    let plan =
        InboundPlan::new(offer.model(), offer.slice(), 1).with_writers(Vec::new()).with_key(DigestKey::new([b'k'; 32]));
    assert!(!format!("{plan:?}").contains("107, 107"), "the key is shown");
    see! {
        MessageKind: MessageKind::Offer, Message: message, WireError: Message::from_bytes(&bytes[1..]).unwrap_err(),
        InboundPlan: plan, DigestKey: DigestKey::new([b'k'; 32]), Received: inbound.receive(&handoff.receipt).unwrap(),
        DigestError: Digester::new(Checksum::BytesUnverified, None, offer.transfer(), offer.model(), offer.slice()).unwrap_err(),
        TilingError: TilingError::NoWriter, MoveError: MoveError::Digest { page: 1 }, TransferError: TransferError::Over(offer.transfer()),
    }
    let incomplete: AcceptError<HostMemory> = AcceptError::NotYet(handoff.not_yet);
    see! { AcceptError: &incomplete }
    look_error(incomplete);
    look_error(handoff.not_accepted);
    look_error(handoff.outbound_error);
    look_error(handoff.land_error);
    look_error(handoff.open_error);
    look_error(handoff.seal_error);
    look_error(handoff.unfit);

    // The other memories, with the secret in them.
    let held = HeldMemory::new(geometry(), 2).unwrap();
    let control = held.control();
    // SAFETY: (1): nobody else has the memory.
    unsafe { held.write(Span { page: 0, plane: 0, offset: 0 }, &SECRET) }.unwrap();
    see! { HeldMemory: held }
    let tensor: &'static mut [u8] = Box::leak(SECRET.repeat(128).into_boxed_slice());
    let base = NonNull::from(&mut *tensor).cast::<u8>();
    let planes = [0, 128].map(|at| {
        let base = NonNull::new(base.as_ptr().wrapping_add(at)).unwrap();
        ForeignPlane { base, stride_bytes: 256, len_bytes: 1024 - at as u64 }
    });
    // SAFETY: (1) the tensor is leaked and initialised; (2) nobody else has it.
    let foreign = unsafe { ForeignMemory::new(geometry(), 2, &planes) }.unwrap();
    see! { ForeignMemory: foreign }
    look_debug(&(control, planes, Fence::DONE, FenceState::Failed, Lane::HOST, HostOptions::new()));
    look_debug(&CleanPage { page: 0, tokens: 1, heat: Heat::Hot });
    look_error(MemoryError::NoBytes);

    // A step that writes, tables that name what it writes, and each way of refusing them.
    let wide = PagePool::new(PoolConfig::new(8), HostMemory::new(geometry(), 8).unwrap()).unwrap();
    let plan = wide.prove(CapacityPlan::new(2 * P)).unwrap();
    let mut kv = wide.reserve(&plan, Request::new(owner(1), 2 * P), 2 * P).unwrap();
    tell(&mut kv, 5);
    let step = wide.open_step();
    kv.export(&step, 1).unwrap();
    let (mut cells, mut lens, mut slots) = ([0; 8], [0; 2], [0_i64; 2]);
    let mut table = BlockTable::new(&wide, &mut cells, 4, &mut lens).unwrap();
    let row_error = table.push(kv.row(2 * P)).unwrap_err();
    look_debug(&(&table, kv.row(1), SlotMapping::new(&wide, &mut slots).unwrap(), RowMark::default()));
    let TableError::Row { source, .. } = &row_error else { panic!("{row_error:?}") };
    look_error(source.clone());
    look_error(kv.writer(1).map(drop).unwrap_err());
    look_error(kv.truncate(1).unwrap_err());
    see! {
        Step: &step, StepId: step.id(), StepInfo: wide.open_steps(), StepLoss: StepLoss::Finished, TableError: &row_error,
        RowError: source, ExportError: kv.export(&step, 0).unwrap_err(), RoomId: wide.on_room(99, || ()),
    }
    look(&step.id());
    look_error(row_error.clone());
    // SAFETY: (1) nothing was launched, here and below.
    let ended = unsafe { wide.revoke_step(step.id(), StepLoss::Finished) }.unwrap();
    // SAFETY: as above.
    let over = unsafe { wide.end_step(step) }.unwrap_err();
    see! { StepEnd: ended, StepError: over.error() }
    look_error(*over.error());

    // Slots, with the secret in one, in a map beside them and in what is refused.
    let slots = SlotPool::<[u8; 8]>::zeroing(SlotConfig::new(2)).unwrap();
    let proof = slots.prove(CapacityPlan::new(2)).unwrap();
    let lobby = slots.claim(&proof, owner(1), 2).unwrap();
    lobby.init(0, SECRET).unwrap();
    lobby.init(1, SECRET).unwrap();
    let slot = lobby.handle(0).unwrap();
    let mut beside = SecondaryMap::new(&slots);
    beside.insert(slot, SECRET).unwrap();
    see! {
        SlotPool: &slots, SlotConfig: slots.config(), SlotGroup: &lobby, SlotHandle: slot, SlotRef: lobby.read(0).unwrap(),
        SlotMut: lobby.write(1).unwrap(), SecondaryMap: &beside, SlotStats: slots.stats(), Whose: Whose::Owner(owner(1)),
        Visited: slots.for_each(Whose::All, |_, _| ()), ValueRefused: lobby.init(0, SECRET).unwrap_err(),
    }
    look_error(lobby.init(0, SECRET).unwrap_err());
    look_error(slots.claim(&proof, owner(2), 2).unwrap_err());
    look_error(slots.claim(&proof, owner(2), 3).unwrap_err());
    look_error(slots.read(owner(2), slot).unwrap_err());
    let busy = lobby.read(0).map(|_reader| lobby.write(0).unwrap_err()).unwrap();
    see! {
        SlotError: &busy, SlotClaimError: slots.claim_one(&proof, owner(2)).unwrap_err(),
        ReclaimedSlots: slots.reclaim(owner(1)), ReleasedSlots: lobby.release(),
    }
    look_error(busy);
    look_error(beside.insert(slot, SECRET).unwrap_err());

    let missing: Vec<String> = public_names().difference(&covered).cloned().collect();
    assert!(missing.is_empty(), "public types that nobody looked at: {missing:?}");
}

/// Every byte of the arena, padding included.
fn arena<M: HostBytes>(pool: &PagePool<M>) -> Vec<u8> {
    // SAFETY: (1) and (2): only read, while nobody writes, and kept in the test.
    let memory = unsafe { pool.memory() };
    let mut bytes = Vec::new();
    for plane in 0..pool.geometry().planes().len() {
        let place = memory.plane(plane).unwrap();
        for page in 0..memory.max_pages() {
            let len = if page + 1 == memory.max_pages() { place.page_bytes() } else { place.stride() };
            let at = place.page(page);
            // Volatile, so that no optimisation knows what was written before.
            // SAFETY: the page exists, and lives as long as the pool.
            bytes.extend((0..len).map(|offset| unsafe { at.wrapping_add(offset).read_volatile() }));
        }
    }
    bytes
}

fn is_wiped<M: HostBytes>(pool: &PagePool<M>) -> bool {
    arena(pool).iter().all(|byte| *byte == 0)
}

type Leave<M> = fn(&PagePool<M>, Reservation<M>);

/// Every way for pages to leave their owner.
fn ways<M: PageMemory>() -> [(&'static str, Leave<M>); 9] {
    [
        ("release", |_, kv| assert!(kv.release().pages > 0)),
        ("drop", |_, kv| drop(kv)),
        ("reject", |_, kv| drop(kv.reject("no"))),
        ("reclaim", |pool, kv| {
            std::mem::forget(kv);
            pool.reclaim(owner(1));
        }),
        ("erase", |pool, _kv| assert!(pool.erase(owner(1)).in_flight.is_empty())),
        ("clear", |pool, _kv| assert!(pool.clear().pages > 0)),
        ("suspend", |pool, _kv| {
            pool.suspend().unwrap();
        }),
        ("handles", |pool, kv| {
            let handles = kv.into_handles().unwrap();
            pool.release_pages(owner(1), &handles).unwrap();
        }),
        ("shrink", |_, mut kv| {
            kv.truncate(0).unwrap();
            kv.shrink(0).unwrap();
        }),
    ]
}

// C3
#[test]
fn nothing_is_left_in_the_arena_however_its_owner_leaves() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        for tokens in [1, 3, P, P + 1, 3 * P] {
            for (name, leave) in ways() {
                let config = PoolConfig::new(6).with_clean_mode(mode);
                let pool = PagePool::new(config, HostMemory::new(geometry(), 6).unwrap()).unwrap();
                let proof = pool.prove(CapacityPlan::new(3 * P)).unwrap();
                let mut kv = pool.reserve(&proof, Request::new(owner(1), 3 * P), tokens).unwrap();
                tell(&mut kv, tokens);
                assert!(arena(&pool).windows(8).any(|bytes| bytes == SECRET), "the secret was there");
                leave(&pool, kv);
                if mode == CleanMode::Later {
                    pool.maintain(usize::MAX);
                }
                assert!(is_wiped(&pool), "{name}, {tokens} tokens, {mode:?}");
            }
        }
    }
}

// C3
#[test]
fn nothing_is_left_of_what_was_written_and_never_counted() {
    let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry(), 6).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(3 * P)).unwrap();
    // A writer that stopped half-way, and tokens that were rolled back.
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 3 * P), 3 * P).unwrap();
    tell(&mut kv, 2 * P);
    kv.truncate(1).unwrap();
    let mut writer = kv.writer(P).unwrap();
    writer.plane(1, &SECRET.repeat(P as usize)).unwrap();
    drop(writer);
    drop(kv);
    assert!(is_wiped(&pool));
    // The same on a page of which nothing was ever written.
    let mut kv = pool.reserve(&proof, Request::new(owner(1), P), P).unwrap();
    kv.writer(P).unwrap().plane(0, &SECRET.repeat(P as usize)).unwrap();
    assert!(!is_wiped(&pool));
    drop(kv);
    assert!(is_wiped(&pool));
    // An outside writer that wrote all of a page, of which nothing was ever counted.
    let mut kv = pool.reserve(&proof, Request::new(owner(1), P), P).unwrap();
    let ticket = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let page = kv.handle(0).unwrap().index();
    for plane in 0..2 {
        // SAFETY: (1) and (2): this test is the outside writer, and its ticket is open.
        let place = unsafe { pool.memory() }.plane(plane).unwrap();
        let secret = SECRET.repeat(place.page_bytes() / 8);
        // SAFETY: within the page, which nobody else touches.
        unsafe { std::ptr::copy_nonoverlapping(secret.as_ptr(), place.page(page), secret.len()) };
    }
    drop(kv);
    // SAFETY: (1): it wrote the last byte above.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    pool.maintain(usize::MAX);
    assert!(is_wiped(&pool));
    assert_eq!(pool.stats().free_pages, 4);
}

// C3
#[test]
fn nothing_is_left_of_pages_that_retire_park_or_move() {
    let last = Generation::new(3).unwrap();
    let config = PoolConfig::new(4).with_own_pages(OwnPages::None).with_last_generation(last);
    let pool = PagePool::new(config, HostMemory::new(geometry(), 4).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(P)).unwrap();
    while let Ok(mut kv) = pool.reserve(&proof, Request::new(owner(1), P), P) {
        tell(&mut kv, P);
        let reader = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
        kv.truncate(3).unwrap();
        // Moves while there is a page to move to.
        let bytes = SECRET.repeat(2);
        let _ = kv.write(2, &[&bytes, &bytes]);
        drop(reader);
        kv.release();
        pool.maintain(usize::MAX);
        assert!(is_wiped(&pool));
        pool.resize(3).unwrap();
        pool.resize(4).unwrap();
    }
    assert!(pool.stats().retired_pages > 0 && pool.stats().moved_pages > 0);
    assert!(is_wiped(&pool));
    pool.audit().unwrap();
}

// C3
#[test]
fn foreign_memory_shows_nobody_what_it_held_before() {
    let tensor: &'static mut [u8] = Box::leak(SECRET.repeat(4 * 32).into_boxed_slice());
    let base = NonNull::from(&mut *tensor).cast::<u8>();
    let planes = [0, 128].map(|at| {
        let base = NonNull::new(base.as_ptr().wrapping_add(at)).unwrap();
        ForeignPlane { base, stride_bytes: 256, len_bytes: 1024 - at as u64 }
    });
    // SAFETY: (1) the tensor is leaked and initialised; (2) nobody else has it.
    let memory = unsafe { ForeignMemory::new(geometry(), 4, &planes) }.unwrap();
    let pool = PagePool::new(PoolConfig::new(4), memory).unwrap();
    assert!(is_wiped(&pool), "the pool's own pages too");
    let proof = pool.prove(CapacityPlan::new(2 * P)).unwrap();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 2 * P), 2 * P).unwrap();
    tell(&mut kv, 5);
    kv.release();
    assert!(is_wiped(&pool));
}
