/* SPDX-License-Identifier: Apache-2.0
 *
 * emulator.cc - runs kernels' blocks as fibres, and the table of the emulated device.
 *
 * Owns:   the fibres of one block at a time and their stacks. Thread: one.
 *
 * A block's fibres run one at a time. At a barrier a fibre gives way to one that is drawn among those that can go on; a
 * barrier opens when all that are not at their end have come to it (for a warp: all of its lanes).
 */
#include "cuda_runtime.h"

#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace
{

enum { STACK_BYTES = 192 << 10, LANES = 32, SHARED_BYTES = 228 << 10 };

struct copy {
    void       *to;
    const void *from;
    bool        is_there;
    int         group;
};

struct fibre {
    ucontext_t                       context;
    std::unique_ptr<unsigned char[]> stack;
    dim3                             index;
    enum { READY, AT_BLOCK, AT_WARP, ENDED } state;
    std::vector<copy> copies;
    int               group;
};

struct warp {
    unsigned      waiting, turn;
    unsigned char bytes[2][LANES][EMULATOR_LANE_BYTES]; /* two turns: who reads the last may be behind who writes the next */
};

std::vector<std::unique_ptr<fibre>> fibres; /* kept from block to block */
std::vector<warp>                   warps;
unsigned                            count, current;
ucontext_t                          conductor;
const std::function<void()>        *running;
alignas(128) unsigned char shared_memory[SHARED_BYTES];
uint64_t random_state = 1;

uint64_t next_random()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

void fail(const char *what)
{
    fprintf(stderr, "emulator: block (%u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, current, what);
    abort();
}

void give_way()
{
    swapcontext(&fibres[current]->context, &conductor);
}

void fibre_main()
{
    (*running)();
    if (!fibres[current]->copies.empty())
        fail("ended with asynchronous copies that nobody waited for");
    fibres[current]->state = fibre::ENDED;
    setcontext(&conductor);
}

void fibre_begin(unsigned i)
{
    if (i == fibres.size()) {
        fibres.emplace_back(new fibre());
        fibres[i]->stack.reset(new unsigned char[STACK_BYTES]);
    }
    fibre *f = fibres[i].get();
    f->state = fibre::READY;
    f->group = 0;
    f->copies.clear();
    f->index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fibre_main, 0);
}

void block_barrier_open()
{
    for (unsigned i = 0; i < count; i++)
        if (fibres[i]->state == fibre::AT_BLOCK)
            fibres[i]->state = fibre::READY;
}

void block_run()
{
    /* A fibre reads its lanes' bytes of a turn only after the turn's barrier; two turns are enough. */
    for (unsigned i = 0; i < count; i++)
        fibre_begin(i);
    warps.assign((count + LANES - 1) / LANES, warp());
    for (;;) {
        unsigned ready = 0, ended = 0, at_block = 0;
        for (unsigned i = 0; i < count; i++) {
            ready += fibres[i]->state == fibre::READY;
            ended += fibres[i]->state == fibre::ENDED;
            at_block += fibres[i]->state == fibre::AT_BLOCK;
        }
        if (ended == count)
            return;
        if (ready == 0) {
            if (at_block + ended != count)
                fail("some lanes of a warp wait for others that do not come");
            block_barrier_open();
            continue;
        }
        /* From a random place on, all that can run do, each up to its next barrier. */
        unsigned first = (unsigned)(next_random() % count);
        bool     is_up = next_random() & 1;
        for (unsigned k = 0; k < count; k++) {
            current = (is_up ? first + k : first + count - k) % count;
            if (fibres[current]->state != fibre::READY)
                continue;
            threadIdx = fibres[current]->index;
            swapcontext(&conductor, &fibres[current]->context);
        }
    }
}

void matrices_load(unsigned r[4], const void *own, bool is_transposed)
{
    const unsigned char *rows = emulator_exchange(&own, sizeof own);
    unsigned             lane = threadIdx.x % LANES;
    for (unsigned m = 0; m < 4; m++) {
        uint16_t two[2];
        for (unsigned j = 0; j < 2; j++) {
            unsigned row = is_transposed ? 2 * (lane % 4) + j : lane / 4, col = is_transposed ? lane / 4 : 2 * (lane % 4) + j;
            const unsigned char *at;
            memcpy(&at, rows + (8 * m + row) * EMULATOR_LANE_BYTES, sizeof at);
            memcpy(&two[j], at + 2 * col, sizeof two[j]);
        }
        r[m] = (unsigned)two[0] | (unsigned)two[1] << 16;
    }
}

float half_of(unsigned word, unsigned which)
{
    return __uint_as_float(which ? word & 0xffff0000u : word << 16);
}

} // namespace

