/* SPDX-License-Identifier: Apache-2.0
 *
 * own.h - a thread that makes all calls of one thing, whoever asks for them: for what belongs to the thread that made it.
 *
 * Thread: one caller at a time, any thread.
 */
#ifndef SGD_OWN_H
#define SGD_OWN_H

#include "core/base/status.h"

#include <pthread.h>
#include <stdbool.h>

struct sgd_own {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    void (*call)(void *user); /* asked for; NULL: nothing */
    void *user;
    bool  is_begun, is_over;
};

/* ENOMEM, ESYS. Zeroed before; sgd_own_end follows in any case. */
MT_MUST_USE mt_status sgd_own_start(struct sgd_own *own);
/* Has the thread call it. Blocks until that has returned. */
void sgd_own_call(struct sgd_own *own, void (*call)(void *user), void *user);
/* The thread ends. Not begun: nothing. */
void sgd_own_end(struct sgd_own *own);

#endif
