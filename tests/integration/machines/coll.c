/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.c - coll NODE MEMBERS: a group over TCP with members on this node and on another machine's. Sums, an agreement, a death,
 * a shrink, a growth by a new member; prints what each member found.
 */
#include <manta.h>
#include <manta_collective.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 60000, FLOATS = 300000 };

static manta_status member_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    manta_coll_id id;
    manta_error   e;
    (void)argc;
    memcpy(&id, argv[0].y.data, sizeof id);
    *self = manta_coll_join(&id, (int)argv[1].l, &e);
    return *self ? MANTA_OK : manta_fail(c, e.code, "%s", e.message);
}

static void member_free(void *self)
{
    manta_coll_leave(self);
}

/* "CODE RANK/size SUM": each gives its rank + 1 times the place. */
static manta_status member_sum(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e = {0};
    float      *data = malloc(FLOATS * sizeof *data);
    char        text[1024];
    (void)argc, (void)argv;
    for (int i = 0; i < FLOATS; i++)
        data[i] = (float)(manta_coll_rank(self) + 1) * (float)(i % 100);
    manta_status code = manta_coll_all_reduce(self, data, data, FLOATS, MANTA_COLL_F32, MANTA_COLL_SUM, &e);
    bool         is_even = true;
    for (int i = 0; i < FLOATS; i++)
        is_even = is_even && data[i] == data[1] * (float)(i % 100);
    snprintf(text, sizeof text, "%d %d/%d %g%s%s", code, manta_coll_rank(self), manta_coll_size(self), code ? 0.0 : (double)data[1],
             code || is_even ? "" : " uneven", code ? e.message : "");
    free(data);
    return manta_return_bytes(c, text, strlen(text) + 1);
}

static manta_status member_shrink(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e = {0};
    char        text[1024];
    (void)argc, (void)argv;
    manta_status code = manta_coll_shrink(self, &e);
    snprintf(text, sizeof text, "%d %d/%d %s", code, manta_coll_rank(self), manta_coll_size(self), code ? e.message : "");
    return manta_return_bytes(c, text, strlen(text) + 1);
}

/* Joins what the creator made of it. */
static manta_status member_regroup(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error   e = {0};
    manta_coll_id id;
    (void)argc;
    memcpy(&id, argv[0].y.data, sizeof id);
    manta_status code = manta_coll_regroup(self, &id, (int)argv[1].l, &e);
    return code ? manta_fail(c, code, "%s", e.message) : manta_return_i64(c, 0);
}

static manta_status member_die(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    _exit(1);
}
MANTA_ACTOR(member, "yl", member_new, member_free, {"sum", ">y", member_sum}, {"shrink", ">y", member_shrink},
            {"regroup", "yl>l", member_regroup}, {"die", ">y", member_die});

static void must(bool is_good, const manta_error *e, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s: %s\n", what, e->message);
    exit(1);
}

static manta_actor *hire(const manta_coll_id *id, int rank, uint32_t node)
{
    return manta_actor_new("member", &(manta_actor_opts){.node = node},
                           MANTA_ARGS(manta_bytes_of(id, sizeof *id), manta_i64(rank)));
}

/* What all of them say, line by line. */
static void say(manta_actor **members, int count, const char *method)
{
    manta_ref  *refs[MANTA_COLL_MEMBERS_MAX];
    manta_error e;
    for (int r = 0; r < count; r++)
        refs[r] = manta_actor_call(members[r], method, MANTA_NO_ARGS);
    for (int r = 0; r < count; r++) {
        manta_view view;
        must(manta_get(refs[r], WAIT_MS, &view, &e) == MANTA_OK, &e, method);
        printf("%s %s\n", method, (const char *)view.data);
        manta_release(&view);
        manta_free(refs[r]);
    }
}

int main(int argc, char **argv)
{
    manta_error   e;
    manta_coll_id id;
    manta_actor  *members[MANTA_COLL_MEMBERS_MAX];
    must(manta_init(&argc, &argv, NULL, &e) == MANTA_OK, &e, "init");
    int size = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (size < 2 || size > MANTA_COLL_MEMBERS_MAX)
        return 2;
    uint32_t          there = (uint32_t)strtoul(argv[1], NULL, 10);
    manta_coll_group *group = manta_coll_group_new(
        &(manta_coll_opts){.size = size, .transport = MANTA_COLL_TCP, .timeout_ms = WAIT_MS / 2}, &e);
    must(group, &e, "group");
    manta_coll_group_id(group, &id);
    for (int r = 0; r < size; r++)
        members[r] = hire(&id, r, r % 2 ? there : manta_node());
    say(members, size, "sum");
    manta_free(manta_actor_call(members[size - 1], "die", MANTA_NO_ARGS)); /* one of the other machine */
    say(members, size - 1, "sum");
    say(members, size - 1, "shrink");
    say(members, size - 1, "sum");
    must(manta_coll_group_next(group, size, &id, &e) == MANTA_OK, &e, "next");
    manta_ref *moved[MANTA_COLL_MEMBERS_MAX];
    for (int r = 0; r < size - 1; r++)
        moved[r] = manta_actor_call(members[r], "regroup", MANTA_ARGS(manta_bytes_of(&id, sizeof id), manta_i64(r)));
    manta_actor_free(members[size - 1]);
    members[size - 1] = hire(&id, size - 1, there);
    for (int r = 0; r < size - 1; r++) {
        int64_t value;
        must(manta_get_i64(moved[r], WAIT_MS, &value, &e) == MANTA_OK, &e, "regroup");
        manta_free(moved[r]);
    }
    say(members, size, "sum");
    for (int r = 0; r < size; r++)
        manta_actor_free(members[r]);
    manta_coll_group_free(group);
    return manta_shutdown();
}
