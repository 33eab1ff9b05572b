/* SPDX-License-Identifier: Apache-2.0
 *
 * zero.c - updates by shards, and shards for the members of a new generation.
 *
 * Owns:    the optimizer's vectors of a trainer whose state is sharded. Thread: the trainer's; parts of an update in the devices'.
 * Always:  zero.now is that of state->step, also where zero.is_partial says that the parameters are not all.
 */
#include "sgd/train/zero.h"

#include "sgd/train/compute.h"
#include "sgd/train/step.h"

#include <stdlib.h>
#include <string.h>

static size_t floats_of(const struct sgd_trainer *trainer)
{
    return trainer->config.model->params.floats;
}

static uint32_t moments_of(const struct sgd_trainer *trainer)
{
    return sgd_optimizer_moments(&trainer->config.optimizer);
}

/* ---- memory ---- */

static void shards_free(struct sgd_shards *shards)
{
    for (int i = 0; i < 2; i++)
        for (int m = 0; m < SGD_MOMENTS_MAX; m++)
            free(shards->moments[i][m]);
    *shards = (struct sgd_shards){.is_whole = false};
}

/* Fresh pages of calloc read as 0 and take no memory until they are written. */
static mt_status shards_make(const struct sgd_trainer *trainer, uint32_t generation, uint32_t rank, uint32_t members,
                             struct sgd_shards *out)
{
    uint32_t mirrored = sgd_shard_mirrored(rank, members);
    *out = (struct sgd_shards){.generation = generation, .rank = rank, .members = members};
    out->of[0] = sgd_shard_of(floats_of(trainer), rank, members);
    if (trainer->config.zero_backup && mirrored != rank)
        out->of[1] = sgd_shard_of(floats_of(trainer), mirrored, members);
    for (int i = 0; i < 2; i++)
        for (uint32_t m = 0; m < moments_of(trainer) && out->of[i].end > out->of[i].begin; m++)
            if (!(out->moments[i][m] = calloc(out->of[i].end - out->of[i].begin, sizeof(float)))) {
                shards_free(out);
                return mt_error(MT_ENOMEM, 0, "optimizer: no memory for a shard");
            }
    return mt_ok();
}

/* One member's shard is everything: then the rest of the trainer finds it as if nothing were sharded. */
static void moments_point(struct sgd_trainer *trainer)
{
    for (int m = 0; m < SGD_MOMENTS_MAX; m++)
        trainer->moments[m] = trainer->zero.now.members == 1 ? trainer->zero.now.moments[0][m] : NULL;
}

mt_status sgd_zero_begin(struct sgd_trainer *trainer)
{
    sgd_zero_free(trainer);
    MT_TRY(shards_make(trainer, 0, 0, 1, &trainer->zero.now));
    trainer->zero.now.is_whole = true;
    moments_point(trainer);
    return mt_ok();
}

void sgd_zero_free(struct sgd_trainer *trainer)
{
    shards_free(&trainer->zero.now);
    shards_free(&trainer->zero.next);
    trainer->zero.is_partial = false;
    moments_point(trainer);
}

mt_status sgd_zero_copy(struct sgd_trainer *to, const struct sgd_trainer *from)
{
    const struct sgd_shards *s = &from->zero.now;
    struct sgd_shards       *copy = &to->zero.now;
    if (!copy->is_whole || copy->rank != s->rank || copy->members != s->members) {
        shards_free(copy);
        MT_TRY(shards_make(to, s->generation, s->rank, s->members, copy));
        copy->is_whole = true;
        moments_point(to);
    }
    for (uint32_t m = 0; m < moments_of(from); m++)
        if (s->moments[0][m])
            memcpy(copy->moments[0][m], s->moments[0][m], (s->of[0].end - s->of[0].begin) * sizeof(float));
    return mt_ok();
}

size_t sgd_zero_bytes(const struct sgd_trainer *trainer)
{
    size_t floats = floats_of(trainer);
    if (trainer->config.zero) {
        const struct sgd_shards *s = &trainer->zero.now;
        floats = s->of[0].end - s->of[0].begin + s->of[1].end - s->of[1].begin;
    }
    return moments_of(trainer) * floats * sizeof(float);
}

