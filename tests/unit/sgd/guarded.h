/* SPDX-License-Identifier: Apache-2.0
 *
 * guarded.h - a device for tests: the CPU's kernels on memory that nobody but its entries can touch, and counts of what they do.
 *
 * The memory is mapped without rights, which an entry gives itself while it runs: who reads or writes it otherwise gets SIGSEGV.
 * A device is of one thread, as a worker has it: all here is the thread's own. Its entries are those of MLPs.
 */
#ifndef TEST_SGD_GUARDED_H
#define TEST_SGD_GUARDED_H

#include "kernels/half.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARDED_BYTES = 8 << 20, GUARDED_BUFFERS = 64 };

struct guarded {
    unsigned char *memory; /* NULL: not mapped yet */
    size_t         used;
    struct {
        size_t at, size;
        bool   is_used;
    } buffers[GUARDED_BUFFERS];
    uint32_t buffers_used, buffers_most; /* of at least `large` bytes */
    size_t   large;
    size_t   up, down;     /* bytes copied between the host and the device */
    uint32_t copies_large; /* copies of at least `large` bytes */
    struct {
        void  *to, *bytes;
        size_t size;
    } pending[GUARDED_BUFFERS]; /* copies to the host, which are there when they are waited for */
    uint32_t pending_count;
    uint32_t fails_in; /* so many waits from now one says that the device has failed, and all after it; 0: none does */
    bool     has_failed;
};

static _Thread_local struct guarded guarded;
static const struct k_ops          *guarded_real; /* set by guarded_table */

static inline void guarded_open(void)
{
    if (guarded.memory && mprotect(guarded.memory, GUARDED_BYTES, PROT_READ | PROT_WRITE) != 0)
        abort();
}

static inline void guarded_shut(void)
{
    if (guarded.memory && mprotect(guarded.memory, GUARDED_BYTES, PROT_NONE) != 0)
        abort();
}

static inline bool guarded_has(const void *p)
{
    const unsigned char *at = p;
    return guarded.memory && at >= guarded.memory && at < guarded.memory + GUARDED_BYTES;
}

/* Of this thread: gives all memory back, and counts from 0. */
static inline void guarded_reset(void)
{
    if (guarded.memory)
        munmap(guarded.memory, GUARDED_BYTES);
    memset(&guarded, 0, sizeof guarded);
    guarded.large = SIZE_MAX;
}

