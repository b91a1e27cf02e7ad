//! Bugs planted into a copy of the real source, one at a time, by `build.rs`. Read by `build.rs` and by the runner.
//!
//! To add one: a name, the file below `src/`, a text that stands there exactly once, what replaces it, and the model
//! that must fail. A text that is not there, or there twice, stops the build.

/// A change of one file that a model must notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourcePlant {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) model: &'static str,
}

pub(crate) const SOURCE_PLANTS: &[SourcePlant] = &[
    SourcePlant {
        name: "reader_without_fence",
        file: "hazard.rs",
        old: "slot.store(key, Ordering::Release);\n        fence(Ordering::SeqCst);",
        new: "slot.store(key, Ordering::Release);",
        model: "loom_release_races_read",
    },
    SourcePlant {
        name: "scan_without_fence",
        file: "hazard.rs",
        old: "fence(Ordering::SeqCst);\n        let mut next = self.first.get();",
        new: "let mut next = self.first.get();",
        model: "loom_release_races_read",
    },
    SourcePlant {
        name: "relaxed_hazard_end",
        file: "hazard.rs",
        old: "self.slot.store(0, Ordering::Release);",
        new: "self.slot.store(0, Ordering::Relaxed);",
        model: "loom_release_races_read",
    },
    SourcePlant {
        name: "relaxed_scan_load",
        file: "hazard.rs",
        old: "let key = slot.load(Ordering::Acquire);",
        new: "let key = slot.load(Ordering::Relaxed);",
        model: "loom_release_races_read",
    },
    SourcePlant {
        name: "relaxed_slot_reuse_store",
        file: "hazard.rs",
        old: "slot.store(key, Ordering::Release);",
        new: "slot.store(key, Ordering::Relaxed);",
        model: "loom_slot_is_reused_while_a_release_scans",
    },
    SourcePlant {
        name: "relaxed_slot_reuse_load",
        file: "hazard.rs",
        old: "slot.load(Ordering::Acquire) == 0",
        new: "slot.load(Ordering::Relaxed) == 0",
        model: "loom_guard_ends_on_another_thread",
    },
    SourcePlant {
        name: "block_claimed_by_load_and_store",
        file: "hazard.rs",
        old: "&& self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        new: "&& { self.claimed.store(true, Ordering::Release); true }",
        model: "loom_two_threads_claim_a_block_that_was_left",
    },
    SourcePlant {
        name: "new_block_is_not_claimed",
        file: "hazard.rs",
        old: "claimed: AtomicBool::new(true)",
        new: "claimed: AtomicBool::new(false)",
        model: "loom_two_threads_claim_their_first_blocks",
    },
    SourcePlant {
        name: "relaxed_block_claim",
        file: "hazard.rs",
        old: "compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)",
        new: "compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed)",
        model: "loom_block_changes_hands_with_a_guard_in_it",
    },
    SourcePlant {
        name: "slot_taken_without_looking",
        file: "hazard.rs",
        old: ".find(|slot| slot.load(Ordering::Acquire) == 0)?",
        new: ".find(|slot| slot.load(Ordering::Acquire) != u64::MAX)?",
        model: "loom_block_changes_hands_with_a_guard_in_it",
    },
    SourcePlant {
        name: "generation_of_one_bit",
        file: "stamp.rs",
        old: "else { Self(self.0 + (1 << GENERATION_SHIFT)) }",
        new: "else { Self(self.0 ^ (1 << GENERATION_SHIFT)) }",
        model: "loom_handle_outlives_two_lives",
    },
    SourcePlant {
        name: "relaxed_stamp_publish",
        file: "stamp.rs",
        old: "self.stamp.store(word.0, Ordering::Release);",
        new: "self.stamp.store(word.0, Ordering::Relaxed);",
        model: "loom_guessed_handle_is_refused",
    },
    SourcePlant {
        name: "relaxed_stamp_load",
        file: "stamp.rs",
        old: "StampWord(self.stamp.load(Ordering::Acquire))",
        new: "StampWord(self.stamp.load(Ordering::Relaxed))",
        model: "loom_guessed_handle_is_refused",
    },
    SourcePlant {
        name: "relaxed_extent_store",
        file: "stamp.rs",
        old: "self.extent.store(extent.0, Ordering::Release);",
        new: "self.extent.store(extent.0, Ordering::Relaxed);",
        model: "loom_append_races_read",
    },
    SourcePlant {
        name: "relaxed_extent_load",
        file: "stamp.rs",
        old: "Extent(self.extent.load(Ordering::Acquire))",
        new: "Extent(self.extent.load(Ordering::Relaxed))",
        model: "loom_append_races_read",
    },
    SourcePlant {
        name: "page_with_a_writer_is_readable",
        file: "stamp.rs",
        old: "!(HOLDS_MASK | DETACHED | BORROWED)",
        new: "!(HOLDS_MASK | DETACHED | BORROWED | WRITING)",
        model: "loom_write_ticket_races_read",
    },
    SourcePlant {
        name: "relaxed_end_borrow",
        file: "header.rs",
        old: "self.word.fetch_sub(1, Ordering::AcqRel)",
        new: "self.word.fetch_sub(1, Ordering::Relaxed)",
        model: "loom_revoke_races_borrow",
    },
    SourcePlant {
        name: "end_borrow_without_acquire",
        file: "header.rs",
        old: "self.word.fetch_sub(1, Ordering::AcqRel)",
        new: "self.word.fetch_sub(1, Ordering::Release)",
        model: "loom_revoke_races_two_borrowers",
    },
    SourcePlant {
        name: "revoke_without_acquire",
        file: "header.rs",
        old: "self.word.fetch_or(REVOKED, Ordering::AcqRel)",
        new: "self.word.fetch_or(REVOKED, Ordering::Release)",
        model: "loom_revoke_races_borrow",
    },
    SourcePlant {
        name: "revoke_ignores_borrows",
        file: "header.rs",
        old: "} else if before == 0 {",
        new: "} else if before < MAX_BORROWS {",
        model: "loom_revoke_races_borrow",
    },
    SourcePlant {
        name: "revoke_by_load_and_store",
        file: "header.rs",
        old: "let before = self.word.fetch_or(REVOKED, Ordering::AcqRel);",
        new: "let before = self.borrows(); self.word.store(before | REVOKED, Ordering::Release);",
        model: "loom_revoke_races_borrow",
    },
    SourcePlant {
        name: "every_borrow_hands_back",
        file: "header.rs",
        old: "== REVOKED | 1",
        new: "& REVOKED != 0",
        model: "loom_revoke_races_two_borrowers",
    },
    SourcePlant {
        name: "flags_of_a_page_that_left",
        file: "stamp.rs",
        old: "if self.state() != PageState::Live {\n            Some(OffLimits::Gone)",
        new: "if false {\n            Some(OffLimits::Gone)",
        model: "loom_revoke_races_a_look_at_the_flags",
    },
];