/* ---- the update ---- */

struct shard_work {
    const struct sgd_shards *shards;
    int                      which;
    const float             *sum;
    float                    part;
};

/* `range` of the shard's floats, the first of which is 0. */
static mt_status part_update(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    const struct shard_work *w = user;
    float                    cut[SGD_SHARD_BLOCK], rate = sgd_step_rate(trainer);
    size_t first = w->shards->of[w->which].begin, step = w->part == 1.0f ? range.end - range.begin : SGD_SHARD_BLOCK;

    for (size_t at = range.begin; at < range.end; at += step) {
        size_t       count = range.end - at < step ? range.end - at : step;
        const float *gradient = w->sum + first + at;
        float       *moments[SGD_MOMENTS_MAX] = {NULL};
        for (size_t i = 0; w->part != 1.0f && i < count; i++)
            cut[i] = gradient[i] * w->part;
        for (uint32_t m = 0; m < moments_of(trainer); m++)
            moments[m] = w->shards->moments[w->which][m] + at;
        MT_TRY(sgd_optimizer_update(&trainer->config.optimizer, trainer->config.ops, rate, trainer->state->step,
                                    w->part == 1.0f ? gradient : cut, count, trainer->params + first + at, moments));
    }
    return mt_ok();
}

static mt_status shards_update(struct sgd_trainer *trainer, const float *sum, float part)
{
    for (int which = 0; which < 2; which++) {
        struct sgd_range  range = trainer->zero.now.of[which];
        struct shard_work work = {&trainer->zero.now, which, sum, part};
        MT_TRY(sgd_parts_run(trainer, range.end - range.begin, part_update, &work));
    }
    return mt_ok();
}

static mt_status part_squares(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    struct sgd_group *group = user;
    size_t            first = trainer->zero.now.of[0].begin;
    return sgd_step_squares(trainer, group->sum, (struct sgd_range){first + range.begin, first + range.end}, group->squares);
}

static mt_status part_give(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    struct sgd_group *group = user;
    size_t            at = trainer->zero.now.of[0].begin + range.begin;
    memcpy(group->fresh + at, trainer->params + at, (range.end - range.begin) * sizeof(float));
    return mt_ok();
}

/* What others have made of `range`: not the own shard. */
static mt_status part_take(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    const struct sgd_group *group = user;
    struct sgd_range        own = trainer->zero.now.of[0];
    size_t before = range.end < own.begin ? range.end : own.begin, behind = range.begin > own.end ? range.begin : own.end;
    if (range.begin < before)
        memcpy(trainer->params + range.begin, group->fresh + range.begin, (before - range.begin) * sizeof(float));
    if (behind < range.end)
        memcpy(trainer->params + behind, group->fresh + behind, (range.end - behind) * sizeof(float));
    return mt_ok();
}

/* The new parameters of all shards, to all. */
static mt_status params_spread(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_range own = trainer->zero.now.of[0];
    MT_TRY(sgd_parts_run(trainer, own.end - own.begin, part_give, group));
    MT_TRY(sgd_group_share_fresh(group));
    MT_TRY(sgd_parts_run(trainer, floats_of(trainer), part_take, group));
    trainer->zero.is_partial = false;
    return mt_ok();
}

mt_status sgd_zero_apply(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result)
{
    const float      *after = group->sum + floats_of(trainer);
    struct sgd_result result = sgd_step_result(trainer, after);
    float             part;

    MT_ASSERT(trainer->zero.now.is_whole && trainer->zero.now.members == group->members && !trainer->zero.is_partial);
    MT_TRY(sgd_parts_run(trainer, trainer->zero.now.of[0].end - trainer->zero.now.of[0].begin, part_squares, group));
    MT_TRY(sgd_group_share_squares(group));
    double norm = sgd_step_norm(trainer, group->squares);
    MT_TRY(sgd_step_guard(trainer, &result, norm, &part));
    MT_TRY(shards_update(trainer, group->sum, part));
    trainer->zero.is_partial = true;
    trainer->state->norm = norm;
    sgd_step_count(trainer, &result, after + trainer->metrics);
    *out_result = result;
    return params_spread(trainer, group);
}

