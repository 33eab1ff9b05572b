/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sum.c - the sum over virtual ranks by NCCL's messages and the tree's additions.
 *
 * Owns:   the generation's communicator, and the thread that makes it; buffers for what the other members send. Borrows the group,
 *         join to leave.
 * Always: NCCL is asked when the kernels before are done, and the kernels after when NCCL is: by waiting, since its own streams
 *         know nothing of the table's. Buffers that a call was given are touched again only when it is done or aborted.
 */
#include "sgd/sum/device_sum.h"

#include "core/base/clock.h"
#include "sgd/sum/collective.h"
#include "sgd/coll/gpu/nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 16 };

/* A piece of a member's, where its values in this member's slice stand. */
struct part {
    uint32_t     level, rank;
    const float *at;   /* NULL: it is still to come */
    float       *room; /* the same where it may be written to; NULL: it is this member's own */
};

struct sgd_device_sum {
    const struct k_ops           *ops;
    const struct sgd_nccl_plugin *nccl;
    struct sgd_nccl              *comm;  /* NULL: there is none */
    struct sgd_group             *group; /* of the generation; asked by waits */
    int                           device;
    bool                          is_stuck;
    pthread_t                     maker;
    bool                          has_maker;
    _Atomic bool                  is_made, is_leaving; /* the maker is done; it is to give up */
    mt_status                     made;                /* what came of it; before is_made */
    unsigned char                 id[SGD_NCCL_ID];
    float                        *scratch;
    size_t                        scratch_floats;
    struct part                  *parts, *stack; /* of all members, in the order of virtual ranks */
    struct sgd_nccl_part         *messages;
    uint32_t                      part_count, first, own; /* pieces of all; this member's: from which on, how many */
    bool                          is_even;                /* all are of one size */
    void (*beat)(void *user);
    void *beat_user;
    char  text[SGD_NCCL_TEXT];
};

/* Asked by NCCL's waits. The maker's thread asks beside the group's own, which may be in any call: of an end it looks only
 * whether it is there. */
static mt_status look(void *of)
{
    struct sgd_device_sum *s = of;
    if (!s->group)
        return mt_ok();
    if (atomic_load(&s->is_made))
        return coll_shm_look(&s->group->shm);
    struct coll_abort why = coll_shm_why(s->group->shm.shared);
    if (atomic_load(&s->is_leaving))
        return mt_error(MT_ECANCELLED, 0, "the generation is left");
    return why.generation >= s->group->generation ? mt_error(why.reason, 0, "the generation is over") : mt_ok();
}

/* The maker gives no signs of life: those of the steps beside it are what counts. */
static void beat(void *of)
{
    const struct sgd_device_sum *s = of;
    if (s->beat && atomic_load(&s->is_made))
        s->beat(s->beat_user);
}

static struct sgd_nccl_config config_of(struct sgd_device_sum *s, uint32_t rank, uint32_t size, uint32_t wait_ms)
{
    return (struct sgd_nccl_config){.rank = (int)rank,
                                    .size = (int)size,
                                    .device = s->device,
                                    .wait_ms = wait_ms,
                                    .look = look,
                                    .beat = beat,
                                    .user = s,
                                    .text = s->text};
}

/* Waits for the maker, which ends when the generation does, and when it is left. */
static void maker_end(struct sgd_device_sum *s)
{
    for (; s->has_maker && !atomic_load(&s->is_made); mt_sleep_ms(1)) {
        mt_status st = s->group ? coll_shm_look(&s->group->shm) : mt_ok(); /* tells it, of a death that nobody else tells */
        (void)st;
        if (s->beat)
            s->beat(s->beat_user);
    }
    if (s->has_maker)
        pthread_join(s->maker, NULL);
    s->has_maker = false;
}

static void communicator_leave(struct sgd_device_sum *s)
{
    atomic_store(&s->is_leaving, true);
    maker_end(s);
    atomic_store(&s->is_made, true);
    if (s->comm && !s->nccl->leave(s->comm))
        s->is_stuck = true;
    s->comm = NULL;
}

/* ---- one worker ---- */

