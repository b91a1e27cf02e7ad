//! Prefill and decode pools, the requests between them, and a channel that does what channels do.
//!
//! The world knows of each receive what it must answer: it counts what was told and what landed by itself, and looks at the
//! raw bytes of the pages. Senders and receivers talk in bytes of the wire format.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pagestamp::geometry::{ModelLayout, Slice};
use pagestamp::{
    AcceptError, CleanMode, HolderId, HostMemory, Inbound, InboundError, InboundPlan, LandError, Landed, Offer,
    Outbound, OutboundError, OwnerId, PageHandle, ReadError, Receipt, Received, Refusal, Reservation, Sending,
    SentPart, Side, TicketId, TransferId, WriteError, Writer, WriterError,
};

use crate::ops::{Cuts, End, Op, What};
use crate::place::{PAGES, Place, Under};
use crate::shape::{Name, Prompt, Shape};

/// Handoffs that are open at once.
const MOST_REQUESTS: usize = 4;

/// How a writer's bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Copied by the sender, within the process.
    Copy,
    /// As messages, put by the receiver.
    Put,
    /// Stored by address, under a ticket.
    Outside,
}

/// What the world knows of one writer of a receive.
struct Tile {
    sender: usize,
    slice: Slice,
    way: Way,
    ticket: Option<TicketId>,
    /// What landed: page, layer, plane of the layer.
    landed: BTreeMap<(u32, u32, u32), Vec<Range<u32>>>,
    told: BTreeSet<(u32, u32)>,
}

struct Receive<D: Under> {
    value: Option<Inbound<D>>,
    accepted: Option<Reservation<D>>,
    transfer: TransferId,
    handles: Vec<PageHandle<D>>,
    pages: Vec<u32>,
    held_pages: u32,
    tiles: Vec<Tile>,
    is_revoked: bool,
    /// It was told what nothing can mend.
    is_wrong: bool,
    /// Parts were put over each other, which nothing can mend.
    is_overlapped: bool,
    /// It took a receipt that was changed on its way.
    is_lied_to: bool,
    /// Bytes landed that were changed on their way, or the prefix is another prompt's: only bytes from outside mend that.
    is_soiled: bool,
    /// A sender has a changed offer: what it says may be anything.
    is_uncertain: bool,
}

struct Send {
    value: Option<Outbound<HostMemory>>,
    pages: Vec<u32>,
    /// By receiver.
    sendings: BTreeMap<usize, Sending>,
    /// All that it began to serve: a changed offer may have named another transfer.
    served: Vec<TransferId>,
    is_revoked: bool,
}

struct Asked<D: Under> {
    prompt: Prompt,
    tokens: u64,
    sends: Vec<Send>,
    receives: Vec<Receive<D>>,
}

/// Where something belongs: request, receiver, and writer of the receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct To {
    request: usize,
    receiver: usize,
    tile: usize,
}

#[derive(Clone)]
enum Load {
    Offer { bytes: Vec<u8> },
    Receipt { bytes: Vec<u8> },
    Refusal { bytes: Vec<u8> },
    Put { page: u32, plane: u32, tokens: Range<u32>, bytes: Vec<u8> },
    Store { ticket: TicketId, page: u32, plane: u32, tokens: Range<u32>, bytes: Vec<u8> },
}

#[derive(Clone)]
struct Packet {
    to: To,
    load: Load,
    is_harmed: bool,
}

struct Ticket {
    id: TicketId,
    side: Side,
    at: usize,
}

/// What a receive has to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Accepted,
    NotYet,
    Refused,
}

pub(crate) struct World<D: Under> {
    shape: Shape,
    model: ModelLayout,
    cuts: Cuts,
    senders: Vec<Place<HostMemory>>,
    receivers: Vec<Place<D>>,
    tiles: Vec<Vec<(usize, Slice)>>,
    asked: Vec<Asked<D>>,
    channel: Vec<Packet>,
    /// On their way until everything else is over.
    late: Vec<Packet>,
    tickets: Vec<Ticket>,
    next_request: u64,
    has_harmed_offers: bool,
    accepted: u32,
}

fn cut(range: Range<u32>, cuts: u32) -> Vec<Range<u32>> {
    let (first, len) = (range.start, range.end - range.start);
    let parts = (cuts + 1).min(len);
    (0..parts).map(|part| first + len * part / parts..first + len * (part + 1) / parts).collect()
}

fn boxes(layers: Range<u32>, heads: Range<u32>, layer_cuts: u32, head_cuts: u32) -> Vec<Slice> {
    let layers = cut(layers, layer_cuts);
    let heads = cut(heads, head_cuts);
    let rows = layers.iter().flat_map(|layers| heads.iter().map(move |heads| (layers.clone(), heads.clone())));
    rows.map(|(layers, heads)| Slice::new(layers, heads).unwrap()).collect()
}

fn common(a: &Slice, b: &Slice) -> Option<Slice> {
    let both = |a: Range<u32>, b: Range<u32>| a.start.max(b.start)..a.end.min(b.end);
    Slice::new(both(a.layers(), b.layers()), both(a.heads(), b.heads())).ok()
}

fn pick(number: u8, of: usize) -> Option<usize> {
    usize::from(number).checked_rem(of)
}

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

