/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - nodes of a run, and the post that each of the others has.
 *
 * Owns: the posts and the calls to them. Thread: the driver's; a post's own.
 */
#include "sgd/run/place.h"

#include "core/base/machine.h"
#include "core/sys/process.h"
#include "sgd/sum/group.h"
#include "sgd/ground/team.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *group_of(void *region)
{
    return (char *)region + SGD_BOARD_SIZE;
}

static void thread_add(int32_t pid, int32_t tid, struct sgd_pulse_seen *seen)
{
    struct mt_process_stat stat;
    if (!mt_process_stat(pid, tid, &stat))
        return;
    seen->on_disk |= stat.state == 'D';
    if (tid != pid && strncmp(stat.name, SGD_COMPUTES, strlen(SGD_COMPUTES)) != 0)
        return;
    if (stat.state == 'R' && seen->ready < SGD_WATCH_THREADS)
        seen->ready++;
    seen->cpu_ms += (uint32_t)stat.cpu_ms;
}

/* See struct sgd_pulse_seen; false: there is no such process. (The run-queue time in schedstat would not do: that of the present
 * wait is added when it is over.) */
static bool process_look(int32_t pid, struct sgd_pulse_seen *seen)
{
    struct mt_process_stat stat;
    if (!mt_process_stat(pid, 0, &stat))
        return false;
    seen->is_stopped = stat.state == 'T';
    seen->process_ms = (uint32_t)stat.cpu_ms;
    DIR *threads = mt_process_threads(pid);
    for (pid_t thread; (thread = mt_process_next(threads));)
        thread_add(pid, thread, seen);
    return true;
}

struct sgd_pulse_seen sgd_place_pulse(void *region, uint32_t rank, uint32_t local, int32_t pid)
{
    const struct sgd_pulse *pulse = sgd_board_pulse(sgd_board_of(region), rank);
    uint64_t                step_us = atomic_load(&pulse->step_ns) / 1000;
    struct sgd_pulse_seen   seen = {.arrived = coll_shm_arrived(group_of(region), local),
                                    .beats = atomic_load(&pulse->beats),
                                    .steps = atomic_load(&pulse->steps),
                                    .work_ns = atomic_load(&pulse->work_ns),
                                    .step_us = step_us < UINT32_MAX ? (uint32_t)step_us : UINT32_MAX,
                                    .doing = atomic_load(&pulse->doing) & SGD_WATCH_DOING,
                                    .in_call = atomic_load(&pulse->calls) > 0};
    (void)process_look(pid, &seen);
    return seen;
}

static enum sgd_start start_look(void *region, uint32_t hand, struct sgd_start_seen *before)
{
    struct sgd_pulse_seen seen = {0};
    bool                  fetches;
    int32_t               pid = sgd_board_started(sgd_board_of(region), hand, &fetches);
    if (pid == 0 || !process_look(pid, &seen))
        return SGD_START_UNSEEN;
    if (pid != before->pid)
        *before = (struct sgd_start_seen){.pid = pid};
    bool works = sgd_load_works(&before->load, mt_now_ns(), &seen) || fetches;
    return seen.is_stopped ? SGD_START_STOPPED : works ? SGD_START_WORKS : SGD_START_IDLE;
}

/* ---- the post ---- */

struct post {
    manta_region            region;
    struct sgd_trace_cursor cursors[SGD_HANDS_MAX]; /* how far the workers' spans were told */
    struct sgd_start_seen   starts[SGD_HANDS_MAX];
};

static manta_status post_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct post *post = calloc(1, sizeof *post);
    manta_error  e;
    (void)argc;
    if (!post || manta_region_open(argv[0].u, 0, &post->region, &e) != MANTA_OK) {
        manta_status code = post ? e.code : MANTA_ENOMEM;
        (void)manta_fail(c, code, "no memory for training on node %u: %s", manta_node(), post ? e.message : "");
        free(post);
        return code;
    }
    *self = post;
    return MANTA_OK;
}

static void post_free(void *self)
{
    manta_region_close(&((struct post *)self)->region);
    free(self);
}