/* ---- shards for a new generation ---- */

/* What the furthest member tells the others. */
struct head {
    struct sgd_state state;      /* without floats */
    uint64_t         generation; /* in which the furthest's shards were cut */
};

/* Where the shards of an earlier generation are now. */
struct layout {
    uint32_t generation, members;
    uint32_t holder[MT_GROUP_MEMBERS_MAX]; /* of each shard: a rank of this generation */
    bool     has_params;                   /* everybody has all parameters */
};

/* Who is a step behind the furthest has the sum of that step before it still, and makes it now. Else its shards are stale. */
static mt_status catch_up(struct sgd_trainer *trainer, const struct sgd_group *group, const struct head *head)
{
    struct sgd_shards *now = &trainer->zero.now;
    if (!trainer->has_state)
        return mt_ok();
    if (trainer->state->step + 1 == head->state.step && now->is_whole && now->generation == head->generation) {
        MT_TRY(shards_update(trainer, group->sum, sgd_step_part(trainer, head->state.norm)));
        trainer->zero.is_partial = true;
    } else if (trainer->state->step != head->state.step) {
        sgd_zero_free(trainer);
        trainer->has_state = false;
        return mt_ok();
    }
    memcpy(trainer->state, &head->state, sizeof head->state);
    return mt_ok();
}

#define CODE_WHOLE   (1ull << 63)
#define CODE_PARTIAL (1ull << 62)

static uint64_t code_of(const struct sgd_trainer *trainer, const struct sgd_shards *s)
{
    uint64_t code = CODE_WHOLE | (uint64_t)s->generation << 24 | (uint64_t)s->rank << 12 | s->members;
    return !s->is_whole ? 0 : trainer->zero.is_partial ? code | CODE_PARTIAL : code;
}

static uint32_t code_generation(uint64_t code)
{
    return (uint32_t)(code >> 24);
}
static uint32_t code_rank(uint64_t code)
{
    return (uint32_t)(code >> 12 & 0xfff);
}
static uint32_t code_members(uint64_t code)
{
    return (uint32_t)(code & 0xfff);
}

/* The codes of all members: of what they keep, and of what they were getting when the last generation ended. */
struct codes {
    uint64_t of[2][MT_GROUP_MEMBERS_MAX];
};

/* Whether all shards of a generation's cut are here, and who has them. */
static bool layout_take(const struct sgd_trainer *trainer, const struct sgd_group *group, const struct codes *codes, uint64_t like,
                        struct layout *out)
{
    uint32_t members = code_members(like);
    *out = (struct layout){.generation = code_generation(like), .members = members};
    for (uint32_t s = 0; s < members; s++)
        out->holder[s] = UINT32_MAX;
    for (int pass = 0; pass < 2; pass++) /* owners first */
        for (uint32_t i = 0; i < 2 * group->members && members && members <= MT_GROUP_MEMBERS_MAX; i++) {
            uint64_t code = codes->of[i % 2][i / 2];
            if (!(code & CODE_WHOLE) || code_generation(code) != out->generation || code_members(code) != members)
                continue;
            uint32_t s = pass ? sgd_shard_mirrored(code_rank(code) % members, members) : code_rank(code) % members;
            if (out->holder[s] == UINT32_MAX && (!pass || trainer->config.zero_backup))
                out->holder[s] = i / 2;
        }
    for (uint32_t s = 0; s < members; s++)
        if (out->holder[s] == UINT32_MAX)
            return false;
    return members > 0;
}

/* The newest cut of which everything is here. */
static bool layout_find(const struct sgd_trainer *trainer, const struct sgd_group *group, const struct codes *codes,
                        struct layout *out)
{
    bool          is_found = false;
    struct layout layout;
    for (uint32_t i = 0; i < 2 * group->members; i++) {
        uint64_t code = codes->of[i % 2][i / 2];
        if (!(code & CODE_WHOLE) || (is_found && code_generation(code) <= out->generation))
            continue;
        if (layout_take(trainer, group, codes, code, &layout)) {
            *out = layout;
            is_found = true;
        }
    }
    return is_found;
}

