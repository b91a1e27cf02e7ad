//! What goes wrong, and how each should end.

/// A way in which a handoff goes wrong, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Oversize,
    Short,
    Gap,
    Overlap,
    Bitflip,
    Swap,
    Layout,
    WrongOwner,
    Replay,
    Duplicate,
    LateWrite,
    KillPrefill,
    KillDecode,
    Refuse,
}

/// How tenant B's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Refused,
}

impl Outcome {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Refused => "refused",
        }
    }
}

/// What the two processes do about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Everything as it should be.
    Honest,
    /// The prompt is larger than what prefill admits.
    TooLarge,
    /// Prefill sealed one token in place of the prompt that it rejected.
    Placeholder,
    /// Prefill sealed the prompt in pages of another layout.
    OtherLayout,
    /// One thing is wrong, and the fault says which.
    Faulty,
}

impl Fault {
    pub(crate) const ALL: [Self; 15] = [
        Self::None,
        Self::Oversize,
        Self::Short,
        Self::Gap,
        Self::Overlap,
        Self::Bitflip,
        Self::Swap,
        Self::Layout,
        Self::WrongOwner,
        Self::Replay,
        Self::Duplicate,
        Self::LateWrite,
        Self::KillPrefill,
        Self::KillDecode,
        Self::Refuse,
    ];

    /// The word on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Oversize => "oversize",
            Self::Short => "short",
            Self::Gap => "gap",
            Self::Overlap => "overlap",
            Self::Bitflip => "bitflip",
            Self::Swap => "swap",
            Self::Layout => "layout",
            Self::WrongOwner => "wrong_owner",
            Self::Replay => "replay",
            Self::Duplicate => "duplicate",
            Self::LateWrite => "late_write",
            Self::KillPrefill => "kill_prefill",
            Self::KillDecode => "kill_decode",
            Self::Refuse => "refuse",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// What happens, in a line.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::None => "nothing goes wrong",
            Self::Oversize => "prefill rejects the prompt, then offers a placeholder in its place",
            Self::Short => "prefill sends one page of eight and says that it is complete",
            Self::Gap => "prefill's receipts speak of a page that it never wrote",
            Self::Overlap => "prefill sends two different parts for the same page",
            Self::Bitflip => "one bit flips on the way",
            Self::Swap => "two pages arrive in each other's place",
            Self::Layout => {
                "prefill has other pages of the same size, and refuses; the next time it sends them all the same"
            }
            Self::WrongOwner => "the receipt is for another owner",
            Self::Replay => "the receipts of an earlier handoff come in place of this one's",
            Self::Duplicate => "each message comes twice, and the bytes too",
            Self::LateWrite => "prefill writes on after both sides gave the handoff up",
            Self::KillPrefill => "prefill is killed in the middle of a batch",
            Self::KillDecode => "decode is killed in the middle of a handoff",
            Self::Refuse => "decode cancels the request after its offer",
        }
    }

    /// How it should end.
    pub(crate) fn right(self) -> Outcome {
        match self {
            Self::None | Self::Duplicate => Outcome::Completed,
            _ => Outcome::Refused,
        }
    }

    /// Tenant B's requests, one after the other.
    pub(crate) fn acts(self) -> &'static [Act] {
        match self {
            Self::None => &[Act::Honest],
            Self::Oversize => &[Act::TooLarge, Act::Placeholder],
            Self::Layout => &[Act::OtherLayout, Act::Faulty],
            Self::Replay => &[Act::Honest, Act::Faulty],
            _ => &[Act::Faulty],
        }
    }

    /// Whether an act's end is the fault's outcome: an honest request before a faulty one is not.
    pub(crate) fn is_judged_by(self, act: Act) -> bool {
        act != Act::Honest || self == Self::None
    }
}
