// The kernels of the CUDA pool: clean, stamp, check, copy, digest.
//
// Owns: what the device does to pages. Does not know: reservations, streams, fences; whoever launches orders the launch.
//
// Every kernel takes one struct by value. What varies from launch to launch lies behind device addresses (a count, a list),
// so that a captured graph replays over whatever stands there then. No kernel allocates, waits for another or needs a
// certain grid: any grid does all the work, in strides. `clean` and `copy` spread pages over x, planes over y, the bytes of
// a page over z; `check` spreads rows over x and a row over y; `stamp` and `digest` have x alone, as threads have.
//
// Every index is compared with its bound here too, although the host did: a list that was torn on its way is no write
// outside the pool. A page that is not below max_pages is skipped by clean, stamp and copy.
//
// The PTX beside this file is built from it by tests/gates/ptx.sh; both are committed together.
#include "stamp_check.cuh"

using namespace pagestamp;

// One access of 16 bytes.
struct alignas(16) Quad {
    u32 a, b, c, d;
};

// A plane of a pool, by its device address. Run r of token t of a page begins at
// base + page * stride_bytes + (r * page_tokens + t) * run_bytes.
struct Plane {
    u64 base;
    u64 stride_bytes;
    u64 whole_bytes; // what a whole-page clean zeroes: the stride where padding is the pool's, else the page's bytes
    u32 run_bytes;
    u32 runs;
};

// A page to zero: its first `tokens` tokens in every run, or, with page_tokens, all its bytes.
struct CleanPage {
    u32 page;
    u32 tokens;
};

struct CleanArgs {
    const Plane *planes;    // [n_planes]
    const CleanPage *pages; // [*n_pages]
    const u32 *n_pages;
    u32 n_planes;
    u32 max_pages;
    u32 page_tokens;
    u32 reserved;
};

struct StampWrite {
    u64 generation;
    u64 owner;
    u32 page;
    u32 reserved;
};

struct StampArgs {
    Stamp *stamps;            // [max_pages]
    const StampWrite *writes; // [*n_writes], each page once
    const u32 *n_writes;
    u32 max_pages;
    u32 reserved;
};

// Between the blocks of one check, and from one check to the next: begins as {~0, 0, 0}, and every check leaves it so.
struct CheckScratch {
    u64 first; // entry index << 32 | row of the lowest fault
    u32 faults;
    u32 blocks_done;
};

// How many rows a table has, and which of the host's tables it is.
struct TableHead {
    u32 n_rows;
    u32 reserved;
    u64 round;
};

// The first fault since the host cleared `state`, and how far checks have come, in memory that the host can read. One per
// stream.
struct Fault {
    u32 state; // 1: a fault is described
    u32 reason;
    u32 row;
    u32 index; // of the entry; with BAD_OFFSETS where the row begins
    u32 page;
    u32 seen; // what attention's table held there
    u64 expected_generation;
    u64 found_generation;
    u64 expected_owner;
    u64 found_owner;
    u64 faults; // bad entries since the host cleared it, counted on when `state` is 1 already
    u64 round;  // of the table that was checked last; written behind all that its check has to say
};

struct CheckArgs {
    const Stamp *stamps;    // [max_pages]
    Entry *entries;         // [max_entries]
    const u32 *row_offsets; // [n_rows + 1], the very array that attention reads where it reads one
    const u64 *row_owners;  // [n_rows]
    const TableHead *head;
    u32 *table; // what attention reads, or 0: cell j of a row stands for its entry j
    u8 *flags;  // [max_rows]; set to 1 at a fault and never cleared here
    CheckScratch *scratch;
    Fault *fault;
    u32 max_pages;
    u32 null_page;
    u32 max_rows;
    u32 max_entries;
    u32 row_cells; // cells of a row of the table; 0: rows follow one another as the entries do
    u32 reserved;
};

// A page to copy: the first `tokens` tokens of every run. No page of `to` stands in a list twice, or in `from` too.
struct CopyPage {
    u32 from;
    u32 to;
    u32 tokens;
    u32 reserved;
};