/* Everybody has already what it would get. */
static bool is_settled(const struct sgd_group *group, const struct codes *codes, const struct layout *layout)
{
    for (uint32_t r = 0; r < group->members; r++) {
        uint64_t code = codes->of[0][r];
        if (!(code & CODE_WHOLE) || code & CODE_PARTIAL || code_generation(code) != layout->generation || code_rank(code) != r ||
            code_members(code) != group->members)
            return false;
    }
    return true;
}

/* Of what this member has, only the chosen cut counts from here on: it is `now`. */
static void cut_choose(struct sgd_trainer *trainer, uint32_t generation, uint32_t members)
{
    struct sgd_zero *zero = &trainer->zero;
    if (zero->next.is_whole && zero->next.generation == generation && zero->next.members == members) {
        shards_free(&zero->now);
        zero->now = zero->next;
        zero->next = (struct sgd_shards){.is_whole = false};
    }
    shards_free(&zero->next);
    if (zero->now.is_whole && (zero->now.generation != generation || zero->now.members != members)) {
        shards_free(&zero->now);
        trainer->has_state = false;
    }
    moments_point(trainer);
}

/* 0 or 1: which of this member's shards it is; -1: none. */
static int which_of(const struct sgd_shards *now, uint32_t shard)
{
    if (!now->is_whole)
        return -1;
    if (now->rank == shard)
        return 0;
    return now->of[1].end > now->of[1].begin && sgd_shard_mirrored(now->rank, now->members) == shard ? 1 : -1;
}

/* What of `from`, which stands for `range`, belongs to the new shards. */
static void part_keep(struct sgd_shards *to, uint32_t moment, struct sgd_range range, const float *from)
{
    for (int i = 0; i < 2; i++) {
        size_t begin = range.begin > to->of[i].begin ? range.begin : to->of[i].begin;
        size_t end = range.end < to->of[i].end ? range.end : to->of[i].end;
        if (begin < end)
            memcpy(to->moments[i][moment] + (begin - to->of[i].begin), from + (begin - range.begin), (end - begin) * sizeof *from);
    }
}

/* One shard of the earlier cut, from its holder to all: parameters, unless all have them, then the vectors. */
static mt_status shard_pass(struct sgd_trainer *trainer, struct sgd_group *group, const struct layout *layout, uint32_t shard,
                            float *room)
{
    struct sgd_shards *now = &trainer->zero.now;
    struct sgd_range   range = sgd_shard_of(floats_of(trainer), shard, layout->members);
    size_t             size = (range.end - range.begin) * sizeof(float);
    int                which = which_of(now, shard);
    uint32_t           root = layout->holder[shard];
    bool               is_root = group->rank == root, has_params = which >= 0 || (now->is_whole && !trainer->zero.is_partial);

    if (size == 0)
        return mt_ok();
    if (!layout->has_params)
        MT_TRY(sgd_group_broadcast(group, root, is_root || !has_params ? trainer->params + range.begin : NULL, size));
    for (uint32_t m = 0; m < moments_of(trainer); m++) {
        float *mine = which >= 0 ? now->moments[which][m] : room;
        MT_TRY(sgd_group_broadcast(group, root, is_root || which < 0 ? mine : NULL, size));
        part_keep(&trainer->zero.next, m, range, mine);
        sgd_trainer_beat(trainer);
    }
    return mt_ok();
}

static size_t shard_largest(const struct sgd_trainer *trainer, uint32_t members)
{
    size_t largest = 0;
    for (uint32_t s = 0; s < members; s++) {
        struct sgd_range range = sgd_shard_of(floats_of(trainer), s, members);
        largest = range.end - range.begin > largest ? range.end - range.begin : largest;
    }
    return largest;
}

