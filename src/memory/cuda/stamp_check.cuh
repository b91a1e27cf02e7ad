// The device's side of a stamp: one page, one answer. For authors of kernels that check a page where they read it;
// the kernel `pagestamp_check` uses the same function over a whole table.
//
// Owns: the layout of the stamp table and of an entry, and what makes an entry good. Needs no other header; compiles
// with nvcc, with NVRTC and, in the tests, as plain C++.
//
// The stamp table has one Stamp per page of the pool, in device memory: 16 bytes, so that a lookup is one aligned access
// of one sector. Generations are 40 bits in a 64-bit field, owners 64 bits; neither is cut or packed. A table begins as
// zeroes. Owner 0 is nobody: no page with it and no row with it ever passes, so a free page, a page being cleaned and a
// table that nobody wrote refuse everybody.
//
// From Rust: GuardTable::on_device gives the addresses, and GuardTable::arm, in front of each launch, brings the entries, the
// stamps of all pages that were handed out, and strikes out entries whose pages left meanwhile.
//
// Order: a stamp is written behind the last reader of the old life and before the first of the new, in stream order.
// Without that order a reader may see one half of a stamp old and one new. Such a pair passes for nobody: a generation
// only grows and has one owner, so no entry was ever issued with the halves of two lives.
#pragma once

namespace pagestamp {

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// What the device knows of a page.
struct alignas(16) Stamp {
    u64 generation;
    u64 owner; // 0: nobody
};

// What a table expects of a page, in the order in which attention reads it.
struct alignas(16) Entry {
    u64 generation;
    u32 page;
    u32 seen; // written by pagestamp_check at a fault: what attention's table held; else of no meaning
};

// Why an entry is bad; 0 is good. The numbers are part of the interface.
enum Reason : u32 {
    GOOD = 0,
    NO_SUCH_PAGE = 1, // the page is not below max_pages
    STALE = 2,        // the page has another generation
    FOREIGN = 3,      // the page has another owner, or the row has none
    OTHER_PAGE = 4,   // attention's table names another page than the entry
    BAD_OFFSETS = 5,  // the row's offsets run backward or past the entries
    NO_CELL = 6,      // the row has more entries than attention's table has cells
};

// Says whether `owner` may read the page of an entry now. The null page is everybody's: it is zero and never written.
// `found` is what the table holds, zeroes where the page has no stamp.
__device__ inline Reason check_stamp(const Stamp *stamps, u32 max_pages, u32 null_page, const Entry &entry, u64 owner,
                                     Stamp &found) {
    found.generation = 0;
    found.owner = 0;
    if (entry.page >= max_pages) {
        return NO_SUCH_PAGE;
    }
    if (entry.page == null_page) {
        return GOOD;
    }
    found = stamps[entry.page];
    if (found.generation != entry.generation) {
        return STALE;
    }
    if (owner == 0 || found.owner != owner) {
        return FOREIGN;
    }
    return GOOD;
}

} // namespace pagestamp