struct CopyArgs {
    const Plane *from; // [n_planes]
    const Plane *to;   // [n_planes], runs and run_bytes as in `from`
    const CopyPage *pages;
    const u32 *n_pages;
    u32 n_planes;
    u32 page_tokens;
    u32 from_max_pages;
    u32 to_max_pages;
};

// A page to digest. `seed` is the register of the CRC after the page's head, before its final complement.
struct DigestPage {
    u32 page;
    u32 tokens;
    u32 seed;
    u32 reserved;
};

struct DigestArgs {
    const Plane *planes;
    const DigestPage *pages;
    const u32 *n_pages;
    u32 *crcs; // [*n_pages], written whole
    u32 n_planes;
    u32 max_pages;
    u32 page_tokens;
    u32 reserved;
};

static_assert(sizeof(Stamp) == 16 && sizeof(Entry) == 16 && sizeof(CheckScratch) == 16 && sizeof(Fault) == 72 && sizeof(TableHead) == 16, "layout");
static_assert(sizeof(Plane) == 32 && sizeof(CleanPage) == 8 && sizeof(StampWrite) == 24, "layout");
static_assert(sizeof(CopyPage) == 16 && sizeof(DigestPage) == 16, "layout");
static_assert(sizeof(CleanArgs) == 40 && sizeof(StampArgs) == 32 && sizeof(CheckArgs) == 96, "layout");
static_assert(sizeof(CopyArgs) == 48 && sizeof(DigestArgs) == 48, "layout");

__device__ inline u32 lower(u32 a, u32 b) { return a < b ? a : b; }

// Bytes of the filled tokens of one run; a list that asks for more than a page gets a page.
__device__ inline u64 filled_bytes(const Plane &plane, u32 tokens, u32 page_tokens) {
    return (u64)lower(tokens, page_tokens) * plane.run_bytes;
}

__device__ inline u64 run_at(const Plane &plane, u32 page, u32 run, u32 page_tokens) {
    return plane.base + page * plane.stride_bytes + (u64)run * page_tokens * plane.run_bytes;
}

// Zeroes `bytes` bytes, shared among `lanes` threads of which this is one: 16 at once, single ones up to the first and
// after the last such 16.
__device__ inline void zero(u64 at, u64 bytes, u32 lane, u32 lanes) {
    u64 head = (0 - at) & 15;
    if (head > bytes) {
        head = bytes;
    }
    u64 quads = (bytes - head) >> 4;
    u64 tail = head + (quads << 4);
#pragma unroll 1
    for (u64 i = lane; i < quads; i += lanes) {
        ((Quad *)(at + head))[i] = Quad{0, 0, 0, 0};
    }
#pragma unroll 1
    for (u64 i = lane; i < head; i += lanes) {
        ((u8 *)at)[i] = 0;
    }
#pragma unroll 1
    for (u64 i = tail + lane; i < bytes; i += lanes) {
        ((u8 *)at)[i] = 0;
    }
}

// Zeroes pages and dirty prefixes: one launch for any number of pages and planes.
extern "C" __global__ void pagestamp_clean(const CleanArgs args) {
    u32 n_pages = *args.n_pages;
    u32 lane = blockIdx.z * blockDim.x + threadIdx.x;
    u32 lanes = gridDim.z * blockDim.x;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < n_pages; i += gridDim.x) {
        CleanPage dirty = args.pages[i];
        if (dirty.page >= args.max_pages) {
            continue;
        }
#pragma unroll 1
        for (u32 p = blockIdx.y; p < args.n_planes; p += gridDim.y) {
            Plane plane = args.planes[p];
            if (dirty.tokens >= args.page_tokens) {
                zero(plane.base + dirty.page * plane.stride_bytes, plane.whole_bytes, lane, lanes);
                continue;
            }
            u64 bytes = filled_bytes(plane, dirty.tokens, args.page_tokens);
#pragma unroll 1
            for (u32 run = 0; run < plane.runs; run++) {
                zero(run_at(plane, dirty.page, run, args.page_tokens), bytes, lane, lanes);
            }
        }
    }
}

