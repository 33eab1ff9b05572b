/* SPDX-License-Identifier: Apache-2.0
 *
 * creator.c - a group as its creator has it: the region, the generations it names, the deaths it hears of.
 *
 * Owns:   the region's mapping or the meeting's actor, the watches. Thread: any; the callbacks of watches run on libmanta's
 *         helper. `lock` guards the list of watches and the present generation.
 */
#include "sgd/coll/api/handle.h"
#include "sgd/coll/api/meet.h"

#include "core/base/reserved.h"
#include "core/base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct watched {
    struct group *group;
    uint64_t      watch;
    uint32_t      generation, rank; /* that it was about to join */
};

struct group {
    pthread_mutex_t   lock;
    struct coll_id    id;     /* of the latest generation that was named here */
    manta_region      region; /* shared memory, of the raylet's where there is no `local` */
    struct coll_local local;  /* the same of this process's own */
    manta_actor      *meet;   /* TCP */
    struct watched   *watched;
    size_t            watched_count, watched_max;
};

manta_status coll_id_read(const manta_coll_id *bytes, struct coll_id *out, manta_error *e)
{
    if (!bytes)
        return sgd_fail(e, MANTA_EINVAL, "the manta_coll_id is NULL");
    memcpy(out, bytes->bytes, sizeof *out);
    if (out->magic != COLL_ID_MAGIC || out->members == 0 || out->members > out->plan.members_max ||
        out->plan.members_max > MT_GROUP_MEMBERS_MAX || out->generation == 0 || !memchr(out->name, 0, sizeof out->name))
        return sgd_fail(e, MANTA_EINVAL, "these bytes are no manta_coll_id: pass all %zu of what manta_coll_group_id gave",
                        sizeof *bytes);
    return MANTA_OK;
}

static void id_write(const struct coll_id *id, manta_coll_id *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, id, sizeof *id);
}

/* ---- making one ---- */

static manta_status opts_check(const manta_coll_opts *o, manta_error *e)
{
    if (!o)
        return coll_null(e, "group_new", "opts");
    if (MT_RESERVED_IS_USED(o))
        return sgd_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_coll_group_new");
    int size_max = o->size_max ? o->size_max : o->size;
    if (o->size < 1 || o->size > size_max || size_max > MANTA_COLL_MEMBERS_MAX)
        return sgd_fail(e, MANTA_EINVAL, "size is %d and size_max %d: a group has 1 to %d members", o->size, o->size_max,
                        MANTA_COLL_MEMBERS_MAX);
    if (o->name && strlen(o->name) >= COLL_NAME_BYTES)
        return sgd_fail(e, MANTA_EINVAL, "the name of a group has at most %d bytes", COLL_NAME_BYTES - 1);
    if ((unsigned)o->transport > MANTA_COLL_LOCAL)
        return sgd_fail(e, MANTA_EINVAL, "transport %d is none of ours", (int)o->transport);
    if (o->transport == MANTA_COLL_TCP && o->heap_bytes)
        return sgd_fail(e, MANTA_EINVAL, "heap_bytes: a group over TCP shares no memory");
    if (o->timeout_ms < 0 || o->timeout_ms > INT32_MAX || o->heap_bytes < 0)
        return sgd_fail(e, MANTA_EINVAL, "timeout_ms or heap_bytes is out of range");
    return MANTA_OK;
}

/* Says something to the meeting and does not wait; what one process says arrives in order. */
static void meet_tell(struct group *group, struct coll_meet_word word)
{
    manta_free(manta_actor_call(group->meet, "say", MANTA_ARGS(manta_bytes_of(&word, sizeof word))));
}

static void generation_tell(struct group *group)
{
    meet_tell(group,
              (struct coll_meet_word){.kind = COLL_MEET_ASK, .generation = group->id.generation, .members = group->id.members});
}

static void meet_open(struct group *group)
{
    char name[40];
    coll_meet_name(group->id.group, name);
    group->meet = manta_actor_new(COLL_MEET_TYPE, &(manta_actor_opts){.name = name, .node = manta_node()}, MANTA_NO_ARGS);
    generation_tell(group);
}

static manta_status memory_make(struct group *group, size_t size, manta_error *e)
{
    manta_status code = MANTA_OK;
    if (group->id.is_local) {
        mt_status st = coll_local_new(group->id.group, size, &group->local, &group->id.place);
        group->region = (manta_region){.data = group->local.data, .size = size};
        code = st.code ? sgd_fail(e, st.code, "%s", st.what) : MANTA_OK;
    } else {
        code = manta_region_open(size, 0, &group->region, e);
        group->id.region = group->region.number;
    }
    if (code == MANTA_OK)
        coll_shm_lay(group->region.data, &group->id.plan);
    return code;
}