void emulator_seed(uint64_t seed)
{
    random_state = seed * 2 + 1;
}

unsigned char *emulator_shared()
{
    return shared_memory;
}

void emulator_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel)
{
    if (shared > SHARED_BYTES || block.x * block.y * block.z > 1024 || block.x * block.y * block.z == 0 || grid.x == 0) {
        fprintf(stderr, "emulator: a launch that no device takes\n");
        abort();
    }
    gridDim = grid;
    blockDim = block;
    running = &kernel;
    count = block.x * block.y * block.z;
    for (unsigned b = 0; b < grid.x * grid.y * grid.z; b++) {
        blockIdx = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
        memset(shared_memory, 0xff, shared); /* not a number, in float and in bfloat16 */
        block_run();
    }
}

void __syncthreads()
{
    fibres[current]->state = fibre::AT_BLOCK;
    give_way();
}

const unsigned char *emulator_exchange(const void *own, size_t size)
{
    unsigned lanes = count - current / LANES * LANES < LANES ? count - current / LANES * LANES : (unsigned)LANES;
    warp    &w = warps[current / LANES];
    unsigned turn = w.turn;
    if (size > EMULATOR_LANE_BYTES || lanes != LANES)
        fail("a warp's instruction in a block that is no whole warps, or of too much");
    memcpy(w.bytes[turn % 2][current % LANES], own, size);
    if (++w.waiting == LANES) {
        w.waiting = 0;
        w.turn++;
        for (unsigned i = current / LANES * LANES; i < current / LANES * LANES + LANES; i++)
            if (i != current)
                fibres[i]->state = fibre::READY;
    } else {
        fibres[current]->state = fibre::AT_WARP;
        give_way();
    }
    return &w.bytes[turn % 2][0][0];
}

void emulator_copy_async(void *shared, const void *global, bool is_there)
{
    fibre *f = fibres[current].get();
    if (((uintptr_t)shared | (uintptr_t)global) & 15)
        fail("an asynchronous copy of 16 bytes that are not aligned");
    f->copies.push_back({shared, global, is_there, f->group});
}

void emulator_copy_commit()
{
    fibres[current]->group++;
}

void emulator_copies_finish(int left)
{
    fibre            *f = fibres[current].get();
    std::vector<copy> later;
    for (const copy &c : f->copies) {
        if (c.group >= f->group - left) {
            later.push_back(c);
            continue;
        }
        if (c.is_there)
            memcpy(c.to, c.from, 16);
        else
            memset(c.to, 0, 16);
    }
    f->copies.swap(later);
}

void emulator_matrix_load(unsigned r[4], const void *shared)
{
    matrices_load(r, shared, false);
}

void emulator_matrix_load_transposed(unsigned r[4], const void *shared)
{
    matrices_load(r, shared, true);
}

void emulator_mma(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    unsigned             own[6] = {a[0], a[1], a[2], a[3], b0, b1}, lane = threadIdx.x % LANES;
    const unsigned char *all = emulator_exchange(own, sizeof own);
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = lane / 4 + 8 * (i / 2), col = 2 * (lane % 4) + i % 2;
        float    sum = 0.0f;
        for (unsigned k = 0; k < 16; k++) {
            unsigned left[6], right[6];
            memcpy(left, all + (row % 8 * 4 + k % 8 / 2) * EMULATOR_LANE_BYTES, sizeof left);
            memcpy(right, all + (col * 4 + k % 8 / 2) * EMULATOR_LANE_BYTES, sizeof right);
            sum += half_of(left[row / 8 + 2 * (k / 8)], k % 2) * half_of(right[4 + k / 8], k % 2);
        }
        c[i] += sum;
    }
}
