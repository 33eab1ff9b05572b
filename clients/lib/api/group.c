/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - several actors as one: made, called, watched and ended together; work shared among those that are idle.
 *
 * Owns:   struct manta_group. Thread: any; a group itself belongs to one thread at a time.
 * It stands on the public calls and on one question that each actor answers: what an actor does in a group it does by itself, too.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>
#include <time.h>

struct member_watch {
    manta_group_death_fn fn;
    void                *user;
    int                  index;
};

struct manta_group {
    int                  count;
    uint64_t            *watches; /* one a member; NULL: not watched */
    struct member_watch *told;
    manta_actor         *actors[];
};

/* ---- making ---- */

static struct manta_group *group_new(int count, manta_error *e)
{
    struct manta_group *group;
    if (count < 1 || count > MT_LIB_GROUP_MAX) {
        lib_error(e, MANTA_EINVAL, "a group has 1 to %d actors, not %d", MT_LIB_GROUP_MAX, count);
        return NULL;
    }
    group = calloc(1, sizeof *group + (size_t)count * sizeof *group->actors);
    if (!group)
        lib_error(e, MANTA_ENOMEM, "no memory for a group");
    else
        group->count = count;
    return group;
}

static void unwatch(struct manta_group *group)
{
    for (int i = 0; group->watches && i < group->count; i++)
        if (group->watches[i])
            manta_unwatch(group->watches[i]);
    free(group->watches);
    free(group->told);
    group->watches = NULL;
    group->told = NULL;
}

static void group_free(struct manta_group *group)
{
    unwatch(group);
    for (int i = 0; i < group->count; i++)
        manta_actor_free(group->actors[i]);
    free(group);
}

/* NULL: there was no memory; the group is gone. */
static manta_group *handle_of(struct manta_group *group, manta_error *e)
{
    manta_group *handle = NULL;
    if (group && lib_enter(e) == MANTA_OK) {
        handle = lib_handle_new(LIB_OF_GROUP, group);
        lib_unlock();
        if (!handle)
            lib_error(e, MANTA_ENOMEM, "no memory for a group");
    }
    if (group && !handle)
        group_free(group);
    return handle;
}

/* NULL: *code and *e say why. */
static struct manta_group *group_of(const manta_group *handle, const char *call, manta_status *code, manta_error *e)
{
    struct manta_group *group = lib_handle_of(handle, LIB_OF_GROUP);
    *code = group ? MANTA_OK : lib_handle_wrong(handle, LIB_OF_GROUP, call, e);
    return group;
}

manta_group *manta_group_new(const char *type, const manta_actor_opts *opts, int count, int argc, const manta_arg *argv,
                             manta_error *e)
{
    struct manta_group *group;
    if (opts && opts->name) {
        lib_error(e, MANTA_EINVAL, "a name belongs to one actor: make it by itself, and the group from it");
        return NULL;
    }
    group = group_new(count, e);
    for (int i = 0; group && i < count; i++)
        group->actors[i] = manta_actor_new(type, opts, argc, argv);
    return handle_of(group, e);
}

manta_group *manta_group_of(manta_actor *const *actors, int count, manta_error *e)
{
    struct manta_group *group = NULL;
    for (int i = 0; i < count; i++) {
        if (!actors || !actors[i]) {
            lib_error(e, MANTA_EINVAL, "actor %d of the group is NULL", i);
            return NULL;
        }
    }
    group = group_new(count, e);
    for (int i = 0; group && i < count; i++)
        group->actors[i] = manta_actor_dup(actors[i]);
    return handle_of(group, e);
}

int manta_group_size(const manta_group *handle)
{
    const struct manta_group *group = lib_handle_of(handle, LIB_OF_GROUP);
    return group ? group->count : 0;
}

manta_actor *manta_group_actor(const manta_group *handle, int index)
{
    const struct manta_group *group = lib_handle_of(handle, LIB_OF_GROUP);
    return group && index >= 0 && index < group->count ? group->actors[index] : NULL;
}

manta_status manta_group_free(manta_group *handle)
{
    struct manta_group *group;
    manta_status        code = handle ? lib_enter_held(NULL) : MANTA_OK;
    if (!handle || code)
        return code;
    group = lib_handle_end(handle, LIB_OF_GROUP);
    lib_unlock();
    if (!group)
        return MANTA_EHANDLE;
    group_free(group);
    return MANTA_OK;
}

/* ---- calling ---- */