/* All shards of a cut, one after the other, from their holders to whoever keeps something of them in `next`. */
static mt_status shards_give(struct sgd_trainer *trainer, struct sgd_group *group, const struct layout *layout)
{
    float    *room = malloc(shard_largest(trainer, layout->members) * sizeof *room);
    mt_status st = room ? mt_ok() : mt_error(MT_ENOMEM, 0, "optimizer: no memory for a shard that is passed on");
    for (uint32_t s = 0; s < layout->members && st.code == MT_OK; s++)
        st = shard_pass(trainer, group, layout, s, room);
    free(room);
    return st;
}

/* After it each member has its new shards, all parameters, and the furthest's progress. The old ones stay until all are through:
 * a generation that ends in between leaves everything somewhere. */
static mt_status shards_pass(struct sgd_trainer *trainer, struct sgd_group *group, const struct layout *layout,
                             const struct head *head)
{
    struct sgd_zero *zero = &trainer->zero;
    MT_TRY(shards_make(trainer, group->generation, group->rank, group->members, &zero->next));
    MT_TRY(shards_give(trainer, group, layout));
    memcpy(trainer->state, &head->state, sizeof head->state);
    zero->next.is_whole = true;
    zero->is_partial = false;
    trainer->has_state = true;
    MT_TRY(sgd_group_barrier(group));
    cut_choose(trainer, group->generation, group->members);
    return mt_ok();
}

/* The ranks below `rank` of those who stay. */
static uint32_t count_below(uint64_t stayers, uint32_t rank)
{
    return (uint32_t)__builtin_popcountll(stayers & ((1ull << rank) - 1));
}

mt_status sgd_zero_hand_over(struct sgd_trainer *trainer, struct sgd_group *group, uint64_t leavers)
{
    struct sgd_zero *zero = &trainer->zero;
    uint64_t         told[MT_GROUP_MEMBERS_MAX];
    struct layout    layout = {.generation = zero->now.generation, .members = group->members, .has_params = true};
    MT_TRY(sgd_group_exchange(group, leavers, told));
    uint64_t stayers = ~told[0] & (group->members < 64 ? (1ull << group->members) - 1 : UINT64_MAX);
    uint32_t count = (uint32_t)__builtin_popcountll(stayers);
    bool     stays = stayers >> group->rank & 1;
    if (count == group->members || count == 0)
        return mt_ok();
    MT_ASSERT(zero->now.is_whole && zero->now.members == group->members && !zero->is_partial);
    for (uint32_t s = 0; s < layout.members; s++)
        layout.holder[s] = s;
    if (stays)
        MT_TRY(shards_make(trainer, group->generation, count_below(stayers, group->rank), count, &zero->next));
    MT_TRY(shards_give(trainer, group, &layout));
    zero->next.is_whole = stays;
    MT_TRY(sgd_group_barrier(group));
    if (stays)
        cut_choose(trainer, group->generation, count);
    return mt_ok();
}

mt_status sgd_zero_sync(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_agreement agreement;
    struct head          head;
    struct codes         codes;
    struct layout        layout = {.generation = 0};

    if (!trainer->zero.next.is_whole)
        shards_free(&trainer->zero.next);
    MT_TRY(sgd_group_agree(group, trainer->has_state, trainer->has_state ? sgd_trainer_how_far(trainer) : 0, &agreement));
    if (!agreement.has_state)
        return mt_error(MT_ENOENT, 0, "sync: no member has a state");
    memcpy(&head.state, trainer->state, sizeof head.state);
    head.generation = trainer->zero.now.generation;
    MT_TRY(sgd_group_broadcast(group, agreement.root, &head, sizeof head));
    MT_TRY(catch_up(trainer, group, &head));
    MT_TRY(sgd_group_exchange(group, code_of(trainer, &trainer->zero.now), codes.of[0]));
    MT_TRY(sgd_group_exchange(group, code_of(trainer, &trainer->zero.next), codes.of[1]));
    if (!layout_find(trainer, group, &codes, &layout)) {
        sgd_zero_free(trainer);
        trainer->has_state = false;
        return mt_error(MT_ENOENT, 0, "sync: a shard of the optimizer's state died with its only holder");
    }
    cut_choose(trainer, layout.generation, layout.members);
    return is_settled(group, &codes, &layout) ? mt_ok() : shards_pass(trainer, group, &layout, &head);
}
