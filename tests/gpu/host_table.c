/* SPDX-License-Identifier: Apache-2.0
 *
 * host_table.c - the table under test is the CPU's, made to work like a device's: what is asked of it is done when it is waited
 * for, and not before. So whoever hands a buffer on, or reads it, without having waited is found out.
 *
 * Owns: each thread's queue. Thread: any.
 */
#include "tests/gpu/table.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED_MAX = 256, INPUTS_MAX = 64 };

struct asked {
    enum { COPY, ADD, TREE } what;
    void       *to;
    const void *from[INPUTS_MAX];
    size_t      inputs, count; /* floats; of a copy bytes */
    float       alpha;
};

static const struct k_ops        *cpu;
static struct k_ops               lazy;
static _Thread_local struct asked queue[ASKED_MAX];
static _Thread_local size_t       queued;

static struct asked *ask(void)
{
    if (queued == ASKED_MAX)
        abort();
    return &queue[queued++];
}

static mt_status lazy_wait(struct k_stream *stream)
{
    for (size_t i = 0; i < queued; i++) {
        const struct asked *a = &queue[i];
        if (a->what == COPY)
            MT_TRY(cpu->copy(stream, a->to, a->from[0], a->count));
        else if (a->what == ADD)
            MT_TRY(cpu->axpy(stream, a->alpha, a->from[0], a->to, a->count));
        else
            MT_TRY(cpu->tree_sum(stream, (const float *const *)a->from, a->inputs, a->count, a->to));
    }
    queued = 0;
    return mt_ok();
}

static mt_status lazy_copy(struct k_stream *stream, void *to, const void *from, size_t size)
{
    (void)stream;
    *ask() = (struct asked){.what = COPY, .to = to, .from = {from}, .count = size};
    return mt_ok();
}

static mt_status lazy_axpy(struct k_stream *stream, float alpha, const float *x, float *y, size_t count)
{
    (void)stream;
    *ask() = (struct asked){.what = ADD, .to = y, .from = {x}, .count = count, .alpha = alpha};
    return mt_ok();
}

static mt_status lazy_tree_sum(struct k_stream *stream, const float *const *in, size_t inputs, size_t count, float *out)
{
    (void)stream;
    struct asked *a = ask();
    if (inputs > INPUTS_MAX)
        abort();
    *a = (struct asked){.what = TREE, .to = out, .inputs = inputs, .count = count};
    memcpy(a->from, in, inputs * sizeof *in);
    return mt_ok();
}

const struct k_ops *test_table(const char **out_why)
{
    *out_why = "the CPU's, when it is waited for";
    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &cpu).code != 0)
        abort();
    lazy = *cpu;
    lazy.is_device = true;
    lazy.wait = lazy_wait, lazy.copy = lazy_copy, lazy.axpy = lazy_axpy, lazy.tree_sum = lazy_tree_sum;
    return &lazy;
}
