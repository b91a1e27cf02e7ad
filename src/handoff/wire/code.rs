//! The numbers that stand for choices.

use crate::geometry::{Dtype, HeadOrder, Interleave, LatentPacking, LayerPlanes, ScaleDtype};
use crate::handoff::{Checksum, MessageKind, Side};

/// A choice that travels as a number. The numbers of one type follow each other, and none is ever reused.
pub(super) trait Code: Copy + 'static {
    /// Every choice, by rising code. One that is missing here would be written and not be read.
    const ALL: &'static [Self];

    fn code(self) -> u32;

    fn from_code(code: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.code() == code)
    }
}

impl Code for MessageKind {
    const ALL: &'static [Self] = &[MessageKind::Offer, MessageKind::Receipt, MessageKind::Refusal];

    fn code(self) -> u32 {
        match self {
            MessageKind::Offer => 1,
            MessageKind::Receipt => 2,
            MessageKind::Refusal => 3,
        }
    }
}

impl Code for Side {
    const ALL: &'static [Self] = &[Side::Sender, Side::Receiver];

    fn code(self) -> u32 {
        match self {
            Side::Sender => 1,
            Side::Receiver => 2,
        }
    }
}

impl Code for Checksum {
    const ALL: &'static [Self] = &[Checksum::BytesUnverified, Checksum::Crc32c, Checksum::Xxh3, Checksum::Blake3Keyed];

    fn code(self) -> u32 {
        match self {
            Checksum::BytesUnverified => 0,
            Checksum::Crc32c => 1,
            Checksum::Xxh3 => 2,
            Checksum::Blake3Keyed => 3,
        }
    }
}

impl Code for Dtype {
    const ALL: &'static [Self] = Dtype::ALL;

    fn code(self) -> u32 {
        self.code()
    }
}

impl Code for ScaleDtype {
    const ALL: &'static [Self] = ScaleDtype::ALL;

    fn code(self) -> u32 {
        self.code()
    }
}

impl Code for HeadOrder {
    const ALL: &'static [Self] = &[HeadOrder::Nhd, HeadOrder::Hnd];

    fn code(self) -> u32 {
        self.code()
    }
}

impl Code for Interleave {
    const ALL: &'static [Self] = &[Interleave::Apart, Interleave::Together];

    fn code(self) -> u32 {
        self.code()
    }
}

impl Code for LatentPacking {
    const ALL: &'static [Self] = &[LatentPacking::Together, LatentPacking::Apart];

    fn code(self) -> u32 {
        self.code()
    }
}

impl Code for LayerPlanes {
    const ALL: &'static [Self] = &[LayerPlanes::PerLayer, LayerPlanes::Shared];

    fn code(self) -> u32 {
        self.code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes_of<T: Code + PartialEq>(first: u32, count: usize) {
        let codes: Vec<u32> = T::ALL.iter().map(|choice| choice.code()).collect();
        let expected: Vec<u32> = (first..).take(count).collect();
        assert_eq!(codes, expected);
        assert!(T::ALL.iter().all(|choice| T::from_code(choice.code()) == Some(*choice)));
        assert!(T::from_code(first + count as u32).is_none());
    }

    // C10
    #[test]
    fn codes_follow_each_other_and_every_choice_has_one() {
        codes_of::<MessageKind>(1, 3);
        codes_of::<Side>(1, 2);
        codes_of::<Checksum>(0, 4);
        codes_of::<Dtype>(1, 10);
        codes_of::<ScaleDtype>(1, 5);
        codes_of::<HeadOrder>(1, 2);
        codes_of::<Interleave>(1, 2);
        codes_of::<LatentPacking>(1, 2);
        codes_of::<LayerPlanes>(1, 2);
    }
}
