// The kernels as plain C++: blocks one after another, the threads of a block as coroutines from barrier to barrier.
#include "cuda_shim.hpp"

#include <cstring>
#include <ucontext.h>
#include <vector>

#include "kernels.cu"

Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

struct Coroutine {
    ucontext_t context;
    std::vector<char> stack;
    Index index;
    bool is_done;
};

ucontext_t scheduler;
Coroutine *running;
void (*body)(const void *);
const void *arguments;

void enter() {
    body(arguments);
    running->is_done = true;
    // Goes back by uc_link.
}

template <typename Args, void (*kernel)(const Args)> void with(const void *args) { kernel(*static_cast<const Args *>(args)); }

bool choose(const char *name) {
    if (!std::strcmp(name, "pagestamp_clean")) {
        body = with<CleanArgs, pagestamp_clean>;
    } else if (!std::strcmp(name, "pagestamp_stamp")) {
        body = with<StampArgs, pagestamp_stamp>;
    } else if (!std::strcmp(name, "pagestamp_check")) {
        body = with<CheckArgs, pagestamp_check>;
    } else if (!std::strcmp(name, "pagestamp_copy")) {
        body = with<CopyArgs, pagestamp_copy>;
    } else if (!std::strcmp(name, "pagestamp_digest")) {
        body = with<DigestArgs, pagestamp_digest>;
    } else {
        return false;
    }
    return true;
}

} // namespace

void __syncthreads() { swapcontext(&running->context, &scheduler); }

// Runs a kernel over the memory of this process. Blocks and threads of one dimension in y and z: threads have x alone.
extern "C" int native_launch(const char *name, const unsigned *blocks, unsigned threads, const void *args) {
    if (!choose(name)) {
        return 1;
    }
    arguments = args;
    gridDim = {blocks[0], blocks[1], blocks[2]};
    blockDim = {threads, 1, 1};
    std::vector<Coroutine> coroutines(threads);
    for (unsigned block = 0; block < blocks[0] * blocks[1] * blocks[2]; block++) {
        blockIdx = {block % blocks[0], block / blocks[0] % blocks[1], block / blocks[0] / blocks[1]};
        for (unsigned i = 0; i < threads; i++) {
            Coroutine &coroutine = coroutines[i];
            coroutine.stack.resize(64 << 10);
            coroutine.index = {i, 0, 0};
            coroutine.is_done = false;
            getcontext(&coroutine.context);
            coroutine.context.uc_stack.ss_sp = coroutine.stack.data();
            coroutine.context.uc_stack.ss_size = coroutine.stack.size();
            coroutine.context.uc_link = &scheduler;
            makecontext(&coroutine.context, enter, 0);
        }
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            for (Coroutine &coroutine : coroutines) {
                if (!coroutine.is_done) {
                    running = &coroutine;
                    threadIdx = coroutine.index;
                    swapcontext(&scheduler, &coroutine.context);
                    goes_on = true;
                }
            }
        }
    }
    return 0;
}