impl<D: Under> World<D> {
    pub(crate) fn new(shape: Shape, cuts: Cuts, mode: CleanMode) -> Self {
        let model = shape.model();
        let whole = Slice::whole(&model);
        let parts = boxes(whole.layers(), whole.heads(), cuts.sender_layers, cuts.sender_heads);
        let ranks = boxes(whole.layers(), whole.heads(), cuts.receiver_layers, cuts.receiver_heads.min(1));
        let tiles = ranks.iter().map(|rank| {
            let tile = |(sender, part): (usize, &Slice)| common(part, rank).map(|tile| (sender, tile));
            parts.iter().enumerate().filter_map(tile).collect()
        });
        let tiles = tiles.collect();
        let held = |part: &Slice| if cuts.senders_hold_all { whole.clone() } else { part.clone() };
        let senders = parts.iter().map(|part| Place::new(&model, &held(part), mode)).collect();
        let receivers = ranks.iter().map(|rank| Place::new(&model, rank, mode)).collect();
        let (asked, channel, late, tickets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (next_request, has_harmed_offers, accepted) = (1, false, 0);
        Self {
            shape,
            model,
            cuts,
            senders,
            receivers,
            tiles,
            asked,
            channel,
            late,
            tickets,
            next_request,
            has_harmed_offers,
            accepted,
        }
    }

    /// The receives that are there, or were.
    fn receives(&self) -> Vec<(usize, usize)> {
        let of = |(request, asked): (usize, &Asked<D>)| (0..asked.receives.len()).map(move |at| (request, at));
        self.asked.iter().enumerate().flat_map(of).collect()
    }

    fn open_receive(&self, number: u8) -> Option<(usize, usize)> {
        let open = |(request, at): &(usize, usize)| self.asked[*request].receives[*at].value.is_some();
        let open: Vec<_> = self.receives().into_iter().filter(open).collect();
        pick(number, open.len()).map(|at| open[at])
    }

    fn open_send(&self, number: u8) -> Option<(usize, usize)> {
        let of = |(request, asked): (usize, &Asked<D>)| (0..asked.sends.len()).map(move |at| (request, at));
        let open = |(request, at): &(usize, usize)| self.asked[*request].sends[*at].value.is_some();
        let open: Vec<_> = self.asked.iter().enumerate().flat_map(of).filter(open).collect();
        pick(number, open.len()).map(|at| open[at])
    }

    pub(crate) fn step(&mut self, op: &Op) {
        self.apply(op);
        self.check();
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Open { owner, pages, tokens, held, wrong_prefix, ways } => {
                let full = u64::from(pages) * u64::from(self.shape.page_tokens);
                let tokens = full.saturating_add_signed(i64::from(tokens));
                self.open(u64::from(owner % 3) + 1, tokens, u32::from(held), wrong_prefix, ways);
            }
            Op::Offer { receive } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                self.offer(request, receiver);
            }
            Op::Part { receive, tile, part, what } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                let to = To { request, receiver, tile: usize::from(tile) % self.tiles[receiver].len() };
                let parts = self.parts(to);
                let Some(part) = pick(part, parts.len()) else { return };
                self.part(to, &parts[part], what);
            }
            Op::Swapped { receive, tile, part } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                let to = To { request, receiver, tile: usize::from(tile) % self.tiles[receiver].len() };
                let parts = self.parts(to);
                let Some(part) = pick(part, parts.len()) else { return };
                self.swapped(to, &parts[part]);
            }
            Op::Deliver { packet } => {
                let Some(at) = pick(packet, self.channel.len()) else { return };
                let packet = self.channel.swap_remove(at);
                self.deliver(packet);
            }
            Op::Lose { packet } => {
                let Some(at) = pick(packet, self.channel.len()) else { return };
                self.channel.swap_remove(at);
            }
            Op::Duplicate { packet } => {
                let Some(at) = pick(packet, self.channel.len()) else { return };
                self.channel.push(self.channel[at].clone());
            }
            Op::Harm { packet, bit, aim } => self.harm(packet, bit, aim),
            Op::LetIn { receive, tile } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                self.let_in(To { request, receiver, tile: usize::from(tile) % self.tiles[receiver].len() });
            }
            Op::OpenReader { send, reader } => {
                let Some((request, sender)) = self.open_send(send) else { return };
                let send = &mut self.asked[request].sends[sender];
                let Some(outbound) = &mut send.value else { return };
                if let Ok(id) = outbound.open_reader(HolderId(reader.into()), None)
                    && !self.tickets.iter().any(|ticket| ticket.id == id)
                {
                    self.tickets.push(Ticket { id, side: Side::Sender, at: sender });
                }
            }
            Op::EndTicket { ticket, revoke } => {
                let ended: Vec<usize> =
                    (0..self.tickets.len()).filter(|at| self.may_end(self.tickets[*at].id)).collect();
                let Some(at) = pick(ticket, ended.len()) else { return };
                self.end_ticket(ended[at], revoke);
            }
            Op::Accept { receive } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                self.accept(request, receiver);
            }
            Op::EndReceive { receive, how } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                self.end_receive(request, receiver, how);
            }
            Op::EndSend { send, how } => {
                let Some((request, sender)) = self.open_send(send) else { return };
                self.end_send(request, sender, how);
            }
            Op::Refuse { receive, by_sender } => {
                let Some((request, receiver)) = self.open_receive(receive) else { return };
                self.refuse(request, receiver, by_sender);
            }
            Op::Reclaim { pool, owner } => self.reclaim(pool, u64::from(owner % 3) + 1),
            Op::Tenant { pool, pages } => match self.pool(pool) {
                (Side::Sender, at) => self.senders[at].tenant(&self.shape, pages.into()),
                (Side::Receiver, at) => self.receivers[at].tenant(&self.shape, pages.into()),
            },
            Op::EndTenant { pool, tenant } => match self.pool(pool) {
                (Side::Sender, at) => self.senders[at].end_tenant(tenant),
                (Side::Receiver, at) => self.receivers[at].end_tenant(tenant),
            },
            Op::EndAccepted { receive } => {
                let accepted = |(request, at): &(usize, usize)| self.asked[*request].receives[*at].accepted.is_some();
                let accepted: Vec<_> = self.receives().into_iter().filter(accepted).collect();
                let Some(at) = pick(receive, accepted.len()) else { return };
                let (request, receiver) = accepted[at];
                self.asked[request].receives[receiver].accepted = None;
            }
            Op::Clean { pool, pages } => match self.pool(pool) {
                (Side::Sender, at) => self.senders[at].clean(pages.into()),
                (Side::Receiver, at) => self.receivers[at].clean(pages.into()),
            },
            Op::Resize { pool, pages } => {
                let pages = u32::from(pages) % PAGES + 1;
                let resized = match self.pool(pool) {
                    (Side::Sender, at) => self.senders[at].pool.resize(pages),
                    (Side::Receiver, at) => self.receivers[at].pool.resize(pages),
                };
                assert!(resized.is_ok(), "{resized:?}");
            }
        }
    }

    fn pool(&self, number: u8) -> (Side, usize) {
        // receivers twice as often: it is there that bytes land
        let at = usize::from(number) % (self.senders.len() + 2 * self.receivers.len());
        match at.checked_sub(self.senders.len()) {
            None => (Side::Sender, at),
            Some(at) => (Side::Receiver, at % self.receivers.len()),
        }
    }

    fn open(&mut self, who: u64, tokens: u64, held_pages: u32, wrong_prefix: bool, ways: u8) {
        let open = |asked: &&Asked<D>| {
            asked.sends.iter().any(|send| send.value.is_some())
                || asked.receives.iter().any(|receive| receive.value.is_some())
        };
        if self.asked.iter().filter(open).count() >= MOST_REQUESTS {
            return;
        }
        let prompt = Prompt { owner: who, request: self.next_request };
        self.next_request += 1;
        let full_pages = (tokens / u64::from(self.shape.page_tokens)) as u32;
        let held_pages = held_pages.min(full_pages);
        let held_tokens = u64::from(held_pages) * u64::from(self.shape.page_tokens);
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (sender, place) in self.senders.iter().enumerate() {
            let Some(mut kv) = place.reserve(who, tokens, tokens) else { return };
            place.compute(&self.shape, &mut kv, prompt, tokens);
            let pages = kv.handles().map(|handle| handle.index()).collect();
            let outbound = Outbound::seal(kv, &self.model, &place.slice).unwrap();
            let outbound = outbound.with_writer(HolderId(sender as u64));
            let (sendings, served) = (BTreeMap::new(), Vec::new());
            sends.push(Send { value: Some(outbound), pages, sendings, served, is_revoked: false });
        }
        for (receiver, place) in self.receivers.iter().enumerate() {
            // one token more than is sent, as decode does
            let Some(mut kv) = place.reserve(who, tokens + 1, tokens + 1) else { return };
            let is_wrong_prefix = wrong_prefix && held_pages > 0;
            let prefix = if is_wrong_prefix { Prompt { owner: who, request: 999 } } else { prompt };
            place.compute(&self.shape, &mut kv, prefix, held_tokens);
            let tiles = &self.tiles[receiver];
            let writer = |(sender, slice): &(usize, Slice)| Writer::new(HolderId(*sender as u64), slice.clone());
            let plan = InboundPlan::new(&self.model, &place.slice, tokens);
            let plan = plan.with_writers(tiles.iter().map(writer).collect());
            let handles: Vec<_> = kv.handles().collect();
            let inbound = Inbound::open(kv, plan).unwrap();
            let tile = |(at, (sender, slice)): (usize, &(usize, Slice))| Tile {
                sender: *sender,
                slice: slice.clone(),
                way: [Way::Copy, Way::Put, Way::Outside, Way::Outside][usize::from(ways >> (at % 4 * 2)) % 4],
                ticket: None,
                landed: BTreeMap::new(),
                told: BTreeSet::new(),
            };
            receives.push(Receive {
                transfer: inbound.transfer(),
                value: Some(inbound),
                accepted: None,
                pages: handles.iter().map(PageHandle::index).collect(),
                handles,
                held_pages,
                tiles: tiles.iter().enumerate().map(tile).collect(),
                is_revoked: false,
                is_wrong: false,
                is_overlapped: false,
                is_lied_to: false,
                is_soiled: is_wrong_prefix,
                is_uncertain: false,
            });
        }
        self.asked.push(Asked { prompt, tokens, sends, receives });
    }

    fn offer(&mut self, request: usize, receiver: usize) {
        let receive = &self.asked[request].receives[receiver];
        let Some(inbound) = &receive.value else { return };
        let bytes = inbound.offer().to_bytes().unwrap();
        for tile in 0..receive.tiles.len() {
            let to = To { request, receiver, tile };
            self.channel.push(Packet { to, load: Load::Offer { bytes: bytes.clone() }, is_harmed: false });
        }
    }

    fn refuse(&mut self, request: usize, receiver: usize, by_sender: bool) {
        let receive = &self.asked[request].receives[receiver];
        let side = if by_sender { Side::Sender } else { Side::Receiver };
        let bytes = Refusal::new(receive.transfer, side, &std::fmt::Error).to_bytes().unwrap();
        let tiles = if by_sender { 1 } else { receive.tiles.len() };
        for tile in 0..tiles {
            let to = To { request, receiver, tile };
            self.channel.push(Packet { to, load: Load::Refusal { bytes: bytes.clone() }, is_harmed: false });
        }
    }

    /// The parts of a tile: layers and pages.
    fn parts(&self, to: To) -> Vec<(Range<u32>, Range<u32>)> {
        let tile = &self.tiles[to.receiver][to.tile].1;
        let pages = self.shape.pages(self.asked[to.request].tokens);
        let mut parts = Vec::new();
        for layer in tile.layers().step_by(self.cuts.part_layers as usize) {
            for page in (0..pages).step_by(self.cuts.part_pages as usize) {
                let layers = layer..(layer + self.cuts.part_layers).min(tile.layers().end);
                parts.push((layers, page..(page + self.cuts.part_pages).min(pages)));
            }
        }
        parts
    }

    fn part(&mut self, to: To, (layers, pages): &(Range<u32>, Range<u32>), what: What) {
        let Asked { sends, receives, .. } = &mut self.asked[to.request];
        let receive = &mut receives[to.receiver];
        let tile = &receive.tiles[to.tile];
        let send = &mut sends[tile.sender];
        let way = tile.way;
        let Some(outbound) = &send.value else { return };
        let Some(sending) = send.sendings.get(&to.receiver) else { return };
        let part = if way == Way::Copy && what != What::Receipt {
            let copied = copy(&self.shape, outbound, send.is_revoked, sending, receive, to.tile, (layers, pages));
            match copied {
                Some(part) => part,
                None => return,
            }
        } else {
            match outbound.digest(sending, layers.clone(), pages.clone()) {
                Ok(part) => part,
                Err(OutboundError::Read(ReadError::Revoked)) if send.is_revoked => return,
                Err(OutboundError::NoSuchPart { .. }) if receive.is_uncertain => return,
                Err(other) => panic!("{other:?}"),
            }
        };
        let receipt = sending.receipt(vec![part]);
        if what != What::Bytes {
            let bytes = receipt.to_bytes().unwrap();
            self.channel.push(Packet { to, load: Load::Receipt { bytes }, is_harmed: false });
        }
        if way != Way::Copy
            && what != What::Receipt
            && !self.asked[to.request].sends[self.tiles[to.receiver][to.tile].0].is_revoked
        {
            self.emit(to, layers, pages);
        }
    }

    /// Sends a part with its first two pages in each other's place, each with the digest of its own.
    fn swapped(&mut self, to: To, part: &(Range<u32>, Range<u32>)) {
        let asked = &self.asked[to.request];
        let receive = &asked.receives[to.receiver];
        let (first, second) = (part.1.start, part.1.start + 1);
        let len = |page| self.shape.tokens_of(page, asked.tokens).count();
        let is_whole = second < part.1.end && first >= receive.held_pages && len(first) == len(second);
        if receive.tiles[to.tile].way != Way::Put || !is_whole {
            return;
        }
        let before = self.channel.len();
        self.part(to, part, What::Both);
        for packet in &mut self.channel[before..] {
            packet.is_harmed = true;
            match &mut packet.load {
                Load::Put { page, .. } if *page == first || *page == second => *page = first + second - *page,
                Load::Receipt { bytes } => {
                    let receipt = Receipt::from_bytes(bytes).unwrap();
                    let part = &receipt.parts()[0];
                    let mut digests = part.digests().to_vec();
                    digests.swap(0, 1);
                    let part = SentPart::new(part.slice().clone(), part.pages()).with_digests(part.planes(), digests);
                    *bytes = receipt.clone().with_parts(receipt.checksum(), vec![part]).to_bytes().unwrap();
                }
                _ => packet.is_harmed = false,
            }
        }
    }

    /// Puts the bytes of a part on their way, in pieces.
    fn emit(&mut self, to: To, layers: &Range<u32>, pages: &Range<u32>) {
        let asked = &self.asked[to.request];
        let receive = &asked.receives[to.receiver];
        let tile = &receive.tiles[to.tile];
        if tile.way == Way::Outside
            && !tile.ticket.is_some_and(|id| self.receivers[to.receiver].pool.ticket_is_open(id))
        {
            return;
        }
        let step = self.cuts.put_tokens;
        for page in pages.clone().filter(|page| *page >= receive.held_pages) {
            for plane in 0..self.shape.planes(&tile.slice) {
                let (of_plane, _) = self.shape.plane(&tile.slice, plane);
                // A plane that all layers share goes with the part of its first layer.
                if !layers.contains(&of_plane.start) {
                    continue;
                }
                let all = self.shape.tokens_of(page, asked.tokens);
                let filled = (all.end - all.start) as u32;
                for first in (0..filled).step_by(step as usize) {
                    let tokens = first..(first + step).min(filled);
                    let range = all.start + u64::from(tokens.start)..all.start + u64::from(tokens.end);
                    let bytes = self.shape.token_major(&tile.slice, plane, range, asked.prompt);
                    let load = match (tile.way, tile.ticket) {
                        (Way::Outside, Some(ticket)) => Load::Store { ticket, page, plane, tokens, bytes },
                        _ => Load::Put { page, plane, tokens, bytes },
                    };
                    self.channel.push(Packet { to, load, is_harmed: false });
                }
            }
        }
    }

    fn let_in(&mut self, to: To) {
        let Asked { receives, tokens, .. } = &mut self.asked[to.request];
        let receive = &mut receives[to.receiver];
        let Some(inbound) = &mut receive.value else { return };
        let tile = &mut receive.tiles[to.tile];
        if tile.way != Way::Outside {
            return;
        }
        let pool = &self.receivers[to.receiver].pool;
        let is_open = tile.ticket.is_some_and(|id| pool.ticket_is_open(id));
        let holder = HolderId(tile.sender as u64);
        match inbound.open_writer(holder, None) {
            Ok(id) => {
                assert!(!is_open && !receive.is_revoked, "one ticket for each writer");
                tile.ticket = Some(id);
                self.tickets.push(Ticket { id, side: Side::Receiver, at: to.receiver });
            }
            Err(WriterError::Open { .. }) => assert!(is_open),
            Err(WriterError::Ticket(_)) => {
                assert!(receive.is_revoked || self.shape.pages(*tokens) == receive.held_pages);
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    /// A ticket may end when nothing that its holder sent is on its way.
    fn may_end(&self, id: TicketId) -> bool {
        let on_its_way = |packet: &Packet| matches!(packet.load, Load::Store { ticket, .. } if ticket == id);
        !self.channel.iter().chain(&self.late).any(on_its_way)
    }

    /// Ends all tickets whose holders have nothing on its way.
    fn end_tickets(&mut self) {
        for at in (0..self.tickets.len()).rev() {
            if self.may_end(self.tickets[at].id) {
                self.end_ticket(at, false);
            }
        }
    }

    fn end_ticket(&mut self, at: usize, revoke: bool) {
        let Ticket { id, side, at } = self.tickets.swap_remove(at);
        let ends = match side {
            // SAFETY: (1): readers of the test look at nothing under their tickets.
            Side::Sender => unsafe { self.senders[at].pool.ticket_done(id) },
            // SAFETY: (1): no store of the ticket is in the channel, which `may_end` saw.
            Side::Receiver if revoke => unsafe { self.receivers[at].pool.ticket_revoke(id) },
            // SAFETY: (1): as above.
            Side::Receiver => unsafe { self.receivers[at].pool.ticket_done(id) },
        };
        ends.unwrap();
    }

    fn harm(&mut self, packet: u8, bit: u16, aim: bool) {
        let Some(at) = pick(packet, self.channel.len()) else { return };
        let to = self.channel[at].to;
        let receive = &self.asked[to.request].receives[to.receiver];
        let pages = self.shape.pages(self.asked[to.request].tokens);
        let packet = &mut self.channel[at];
        packet.is_harmed = true;
        match &mut packet.load {
            Load::Put { page, .. } | Load::Store { page, .. } if aim && pages > receive.held_pages + 1 => {
                // the next page that is to land, round about
                let landing = pages - receive.held_pages;
                *page =
                    receive.held_pages + (*page - receive.held_pages + 1 + u32::from(bit) % (landing - 1)) % landing;
            }
            // the last digest
            Load::Receipt { bytes } if aim => {
                let bit = bytes.len() * 8 - 1 - usize::from(bit) % 128;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Load::Offer { bytes }
            | Load::Receipt { bytes }
            | Load::Refusal { bytes }
            | Load::Put { bytes, .. }
            | Load::Store { bytes, .. } => {
                let bit = usize::from(bit) % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { to, load, is_harmed } = packet;
        match load {
            Load::Offer { bytes } => self.take_offer(to, &bytes, is_harmed),
            Load::Receipt { bytes } => self.take_receipt(to, &bytes, is_harmed),
            Load::Refusal { bytes } => self.take_refusal(to, &bytes, is_harmed),
            Load::Put { page, plane, tokens, bytes } => self.put(to, page, plane, tokens, &bytes, is_harmed),
            Load::Store { ticket, page, plane, tokens, bytes } => self.store(to, ticket, (page, plane), tokens, &bytes),
        }
    }

    /// A store from outside lands, whoever has the page now: the ticket is open. The last of a page fills the page up with
    /// noise, as a card does that writes whole blocks.
    fn store(&self, to: To, ticket: TicketId, (page, plane): (u32, u32), tokens: Range<u32>, bytes: &[u8]) {
        let place = &self.receivers[to.receiver];
        assert!(place.pool.ticket_is_open(ticket), "the test ends no ticket before its stores");
        let asked = &self.asked[to.request];
        let receive = &asked.receives[to.receiver];
        let slice = &receive.tiles[to.tile].slice;
        let (layers, row) = self.shape.plane(slice, plane);
        let shape = self.shape.rows()[row as usize];
        let filled = self.shape.tokens_of(page, asked.tokens).count() as u32;
        let up_to = if tokens.end >= filled { self.shape.page_tokens } else { tokens.end };
        let noise = vec![0xEE; shape.bytes as usize];
        let mut heads = bytes.chunks_exact(shape.bytes as usize);
        for token in tokens.start..up_to {
            for layer in layers.clone() {
                for side in 0..shape.sides {
                    for head in slice.heads() {
                        let name = Name { layer, row, side, head, token: u64::from(token), at: 0 };
                        let (plane, offset) = self.shape.place(&place.slice, name);
                        place.store(plane, receive.pages[page as usize], offset, heads.next().unwrap_or(&noise));
                    }
                }
            }
        }
    }

    fn take_offer(&mut self, to: To, bytes: &[u8], is_harmed: bool) {
        let Ok(offer) = Offer::from_bytes(bytes) else {
            assert!(is_harmed, "what was written is read");
            return;
        };
        self.has_harmed_offers |= is_harmed;
        let Asked { sends, receives, .. } = &mut self.asked[to.request];
        let receive = &mut receives[to.receiver];
        let send = &mut sends[receive.tiles[to.tile].sender];
        let Some(outbound) = &mut send.value else { return };
        match outbound.start(&offer) {
            Ok(sending) => {
                assert!(!send.is_revoked);
                receive.is_uncertain |= is_harmed;
                send.served.push(sending.transfer());
                send.sendings.insert(to.receiver, sending);
            }
            // An offer that was made after a reclaim names no pages.
            Err(error) => {
                let known = is_harmed || self.has_harmed_offers || send.is_revoked || receive.is_revoked;
                assert!(known, "an honest offer is served: {error:?}");
            }
        }
    }

    fn take_receipt(&mut self, to: To, bytes: &[u8], is_harmed: bool) {
        let Ok(receipt) = Receipt::from_bytes(bytes) else {
            assert!(is_harmed, "what was written is read");
            return;
        };
        let pool = &self.receivers[to.receiver].pool;
        let found = self.asked.iter_mut().flat_map(|asked| {
            let Asked { receives, prompt, .. } = asked;
            receives.get_mut(to.receiver).map(|receive| (receive, *prompt))
        });
        let found = found.into_iter().find(|(receive, _)| receive.transfer == receipt.transfer());
        let Some((receive, _)) = found else {
            assert!(is_harmed || self.has_harmed_offers, "only a changed receipt is of no receive");
            assert!(pool.transfer(receipt.transfer()).is_err());
            return;
        };
        let Some(inbound) = &mut receive.value else {
            assert!(pool.transfer(receipt.transfer()).is_err(), "the handoff is over");
            return;
        };
        let answer = inbound.receive(&receipt);
        if receive.is_uncertain {
            return;
        }
        match answer {
            Ok(_) if receive.is_wrong => panic!("a handoff that went wrong takes no more receipts"),
            // a copy of it came before
            Ok(Received::Before) => {
                assert!(!is_harmed || receive.is_lied_to, "a changed receipt passes for a known one")
            }
            Ok(Received::Now) => {
                receive.is_lied_to |= is_harmed;
                let tile = receive.tiles.iter_mut().find(|tile| tile.sender as u64 == receipt.writer().0).unwrap();
                for part in receipt.parts() {
                    let layers = part.slice().layers();
                    tile.told.extend(layers.flat_map(|layer| part.pages().map(move |page| (layer, page))));
                }
            }
            Err(InboundError::Transfer { .. }) => panic!("it was looked up by its number"),
            Err(error) => {
                assert!(is_harmed || receive.is_wrong || receive.is_lied_to, "an honest receipt is taken: {error:?}");
                receive.is_wrong = true;
            }
        }
    }

    fn take_refusal(&mut self, to: To, bytes: &[u8], is_harmed: bool) {
        let Ok(refusal) = Refusal::from_bytes(bytes) else {
            assert!(is_harmed, "what was written is read");
            return;
        };
        let Asked { sends, receives, .. } = &mut self.asked[to.request];
        let receive = &mut receives[to.receiver];
        let transfer = refusal.transfer();
        if refusal.side() == Side::Sender {
            let found = self.receivers[to.receiver].pool.transfer(transfer);
            let is_here = receive.transfer == transfer && receive.value.is_some() && !receive.is_revoked;
            if receive.transfer == transfer {
                assert_eq!(found.is_ok(), is_here);
            }
            if is_here && let Some(inbound) = receive.value.take() {
                drop(inbound.reject(refusal));
            }
            return;
        }
        let send = &mut sends[receive.tiles[to.tile].sender];
        let Some(outbound) = send.value.take() else { return };
        let serves = send.served.contains(&transfer);
        match outbound.refused(refusal) {
            Ok(_) => assert!(serves, "the refusal of another transfer ended this one"),
            Err(refused) => {
                let (outbound, error) = refused.into_parts();
                assert_eq!(error, OutboundError::NotServed { transfer });
                assert!(!serves || send.is_revoked);
                send.value = Some(outbound);
            }
        }
    }

    fn put(&mut self, to: To, page: u32, plane: u32, tokens: Range<u32>, bytes: &[u8], is_harmed: bool) {
        let Asked { receives, tokens: all, .. } = &mut self.asked[to.request];
        let filled = self.shape.tokens_of(page, *all);
        let filled = (filled.end - filled.start) as u32;
        let receive = &mut receives[to.receiver];
        let is_busy = receive
            .tiles
            .iter()
            .any(|tile| tile.ticket.is_some_and(|id| self.receivers[to.receiver].pool.ticket_is_open(id)));
        let Some(inbound) = &mut receive.value else { return };
        let tile = &mut receive.tiles[to.tile];
        let mut landing = match inbound.landing(HolderId(tile.sender as u64)) {
            Ok(landing) => landing,
            Err(LandError::Write(WriteError::Revoked)) if receive.is_revoked => return,
            Err(other) => panic!("{other:?}"),
        };
        let place = &self.receivers[to.receiver];
        let before = place.image(receive.pages[page as usize]);
        let answer = landing.put(page, plane as usize, tokens.clone(), bytes);
        drop(landing);
        let is_stored = place.image(receive.pages[page as usize]) != before;
        assert!(!is_stored || answer == Ok(Landed::Now), "what did not land changed bytes");
        if tokens.end > filled {
            assert_eq!(answer, Err(LandError::PastExpected { page, to_tokens: tokens.end, expected_tokens: filled }));
            return;
        }
        let (layers, row) = self.shape.plane(&tile.slice, plane);
        let units: Vec<_> = layers.map(|layer| (page, layer, row)).collect();
        match (compare(&tile.landed, &units, &tokens), answer) {
            (Some(Landed::Before), answer) => assert_eq!(answer, Ok(Landed::Before)),
            (None, answer) => {
                assert!(matches!(answer, Err(LandError::Overlap { .. })), "{answer:?}");
                receive.is_overlapped = true;
            }
            (Some(Landed::Now), Err(LandError::Write(WriteError::Busy { .. }))) => assert!(is_busy),
            (Some(Landed::Now), answer) => {
                assert_eq!((answer, is_busy), (Ok(Landed::Now), false));
                receive.is_soiled |= is_harmed;
                for unit in units {
                    tile.landed.entry(unit).or_default().push(tokens.clone());
                }
            }
        }
    }

    /// What a receive has to answer, by the world's own count and the raw bytes.
    fn answer(&self, request: usize, receiver: usize) -> Answer {
        let asked = &self.asked[request];
        let receive = &asked.receives[receiver];
        let place = &self.receivers[receiver];
        let pages = self.shape.pages(asked.tokens);
        if receive.is_revoked || receive.is_wrong || receive.is_overlapped {
            return Answer::Refused;
        }
        if receive.tiles.iter().any(|tile| tile.ticket.is_some_and(|id| place.pool.ticket_is_open(id))) {
            return Answer::NotYet;
        }
        let is_told = |tile: &Tile| tile.told.len() as u32 == tile.slice.layers().len() as u32 * pages;
        let rows = self.shape.rows().len() as u32;
        let has_landed = |tile: &Tile| {
            // one that never had a ticket has to put its bytes like any other
            (tile.way == Way::Outside && tile.ticket.is_some())
                || (receive.held_pages..pages).all(|page| {
                    let all = self.shape.tokens_of(page, asked.tokens);
                    let unit = |layer, row| tile.landed.get(&(page, layer, row)).into_iter().flatten();
                    let count = |layer, row| {
                        unit(layer, row).map(|part: &Range<u32>| u64::from(part.end - part.start)).sum::<u64>()
                    };
                    tile.slice.layers().all(|layer| (0..rows).all(|row| count(layer, row) == all.end - all.start))
                })
        };
        if !receive.tiles.iter().all(|tile| is_told(tile) && has_landed(tile)) {
            return Answer::NotYet;
        }
        if place.holds(&self.shape, &receive.pages, asked.prompt, asked.tokens) {
            Answer::Accepted
        } else {
            Answer::Refused
        }
    }

    fn accept(&mut self, request: usize, receiver: usize) -> Answer {
        let expected = self.answer(request, receiver);
        let asked = &mut self.asked[request];
        let receive = &mut asked.receives[receiver];
        let Some(inbound) = receive.value.take() else { return Answer::Refused };
        let found = match inbound.accept() {
            Ok(kv) => {
                receive.accepted = Some(kv);
                Answer::Accepted
            }
            Err(AcceptError::NotYet(not_yet)) => {
                receive.value = Some(not_yet.into_inbound());
                Answer::NotYet
            }
            Err(AcceptError::Refused(refused)) => {
                drop(refused.into_rejected());
                Answer::Refused
            }
        };
        if found == Answer::Accepted {
            assert!(!receive.is_lied_to, "a receipt that was changed was believed");
            assert!(!receive.is_soiled || receive.tiles.iter().any(|tile| tile.way == Way::Outside));
            let place = &self.receivers[receiver];
            assert!(place.holds(&self.shape, &receive.pages, asked.prompt, asked.tokens), "bytes of something else");
            self.accepted += 1;
        }
        if !receive.is_uncertain && !receive.is_lied_to {
            assert_eq!(found, expected);
        }
        found
    }

    fn end_receive(&mut self, request: usize, receiver: usize, how: End) {
        let receive = &mut self.asked[request].receives[receiver];
        let Some(inbound) = receive.value.take() else { return };
        match how {
            End::Drop => drop(inbound),
            End::Reject => drop(inbound.reject("the client went away")),
            End::Forget => {
                std::mem::forget(inbound);
                let who = self.asked[request].prompt.owner;
                self.reclaim_at(Side::Receiver, receiver, who);
            }
            End::Own => match inbound.accept() {
                Ok(kv) => {
                    let asked = &mut self.asked[request];
                    let place = &self.receivers[receiver];
                    assert!(place.holds(&self.shape, &asked.receives[receiver].pages, asked.prompt, asked.tokens));
                    asked.receives[receiver].accepted = Some(kv);
                }
                Err(error) => drop(error.give_up()),
            },
        }
    }

    fn end_send(&mut self, request: usize, sender: usize, how: End) {
        let Some(outbound) = self.asked[request].sends[sender].value.take() else { return };
        match how {
            End::Drop => drop(outbound.into_reservation()),
            End::Reject => drop(outbound.reject("the client went away")),
            End::Own => drop(outbound.release()),
            End::Forget => {
                std::mem::forget(outbound);
                let who = self.asked[request].prompt.owner;
                self.reclaim_at(Side::Sender, sender, who);
            }
        }
    }

    fn reclaim(&mut self, pool: u8, who: u64) {
        let (side, at) = self.pool(pool);
        self.reclaim_at(side, at, who);
    }

    fn reclaim_at(&mut self, side: Side, at: usize, who: u64) {
        match side {
            Side::Sender => drop(self.senders[at].pool.reclaim(owner(who))),
            Side::Receiver => drop(self.receivers[at].pool.reclaim(owner(who))),
        }
        for asked in self.asked.iter_mut().filter(|asked| asked.prompt.owner == who) {
            match side {
                Side::Sender => asked.sends[at].is_revoked = true,
                Side::Receiver => asked.receives[at].is_revoked = true,
            }
        }
    }

    fn check(&self) {
        self.senders.iter().for_each(|place| place.check(&self.shape));
        self.receivers.iter().for_each(|place| place.check(&self.shape));
        for asked in &self.asked {
            for (send, place) in asked.sends.iter().zip(&self.senders) {
                if send.value.is_some() && !send.is_revoked {
                    assert!(
                        place.holds(&self.shape, &send.pages, asked.prompt, asked.tokens),
                        "what is sealed changed"
                    );
                }
            }
            for (receive, place) in asked.receives.iter().zip(&self.receivers) {
                self.check_receive(asked, receive, place);
            }
        }
    }

    fn check_receive(&self, asked: &Asked<D>, receive: &Receive<D>, place: &Place<D>) {
        let is_gone = receive.is_revoked || receive.value.is_none() && receive.accepted.is_none();
        let is_busy = receive.tiles.iter().any(|tile| tile.ticket.is_some_and(|id| place.pool.ticket_is_open(id)));
        let pages = self.shape.pages(asked.tokens);
        for (page, handle) in (0..).zip(&receive.handles) {
            let all = self.shape.tokens_of(page, asked.tokens);
            let filled = (all.end - all.start) as u32;
            let readable = match place.pool.read(owner(asked.prompt.owner), *handle) {
                Ok(guard) => {
                    assert!(!is_gone, "a page is readable after the handoff");
                    guard.written_tokens()
                }
                Err(ReadError::Busy { .. }) => {
                    assert!(is_busy && !is_gone && (receive.held_pages..pages).contains(&page));
                    continue;
                }
                Err(ReadError::Stale { .. }) => {
                    assert!(is_gone, "a page is lost");
                    continue;
                }
                Err(other) => panic!("{other:?}"),
            };
            assert!(!is_busy || !(receive.held_pages..pages).contains(&page), "a page is readable under a writer");
            let expected = if receive.accepted.is_some() || page < receive.held_pages { filled } else { 0 };
            assert_eq!(readable, expected, "page {page}");
            assert!(place.pool.read(owner(50), *handle).is_err(), "another owner reads");
        }
        if receive.accepted.is_some() && !receive.is_revoked {
            assert!(place.holds(&self.shape, &receive.pages, asked.prompt, asked.tokens), "what was accepted changed");
        }
    }

    /// What can still be received is, or is aborted while its writers are at work; then everything ends.
    pub(crate) fn finish(mut self, seed: u64) {
        self.deliver_all();
        for (at, (request, receiver)) in self.receives().into_iter().enumerate() {
            match seed >> (at % 32 * 2) & 3 {
                0 => self.abort_at_work(request, receiver),
                1 => {
                    self.offer(request, receiver);
                    self.deliver_all();
                    for tile in 0..self.tiles[receiver].len() {
                        let to = To { request, receiver, tile };
                        self.parts(to).first().cloned().iter().for_each(|part| self.swapped(to, part));
                    }
                    self.deliver_all();
                    self.complete(request, receiver);
                }
                _ => self.complete(request, receiver),
            }
            self.check();
        }
        for (request, receiver) in self.receives() {
            self.end_receive(request, receiver, End::Drop);
            self.asked[request].receives[receiver].accepted = None;
        }
        // Others take all that is free, before the last stores land.
        for place in &mut self.receivers {
            place.clean(PAGES.try_into().unwrap());
            (0..PAGES).for_each(|_| place.tenant(&self.shape, 1));
        }
        self.channel.append(&mut self.late);
        self.deliver_all();
        self.check();
        for request in 0..self.asked.len() {
            for sender in 0..self.senders.len() {
                self.end_send(request, sender, End::Own);
            }
        }
        self.end_tickets();
        self.check();
        self.senders.iter_mut().for_each(Place::check_end);
        self.receivers.iter_mut().for_each(Place::check_end);
    }

    /// Ends a receive while all of its outside writers are at work; their stores stay on their way.
    fn abort_at_work(&mut self, request: usize, receiver: usize) {
        if self.asked[request].receives[receiver].value.is_none() {
            return;
        }
        for tile in 0..self.tiles[receiver].len() {
            let to = To { request, receiver, tile };
            self.let_in(to);
            if self.asked[request].receives[receiver].tiles[tile].way == Way::Outside {
                self.parts(to).iter().for_each(|(layers, pages)| self.emit(to, layers, pages));
            }
        }
        self.end_receive(request, receiver, End::Reject);
        self.late.append(&mut self.channel);
    }

    /// A handoff that gets all its messages and bytes, unharmed, is accepted.
    fn complete(&mut self, request: usize, receiver: usize) {
        let asked = &self.asked[request];
        let receive = &asked.receives[receiver];
        let is_over = receive.value.is_none() || receive.is_revoked || receive.is_wrong || receive.is_overlapped;
        let has_senders = receive.tiles.iter().all(|tile| {
            let send = &asked.sends[tile.sender];
            send.value.is_some() && !send.is_revoked
        });
        if is_over || !has_senders || receive.is_uncertain || self.has_harmed_offers {
            return;
        }
        self.offer(request, receiver);
        self.deliver_all();
        let mut tiles: Vec<usize> = (0..self.tiles[receiver].len()).collect();
        // Whoever writes from outside first: while it does, nothing else lands.
        tiles.sort_by_key(|tile| self.asked[request].receives[receiver].tiles[*tile].way != Way::Outside);
        for tile in tiles {
            let to = To { request, receiver, tile };
            if (request + tile).is_multiple_of(2) {
                self.complete_bytes(to);
                self.complete_receipts(to);
            } else {
                self.complete_receipts(to);
                self.complete_bytes(to);
            }
        }
        if self.asked[request].receives[receiver].value.is_none() {
            return; // it was accepted on the way
        }
        let Receive { is_soiled, is_lied_to, .. } = self.asked[request].receives[receiver];
        let answer = self.accept(request, receiver);
        let is_right = !is_soiled && !is_lied_to;
        assert_eq!(
            answer == Answer::Accepted,
            is_right,
            "all of it came, and was or was not what was sent: {answer:?}"
        );
    }

    fn complete_bytes(&mut self, to: To) {
        self.let_in(to);
        for part in self.parts(to) {
            self.part(to, &part, What::Bytes);
            self.deliver_all();
            self.accept_too_early(to);
        }
        self.end_tickets();
        self.accept_too_early(to);
    }

    fn complete_receipts(&mut self, to: To) {
        for part in self.parts(to) {
            let receive = &self.asked[to.request].receives[to.receiver];
            // A lie is not contradicted: it has to be found by the bytes.
            let first = (part.0.start, part.1.start);
            if receive.is_lied_to && receive.tiles[to.tile].told.contains(&first) {
                continue;
            }
            for _ in 0..2 {
                self.part(to, &part, What::Receipt);
                self.deliver_all();
                self.accept_too_early(to);
            }
        }
    }

    /// While something is missing the receive waits for it.
    fn accept_too_early(&mut self, to: To) {
        if self.asked[to.request].receives[to.receiver].value.is_some()
            && self.answer(to.request, to.receiver) == Answer::NotYet
        {
            assert_eq!(self.accept(to.request, to.receiver), Answer::NotYet);
        }
    }

    fn deliver_all(&mut self) {
        while let Some(packet) = self.channel.pop() {
            self.deliver(packet);
        }
    }
}

/// What a part is to what landed: `None` when it overlaps.
fn compare(
    landed: &BTreeMap<(u32, u32, u32), Vec<Range<u32>>>,
    units: &[(u32, u32, u32)],
    tokens: &Range<u32>,
) -> Option<Landed> {
    let (mut new, mut again) = (false, false);
    for unit in units {
        let parts = landed.get(unit).into_iter().flatten();
        let mut touched = parts.filter(|part| part.start < tokens.end && tokens.start < part.end);
        match touched.next() {
            None => new = true,
            Some(part) if part == tokens => again = true,
            Some(_) => return None,
        }
    }
    match (new, again) {
        (true, true) => None,
        (_, true) => Some(Landed::Before),
        _ => Some(Landed::Now),
    }
}

/// Copies a part within the process, and does so in the world's own count. `None` when the library did not.
fn copy<D: Under>(
    shape: &Shape,
    outbound: &Outbound<HostMemory>,
    is_revoked: bool,
    sending: &Sending,
    receive: &mut Receive<D>,
    tile: usize,
    (layers, pages): (&Range<u32>, &Range<u32>),
) -> Option<SentPart> {
    let inbound = receive.value.as_mut()?;
    let holder = HolderId(receive.tiles[tile].sender as u64);
    let pool_is_busy = receive.tiles.iter().any(|tile| tile.ticket.is_some());
    let mut landing = match inbound.landing(holder) {
        Ok(landing) => landing,
        Err(LandError::Write(WriteError::Revoked)) if receive.is_revoked => return None,
        Err(other) => panic!("{other:?}"),
    };
    let copied = outbound.copy(sending, layers.clone(), pages.clone(), &mut landing);
    drop(landing);
    if receive.is_uncertain {
        return copied.ok();
    }
    let tile = &mut receive.tiles[tile];
    let part = Slice::new(layers.clone(), tile.slice.heads()).unwrap();
    let is_busy = match &copied {
        Ok(_) => false,
        Err(OutboundError::Read(ReadError::Revoked)) => {
            assert!(is_revoked);
            return None;
        }
        Err(OutboundError::Land(LandError::Write(WriteError::Busy { .. }))) => {
            assert!(pool_is_busy, "nobody else is on the page");
            true
        }
        Err(other) => panic!("{other:?}"),
    };
    for page in pages.clone().filter(|page| *page >= receive.held_pages) {
        let all = shape.tokens_of(page, outbound.tokens());
        let tokens = 0..(all.end - all.start) as u32;
        for plane in 0..shape.planes(&part) {
            let (layers, row) = shape.plane(&part, plane);
            let units: Vec<_> = layers.map(|layer| (page, layer, row)).collect();
            if compare(&tile.landed, &units, &tokens).expect("copies of one sender never overlap") == Landed::Now {
                if is_busy {
                    return None;
                }
                for unit in units {
                    tile.landed.entry(unit).or_default().push(tokens.clone());
                }
            }
        }
    }
    assert!(!is_busy, "all of it had landed");
    copied.ok()
}
