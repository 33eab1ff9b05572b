/* SPDX-License-Identifier: Apache-2.0
 *
 * tell.c - user code is told: deaths that it watches, refs that are ready or freed.
 *
 * Owns:   nothing. Thread: any, under the owner lock, which is released around user code.
 * Always: a callback runs without the lock, on one thread at a time, and never inside a call that waits.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

/* ---- deaths ---- */

static manta_status code_of_death(const struct own_death *news)
{
    return news->is_actor ? MANTA_EACTOR_DIED : news->death.code;
}

static void tell(const struct own_death *news, manta_death_fn fn, void *user)
{
    manta_death death = {.code = code_of_death(news),
                         .node = news->death.node,
                         .pid = news->death.pid,
                         .restarting = news->restarting,
                         .incarnation = news->incarnation};
    int         status = news->death.status;
    if ((status & 0x7f) && (status & 0x7f) != 0x7f)
        death.signal_number = status & 0x7f;
    else
        death.exit_status = (status >> 8) & 0xff;
    snprintf(death.message, sizeof death.message, "%.*s", (int)sizeof death.message - 1, news->death.text);
    fn(user, &death);
}

void lib_wait_told(uint64_t watch)
{
    while (lib.telling == watch && !lib_thread.in_callback)
        lib_nap(MT_LIB_TOLD_NAP_NS);
}

void lib_run_news(void)
{
    while (lib.news.count) {
        struct own_death news = lib.news.data[0];
        mt_vec_remove(&lib.news, 0);
        for (size_t i = 0; i < lib.watches.count; i++) {
            struct lib_watch watch = lib.watches.data[i];
            if (!mt_id_equal(watch.subject, news.subject))
                continue;
            lib.telling = watch.number; /* manta_unwatch waits for it */
            lib_unlock();
            lib_thread.in_callback = true;
            tell(&news, watch.fn, watch.user);
            lib_thread.in_callback = false;
            lib_fork_check();
            lib_lock();
            lib.telling = 0;
        }
    }
}

/* ---- callbacks of refs ---- */

/* A callback may not wait, so what it would have to wait for to look at the value is done before: mapping its segment. */
static void make_readable(struct own_ref *ref)
{
    struct lane_ref place = ref->state == OWN_REF_PLACE ? *own_ref_place(&lib.own, ref) : (struct lane_ref){.node = 0};
    const void     *data;
    if (ref->state != OWN_REF_PLACE || ref->again == OWN_AGAIN_LOST || place.node != lib.own.node || !lib_may_wait())
        return;
    if (lib_store_pin(ref, &place, &data, lib_deadline(MT_LIB_REQUEST_MS), NULL) == MANTA_OK)
        lib_store_unpin(&place);
}

static void run(struct own_waiter *callback)
{
    struct own_ref *ref = callback->of.callback.ref;
    manta_ref      *handle = NULL;
    bool            before;
    if (ref) {
        ref->is_heard = 1; /* the function may look */
        make_readable(ref);
        handle = lib_handle_ref(&lib.own, ref); /* of the callback's own hold */
    }
    lib_unlock();
    before = lib_callback_enter(true);
    if (ref)
        ((manta_ready_fn)callback->of.callback.fn)(callback->of.callback.user, handle);
    else
        ((manta_free_fn)callback->of.callback.fn)(callback->of.callback.user);
    lib_callback_enter(before);
    lib_fork_check();
    lib_lock();
    if (ref && lib.role != LIB_OVER)
        (void)lib_ref_end(&lib.own, handle); /* what the function has freed is none of its business, and gone */
    lib.callback_count--;
    free(callback);
}

void lib_run_callbacks(void)
{
    if (lib.is_calling)
        return; /* another thread is at it, or a callback made progress itself */
    lib.is_calling = true;
    lib_unheard_tell(false);
    while (lib.callbacks) {
        struct own_waiter *callback = lib.callbacks;
        lib.callbacks = callback->next;
        run(callback);
    }
    lib.is_calling = false;
    lib_act();
}