/* A communicator of one: NCCL reads its settings, looks at the machine's network and devices, and loads its kernels. */
static mt_status warm(struct sgd_device_sum *s)
{
    struct sgd_nccl_config config = config_of(s, 0, 1, MT_NCCL_WARM_MS);
    unsigned char          id[SGD_NCCL_ID];
    mt_status              st = s->nccl->id(id, s->text);
    if (st.code == 0)
        st = s->nccl->join(&config, id, NULL, &s->comm);
    communicator_leave(s);
    return s->is_stuck && st.code == 0 ? mt_error(MT_EDEVICE, 0, "the end of a communicator hangs") : st;
}

mt_status sgd_device_sum_new(const struct k_ops *ops, int device, struct sgd_device_sum **out, char text[256])
{
    struct sgd_device_sum *s = calloc(1, sizeof *s);
    static_assert(SGD_NCCL_TEXT == 256, "the caller's text");
    if (!s)
        return mt_error(MT_ENOMEM, 0, "sums between devices");
    s->ops = ops;
    s->device = device;
    mt_status st = sgd_nccl_open(&s->nccl, s->text);
    if (st.code == 0)
        st = warm(s);
    if (st.code == 0) {
        *out = s;
        return mt_ok();
    }
    snprintf(text, SGD_NCCL_TEXT, "%s", s->text[0] ? s->text : st.what);
    sgd_device_sum_free(s);
    return st.code == MT_ENOMEM ? st : mt_error(MT_EUNSUPPORTED, st.sys, "sums between devices");
}

void sgd_device_sum_beats(struct sgd_device_sum *s, void (*beat_of)(void *user), void *user)
{
    s->beat = beat_of;
    s->beat_user = user;
}

void sgd_device_sum_leave(struct sgd_device_sum *s)
{
    if (!s)
        return;
    communicator_leave(s);
    s->group = NULL;
}

bool sgd_device_sum_is_stuck(const struct sgd_device_sum *s)
{
    return s && s->is_stuck;
}

const char *sgd_device_sum_text(const struct sgd_device_sum *s)
{
    return s ? s->text : "";
}

void sgd_device_sum_free(struct sgd_device_sum *s)
{
    if (!s)
        return;
    sgd_device_sum_leave(s);
    if (s->scratch && !s->is_stuck)
        s->ops->release(s->scratch);
    free(s->parts);
    free(s->stack);
    free(s->messages);
    free(s);
}

/* ---- a generation ---- */

/* What NCCL gave ends the generation, unless that has ended before: then its reason is told. NCCL may feel a death before the
 * news of it comes. */
static mt_status failed(struct sgd_device_sum *s, mt_status st)
{
    struct coll_shm *shm = &s->group->shm;
    mt_status        over = coll_shm_look(shm);
    communicator_leave(s);
    for (int64_t until = mt_now_ms() + MT_NCCL_NEWS_MS; over.code == 0 && st.code == MT_EDEVICE && mt_now_ms() < until;) {
        mt_sleep_ms(1);
        over = coll_shm_look(shm);
    }
    if (over.code != 0)
        return over;
    sgd_group_abort(shm->shared, s->group->generation, (enum mt_code)st.code, s->group->rank);
    return mt_error(st.code, 0, st.what); /* NCCL's number is no errno, and `text` has said it */
}

static void pieces_find(struct sgd_device_sum *s, const struct sgd_group *group)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    s->part_count = 0;
    s->is_even = true;
    for (uint32_t r = 0; r < group->members; r++) {
        uint32_t first = sgd_share_first(group->plan.vranks, group->members, r);
        uint32_t last = sgd_share_first(group->plan.vranks, group->members, r + 1);
        uint32_t count = sgd_pieces_of(first, last, pieces);
        if (r == group->rank)
            s->first = s->part_count, s->own = count;
        for (uint32_t i = 0; i < count; i++) {
            s->parts[s->part_count++] = (struct part){.level = pieces[i].level, .rank = r};
            s->is_even = s->is_even && pieces[i].level == s->parts[0].level;
        }
    }
}

/* Room for what a sum of this group needs: a piece has one virtual rank at least, and each member sends its own to all. */
static mt_status rooms_make(struct sgd_device_sum *s, const struct sgd_group *group)
{
    size_t parts = group->plan.vranks, messages = parts + (size_t)group->members * (SGD_PIECES_MAX + 2);
    free(s->parts), free(s->stack), free(s->messages);
    s->parts = calloc(parts, sizeof *s->parts);
    s->stack = calloc(parts, sizeof *s->stack);
    s->messages = calloc(messages, sizeof *s->messages);
    if (!s->parts || !s->stack || !s->messages)
        return mt_error(MT_ENOMEM, 0, "sums between devices");
    pieces_find(s, group);
    return mt_ok();
}