// Writes stamps: (generation, owner) of a live page, (next generation, 0) of one that was released.
extern "C" __global__ void pagestamp_stamp(const StampArgs args) {
    u32 n_writes = *args.n_writes;
#pragma unroll 1
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n_writes; i += gridDim.x * blockDim.x) {
        StampWrite write = args.writes[i];
        if (write.page < args.max_pages) {
            args.stamps[write.page] = Stamp{write.generation, write.owner};
        }
    }
}

// Flags a row, and leaves the lowest fault for the last block.
__device__ inline void mark(const CheckArgs &args, u32 row, u32 index) {
    args.flags[row] = 1;
    atomicMin(&args.scratch->first, (u64)index << 32 | row);
    atomicAdd(&args.scratch->faults, 1u);
}

__device__ inline bool bad_offsets(u32 begin, u32 end, u32 max_entries) { return begin > end || end > max_entries; }

// Describes the lowest fault. What it reads again is as the faulting thread saw it, but for the cell of attention's table,
// which that thread kept in the entry.
__device__ inline void describe(const CheckArgs &args, u64 first, u32 faults) {
    Fault *fault = args.fault;
    fault->faults += faults;
    if (fault->state != 0) {
        return;
    }
    u32 row = (u32)first;
    u32 index = (u32)(first >> 32);
    u32 begin = args.row_offsets[row];
    u32 end = args.row_offsets[row + 1];
    u64 owner = args.row_owners[row];
    Entry entry = Entry{0, 0, 0};
    Stamp found = Stamp{0, 0};
    u32 reason = BAD_OFFSETS;
    if (!bad_offsets(begin, end, args.max_entries)) {
        entry = args.entries[index];
        reason = check_stamp(args.stamps, args.max_pages, args.null_page, entry, owner, found);
        if (reason == GOOD) {
            reason = args.row_cells != 0 && index - begin >= args.row_cells ? NO_CELL : OTHER_PAGE;
        }
    }
    fault->reason = reason;
    fault->row = row;
    fault->index = index;
    fault->page = entry.page;
    fault->seen = entry.seen;
    fault->expected_generation = entry.generation;
    fault->found_generation = found.generation;
    fault->expected_owner = owner;
    fault->found_owner = found.owner;
    fault->state = 1;
}

// Verifies every entry of every row and takes bad ones out of attention's table.
//
// A table of cells (row_cells not 0) is left with the null page in every cell that no good entry stands for: past the end
// of a row, and in the rows from n_rows to max_rows.
extern "C" __global__ void pagestamp_check(const CheckArgs args) {
    u32 n_rows = lower(args.head->n_rows, args.max_rows);
    bool cells = args.table != 0 && args.row_cells != 0;
    u32 visited_rows = cells ? args.max_rows : n_rows;
    u32 lane = blockIdx.y * blockDim.x + threadIdx.x;
    u32 lanes = gridDim.y * blockDim.x;
#pragma unroll 1
    for (u32 row = blockIdx.x; row < visited_rows; row += gridDim.x) {
        u32 begin = 0;
        u32 end = 0;
        u64 owner = 0;
        if (row < n_rows) {
            begin = args.row_offsets[row];
            end = args.row_offsets[row + 1];
            owner = args.row_owners[row];
            if (bad_offsets(begin, end, args.max_entries)) {
                if (lane == 0) {
                    mark(args, row, begin);
                }
                end = begin;
            }
        }
        u32 *row_table = cells ? args.table + (u64)row * args.row_cells : args.table + begin;
        u32 row_entries = end - begin;
#pragma unroll 1
        for (u32 j = lane; j < row_entries; j += lanes) {
            Entry entry = args.entries[begin + j];
            Stamp found;
            u32 reason = check_stamp(args.stamps, args.max_pages, args.null_page, entry, owner, found);
            u32 seen = entry.page;
            bool has_cell = args.table != 0;
            if (cells && j >= args.row_cells) {
                has_cell = false;
                reason = NO_CELL;
            }
            if (has_cell) {
                seen = row_table[j];
                if (seen != entry.page) {
                    reason = OTHER_PAGE;
                }
            }
            if (reason != GOOD) {
                args.entries[begin + j].seen = seen;
                if (has_cell) {
                    row_table[j] = args.null_page;
                }
                mark(args, row, begin + j);
            }
        }
        if (cells) {
#pragma unroll 1
            for (u32 j = row_entries + lane; j < args.row_cells; j += lanes) {
                row_table[j] = args.null_page;
            }
        }
    }
    // The last block to come here sees what all others marked.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&args.scratch->blocks_done, 1u) == gridDim.x * gridDim.y * gridDim.z - 1) {
        __threadfence();
        args.scratch->blocks_done = 0;
        u32 faults = atomicExch(&args.scratch->faults, 0u);
        u64 first = atomicExch(&args.scratch->first, ~0ull);
        if (faults != 0) {
            describe(args, first, faults);
        }
        // Whoever sees the round sees what was flagged and described.
        __threadfence_system();
        *(volatile u64 *)&args.fault->round = args.head->round;
    }
}