static manta_status group_fill(struct group *group, const manta_coll_opts *o, manta_error *e)
{
    size_t size;
    bool   is_local = o->transport == MANTA_COLL_LOCAL;
    group->id = (struct coll_id){
        .magic = COLL_ID_MAGIC,
        .node = is_local ? 0 : manta_node(),
        .plan = {.members_max = (uint32_t)(o->size_max ? o->size_max : o->size), .heap_size = (uint64_t)o->heap_bytes},
        .generation = 1,
        .members = (uint32_t)o->size,
        .wait_limit_ms = (uint32_t)o->timeout_ms,
        .is_tcp = o->transport == MANTA_COLL_TCP,
        .is_local = is_local};
    snprintf(group->id.name, sizeof group->id.name, "%s", o->name ? o->name : "group");
    mt_status st = mt_random_bytes(group->id.secret, sizeof group->id.secret);
    if (st.code == MT_OK)
        st = mt_random_bytes(&group->id.group, sizeof group->id.group);
    if (st.code == MT_OK)
        st = coll_shm_size(&group->id.plan, &size);
    if (st.code != MT_OK)
        return sgd_fail(e, st.code, "%s", st.what);
    group->watched_max = 4 * (size_t)group->id.plan.members_max;
    group->watched = calloc(group->watched_max, sizeof *group->watched);
    if (!group->watched)
        return sgd_fail(e, MANTA_ENOMEM, "no memory for a group");
    if (group->id.is_tcp) {
        meet_open(group);
        return MANTA_OK;
    }
    return memory_make(group, size, e);
}

/* The latest generation: of those named here, and those that members formed by themselves. */
static void latest(struct group *group, uint32_t *generation, uint32_t *members)
{
    struct coll_meet_word word = {.kind = COLL_MEET_ASK};
    struct coll_meet_news news;
    *generation = 0;
    if (!group->id.is_tcp)
        *generation = coll_shm_generation(group->region.data, members);
    else if (coll_meet_say(group->meet, &word, &news, NULL) == MANTA_OK)
        *generation = news.generation, *members = news.members;
    if (*generation < group->id.generation)
        *generation = group->id.generation, *members = group->id.members;
}

static void group_abort(struct group *group)
{
    uint32_t generation, members;
    if (group->id.is_tcp) {
        meet_tell(group,
                  (struct coll_meet_word){
                      .kind = COLL_MEET_ABORT, .rank = MT_GROUP_MEMBERS_MAX, .reason = MT_ECANCELLED, .members = UINT32_MAX});
        return;
    }
    pthread_mutex_lock(&group->lock);
    latest(group, &generation, &members);
    pthread_mutex_unlock(&group->lock);
    coll_shm_abort(group->region.data, generation, MT_ECANCELLED, MT_GROUP_MEMBERS_MAX);
}

static void group_free(struct group *group)
{
    if (!group)
        return;
    for (size_t i = 0; i < group->watched_count; i++)
        if (group->watched[i].watch)
            manta_unwatch(group->watched[i].watch);
    if (group->region.data) {
        group_abort(group);
        if (!group->id.is_local)
            manta_region_close(&group->region);
    }
    coll_local_close(&group->local);
    manta_actor_free(group->meet);
    pthread_mutex_destroy(&group->lock);
    free(group->watched);
    free(group);
}

manta_coll_group *manta_coll_group_new(const manta_coll_opts *opts, manta_error *e)
{
    struct group     *group;
    manta_coll_group *handle = NULL;
    if (opts_check(opts, e) != MANTA_OK)
        return NULL;
    group = calloc(1, sizeof *group);
    if (!group) {
        sgd_fail(e, MANTA_ENOMEM, "no memory for a group");
        return NULL;
    }
    pthread_mutex_init(&group->lock, NULL);
    if (group_fill(group, opts, e) == MANTA_OK)
        handle = coll_handle_new(MT_HANDLE_GROUP, group, e);
    if (!handle)
        group_free(group);
    return handle;
}

/* ---- generations ---- */