/* What rank 0 tells. */
struct invitation {
    int32_t       code;
    unsigned char id[SGD_NCCL_ID];
};

static void *maker_run(void *of)
{
    struct sgd_device_sum *s = of;
    struct sgd_nccl_config config = config_of(s, s->group->rank, s->group->members, s->group->shm.wait_limit_ms);
    s->made = s->nccl->join(&config, s->id, NULL, &s->comm);
    atomic_store(&s->is_made, true);
    return NULL;
}

/* From the vote to the making: rank 0's id goes to all. */
static mt_status communicator_begin(struct sgd_device_sum *s, struct sgd_group *group)
{
    struct invitation invitation = {0};
    if (group->rank == 0)
        invitation.code = s->nccl->id(invitation.id, s->text).code;
    MT_TRY(sgd_group_broadcast(group, 0, &invitation, sizeof invitation));
    if (invitation.code != 0)
        return mt_error(MT_EUNSUPPORTED, 0, "sums between devices: the first member can't make an id of NCCL");
    memcpy(s->id, invitation.id, sizeof s->id);
    if (pthread_create(&s->maker, NULL, maker_run, s) != 0)
        return failed(s, mt_error(MT_ENOMEM, 0, "sums between devices: a thread"));
    s->has_maker = true;
    return mt_ok();
}

/* To the others it is as good as dead. */
static mt_status stuck(struct sgd_group *group)
{
    coll_shm_died(group->shm.shared, group->generation, group->shm.rank);
    return mt_error(MT_EDEVICE, 0, "sums between devices: the end of a communicator hangs, so this process has to end");
}

/* A vote: 0, or which GPU it is. */
static mt_status gpu_of(struct sgd_device_sum *s, uint64_t *out_vote)
{
    mt_status st = s->nccl->identify(s->device, out_vote, s->text);
    *out_vote = st.code == 0 ? *out_vote | 1 : 0;
    return rooms_make(s, s->group);
}

static mt_status votes_check(const uint64_t *votes, uint32_t members)
{
    for (uint32_t r = 0; r < members; r++) {
        if (!votes[r])
            return mt_error(MT_EUNSUPPORTED, 0, "sums between devices: a member has no NCCL");
        for (uint32_t other = 0; other < r; other++)
            if (votes[other] == votes[r])
                return mt_error(MT_EUNSUPPORTED, 0, "sums between devices: two members share a GPU");
    }
    return mt_ok();
}

static mt_status agree(struct sgd_device_sum *s, struct sgd_group *group)
{
    uint64_t  vote = 0, votes[MT_GROUP_MEMBERS_MAX];
    mt_status st = s ? gpu_of(s, &vote) : mt_ok();
    MT_TRY(sgd_group_exchange(group, st.code == 0 ? vote : 0, votes));
    MT_TRY(st);
    return votes_check(votes, group->members);
}

mt_status sgd_device_sum_begin(struct sgd_device_sum *s, struct sgd_group *group)
{
    sgd_device_sum_leave(s);
    if (group->is_wide)
        return mt_error(MT_EUNSUPPORTED, 0, "sums between devices: not over several nodes");
    if (sgd_device_sum_is_stuck(s))
        return stuck(group);
    if (s) {
        s->group = group;
        s->text[0] = 0;
    }
    mt_status st = agree(s, group);
    if (st.code == 0) {
        s->made = mt_ok();
        atomic_store(&s->is_leaving, false);
        atomic_store(&s->is_made, group->members == 1);
        st = group->members == 1 ? st : communicator_begin(s, group);
    }
    if (st.code != 0)
        sgd_device_sum_leave(s);
    return st;
}

enum { COMING, MADE, FAILED };

/* This member's part of the answer. */
static mt_status maker_ask(struct sgd_device_sum *s, uint64_t *out_vote)
{
    *out_vote = COMING;
    if (!atomic_load(&s->is_made))
        return mt_ok();
    maker_end(s);
    *out_vote = s->made.code == 0 ? MADE : FAILED;
    if (*out_vote == FAILED)
        communicator_leave(s);
    return s->is_stuck ? stuck(s->group) : mt_ok();
}