// Copies `bytes` bytes, shared among `lanes` threads of which this is one. Places that are not equally aligned are copied
// byte by byte.
__device__ inline void copy(u64 from, u64 to, u64 bytes, u32 lane, u32 lanes) {
    u64 head = (0 - to) & 15;
    if (head > bytes || ((from ^ to) & 15) != 0) {
        head = bytes;
    }
    u64 quads = (bytes - head) >> 4;
    u64 tail = head + (quads << 4);
#pragma unroll 1
    for (u64 i = lane; i < quads; i += lanes) {
        ((Quad *)(to + head))[i] = ((const Quad *)(from + head))[i];
    }
#pragma unroll 1
    for (u64 i = lane; i < head; i += lanes) {
        ((u8 *)to)[i] = ((const u8 *)from)[i];
    }
#pragma unroll 1
    for (u64 i = tail + lane; i < bytes; i += lanes) {
        ((u8 *)to)[i] = ((const u8 *)from)[i];
    }
}

// Copies pages between two pools of one shape, or within one. Padding is not copied.
extern "C" __global__ void pagestamp_copy(const CopyArgs args) {
    u32 n_pages = *args.n_pages;
    u32 lane = blockIdx.z * blockDim.x + threadIdx.x;
    u32 lanes = gridDim.z * blockDim.x;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < n_pages; i += gridDim.x) {
        CopyPage page = args.pages[i];
        if (page.from >= args.from_max_pages || page.to >= args.to_max_pages) {
            continue;
        }
#pragma unroll 1
        for (u32 p = blockIdx.y; p < args.n_planes; p += gridDim.y) {
            Plane from = args.from[p];
            Plane to = args.to[p];
            u64 bytes = filled_bytes(from, page.tokens, args.page_tokens);
#pragma unroll 1
            for (u32 run = 0; run < from.runs; run++) {
                copy(run_at(from, page.from, run, args.page_tokens), run_at(to, page.to, run, args.page_tokens), bytes,
                     lane, lanes);
            }
        }
    }
}

// CRC-32C as the host's kind `crc32c` computes it: reflected, polynomial 0x1EDC6F41, register begun and ended with ones.
//
// The register after bytes A then B is reg(A) * x^(8 |B|) + raw(B) over GF(2), raw being the CRC that begins with zero.
// So threads take chunks, each multiplies its raw CRC by the power of x for the bytes that follow it, and the page's value
// is the exclusive or of all, in any order. CRC-32C and none of the host's stronger kinds: XXH3 and BLAKE3 mix across
// chunks in ways that have no such sum, and the host must get the same value.
#define CRC32C_POLYNOMIAL 0x82F63B78u

// Bytes of a chunk: as long as computing its CRC costs about as much as shifting it into place.
#define CHUNK_BYTES 512u

// a * b modulo the polynomial; bit 31 stands for x^0.
__device__ inline u32 crc_multiply(u32 a, u32 b) {
    u32 product = 0;
#pragma unroll 1
    for (u32 bit = 1u << 31; bit != 0; bit >>= 1) {
        if (a & bit) {
            product ^= b;
        }
        b = (b >> 1) ^ (b & 1 ? CRC32C_POLYNOMIAL : 0);
    }
    return product;
}

