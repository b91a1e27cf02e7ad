//! What engines do: one slab, a list of free pages, nothing that says whose they are. Freed pages keep their bytes.
#![expect(unsafe_code, reason = "writes and reads pages of the device by their addresses")]

use crate::Failure;
use crate::engine::Engine;
use crate::prompt::{Answer, PAGE_BYTES, PAGES, Prompt};
use crate::reader::{Planes, Reader};

/// A list that is out of pages.
const NO_PAGE: &str = "the plain list has no page left";

/// Alice's prompt, her pages freed, Bob's request on them with one page of eight transferred. Answers what Bob gets.
pub(crate) fn run(engine: &Engine, reader: &Reader<'_>, alice: &Prompt, bob: &Prompt) -> Result<Answer, Failure> {
    let (k, v) = (engine.allocate(PAGES * PAGE_BYTES)?, engine.allocate(PAGES * PAGE_BYTES)?);
    let planes = Planes { k: k.address(), v: v.address() };
    let mut free: Vec<u32> = (0..PAGES as u32).collect();

    let pages = take(&mut free)?;
    for (ordinal, page) in pages.into_iter().enumerate() {
        // SAFETY: (1) of `store`: the page is one of the slab's, and in no table.
        unsafe { reader.store(planes, page, alice, ordinal) }?;
    }
    free.extend(pages.into_iter().rev()); // the tail first, as engines do

    let pages = take(&mut free)?;
    // SAFETY: (1) of `store`: as above.
    unsafe { reader.store(planes, pages[0], bob, 0) }?;
    let table = reader.table(&[pages])?;
    // SAFETY: (1) of `attend`: the table names pages of the slab, all written once, by Alice.
    let answers = unsafe { reader.attend(planes, &table) }?;
    Ok(answers.into_iter().next().ok_or("attention answered nothing")?)
}

fn take(free: &mut Vec<u32>) -> Result<[u32; PAGES], Failure> {
    let mut pages = [0; PAGES];
    for page in &mut pages {
        *page = free.pop().ok_or(NO_PAGE)?;
    }
    Ok(pages)
}