manta_status manta_group_call(manta_group *handle, const char *method, int argc, const manta_arg *argv, manta_ref **out)
{
    manta_status              code;
    const struct manta_group *group = group_of(handle, "manta_group_call", &code, NULL);
    if (!group || !out)
        return code ? code : MANTA_EINVAL;
    for (int i = 0; i < group->count; i++)
        out[i] = manta_actor_call(group->actors[i], method, argc, argv);
    return MANTA_OK;
}

manta_status manta_group_gather(manta_group *handle, const char *method, int argc, const manta_arg *argv, int64_t timeout_ms,
                                manta_view *out, int *out_failed, manta_error *e)
{
    manta_status        code;
    struct manta_group *group = group_of(handle, "manta_group_gather", &code, e);
    int64_t             deadline = lib_deadline(timeout_ms);
    manta_ref         **refs = group ? calloc((size_t)group->count, sizeof *refs) : NULL;
    if (!group)
        return code;
    if (!refs || !out) {
        free(refs);
        return lib_error(e, out ? MANTA_ENOMEM : MANTA_EINVAL, "a group call needs a place for views");
    }
    memset(out, 0, (size_t)group->count * sizeof *out);
    manta_group_call(handle, method, argc, argv, refs);
    for (int i = 0; i < group->count; i++) {
        if (code == MANTA_OK) {
            code = manta_get(refs[i], lib_left_ms(deadline), &out[i], e);
            if (code && out_failed)
                *out_failed = i;
        }
        manta_free(refs[i]);
    }
    for (int i = 0; code && i < group->count; i++)
        manta_release(&out[i]);
    free(refs);
    return code;
}

/* Each actor has at most two items at a time: one that runs, and one that it goes on with. */
manta_status manta_group_map(manta_group *handle, const char *method, const manta_arg *items, size_t count, manta_ref **out,
                             manta_error *e)
{
    enum { DEPTH = 2 };
    const struct own_ref     *ref;
    manta_ref               **under_way;
    size_t                    next = 0;
    manta_status              code;
    const struct manta_group *group = group_of(handle, "manta_group_map", &code, e);
    int                       slots = group ? group->count * DEPTH : 0;
    if (!group || (count && (!items || !out)))
        return group ? lib_error(e, MANTA_EINVAL, "manta_group_map without items, or a place for results") : code;
    under_way = calloc((size_t)slots, sizeof *under_way);
    code = under_way ? MANTA_OK : lib_error(e, MANTA_ENOMEM, "no memory for a map over a group");
    while (code == MANTA_OK && next < count) {
        for (int i = 0; i < slots && next < count; i++) {
            if (under_way[i])
                continue;
            out[next] = manta_actor_call(group->actors[i % group->count], method, 1, &items[next]);
            under_way[i] = out[next++];
        }
        if (next == count)
            break;
        code = manta_wait(under_way, (size_t)slots, 1, MANTA_FOREVER, NULL, e) < 0 ? lib_check(e) : MANTA_OK;
        if (code != MANTA_OK || (code = lib_enter(e)) != MANTA_OK)
            break;
        for (int i = 0; i < slots; i++)
            if (!(ref = lib_ref_in(&lib.own, under_way[i])) || own_ref_is_ready(ref))
                under_way[i] = NULL; /* the caller's from now on */
        lib_unlock();
    }
    for (; code && next < count; next++)
        out[next] = NULL;
    free(under_way);
    return code;
}

manta_status manta_group_end(manta_group *handle, int64_t timeout_ms, manta_error *e)
{
    manta_status              code;
    const struct manta_group *group = group_of(handle, "manta_group_end", &code, e);
    int64_t                   deadline = lib_deadline(timeout_ms);
    manta_ref               **refs = group ? calloc((size_t)group->count, sizeof *refs) : NULL;
    if (!refs)
        return group ? lib_error(e, MANTA_ENOMEM, "no memory for the end of a group") : code;
    for (int i = 0; i < group->count; i++)
        refs[i] = manta_actor_end(group->actors[i]);
    for (int i = 0; i < group->count; i++) {
        manta_view   nothing;
        manta_status one = manta_get(refs[i], lib_left_ms(deadline), &nothing, e);
        if (one == MANTA_OK)
            manta_release(&nothing);
        else if (one != MANTA_EACTOR_DIED)
            code = one; /* a dead one has ended, too */
        manta_free(refs[i]);
    }
    free(refs);
    return code;
}

