// Attention over a paged KV cache, as small as it can be: one head, fp32, one query per row and position.
//
// Reads what the row's block table names and checks nothing, as the kernels of engines do. Who may read a page is said by
// nobody here: that is the point of the example, and of the check that the guard makes before.
//
// reader.ptx beside this file is built from it by tests/gates/ptx.sh; both are committed together.

typedef unsigned int u32;
typedef unsigned long long u64;

// Floats of a token in K, in V and in a query.
#define HEAD 8u
#define PAGE_TOKENS 4u

struct ReadArgs {
    const float *k;       // [pages, PAGE_TOKENS, HEAD]
    const float *v;       // [pages, PAGE_TOKENS, HEAD]
    const float *queries; // [gridDim.y, HEAD], scaled already; the same for every row
    const u32 *table;     // [gridDim.x, row_cells]: the pages of a row, in the order of its tokens
    float *output;        // [gridDim.x, gridDim.y, HEAD]
    u32 row_cells;
    u32 tokens; // of every row, one at least
};

static_assert(sizeof(ReadArgs) == 48, "layout");

// Block x is the row, block y the query, a thread a float of the output. Softmax in one pass: what was summed is scaled down
// when a larger score comes.
extern "C" __global__ void gpu_incident_read(const ReadArgs args) {
    u64 query = (u64)blockIdx.y * HEAD;
    float most = -1e30f;
    float sum = 0.0f;
    float output = 0.0f;
    u32 token = 0;
#pragma unroll 1
    do {
        u32 page = args.table[blockIdx.x * args.row_cells + token / PAGE_TOKENS];
        u64 at = ((u64)page * PAGE_TOKENS + token % PAGE_TOKENS) * HEAD;
        float score = 0.0f;
#pragma unroll 1
        for (u32 i = 0; i < HEAD; i++) {
            score += args.queries[query + i] * args.k[at + i];
        }
        float larger = fmaxf(most, score);
        float kept = __expf(most - larger);
        float weight = __expf(score - larger);
        sum = sum * kept + weight;
        output = output * kept + weight * args.v[at + threadIdx.x];
        most = larger;
    } while (++token < args.tokens);
    args.output[((u64)blockIdx.x * gridDim.y + blockIdx.y) * HEAD + threadIdx.x] = output / sum;
}