static manta_status post_say(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct post         *post = self;
    manta_region        *region = &post->region;
    struct sgd_board    *board = sgd_board_of(region->data);
    struct sgd_post_word word;
    struct sgd_post_news news = {.region = region->number};
    (void)argc;
    if (argv[0].y.size != sizeof word)
        return manta_fail(c, MANTA_EPROTO, "a driver of another version");
    memcpy(&word, argv[0].y.data, sizeof word);
    if (word.stop <= SGD_BOARD_PAUSES)
        sgd_board_stop(board, (enum sgd_board_stop)word.stop);
    if (word.kind == SGD_POST_ABORT && word.generation && word.reason)
        sgd_group_abort(group_of(region->data), word.generation, (enum mt_code)word.reason, word.rank);
    if (word.kind == SGD_POST_LEAVE)
        sgd_board_leave(board, word.generation, word.leavers);
    for (uint32_t i = 0; i < word.count && word.first + i < MT_GROUP_MEMBERS_MAX; i++)
        news.seen[i] = sgd_place_pulse(region->data, word.first + i, i, word.pids[word.first + i]);
    for (uint32_t i = 0; i < SGD_HANDS_MAX; i++)
        if (sgd_hand_set_has(&word.starting, i))
            sgd_hand_set_add(&news.starts[start_look(region->data, i, &post->starts[i])], i);
    news.cursor = word.cursor;
    while (news.notes_count < SGD_POST_NOTES && sgd_board_next(board, &news.cursor, &news.notes[news.notes_count]))
        news.notes_count++;
    return manta_return_bytes(c, &news, sizeof news);
}

static manta_status post_last_words(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_region *region = &((struct post *)self)->region;
    char          text[MT_TAIL_BYTES] = "";
    (void)argc;
    if (argv[0].u < SGD_HANDS_MAX)
        mt_tail_read(sgd_board_tail(sgd_board_of(region->data), (uint32_t)argv[0].u), text, sizeof text);
    return manta_return_bytes(c, text, strlen(text) + 1);
}

/* What the workers of this node have noted since the last call; rows and tracks are those of the run's trace. */
static manta_status post_spans(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct post          *post = self;
    uint32_t              count = 0;
    struct sgd_trace_plan plan = {argv[0].u < SGD_HANDS_MAX ? (uint32_t)argv[0].u : SGD_HANDS_MAX,
                                  argv[1].u < SGD_TRACKS_MAX ? (uint32_t)argv[1].u : SGD_TRACKS_MAX};
    struct sgd_post_spans *out = malloc(sizeof *out);
    (void)argc;
    if (!out || sgd_trace_size(plan) > post->region.size) {
        free(out);
        return manta_fail(c, MANTA_ENOMEM, "no memory for a timeline");
    }
    for (uint32_t i = 0; i < plan.rows; i++) {
        const struct sgd_trace_row *row = sgd_trace_row_of(post->region.data, post->region.size, plan, i);
        while (count < SGD_POST_SPANS &&
               sgd_trace_next(row, plan.tracks, &post->cursors[i], &out->spans[count].span, &out->spans[count].track))
            count++;
    }
    out->now_ns = mt_now_ns();
    out->count = count;
    manta_status code = manta_return_bytes(c, out, offsetof(struct sgd_post_spans, spans) + count * sizeof out->spans[0]);
    free(out);
    return code;
}

MANTA_ACTOR(manta_sgd_post, "u", post_new, post_free, {"say", "y>y", post_say}, {"last_words", "u>y", post_last_words},
            {"spans", "uu>y", post_spans});

/* ---- the driver's side ---- */

static const char *const place_names[] = {
    [SGD_PLACE_FREE] = "FREE", [SGD_PLACE_BARE] = "BARE",       [SGD_PLACE_OPENING] = "OPENING",
    [SGD_PLACE_OPEN] = "OPEN", [SGD_PLACE_LEAVING] = "LEAVING", [SGD_PLACE_LOST] = "LOST"};
/* Drawn in place.h. Each goes back to FREE when the run ends. */
static const uint32_t place_next[] = {
    [SGD_PLACE_FREE] = MT_STATE(SGD_PLACE_OPENING) | MT_STATE(SGD_PLACE_OPEN) | MT_STATE(SGD_PLACE_BARE),
    [SGD_PLACE_BARE] = MT_STATE(SGD_PLACE_FREE),
    [SGD_PLACE_OPENING] = MT_STATE(SGD_PLACE_OPEN) | MT_STATE(SGD_PLACE_LEAVING) | MT_STATE(SGD_PLACE_LOST) |
                          MT_STATE(SGD_PLACE_FREE),
    [SGD_PLACE_OPEN] = MT_STATE(SGD_PLACE_LEAVING) | MT_STATE(SGD_PLACE_LOST) | MT_STATE(SGD_PLACE_FREE),
    [SGD_PLACE_LEAVING] = MT_STATE(SGD_PLACE_LOST) | MT_STATE(SGD_PLACE_FREE),
    [SGD_PLACE_LOST] = MT_STATE(SGD_PLACE_FREE),
};
static const struct mt_machine place_machine = MT_MACHINE("place", place_names, place_next);

