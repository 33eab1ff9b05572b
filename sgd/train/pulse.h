/* SPDX-License-Identifier: Apache-2.0
 *
 * pulse.h - a worker's signs of life, in memory that the driver's process reads as well. Thread: any.
 */
#ifndef SGD_PULSE_H
#define SGD_PULSE_H

#include <stdatomic.h>
#include <stdint.h>

/* What others see of a worker's life. Written by its threads alone, from whatever process it is read. */
struct sgd_pulse {
    _Alignas(64) _Atomic uint64_t beats; /* pieces of work */
    _Atomic uint64_t steps, step_ns, work_ns;
    _Atomic uint32_t doing; /* enum sgd_doing */
    _Atomic uint32_t calls; /* of the user's functions, that its threads are in */
    _Atomic uint32_t out;   /* the last generation that a member of this rank has left after a step, and looks at no more */
};

/* What a worker does, for whoever asks where it hangs. */
/* clang-format off */
#define SGD_DOINGS(X)                 \
    X(NOTHING, "nothing")             \
    X(JOIN, "meeting the others")     \
    X(STATE, "taking over the state") \
    X(LOAD, "reading a checkpoint")   \
    X(INIT, "init")                   \
    X(RECORDS, "reading records")     \
    X(TRAIN, "train_batch")           \
    X(SUM, "the sum over workers")    \
    X(UPDATE, "the update")           \
    X(VALIDATE, "validate_batch")     \
    X(SAVE, "saving a checkpoint")
/* clang-format on */
enum sgd_doing {
#define X(name, text) SGD_DOES_##name,
    SGD_DOINGS(X)
#undef X
        SGD_DOINGS_COUNT
};

/* Between pieces of work. */
static inline void sgd_pulse_beat(void *pulse)
{
    if (pulse)
        atomic_fetch_add_explicit(&((struct sgd_pulse *)pulse)->beats, 1, memory_order_relaxed);
}

#endif
