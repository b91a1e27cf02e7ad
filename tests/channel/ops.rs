//! What may happen next. Numbers choose among what is there, modulo its count.

use proptest::prelude::*;

/// How a value ends that nobody wants any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Drop,
    Reject,
    Forget,
    /// As the value's own end: `give_up` of a receive, `release` of a send.
    Own,
}

/// What of a part is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Both,
    Bytes,
    Receipt,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A request with a sender in each prefill pool and a receiver in each decode pool.
    Open {
        owner: u8,
        pages: u8,
        tokens: i8,
        held: u8,
        wrong_prefix: bool,
        ways: u8,
    },
    /// A receiver says what it has room for.
    Offer {
        receive: u8,
    },
    /// A sender sends a part of its tile.
    Part {
        receive: u8,
        tile: u8,
        part: u8,
        what: What,
    },
    /// A sender takes two pages of a part for each other, bytes and digests alike.
    Swapped {
        receive: u8,
        tile: u8,
        part: u8,
    },
    Deliver {
        packet: u8,
    },
    Lose {
        packet: u8,
    },
    Duplicate {
        packet: u8,
    },
    /// Changes a bit, or where bytes are aimed.
    Harm {
        packet: u8,
        bit: u16,
        aim: bool,
    },
    LetIn {
        receive: u8,
        tile: u8,
    },
    OpenReader {
        send: u8,
        reader: u8,
    },
    EndTicket {
        ticket: u8,
        revoke: bool,
    },
    Accept {
        receive: u8,
    },
    EndReceive {
        receive: u8,
        how: End,
    },
    EndSend {
        send: u8,
        how: End,
    },
    Refuse {
        receive: u8,
        by_sender: bool,
    },
    Reclaim {
        pool: u8,
        owner: u8,
    },
    Tenant {
        pool: u8,
        pages: u8,
    },
    EndTenant {
        pool: u8,
        tenant: u8,
    },
    EndAccepted {
        receive: u8,
    },
    Clean {
        pool: u8,
        pages: u8,
    },
    Resize {
        pool: u8,
        pages: u8,
    },
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let n = any::<u8>;
    let how = || prop_oneof![Just(End::Drop), Just(End::Reject), Just(End::Forget), Just(End::Own)];
    let what = prop_oneof![4 => Just(What::Both), 1 => Just(What::Bytes), 1 => Just(What::Receipt)];
    prop_oneof![
        5 => (n(), 0u8..4, -1i8..2, 0u8..3, prop::bool::weighted(0.1), n()).prop_map(
            |(owner, pages, tokens, held, wrong_prefix, ways)| Op::Open { owner, pages, tokens, held, wrong_prefix, ways }
        ),
        6 => n().prop_map(|receive| Op::Offer { receive }),
        16 => (n(), n(), n(), what).prop_map(|(receive, tile, part, what)| Op::Part { receive, tile, part, what }),
        2 => (n(), n(), n()).prop_map(|(receive, tile, part)| Op::Swapped { receive, tile, part }),
        30 => n().prop_map(|packet| Op::Deliver { packet }),
        2 => n().prop_map(|packet| Op::Lose { packet }),
        4 => n().prop_map(|packet| Op::Duplicate { packet }),
        3 => (n(), any::<u16>(), any::<bool>()).prop_map(|(packet, bit, aim)| Op::Harm { packet, bit, aim }),
        5 => (n(), n()).prop_map(|(receive, tile)| Op::LetIn { receive, tile }),
        1 => (n(), 0u8..3).prop_map(|(send, reader)| Op::OpenReader { send, reader }),
        5 => (n(), any::<bool>()).prop_map(|(ticket, revoke)| Op::EndTicket { ticket, revoke }),
        6 => n().prop_map(|receive| Op::Accept { receive }),
        1 => (n(), how()).prop_map(|(receive, how)| Op::EndReceive { receive, how }),
        1 => (n(), how()).prop_map(|(send, how)| Op::EndSend { send, how }),
        1 => (n(), any::<bool>()).prop_map(|(receive, by_sender)| Op::Refuse { receive, by_sender }),
        1 => (n(), n()).prop_map(|(pool, owner)| Op::Reclaim { pool, owner }),
        3 => (n(), 1u8..5).prop_map(|(pool, pages)| Op::Tenant { pool, pages }),
        2 => (n(), n()).prop_map(|(pool, tenant)| Op::EndTenant { pool, tenant }),
        2 => n().prop_map(|receive| Op::EndAccepted { receive }),
        2 => (n(), 0u8..4).prop_map(|(pool, pages)| Op::Clean { pool, pages }),
        1 => (n(), n()).prop_map(|(pool, pages)| Op::Resize { pool, pages }),
    ]
}

/// How a model is cut among senders and receivers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuts {
    /// Cut points by layers and by heads, modulo what there is; 0 is none.
    pub(crate) sender_layers: u32,
    pub(crate) sender_heads: u32,
    pub(crate) receiver_layers: u32,
    pub(crate) receiver_heads: u32,
    /// Whether each sender has all of the model in its pool.
    pub(crate) senders_hold_all: bool,
    /// Layers and pages of a part, tokens that land at once.
    pub(crate) part_layers: u32,
    pub(crate) part_pages: u32,
    pub(crate) put_tokens: u32,
}

pub(crate) fn cuts() -> impl Strategy<Value = Cuts> {
    let sides = (0u32..3, 0u32..3, 0u32..2, 0u32..3, any::<bool>());
    (sides, 1u32..4, 1u32..4, 1u32..9).prop_map(|(sides, part_layers, part_pages, put_tokens)| {
        let (sender_layers, sender_heads, receiver_layers, receiver_heads, senders_hold_all) = sides;
        // one cut of the receivers is enough: two decode ranks
        let receiver_layers = if receiver_heads > 0 { 0 } else { receiver_layers };
        Cuts {
            sender_layers,
            sender_heads,
            receiver_layers,
            receiver_heads,
            senders_hold_all,
            part_layers,
            part_pages,
            put_tokens,
        }
    })
}