static void sgd_place_set_state(struct sgd_place *place, enum sgd_place_state next)
{
    MT_TRANSITION(&place_machine, place->state, next);
    MT_ASSERT(next != SGD_PLACE_LOST || place->post); /* the driver's own node is never lost */
    place->state = next;
}

/* How many workers these are enough for. */
static int workers_of(const struct sgd_places *places, double cpus, double gpus)
{
    double by_cpus = places->cpus > 0 ? floor(cpus / places->cpus) : INT_MAX;
    double by_gpus = places->gpus > 0 ? floor(gpus / places->gpus) : INT_MAX;
    return (int)fmin(by_cpus, by_gpus);
}

static void room_take(const struct sgd_places *places, const manta_node_info *node, struct sgd_place *place)
{
    int more = workers_of(places, node->cpus_free, node->gpus_free);
    place->room = more < INT_MAX - place->placed ? more + place->placed : INT_MAX;
    place->most = workers_of(places, node->cpus, node->gpus);
    snprintf(place->host, sizeof place->host, "%s", node->address);
}

/* What this node has. One that is not in the list is not known to lack anything. */
static void room_here(const struct sgd_places *places, struct sgd_place *place)
{
    int              count;
    manta_error      e;
    manta_node_info *nodes = roster_list(&count, &e);
    place->room = place->most = INT_MAX;
    for (int i = 0; i < count; i++)
        if (nodes[i].node == place->node)
            room_take(places, &nodes[i], place);
    place->found = place->room;
    free(nodes);
}

void sgd_places_init(struct sgd_places *places, int max, manta_region *here, double cpus, double gpus)
{
    *places = (struct sgd_places){.max = max, .region_size = here->size, .here = here, .cpus = cpus, .gpus = gpus};
    struct sgd_place *place = &places->of[0];
    *place = (struct sgd_place){.node = manta_node(), .region = here->number};
    if (max > 1) /* and its address */
        room_here(places, place);
    sgd_place_set_state(place, max > 1 && place->most < 1 ? SGD_PLACE_BARE : SGD_PLACE_OPEN);
}

void sgd_place_close(struct sgd_place *place)
{
    manta_free(place->asked);
    manta_free(place->spans_asked);
    if (place->post) /* it has nothing to finish. Let go with a call open, it would end after that: never, if it stands still */
        manta_actor_kill(place->post, false);
    manta_actor_free(place->post);
    sgd_place_set_state(place, SGD_PLACE_FREE);
    *place = (struct sgd_place){0};
}

void sgd_places_fini(struct sgd_places *places)
{
    roster_fini(&places->nodes);
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        if (places->of[i].state != SGD_PLACE_FREE)
            sgd_place_close(&places->of[i]);
}

static manta_ref *say(const struct sgd_place *place, const struct sgd_post_word *word)
{
    return manta_actor_call(place->post, "say", MANTA_ARGS(manta_bytes_of(word, sizeof *word)));
}

static void ask(struct sgd_places *places, struct sgd_place *place)
{
    struct sgd_post_word word = {.kind = SGD_POST_LOOK,
                                 .first = place->first,
                                 .count = place->count,
                                 .cursor = place->cursor,
                                 .starting = place->starting,
                                 .stop = sgd_board_stopped(sgd_board_of(places->here->data))};
    memcpy(word.pids, places->pids, sizeof word.pids);
    place->asked = say(place, &word);
    place->asked_ns = mt_now_ns();
}

static int place_find(const struct sgd_places *places, uint32_t node)
{
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        if (places->of[i].state != SGD_PLACE_FREE && places->of[i].node == node)
            return i;
    return -1;
}

