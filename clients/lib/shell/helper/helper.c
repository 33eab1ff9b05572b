/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.c - the helper thread: it looks when nobody waits, and ends a run that has outlived its time.
 *
 * Owns:   the helper thread. Thread: its own, and whoever starts or stops it; under the owner lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <unistd.h>

/* The function does not come back. Its outcome is told in its place, so that the owner need not guess why it died. */
static void run_check(uint64_t now_ns)
{
    manta_ctx *c = lib.running;
    uint8_t    payload[sizeof(struct lane_failure) + sizeof c->failure.message];
    size_t     size;
    if ((int64_t)now_ns < lib_run_look_ns())
        return;
    lib_fail_timed_out(c);
    size = lib_failure_payload(c, MANTA_ETIMEDOUT, payload, sizeof payload);
    if (!wrk_done(&lib.wrk, LANE_DONE_ERROR, MANTA_ETIMEDOUT, 0, payload, size, now_ns, 0))
        return; /* no room in the ring: again in a moment */
    wrk_flush(&lib.wrk);
    lib_act();
    _exit(MANTA_ETIMEDOUT);
}

/* Callbacks that are due: here, or in manta_progress of a program with a loop of its own, which is told. */
static void serve(void)
{
    if (lib_has_events()) {
        lib_events_ring();
        return;
    }
    lib_run_news();
    lib_run_callbacks();
}

/* How long the helper may be away while another thread leads. That one looks itself as long as it waits. But a worker may begin a
 * method meanwhile, and what that sends without showing it is shown by us. */
static int64_t nap_of_led(uint64_t now, uint64_t active_ns)
{
    if (lib.role != LIB_WORKER || lib.watches.count)
        return MT_LIB_TICK_NS;
    if (now - active_ns > MT_LIB_ACTIVE_NS)
        return MT_LIB_IDLE_NAP_NS;
    return lib.running || lib.callback_count ? MT_LIB_TICK_NS : MT_LIB_LED_NAP_NS;
}

static void helper_round(uint64_t *calls_seen, uint64_t *active_ns)
{
    uint64_t now = lib_now_ns();
    if (lib.calls != *calls_seen || lib.own.outstanding) {
        *calls_seen = lib.calls;
        *active_ns = now;
    }
    if (lib.output.is_wanted)
        lib_output_print(false);
    if (lib.is_led) {
        lib_nap(nap_of_led(now, *active_ns));
        run_check(lib_now_ns());
        serve(); /* the leader hears of what comes, but its wait may be a long one */
        return;
    }
    lib_pump();
    lib_tick(now);
    run_check(now);
    serve();
    if (now - *active_ns < MT_LIB_ACTIVE_NS && !lib_has_events()) {
        lib_nap(MT_LIB_TICK_NS);
        return;
    }
    /* Nothing under way: sleep where the raylet and our actors can wake us. A thread that wants to wait takes the
     * lead over without asking; both then sleep on the same bell, and a ring wakes both. With an event descriptor
     * results wake us too: nobody else waits for them. */
    lib_park(NULL, NULL, lib.own.outstanding && lib_has_events() ? (int64_t)(now + MT_LIB_TICK_NS) : lib_run_look_ns(), now);
    serve();
}

static void *helper_main(void *arg)
{
    uint64_t calls_seen = 0, active_ns = lib_now_ns();
    (void)arg;
    (void)pthread_setname_np(pthread_self(), "manta-helper");
    lib_lock();
    while (!lib.stop_helper && !lib.broken)
        helper_round(&calls_seen, &active_ns);
    lib_unlock();
    return NULL;
}

void lib_helper_start(void)
{
    if (lib.has_helper || lib.inlined)
        return;
    lib.stop_helper = false;
    lib.has_helper = pthread_create(&lib.helper, NULL, helper_main, NULL) == 0;
}

void lib_helper_stop(void)
{
    if (!lib.has_helper)
        return;
    lib.stop_helper = true;
    shm_add32(&lib.park->bell, 1);
    shm_futex_wake(&lib.park->bell, INT32_MAX);
    lib_unlock();
    pthread_join(lib.helper, NULL);
    lib_lock();
    lib.has_helper = false;
}
