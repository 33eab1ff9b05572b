/* SPDX-License-Identifier: Apache-2.0
 *
 * due.c - see due.h.
 *
 * Owns:   lib.news and lib.callbacks: what is due; the event descriptor.
 */
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>
#include <unistd.h>

void lib_news(const struct own_death *news)
{
    if (mt_vec_push(&lib.news, *news).code)
        lib_break(MT_ENOMEM, "there was no memory left for the news of a death: every later call fails");
}

void lib_callbacks_take(struct own_out *out)
{
    if (lib.callbacks)
        lib.callbacks_last->next = out->callbacks;
    else
        lib.callbacks = out->callbacks;
    lib.callbacks_last = out->callbacks_last;
    out->callbacks = out->callbacks_last = NULL;
}

void lib_callbacks_end(void)
{
    while (lib.callbacks) {
        struct own_waiter *callback = lib.callbacks;
        lib.callbacks = callback->next;
        if (callback->of.callback.ref)
            own_ref_drop(&lib.own, callback->of.callback.ref);
        free(callback);
    }
    lib.callback_count = 0;
    lib.is_rung = false;
    if (lib.event_fd >= 0)
        close(lib.event_fd);
    lib.event_fd = -1;
}

/* ---- the event descriptor ---- */

bool lib_has_events(void)
{
    return lib.event_fd >= 0;
}

void lib_events_ring(void)
{
    uint64_t one = 1;
    if (lib.event_fd < 0 || lib.is_rung ||
        (lib.event_seen == lib.own.completed && !lib.callbacks && !lib.news.count && !lib.own.out.unheard_count && !lib.broken))
        return;
    lib.is_rung = write(lib.event_fd, &one, sizeof one) == sizeof one;
}

void lib_events_seen(void)
{
    uint64_t count;
    if (lib.event_fd < 0)
        return;
    lib.event_seen = lib.own.completed;
    if (lib.is_rung && read(lib.event_fd, &count, sizeof count) == sizeof count)
        lib.is_rung = false;
}