static void place_add(struct sgd_places *places, const manta_node_info *node)
{
    struct sgd_place *place = places->of + 1;
    while (place < places->of + SGD_PLACES_MAX && place->state != SGD_PLACE_FREE)
        place++;
    if (place == places->of + SGD_PLACES_MAX)
        return;
    *place = (struct sgd_place){.node = node->node};
    sgd_place_set_state(place, SGD_PLACE_OPENING);
    room_take(places, node, place);
    place->found = place->room;
    place->post = manta_actor_new(SGD_POST_TYPE, &(manta_actor_opts){.node = node->node},
                                  MANTA_ARGS(manta_u64(places->region_size)));
    ask(places, place);
}

int sgd_places_count(const struct sgd_places *places)
{
    int count = 0;
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        count += places->of[i].state == SGD_PLACE_OPENING || places->of[i].state == SGD_PLACE_OPEN;
    return count;
}

static bool is_among(uint32_t node, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

static void add_to(uint32_t node, uint32_t *nodes, uint32_t *count)
{
    if (*count < SGD_PLACES_MAX && !is_among(node, nodes, *count))
        nodes[(*count)++] = node;
}

static bool may_have_workers(const struct sgd_places *places, const manta_node_info *node)
{
    return node->alive && !node->draining && !is_among(node->node, places->barred, places->barred_count);
}

static bool has_room(const struct sgd_places *places, const manta_node_info *node)
{
    return may_have_workers(places, node) && node->cpus_free >= places->cpus && node->gpus_free >= places->gpus;
}

/* Why a node that has no room for a worker has none. "": there is nothing to say. */
static const char *why_not(const struct sgd_places *places, const manta_node_info *node, char out[SGD_PLACE_WHY_BYTES])
{
    if (node->draining)
        return "it is being drained";
    if (!may_have_workers(places, node))
        return "";
    snprintf(out, SGD_PLACE_WHY_BYTES, "a worker reserves %g CPUs and %g GPUs; %g of its %g CPUs and %g of its %g GPUs are free",
             places->cpus, places->gpus, node->cpus_free, node->cpus, node->gpus_free, node->gpus);
    return out;
}

bool sgd_places_could_trade(const struct sgd_places *places)
{
    if (sgd_places_count(places) < places->max)
        return false;
    for (int i = 0; i < places->nodes.count; i++)
        if (has_room(places, &places->nodes.of[i]) && place_find(places, places->nodes.of[i].node) < 0)
            return true;
    return false;
}

static void node_take(struct sgd_places *places, const manta_node_info *node, bool is_new)
{
    int i = place_find(places, node->node);
    if (i >= 0 && is_new)
        room_take(places, node, &places->of[i]);
    if (i < 1)
        return;
    places->of[i].is_suspect = !node->alive && !node->draining;
    if (!node->draining)
        return;
    if (places->of[i].state == SGD_PLACE_OPENING || places->of[i].state == SGD_PLACE_OPEN)
        sgd_place_set_state(&places->of[i], SGD_PLACE_LEAVING);
}

void sgd_place_bar(struct sgd_places *places, struct sgd_place *place)
{
    add_to(place->node, places->barred, &places->barred_count);
    if (place->state == SGD_PLACE_OPENING || place->state == SGD_PLACE_OPEN)
        sgd_place_set_state(place, SGD_PLACE_LEAVING);
}

void sgd_places_doubt(struct sgd_places *places)
{
    roster_doubt(&places->nodes);
}

void sgd_places_look_for(struct sgd_places *places, bool wants_more, sgd_places_pass *pass, void *user)
{
    char why[SGD_PLACE_WHY_BYTES];
    /* Places may have become free, or be wanted, without news. But who calls this does so with each word of a worker. */
    bool is_new = roster_look(&places->nodes, wants_more ? MANTA_NEWS_FREE : MANTA_NEWS_NODES, MT_TRAIN_NODES_MS);
    if (!is_new && mt_now_ns() - places->walked_ns < MT_TRAIN_NODES_MS * 1000000ll)
        return;
    places->walked_ns = mt_now_ns();
    const manta_node_info *nodes = places->nodes.of;
    int                    all = places->nodes.count;
    for (int i = 0; i < all; i++)
        node_take(places, &nodes[i], is_new);
    int count = wants_more ? sgd_places_count(places) : places->max;
    for (int i = 0; i < all && count < places->max; i++)
        if (has_room(places, &nodes[i]) && place_find(places, nodes[i].node) < 0) {
            place_add(places, &nodes[i]);
            count++;
        }
    for (int i = 0; i < all && count < places->max; i++) {
        if (has_room(places, &nodes[i]) || place_find(places, nodes[i].node) >= 0)
            continue;
        const char *text = why_not(places, &nodes[i], why);
        if (!text[0] || is_among(nodes[i].node, places->told, places->told_count))
            continue;
        add_to(nodes[i].node, places->told, &places->told_count);
        if (is_among(nodes[i].node, places->told, places->told_count)) /* a bounded number of them */
            pass(user, nodes[i].node, text);
    }
}

/* The answer of a look, if it is there within wait_ms. False: the post will never answer again. */
static bool answer_take(struct sgd_place *place, int wait_ms, void (*tell)(void *user, struct sgd_note *note), void *user)
{
    manta_view           view = {0};
    struct sgd_post_news news;
    manta_error          e;
    manta_status         code = manta_get(place->asked, wait_ms, &view, &e);
    if (code == MANTA_ETIMEDOUT)
        return true;
    bool is_good = code == MANTA_OK && view.size == sizeof news;
    if (is_good)
        memcpy(&news, view.data, sizeof news);
    manta_release(&view);
    manta_free(place->asked);
    place->asked = NULL;
    if (!is_good) {
        snprintf(place->why, sizeof place->why, "%s", code == MANTA_OK || place->state != SGD_PLACE_OPENING ? "" : e.message);
        return false;
    }
    if (place->state == SGD_PLACE_OPENING)
        sgd_place_set_state(place, SGD_PLACE_OPEN);
    place->region = news.region;
    place->cursor = news.cursor;
    memcpy(place->starts, news.starts, sizeof place->starts);
    memcpy(place->seen, news.seen, sizeof place->seen);
    for (uint32_t i = 0; i < news.notes_count && i < SGD_POST_NOTES; i++) {
        struct sgd_note *note = &news.notes[i];
        note->time_ns = mt_now_ns(); /* its clock is that of another machine */
        if (note->kind == SGD_NOTE_GOING)
            note->going.synced_ns = note->time_ns;
        tell(user, note);
    }
    place->is_behind = news.notes_count == SGD_POST_NOTES; /* there may be more */
    return true;
}

/* An answer, and what its board has beyond that, since it is a ring. False: the post will never answer again. */
static bool place_read(struct sgd_places *places, struct sgd_place *place, int wait_ms,
                       void (*tell)(void *user, struct sgd_note *note), void *user)
{
    bool is_alive = answer_take(place, wait_ms, tell, user);
    while (is_alive && !place->asked && place->is_behind) {
        ask(places, place);
        is_alive = answer_take(place, wait_ms ? wait_ms : MT_TRAIN_MORE_MS, tell, user);
    }
    return is_alive;
}

/* Its post does. One that LEAVES from OPENING may not be there yet; what it is told then waits for it. */
static bool answers(const struct sgd_place *place)
{
    return place->state == SGD_PLACE_OPEN || place->state == SGD_PLACE_LEAVING;
}

static int64_t patience_ns(const struct sgd_place *place)
{
    int ms = place->state == SGD_PLACE_OPENING ? MT_TRAIN_START_MS : place->is_suspect ? MT_TRAIN_AWAY_MS : MT_TRAIN_RETURN_MS;
    return ms * 1000000ll;
}

uint64_t sgd_places_look(struct sgd_places *places, void (*tell)(void *user, struct sgd_note *note), void *user)
{
    uint64_t lost = 0;
    int64_t  now = mt_now_ns();
    for (int i = 1; i < SGD_PLACES_MAX; i++) {
        struct sgd_place *place = &places->of[i];
        if (place->state != SGD_PLACE_OPENING && !answers(place))
            continue;
        bool is_late = place->asked && now - place->asked_ns > patience_ns(place);
        place->is_away = is_late && place->is_suspect;
        if (is_late || (place->asked && !place_read(places, place, 0, tell, user))) {
            manta_actor_kill(place->post, false);
            sgd_place_set_state(place, SGD_PLACE_LOST);
            lost |= 1ull << i;
        } else if (!place->asked && now - place->asked_ns >= MT_TRAIN_LOOK_MS * 1000000ll) {
            ask(places, place);
        }
    }
    return lost;
}

enum sgd_start sgd_place_start(struct sgd_places *places, int place, uint32_t hand)
{
    if (place == 0)
        return start_look(places->here->data, hand, &places->starts[hand]);
    for (int how = SGD_START_UNSEEN + 1; how < SGD_STARTS; how++)
        if (sgd_hand_set_has(&places->of[place].starts[how], hand))
            return (enum sgd_start)how;
    return SGD_START_UNSEEN;
}

int sgd_left_ms(int64_t until_ns)
{
    int64_t left = (until_ns - mt_now_ns()) / 1000000;
    return left > 0 ? (int)left : 0;
}

void sgd_places_drain(struct sgd_places *places, void (*tell)(void *user, struct sgd_note *note), void *user)
{
    int64_t until = mt_now_ns() + MT_TRAIN_RETURN_MS * 1000000ll;
    for (int i = 1; i < SGD_PLACES_MAX; i++) {
        struct sgd_place *place = &places->of[i];
        if (!answers(place))
            continue;
        bool is_alive = !place->asked || place_read(places, place, sgd_left_ms(until), tell, user);
        if (is_alive && !place->asked) { /* that one may have been asked before the last note was there */
            ask(places, place);
            (void)place_read(places, place, sgd_left_ms(until), tell, user);
        }
    }
}

static void say_to_all(const struct sgd_places *places, const struct sgd_post_word *word)
{
    for (int i = 1; i < SGD_PLACES_MAX; i++)
        if (answers(&places->of[i]))
            manta_free(say(&places->of[i], word));
}

void sgd_places_abort(struct sgd_places *places, uint32_t generation, enum mt_code reason, uint32_t rank)
{
    struct sgd_post_word word = {.kind = SGD_POST_ABORT, .generation = generation, .reason = (uint32_t)reason, .rank = rank};
    sgd_group_abort(group_of(places->here->data), generation, reason, rank);
    say_to_all(places, &word);
}

void sgd_places_leave(struct sgd_places *places, uint32_t generation)
{
    uint64_t leavers = 0;
    for (const struct sgd_place *place = places->of; place < places->of + SGD_PLACES_MAX; place++)
        for (uint32_t r = 0; place->state == SGD_PLACE_LEAVING && r < place->count; r++)
            leavers |= 1ull << (place->first + r);
    sgd_board_leave(sgd_board_of(places->here->data), generation, leavers);
    say_to_all(places, &(struct sgd_post_word){.kind = SGD_POST_LEAVE, .generation = generation, .leavers = leavers});
}

void sgd_place_last_words(const struct sgd_place *place, uint32_t index, char *out, size_t size)
{
    manta_view  view = {0};
    manta_error e;
    out[0] = 0;
    if (!place->post || !answers(place))
        return;
    manta_ref *ref = manta_actor_call(place->post, "last_words", MANTA_ARGS(manta_u64(index)));
    if (manta_get(ref, MT_TRAIN_WORDS_MS, &view, &e) == MANTA_OK)
        snprintf(out, size, "%.*s", (int)view.size, (const char *)view.data);
    manta_release(&view);
    manta_free(ref);
}

/* Its clock against ours, by the quickest answer so far; one that is off by less than that took is the same clock. */
static void clock_compare(struct sgd_place *place, int64_t their_now_ns)
{
    int64_t now = mt_now_ns(), took = now - place->spans_asked_ns, shift = now - took / 2 - their_now_ns;
    if (place->clock_took_ns && took >= place->clock_took_ns)
        return;
    place->clock_took_ns = took;
    place->clock_shift_ns = shift > took || shift < -took ? shift : 0;
}

void sgd_place_spans(struct sgd_place *place, struct sgd_trace_plan plan, int wait_ms,
                     void (*take)(void *user, const struct sgd_post_spans *spans, int64_t shift_ns), void *user)
{
    manta_view   view = {0};
    manta_error  e;
    manta_status code = MANTA_OK;
    if (!place->post || !answers(place))
        return;
    if (place->spans_asked && (code = manta_get(place->spans_asked, wait_ms, &view, &e)) == MANTA_ETIMEDOUT)
        return;
    const struct sgd_post_spans *spans = view.data;
    if (place->spans_asked && code == MANTA_OK && view.size >= offsetof(struct sgd_post_spans, spans) &&
        spans->count <= (view.size - offsetof(struct sgd_post_spans, spans)) / sizeof spans->spans[0]) {
        clock_compare(place, spans->now_ns);
        take(user, spans, place->clock_shift_ns);
    }
    manta_release(&view);
    manta_free(place->spans_asked);
    place->spans_asked_ns = mt_now_ns();
    place->spans_asked = manta_actor_call(place->post, "spans", MANTA_ARGS(manta_u64(plan.rows), manta_u64(plan.tracks)));
}
