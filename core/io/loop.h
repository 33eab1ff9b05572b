/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.h - inside of a loop; private to core/io. The only header that shows libuv.
 */
#ifndef MT_IO_LOOP_H
#define MT_IO_LOOP_H

#include "core/io/io.h"

#include <uv.h>

#include <pthread.h>
#include <stdatomic.h>

struct io_loop {
    uv_loop_t                uv;
    uv_async_t               bell;               /* somebody has posted, or wants a stop */
    uv_timer_t               alarm;              /* set to the first of `timers` */
    uv_prepare_t             prepare;            /* runs `tick` */
    struct io_tick          *tick;               /* or NULL */
    struct io_timer         *timers;             /* root of the pairing heap */
    uint64_t                 alarm_due_ms;       /* what the alarm is set to; UINT64_MAX: off */
    struct io_msg           *ready, **ready_end; /* FIFO taken from the inbox, not run yet; loop thread */
    _Atomic(struct io_msg *) inbox;              /* LIFO of what was posted, any thread */
    atomic_bool              want_stop;
    atomic_bool              is_running;
    _Atomic(pthread_t)       thread; /* of the running loop */
};

/* The status for a failed libuv call (`err` is negative). */
mt_status io_uv_error(int err, const char *what);

#endif