// crc * x^(8 bytes); powers[k] is x^(8 * 2^k).
__device__ inline u32 crc_shift(u32 crc, u64 bytes, const u32 *powers) {
#pragma unroll 1
    for (u32 k = 0; bytes != 0; k++, bytes >>= 1) {
        if (bytes & 1) {
            crc = crc_multiply(powers[k], crc);
        }
    }
    return crc;
}

__device__ inline u32 crc_byte(u32 crc, u32 byte, const u32 *table) { return table[(crc ^ byte) & 255] ^ (crc >> 8); }

__device__ inline u32 crc_raw(u64 at, u32 bytes, const u32 *table) {
    u32 crc = 0;
    u64 end = at + bytes;
#pragma unroll 1
    while (at < end && (at & 3) != 0) {
        crc = crc_byte(crc, *(const u8 *)at, table);
        at++;
    }
#pragma unroll 1
    while (at + 4 <= end) {
        crc ^= *(const u32 *)at;
        crc = crc_byte(crc, 0, table);
        crc = crc_byte(crc, 0, table);
        crc = crc_byte(crc, 0, table);
        crc = crc_byte(crc, 0, table);
        at += 4;
    }
#pragma unroll 1
    while (at < end) {
        crc = crc_byte(crc, *(const u8 *)at, table);
        at++;
    }
    return crc;
}

// Digests the filled tokens of pages, plane by plane and run by run: a block per page. A page that is not below max_pages
// has the CRC of no bytes.
extern "C" __global__ void pagestamp_digest(const DigestArgs args) {
    __shared__ u32 table[256];
    __shared__ u32 powers[64];
    __shared__ u32 sum;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
        u32 crc = i;
#pragma unroll 1
        for (u32 bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
        }
        table[i] = crc;
    }
    if (threadIdx.x == 0) {
        powers[0] = 1u << 23; // x^8
#pragma unroll 1
        for (u32 k = 1; k < 64; k++) {
            powers[k] = crc_multiply(powers[k - 1], powers[k - 1]);
        }
    }
    u32 n_pages = *args.n_pages;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < n_pages; i += gridDim.x) {
        DigestPage page = args.pages[i];
        u64 after = 0; // bytes of the page from here on
        if (page.page < args.max_pages) {
#pragma unroll 1
            for (u32 p = 0; p < args.n_planes; p++) {
                after += args.planes[p].runs * filled_bytes(args.planes[p], page.tokens, args.page_tokens);
            }
        }
        if (threadIdx.x == 0) {
            sum = 0;
        }
        __syncthreads();
        u32 value = threadIdx.x == 0 ? ~crc_shift(page.seed, after, powers) : 0;
        u32 turn = threadIdx.x; // chunks of the page until this thread's next
        u32 n_planes = after == 0 ? 0 : args.n_planes;
#pragma unroll 1
        for (u32 p = 0; p < n_planes; p++) {
            Plane plane = args.planes[p];
            u64 bytes = filled_bytes(plane, page.tokens, args.page_tokens);
            u32 chunks = (u32)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
#pragma unroll 1
            for (u32 run = 0; run < plane.runs; run++) {
                u64 at = run_at(plane, page.page, run, args.page_tokens);
#pragma unroll 1
                for (; turn < chunks; turn += blockDim.x) {
                    u64 begin = (u64)turn * CHUNK_BYTES;
                    u64 rest = bytes - begin;
                    u32 length = rest < CHUNK_BYTES ? (u32)rest : CHUNK_BYTES;
                    value ^= crc_shift(crc_raw(at + begin, length, table), after - begin - length, powers);
                }
                turn -= chunks;
                after -= bytes;
            }
        }
        atomicXor(&sum, value);
        __syncthreads();
        // No barrier behind it: the same thread begins the next page's sum, and the others add to that behind another.
        if (threadIdx.x == 0) {
            args.crcs[i] = sum;
        }
    }
}