static inline mt_status guarded_alloc(size_t size, void **out)
{
    size_t whole = (size + 63) / 64 * 64, i = 0;
    if (!guarded.memory) {
        guarded.memory = mmap(NULL, GUARDED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (guarded.memory == MAP_FAILED)
            abort();
    }
    while (i < GUARDED_BUFFERS && (guarded.buffers[i].is_used || (guarded.buffers[i].size && guarded.buffers[i].size != whole)))
        i++;
    if (i == GUARDED_BUFFERS || (!guarded.buffers[i].size && guarded.used + whole > GUARDED_BYTES))
        return mt_error(MT_ENOMEM, 0, "guarded memory");
    if (!guarded.buffers[i].size) {
        guarded.buffers[i].at = guarded.used;
        guarded.buffers[i].size = whole;
        guarded.used += whole;
    }
    guarded.buffers[i].is_used = true;
    guarded.buffers_used += size >= guarded.large;
    guarded.buffers_most = guarded.buffers_used > guarded.buffers_most ? guarded.buffers_used : guarded.buffers_most;
    *out = guarded.memory + guarded.buffers[i].at;
    guarded_open();
    memset(*out, 0, whole);
    guarded_shut();
    return mt_ok();
}

static inline void guarded_release(void *memory)
{
    for (size_t i = 0; memory && i < GUARDED_BUFFERS; i++)
        if (guarded.buffers[i].is_used && guarded.memory + guarded.buffers[i].at == memory) {
            guarded.buffers[i].is_used = false;
            return;
        }
    if (memory)
        abort(); /* it is not one of ours */
}

/* The memory is open. Until it is waited for, what stands at `to` is not a number. */
static inline void guarded_pend(void *to, const void *from, size_t size)
{
    void *bytes = malloc(size);
    if (!bytes || guarded.pending_count == GUARDED_BUFFERS)
        abort();
    memcpy(bytes, from, size);
    memset(to, 0xff, size);
    guarded.pending[guarded.pending_count].to = to;
    guarded.pending[guarded.pending_count].bytes = bytes;
    guarded.pending[guarded.pending_count++].size = size;
}

static inline mt_status guarded_copy(struct k_stream *stream, void *to, const void *from, size_t size)
{
    (void)stream;
    bool is_up = guarded_has(to) && !guarded_has(from), is_down = !guarded_has(to) && guarded_has(from);
    guarded.up += is_up ? size : 0;
    guarded.down += is_down ? size : 0;
    guarded.copies_large += (is_up || is_down) && size >= guarded.large;
    guarded_open();
    if (is_down && size)
        guarded_pend(to, from, size);
    else
        memcpy(to, from, size);
    guarded_shut();
    return mt_ok();
}

static inline mt_status guarded_clear(struct k_stream *stream, void *to, size_t size)
{
    (void)stream;
    guarded_open();
    memset(to, 0, size);
    guarded_shut();
    return mt_ok();
}

static inline mt_status guarded_wait(struct k_stream *stream)
{
    (void)stream;
    for (uint32_t i = 0; i < guarded.pending_count; i++) {
        memcpy(guarded.pending[i].to, guarded.pending[i].bytes, guarded.pending[i].size);
        free(guarded.pending[i].bytes);
    }
    guarded.pending_count = 0;
    if (guarded.fails_in && --guarded.fails_in == 0)
        guarded.has_failed = true;
    return guarded.has_failed ? mt_error(MT_EDEVICE, 700, "wait for the device of a test") : mt_ok();
}

#define GUARDED(entry, params, args) \
    static inline mt_status guarded_##entry params \
    { \
        guarded_open(); \
        mt_status st = guarded_real->entry args; \
        guarded_shut(); \
        return st; \
    }
GUARDED(gemm, (struct k_stream * s, const struct k_gemm *g), (s, g))
GUARDED(unpack, (struct k_stream * s, const uint8_t *in, float *out, size_t n, float a, float b), (s, in, out, n, a, b))
GUARDED(bias_add, (struct k_stream * s, float *x, const float *bias, size_t rows, size_t cols), (s, x, bias, rows, cols))
GUARDED(bias_grad, (struct k_stream * s, const float *x, float *out, size_t rows, size_t cols), (s, x, out, rows, cols))
GUARDED(relu_forward, (struct k_stream * s, float *x, size_t n), (s, x, n))
GUARDED(relu_backward, (struct k_stream * s, const float *y, float *g, size_t n), (s, y, g, n))
GUARDED(xent_forward, (struct k_stream * s, const struct k_xent *x), (s, x))
GUARDED(xent_backward, (struct k_stream * s, const struct k_xent *x), (s, x))
GUARDED(axpy, (struct k_stream * s, float alpha, const float *x, float *y, size_t n), (s, alpha, x, y, n))
GUARDED(scale, (struct k_stream * s, float alpha, float *x, size_t n), (s, alpha, x, n))
GUARDED(sgd_update, (struct k_stream * s, const struct k_sgd *u), (s, u))
GUARDED(adamw_update, (struct k_stream * s, const struct k_adamw *u), (s, u))
GUARDED(tree_sum, (struct k_stream * s, const float *const *in, size_t k, size_t n, float *out), (s, in, k, n, out))
GUARDED(sum_squares, (struct k_stream * s, const float *x, size_t n, double *out), (s, x, n, out))

/* Entries that the CPU's table has and this has not are NULL. */
static inline const struct k_ops *guarded_table(void)
{
    static struct k_ops table;
    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &guarded_real).code != 0)
        abort();
    table = (struct k_ops){.name = "guarded",
                           .is_device = true,
                           .alloc = guarded_alloc,
                           .release = guarded_release,
                           .copy = guarded_copy,
                           .clear = guarded_clear,
                           .wait = guarded_wait,
                           .pin = guarded_real->pin,
                           .unpin = guarded_real->unpin,
                           .gemm = guarded_gemm,
                           .unpack = guarded_unpack,
                           .bias_add = guarded_bias_add,
                           .bias_grad = guarded_bias_grad,
                           .relu_forward = guarded_relu_forward,
                           .relu_backward = guarded_relu_backward,
                           .xent_forward = guarded_xent_forward,
                           .xent_backward = guarded_xent_backward,
                           .axpy = guarded_axpy,
                           .scale = guarded_scale,
                           .sgd_update = guarded_sgd_update,
                           .adamw_update = guarded_adamw_update,
                           .tree_sum = guarded_tree_sum,
                           .sum_squares = guarded_sum_squares};
    return &table;
}

#endif