/* Where NCCL refuses one, the others give it up as well: the host's way is open to all, and nobody's step is lost. */
mt_status sgd_device_sum_ready(struct sgd_device_sum *s, struct sgd_group *group, bool *out_is_ready)
{
    uint64_t vote, votes[MT_GROUP_MEMBERS_MAX];
    bool     all = true;
    MT_TRY(maker_ask(s, &vote));
    MT_TRY(sgd_group_exchange(group, vote, votes));
    for (uint32_t r = 0; r < group->members; r++) {
        all = all && votes[r] == MADE;
        if (votes[r] != FAILED)
            continue;
        sgd_device_sum_leave(s);
        return s->is_stuck ? stuck(group) : mt_error(MT_EUNSUPPORTED, 0, "sums between devices: NCCL fails in a member");
    }
    *out_is_ready = all;
    return mt_ok();
}

mt_status sgd_device_sum_join(struct sgd_device_sum *s, struct sgd_group *group)
{
    bool is_ready = false;
    MT_TRY(sgd_device_sum_begin(s, group));
    while (!is_ready) {
        MT_TRY(sgd_device_sum_ready(s, group, &is_ready));
        if (!is_ready)
            mt_sleep_ms(1);
    }
    return mt_ok();
}

/* ---- a sum ---- */

/* The part of the vectors that a member joins: with two, each joins all. */
struct slice {
    size_t begin, floats;
};

static struct slice slice_of(const struct sgd_group *group, size_t floats, uint32_t rank)
{
    size_t lines = (floats + LINE - 1) / LINE, begin, end;
    if (group->members <= 2)
        return (struct slice){0, floats};
    begin = lines * rank / group->members * LINE;
    end = lines * (rank + 1) / group->members * LINE;
    begin = begin < floats ? begin : floats;
    end = end < floats ? end : floats;
    return (struct slice){begin, end - begin};
}

static mt_status scratch_grow(struct sgd_device_sum *s, size_t floats)
{
    if (floats <= s->scratch_floats)
        return mt_ok();
    if (s->scratch)
        s->ops->release(s->scratch);
    s->scratch = NULL;
    s->scratch_floats = 0;
    MT_TRY(s->ops->alloc(floats * sizeof(float), (void **)&s->scratch));
    s->scratch_floats = floats;
    return mt_ok();
}

static bool is_own(const struct sgd_device_sum *s, uint32_t index)
{
    return index - s->first < s->own;
}

/* Where all pieces of this member's slice stand, or will; own ones get room only where joining wants to write to them. */
static mt_status parts_place(struct sgd_device_sum *s, const float *const *pieces, struct slice slice)
{
    size_t   stride = (slice.floats + LINE - 1) / LINE * LINE;
    uint32_t rooms = s->is_even ? s->part_count - s->own : s->part_count;
    MT_TRY(scratch_grow(s, rooms * stride));
    float *room = s->scratch;
    for (uint32_t i = 0; i < s->part_count; i++) {
        struct part *p = &s->parts[i];
        bool         has_room = !is_own(s, i) || !s->is_even;
        p->room = has_room ? room : NULL;
        p->at = is_own(s, i) ? pieces[i - s->first] + slice.begin : p->room;
        room += has_room ? stride : 0;
    }
    return mt_ok();
}

static uint32_t message_add(struct sgd_device_sum *s, uint32_t count, uint32_t peer, bool is_sent, const float *data, size_t floats)
{
    if (floats)
        s->messages[count++] = (struct sgd_nccl_part){
            .peer = (int)peer, .is_sent = is_sent, .data = (void *)(uintptr_t)data, .floats = floats};
    return count;
}

static mt_status messages_run(struct sgd_device_sum *s, uint32_t count)
{
    mt_status st = s->nccl->exchange(s->comm, s->messages, count, NULL);
    return st.code == 0 ? s->nccl->wait(s->comm, NULL) : st;
}