void manta_coll_group_id(manta_coll_group *handle, manta_coll_id *out)
{
    struct group *group = coll_handle_look(MT_HANDLE_GROUP, handle);
    if (!group || !out) {
        if (out)
            *out = (manta_coll_id){{0}}; /* who joins by it is told */
        return;
    }
    pthread_mutex_lock(&group->lock);
    struct coll_id id = group->id;
    latest(group, &id.generation, &id.members);
    pthread_mutex_unlock(&group->lock);
    id_write(&id, out);
}

manta_status manta_coll_group_next(manta_coll_group *handle, int size, manta_coll_id *out, manta_error *e)
{
    manta_status  code;
    struct group *group = coll_handle_of(MT_HANDLE_GROUP, handle, "group_next", &code, e);
    if (!group)
        return code;
    if (!out)
        return coll_null(e, "group_next", "out");
    if (size < 1 || (uint32_t)size > group->id.plan.members_max)
        return sgd_fail(e, MANTA_EINVAL, "a generation of %d members: group \"%s\" was made for 1 to %u (size_max)", size,
                        group->id.name, group->id.plan.members_max);
    pthread_mutex_lock(&group->lock);
    uint32_t generation, members;
    latest(group, &generation, &members);
    group->id.generation = generation + 1;
    group->id.members = (uint32_t)size;
    if (group->id.is_tcp)
        generation_tell(group);
    id_write(&group->id, out);
    pthread_mutex_unlock(&group->lock);
    return MANTA_OK;
}

/* ---- deaths ---- */

/* A process has died that was about to join `hint` as `hint_rank`. */
static void died(struct group *group, int pid, uint32_t hint, uint32_t hint_rank)
{
    uint32_t generation, members, rank;
    if (group->id.is_tcp) {
        meet_tell(group, (struct coll_meet_word){
                             .kind = COLL_MEET_DEAD, .rank = hint_rank, .hint = hint, .pid = (uint32_t)pid, .members = UINT32_MAX});
        return;
    }
    pthread_mutex_lock(&group->lock);
    latest(group, &generation, &members);
    rank = coll_shm_rank_of(group->region.data, generation, pid);
    if (rank >= members && hint == generation)
        rank = hint_rank; /* it died before it had joined */
    pthread_mutex_unlock(&group->lock);
    if (rank < members)
        coll_shm_died(group->region.data, generation, rank);
}

static void on_death(void *user, const manta_death *death)
{
    struct watched *w = user;
    died(w->group, death->pid, w->generation, w->rank);
}

manta_status manta_coll_group_died(manta_coll_group *handle, int rank, int pid, manta_error *e)
{
    manta_status  code;
    struct group *group = coll_handle_of(MT_HANDLE_GROUP, handle, "group_died", &code, e);
    if (!group)
        return code;
    pthread_mutex_lock(&group->lock);
    uint32_t generation = group->id.generation, members = group->id.members;
    pthread_mutex_unlock(&group->lock);
    if (pid <= 0 || rank < 0 || (uint32_t)rank >= members)
        return sgd_fail(e, MANTA_EINVAL, "rank %d, process %d: group \"%s\" has %u members, and processes are numbered from 1",
                        rank, pid, group->id.name, members);
    died(group, pid, generation, (uint32_t)rank);
    return MANTA_OK;
}

manta_status manta_coll_group_watch(manta_coll_group *handle, int rank, manta_actor *actor, manta_error *e)
{
    struct watched *w = NULL;
    uint32_t        generation, members;
    manta_status    code;
    struct group   *group = coll_handle_of(MT_HANDLE_GROUP, handle, "group_watch", &code, e);

    if (!group)
        return code;
    pthread_mutex_lock(&group->lock);
    generation = group->id.generation, members = group->id.members;
    if (group->watched_count < group->watched_max)
        w = &group->watched[group->watched_count++];
    pthread_mutex_unlock(&group->lock);
    if (rank < 0 || (uint32_t)rank >= members)
        return sgd_fail(e, MANTA_EINVAL, "rank %d: group \"%s\" has %u members", rank, group->id.name, members);
    if (!w)
        return sgd_fail(e, MANTA_EAGAIN, "group \"%s\" watches %zu actors already", group->id.name, group->watched_max);
    *w = (struct watched){.group = group, .generation = generation, .rank = (uint32_t)rank};
    return manta_actor_watch(actor, on_death, w, &w->watch, e);
}

void manta_coll_group_abort(manta_coll_group *handle)
{
    struct group *group = coll_handle_look(MT_HANDLE_GROUP, handle);
    if (group)
        group_abort(group);
}

void manta_coll_group_free(manta_coll_group *handle)
{
    group_free(coll_handle_close(MT_HANDLE_GROUP, handle));
}
