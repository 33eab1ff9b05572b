/* SPDX-License-Identifier: Apache-2.0
 *
 * inline.c - MANTA_INLINE=1: the driver runs every task and actor itself, at once, and starts no process.
 *
 * Owns:   the actors' states. Thread: any, under the owner lock; user code runs without it, one function at a time (`turn`).
 *
 * The owner half is the same as ever: it queues, checks arguments, retries, fails. What it would send to a lane is taken
 * from its queues and run here; what it would say to a raylet is answered in ../inline (segments, regions, names, nodes) or has
 * no meaning. So resources and placement are not looked at, and a generator, which needs a consumer beside it, is refused.
 */
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/here/lane.h"
#include "clients/lib/shell/inline/inline.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"
#include "core/base/clock.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct inline_actor {
    mt_id            id;
    struct lib_actor actor;
    bool             is_busy, is_killed;
};

/* ---- begin and end ---- */

bool lib_inline_wanted(void)
{
    const char *text = getenv("MANTA_INLINE");
    return text && strcmp(text, "1") == 0;
}

static void *pages(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

mt_status lib_inline_start(void)
{
    struct lib_inline  *in = calloc(1, sizeof *in);
    pthread_mutexattr_t attr;
    uint64_t            process;
    MT_TRY(mt_random_bytes(&process, sizeof process));
    lib.park = pages(sizeof *lib.park);
    lib.pins = pages(OS_PINS_BYTES);
    lib.here = calloc(1, sizeof *lib.here);
    lib.ctl = pages(LANE_BYTES); /* untouched but for the header and claims of the one lane there is */
    if (!in || !lib.park || !lib.pins || !lib.ctl || !lib.here) {
        free(in);
        free(lib.here);
        lib.here = NULL;
        return mt_error(MT_ENOMEM, 0, "memory to run tasks inline");
    }
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&in->turn, &attr);
    pthread_mutexattr_destroy(&attr);
    own_reopen(&lib.own, process, 1, 1, 1);
    lib.own.now_ns = lib_now_ns();
    lib.own.free_place = lib_free_place;
    wrk_init(&lib.wrk, 1);
    lib_here_init(lib.here, lib.ctl);
    lib.inlined = in;
    return os_client_init(&lib.store, process, 1, 1, lib.pins);
}

static struct inline_actor *state_of(mt_id id)
{
    for (size_t i = 0; i < lib.inlined->actors.count; i++)
        if (mt_id_equal(lib.inlined->actors.data[i]->id, id))
            return lib.inlined->actors.data[i];
    return NULL;
}

/* Actors that have ended, or all of them: their end hook runs, as their process would run it. */
static void reap(bool all)
{
    struct lib_inline *in = lib.inlined;
    for (size_t i = 0; i < in->actors.count; i++) {
        struct inline_actor *a = in->actors.data[i];
        struct own_actor    *actor = mt_map_ptr(&lib.own.actors, a->id);
        if (!all && (a->is_busy || (actor && actor->state != OWN_ACTOR_DEAD)))
            continue;
        mt_vec_remove_swap(&in->actors, i);
        i--;
        lib_unlock();
        if (a->actor.type && a->actor.type->destroy && a->actor.self && !a->is_killed)
            a->actor.type->destroy(a->actor.self);
        free(a);
        lib_lock();
    }
}

void lib_inline_stop(void)
{
    struct lib_inline *in = lib.inlined;
    reap(true);
    for (size_t i = 0; i < in->regions.count; i++)
        close(in->regions.data[i].fd);
    mt_vec_fini(&in->regions);
    mt_vec_fini(&in->actors);
    pthread_mutex_destroy(&in->turn);
    lib.inlined = NULL;
    free(lib.here);
    lib.here = NULL;
    free(in);
}

/* ---- running ---- */

static bool is_callable(const struct own_actor *actor)
{
    const struct own_task     *task = actor->queue.first;
    const struct inline_actor *a = state_of(actor->id);
    if (!actor->is_mine || !task || task->waiting_for || (a && a->is_busy))
        return false;
    return task->kind == LANE_CREATE ? actor->state != OWN_ACTOR_ALIVE : actor->state == OWN_ACTOR_ALIVE;
}

/* Any that may run now; those of actors in their order. */
static struct own_task *next_task(void)
{
    for (size_t i = 0; i < lib.own.class_list.count; i++) {
        struct own_class *cls = lib.own.class_list.data[i];
        if (!(cls->wire.flags & CTL_CLASS_ACTOR) && own_class_has_queued(cls))
            return own_class_pop(cls);
    }
    MT_MAP_EACH(&lib.own.actors, entry) {
        struct own_actor *actor = entry->value.ptr;
        while (is_callable(actor)) {
            struct own_task *task = own_queue_pop(&actor->queue);
            if (own_task_ready(&lib.own, task))
                return task;
        }
    }
    return NULL;
}

static struct inline_actor *state_for(const struct own_task *task)
{
    struct inline_actor *a = task->actor ? state_of(task->actor->id) : NULL;
    if (!task->actor || a)
        return a;
    a = calloc(1, sizeof *a);
    if (!a || mt_vec_push(&lib.inlined->actors, a).code) {
        free(a);
        return NULL;
    }
    a->id = task->actor->id;
    return a;
}

static void run(struct own_task *task)
{
    struct lib_inline   *in = lib.inlined;
    struct inline_actor *a = state_for(task);
    struct wrk_run       r;
    struct lib_outcome   out;
    lib_here_begin(lib.here, task, &r);
    if (a)
        a->is_busy = true;
    in->depth++;
    lib_unlock();
    pthread_mutex_lock(&in->turn);
    lib_run_here(&r, task, a ? &a->actor : NULL, &out);
    pthread_mutex_unlock(&in->turn);
    lib_lock();
    in->depth--;
    if (a)
        a->is_busy = false;
    lib_here_end(lib.here, task, &r, &out);
}

void lib_inline_run(void)
{
    for (struct own_task *task; (task = next_task());)
        run(task);
    own_tick(&lib.own, lib_now_ns());
    lib_act();
    reap(false);
    if (lib.inlined->depth == 0 && lib_may_wait()) {
        lib_run_news();
        lib_run_callbacks();
    }
}

bool lib_inline_wait(lib_ready ready, void *arg, int64_t deadline_ns)
{
    lib_inline_run();
    while (!ready(arg) && lib.inlined->depth && (int64_t)lib_now_ns() < deadline_ns) {
        if (lib.running && lib.inlined->depth == 1)
            break; /* it is we that run: nobody else will make it */
        lib_unlock();
        mt_sleep_ms(1); /* another thread of the program runs something */
        lib_lock();
    }
    return ready(arg);
}

/* ---- actors ---- */

void lib_inline_kill(struct own_actor *actor, bool restart)
{
    struct ctl_ended     why = {.code = MT_EWORKER_DIED, .status = 9, .pid = getpid(), .node = 1, .text = "it was killed"};
    struct inline_actor *a = state_of(actor->id);
    if (actor->state == OWN_ACTOR_DEAD)
        return;
    if (a) {
        a->is_killed = !restart || actor->restarts_left == 0;
        (void)mt_vec_push(&lib.killed_states, a->actor.self).code;
        a->actor.self = NULL; /* as the memory of a killed process: gone without a word */
    }
    actor->is_ending = actor->is_ending || !restart;
    own_actor_lane_ended(&lib.own, actor, &why);
    own_actor_pump(&lib.own, actor);
    lib_inline_run();
}