/* To each other member its slice of this one's pieces, from each this one's slice of its. */
static mt_status pieces_exchange(struct sgd_device_sum *s, const float *const *pieces, size_t floats)
{
    const struct sgd_group *group = s->group;
    uint32_t                count = 0;
    for (uint32_t i = 0; i < s->part_count; i++)
        if (!is_own(s, i))
            count = message_add(s, count, s->parts[i].rank, false, s->parts[i].at, slice_of(group, floats, group->rank).floats);
    for (uint32_t r = 0; r < group->members; r++)
        for (uint32_t i = 0; i < s->own && r != group->rank; i++) {
            struct slice its = slice_of(group, floats, r);
            count = message_add(s, count, r, true, pieces[i] + its.begin, its.floats);
        }
    return messages_run(s, count);
}

/* To each other member this one's slice of the sum, from each its. */
static mt_status slices_exchange(struct sgd_device_sum *s, size_t floats, float *out)
{
    const struct sgd_group *group = s->group;
    struct slice            mine = slice_of(group, floats, group->rank);
    uint32_t                count = 0;
    for (uint32_t r = 0; r < group->members; r++) {
        struct slice its = slice_of(group, floats, r);
        if (r == group->rank)
            continue;
        count = message_add(s, count, r, true, out + mine.begin, mine.floats);
        count = message_add(s, count, r, false, out + its.begin, its.floats);
    }
    return messages_run(s, count);
}

/* right += left: the bits of left + right. */
static mt_status pair_join(const struct sgd_device_sum *s, uint32_t depth, size_t floats)
{
    struct part *left = &s->stack[depth - 2], *right = &s->stack[depth - 1];
    MT_TRY(s->ops->axpy(NULL, 1.0f, left->at, right->room, floats));
    right->level++;
    *left = *right;
    return mt_ok();
}

/* Pieces of one size are what a tree's sum of so many inputs joins. Of several sizes: two of one are one of the next, and what is
 * left at the end joins from the right, as in wide.c; this member's own are copied first, for they are the caller's. */
static mt_status parts_join(struct sgd_device_sum *s, size_t floats, float *out)
{
    uint32_t depth = 0;
    if (s->is_even) {
        const float *in[MT_VRANKS_MAX];
        for (uint32_t i = 0; i < s->part_count; i++)
            in[i] = s->parts[i].at;
        return s->ops->tree_sum(NULL, in, s->part_count, floats, out);
    }
    for (uint32_t i = 0; i < s->part_count; i++) {
        struct part *p = &s->stack[depth++];
        *p = s->parts[i];
        if (p->at != p->room)
            MT_TRY(s->ops->copy(NULL, p->room, p->at, floats * sizeof *out));
        p->at = p->room;
        for (; depth > 1 && s->stack[depth - 2].level == s->stack[depth - 1].level; depth--)
            MT_TRY(pair_join(s, depth, floats));
    }
    for (; depth > 1; depth--)
        MT_TRY(pair_join(s, depth, floats));
    return s->ops->copy(NULL, out, s->stack[0].at, floats * sizeof *out);
}

/* The kernels' side of a sum: an error of it is this member's own, and the others must not wait for it. */
static mt_status own(struct sgd_device_sum *s, mt_status st)
{
    return st.code == 0 ? st : failed(s, st);
}

static mt_status sum_between(struct sgd_device_sum *s, const float *const *pieces, size_t floats, float *out)
{
    struct slice mine = slice_of(s->group, floats, s->group->rank);
    if (!s->comm)
        return mt_error(MT_ECANCELLED, 0, "sum between devices: the communicator was aborted");
    MT_TRY(s->ops->wait(NULL)); /* the pieces are made, and no kernel reads what is received into */
    MT_TRY(pieces_exchange(s, pieces, floats));
    MT_TRY(parts_join(s, mine.floats, out + mine.begin));
    if (s->group->members <= 2)
        return mt_ok();
    MT_TRY(s->ops->wait(NULL));
    return slices_exchange(s, floats, out);
}

mt_status sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces, uint32_t count,
                             size_t floats, float *out)
{
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .type = COLL_F32, .count = floats, .shape = 1};
    struct slice     mine = slice_of(group, floats, group->rank);
    MT_ASSERT(s->group == group && count == s->own && !s->has_maker);
    MT_TRY(coll_shm_arrive(&group->shm, &call));
    MT_TRY(own(s, parts_place(s, pieces, mine)));
    if (group->members == 1)
        return own(s, parts_join(s, floats, out));
    MT_TRY(own(s, sum_between(s, pieces, floats, out)));
    /* Who has its part may leave, and end its side of NCCL: only when the others have theirs too. */
    return sgd_group_meet(group);
}