/* ---- quiet ----
 *
 * Mattern's four counters, with the callers' own lists of what is under way in the place of counted messages. A member that says
 * "nothing open" twice, with the same counters, has sent nothing between its two answers, and has run nothing. All that it sent
 * before had its outcome before the first. So between the last answer of one round and the first of the next, nothing was.
 */

/* Each member's answer. *busy: one that has something open, < 0: none. On failure the member that it is of. */
static manta_status ask_all(const struct manta_group *group, int64_t deadline, manta_ref **refs, struct lib_quiet *out, int *busy,
                            manta_error *e)
{
    manta_status code = MANTA_OK;
    *busy = -1;
    for (int i = 0; i < group->count; i++)
        refs[i] = lib_call_own(group->actors[i], LIB_QUIET, MANTA_WITHOUT_LIMIT);
    for (int i = 0; i < group->count; i++) {
        manta_view view = {.hold = NULL};
        if (code == MANTA_OK) {
            code = manta_get(refs[i], lib_left_ms(deadline), &view, e);
            if (code == MANTA_OK && view.size != sizeof *out)
                code = lib_error(e, MANTA_EPROTO, "member %d gave %zu bytes as its counters", i, view.size);
            if (code == MANTA_OK)
                memcpy(&out[i], view.data, sizeof *out);
            if (code || (out[i].open && *busy < 0))
                *busy = i;
            manta_release(&view);
        }
        manta_free(refs[i]);
    }
    return code;
}

manta_status manta_group_quiet(manta_group *handle, int64_t timeout_ms, manta_error *e)
{
    const struct manta_group *group;
    struct timespec           nap = {0, 50 * 1000};
    manta_status              code;
    int                       busy = -1;
    if (!(group = group_of(handle, "manta_group_quiet", &code, e)))
        return code;
    int64_t           deadline = lib_deadline(timeout_ms);
    size_t            bytes = (size_t)group->count * sizeof(struct lib_quiet);
    struct lib_quiet *now = calloc(2, bytes), *before = now ? now + group->count : NULL;
    manta_ref       **refs = calloc((size_t)group->count, sizeof *refs);
    bool              was_quiet = false, is_over = false;
    if (!now || !refs)
        code = lib_error(e, MANTA_ENOMEM, "no memory for a group");
    while (code == MANTA_OK && !is_over) {
        code = ask_all(group, deadline, refs, now, &busy, e);
        is_over = was_quiet && busy < 0 && memcmp(now, before, bytes) == 0;
        was_quiet = busy < 0;
        if (code || is_over)
            break;
        memcpy(before, now, bytes);
        if (was_quiet)
            continue; /* the second look at once */
        if (deadline != INT64_MAX && (int64_t)lib_now_ns() >= deadline)
            code = MANTA_ETIMEDOUT;
        nanosleep(&nap, NULL);
        nap.tv_nsec += nap.tv_nsec < 1000 * 1000 ? nap.tv_nsec : 0;
    }
    if (code == MANTA_ETIMEDOUT)
        lib_error(e, code, "member %d of the group still works after %lld ms", busy, (long long)timeout_ms);
    free(now);
    free(refs);
    return code;
}

/* ---- watching ---- */

static void member_died(void *user, const manta_death *death)
{
    struct member_watch *w = user;
    w->fn(w->user, w->index, death);
}

manta_status manta_group_watch(manta_group *handle, manta_group_death_fn fn, void *user, manta_error *e)
{
    manta_status        code;
    struct manta_group *group = group_of(handle, "manta_group_watch", &code, e);
    if (!group || !fn)
        return group ? lib_error(e, MANTA_EINVAL, "a watch needs a group and a function") : code;
    if (group->watches)
        return lib_error(e, MANTA_EEXIST, "the group is watched already");
    group->watches = calloc((size_t)group->count, sizeof *group->watches);
    group->told = calloc((size_t)group->count, sizeof *group->told);
    if (!group->watches || !group->told)
        code = lib_error(e, MANTA_ENOMEM, "no memory for a watch");
    for (int i = 0; code == MANTA_OK && i < group->count; i++) {
        group->told[i] = (struct member_watch){fn, user, i};
        code = manta_actor_watch(group->actors[i], member_died, &group->told[i], &group->watches[i], e);
    }
    if (code)
        unwatch(group);
    return code;
}

void manta_group_unwatch(manta_group *handle)
{
    struct manta_group *group = lib_handle_of(handle, LIB_OF_GROUP);
    if (group)
        unwatch(group);
}
