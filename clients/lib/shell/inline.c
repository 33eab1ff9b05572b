/* SPDX-License-Identifier: Apache-2.0
 *
 * inline.c - MANTA_INLINE=1: the driver runs every task and actor itself, at once, and starts no process.
 *
 * Owns:   struct lib_inline: the actors' states, and the memory that a raylet would give.
 * Thread: any, under the owner lock; user code runs without it, one function at a time (`turn`).
 *
 * The owner half is the same as ever: it queues, checks arguments, retries, fails. What it would send to a lane is taken
 * from its queues and run here; what it would say to a raylet is answered here (segments, regions, names, nodes) or has
 * no meaning. So resources and placement are not looked at, and a generator, which needs a consumer beside it, is refused.
 */
#include "clients/lib/shell/lib.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct inline_actor {
    mt_id             id;
    manta_actor_type *type;
    void             *self;
    bool              is_busy, is_killed;
};

struct inline_region {
    int    fd;
    size_t size;
};

struct lib_inline {
    pthread_mutex_t turn; /* recursive: a task may call tasks. Taken without the owner lock */
    struct lib_here here;
    uint32_t        depth; /* functions that run, one inside the other */
    uint32_t        segments;
    MT_VEC(struct inline_actor *) actors;
    MT_VEC(struct inline_region) regions; /* number - 1 */
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
    lib.ctl = pages(LANE_BYTES); /* untouched but for the header and claims of the one lane there is */
    if (!in || !lib.park || !lib.pins || !lib.ctl)
        return mt_error(MT_ENOMEM, 0, "memory to run tasks inline");
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&in->turn, &attr);
    pthread_mutexattr_destroy(&attr);
    own_reopen(&lib.own, process, 1, 1, 1);
    lib.own.now_ns = lib_now_ns();
    lib.own.free_place = lib_free_place;
    wrk_init(&lib.wrk, 1);
    lib_here_init(&in->here, lib.ctl);
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
        if (a->type && a->type->destroy && a->self && !a->is_killed)
            a->type->destroy(a->self);
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
    lib_here_begin(&in->here, task, &r);
    if (a)
        a->is_busy = true;
    in->depth++;
    lib_unlock();
    pthread_mutex_lock(&in->turn);
    lib_run_here(&r, task, a ? &a->type : NULL, a ? &a->self : NULL, &out);
    pthread_mutex_unlock(&in->turn);
    lib_lock();
    in->depth--;
    if (a)
        a->is_busy = false;
    lib_here_end(&in->here, task, &r, &out);
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
        struct timespec ms = {0, 1000000};
        if (lib.running && lib.inlined->depth == 1)
            break; /* it is we that run: nobody else will make it */
        lib_unlock();
        nanosleep(&ms, NULL); /* another thread of the program runs something */
        lib_lock();
    }
    return ready(arg);
}

/* ---- what a raylet would do ---- */

void lib_inline_act(struct own_out *out)
{
    for (size_t at = 0; at < out->up.size;) {
        struct lane_record record;
        struct lane_ref    dead;
        memcpy(&record, out->up.data + at, sizeof record);
        if (record.kind == CTL_OBJECT_DEAD) {
            memcpy(&dead, out->up.data + at + sizeof record, sizeof dead);
            (void)os_client_space_back(&lib.store, dead.segment, dead.offset).code;
        }
        at += lane_record_padded(record.length);
    }
    out->up.size = 0;
    out->wake_count = 0;
    out->unmap.count = 0;
    for (size_t i = 0; i < out->deaths.count; i++)
        lib_news(&out->deaths.data[i]);
    out->deaths.count = 0;
}

static int memory_fd(size_t size)
{
    int fd = memfd_create("manta-inline", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        return -1;
    }
    return fd;
}

static manta_status give_segment(struct lib_request *r, const struct ctl_segment *ask)
{
    struct ctl_segment got = {.segment = ++lib.inlined->segments, .size = ask->size};
    r->fds[0] = memory_fd(got.size);
    r->fds[1] = memory_fd(os_generations_bytes(got.size));
    if (r->fds[0] < 0 || r->fds[1] < 0)
        return MANTA_ENOMEM;
    r->fd_count = 2;
    r->kind = CTL_SEGMENT;
    r->size = sizeof got;
    memcpy(r->payload, &got, sizeof got);
    return MANTA_OK;
}

static manta_status give_region(struct lib_request *r, const struct ctl_segment *ask)
{
    struct lib_inline   *in = lib.inlined;
    struct inline_region fresh = {-1, ask->size};
    struct ctl_segment   got = {.segment = ask->segment};
    if (!ask->segment) {
        fresh.fd = memory_fd(fresh.size);
        if (fresh.fd < 0 || mt_vec_push(&in->regions, fresh).code)
            return MANTA_ENOMEM;
        got.segment = (uint32_t)in->regions.count;
    }
    if (got.segment > in->regions.count)
        return MANTA_ENOENT;
    got.size = in->regions.data[got.segment - 1].size;
    r->fds[0] = dup(in->regions.data[got.segment - 1].fd);
    r->fd_count = r->fds[0] >= 0;
    r->kind = CTL_REGION;
    r->size = sizeof got;
    memcpy(r->payload, &got, sizeof got);
    return MANTA_OK;
}

/* The actor of that name; a dead one has none any more. */
static const struct own_actor *actor_named(const char *space, const char *name)
{
    MT_MAP_EACH(&lib.own.actors, entry) {
        const struct own_actor *actor = entry->value.ptr;
        if (actor->state != OWN_ACTOR_DEAD && strcmp(actor->public_name, name) == 0 && strcmp(actor->space, space) == 0)
            return actor;
    }
    return NULL;
}

bool lib_inline_may_name(const char *name, struct own_failure *f)
{
    if (!name || !actor_named(lib.name_space, name))
        return true;
    own_failure_set(f, MT_EEXIST, "an actor is named '%s' already in the name space '%s'", name, lib.name_space);
    return false;
}

static manta_status answer_request(struct lib_request *r, const uint8_t *payload)
{
    struct ctl_request      ask;
    struct ctl_name         name;
    struct ctl_node         node = {.node = 1, .epoch = 1, .state = 1, .name = "inline"};
    const struct own_actor *actor;
    memcpy(&ask, payload, sizeof ask);
    r->size = sizeof(struct ctl_reply);
    if (ask.op == CTL_OP_NODES) {
        memcpy(r->payload + r->size, &node, sizeof node);
        r->size += sizeof node;
        return MANTA_OK;
    }
    if (ask.op != CTL_OP_NAME_GET)
        return MANTA_EUNSUPPORTED;
    memcpy(&name, payload + sizeof ask, sizeof name);
    actor = actor_named(name.space, name.name);
    if (!actor)
        return MANTA_ENOENT;
    name.actor = actor->id;
    name.owner_node = 1;
    memcpy(name.type, actor->name, sizeof name.type);
    memcpy(r->payload + r->size, &name, sizeof name);
    r->size += sizeof name;
    return MANTA_OK;
}

manta_status lib_inline_call(struct lib_request *r, uint16_t kind, const void *payload, size_t size, manta_error *e)
{
    struct ctl_segment segment;
    manta_status       code = MANTA_EUNSUPPORTED;
    memset(r->payload, 0, sizeof(struct ctl_reply));
    r->fd_count = 0;
    r->kind = CTL_REPLY;
    if (size >= sizeof segment)
        memcpy(&segment, payload, sizeof segment);
    if (kind == CTL_SEGMENT_WANT)
        code = give_segment(r, &segment);
    else if (kind == CTL_REGION_WANT)
        code = give_region(r, &segment);
    else if (kind == CTL_REQUEST)
        code = answer_request(r, payload);
    if (code == MANTA_OK)
        return MANTA_OK;
    return lib_error(e, code, "%s (MANTA_INLINE=1: there is no raylet)", mt_code_text(code));
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
        (void)mt_vec_push(&lib.killed_states, a->self).code;
        a->self = NULL; /* as the memory of a killed process: gone without a word */
    }
    actor->is_ending = actor->is_ending || !restart;
    own_actor_lane_ended(&lib.own, actor, &why);
    own_actor_pump(&lib.own, actor);
    lib_inline_run();
}
