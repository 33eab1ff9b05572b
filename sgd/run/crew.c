/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - hiring, orders, news and burial of worker processes.
 *
 * Owns: each hand's actor handle and the refs of its calls. Thread: the one that trains.
 */
#include "sgd/run/crew.h"

#include "core/base/machine.h"
#include "sgd/watch/board.h"

#include <stdio.h>
#include <string.h>

static const char *const hand_names[] = {[SGD_HAND_FREE] = "FREE",
                                         [SGD_HAND_STARTING] = "STARTING",
                                         [SGD_HAND_READY] = "READY",
                                         [SGD_HAND_KILLED] = "KILLED",
                                         [SGD_HAND_DEAD] = "DEAD"};
/* Drawn in crew.h. One that is dismissed, alive or not, is FREE. */
static const uint32_t hand_next[] = {
    [SGD_HAND_FREE] = MT_STATE(SGD_HAND_STARTING),
    [SGD_HAND_STARTING] = MT_STATE(SGD_HAND_READY) | MT_STATE(SGD_HAND_KILLED) | MT_STATE(SGD_HAND_DEAD) | MT_STATE(SGD_HAND_FREE),
    [SGD_HAND_READY] = MT_STATE(SGD_HAND_KILLED) | MT_STATE(SGD_HAND_DEAD) | MT_STATE(SGD_HAND_FREE),
    [SGD_HAND_KILLED] = MT_STATE(SGD_HAND_DEAD) | MT_STATE(SGD_HAND_FREE),
    [SGD_HAND_DEAD] = MT_STATE(SGD_HAND_FREE),
};
static const struct mt_machine hand_machine = MT_MACHINE("hand", hand_names, hand_next);

static void sgd_hand_set_state(struct sgd_hand *hand, enum sgd_hand_state next)
{
    MT_TRANSITION(&hand_machine, hand->state, next);
    MT_ASSERT(next == SGD_HAND_FREE || hand->actor);                    /* a process */
    MT_ASSERT(next != SGD_HAND_DEAD || (!hand->ready && !hand->train)); /* of the dead nothing is awaited */
    hand->state = next;
}

struct sgd_hand *sgd_crew_hire(struct sgd_crew *crew, int place, uint32_t node, uint64_t region, const char *host)
{
    struct sgd_hand *hand = crew->hands;
    while (hand < crew->hands + SGD_HANDS_MAX && hand->state != SGD_HAND_FREE)
        hand++;
    if (hand == crew->hands + SGD_HANDS_MAX)
        return NULL;
    /* The region is that node's. */
    manta_actor_opts opts = {.num_cpus = crew->cpus, .num_gpus = crew->gpus, .node = node};
    *hand = (struct sgd_hand){.rank = SGD_NO_RANK, .place = place, .told_rank = SGD_UNTOLD, .hired_ns = mt_now_ns()};
    hand->actor = manta_actor_new(SGD_WORKER_TYPE, &opts,
                                  MANTA_ARGS(manta_bytes_of(crew->run, sizeof *crew->run), manta_str(crew->op), crew->config,
                                             manta_ref_arg(crew->lent), manta_u64(region),
                                             manta_u64((uint64_t)(hand - crew->hands)), manta_str(host)));
    hand->ready = manta_actor_call(hand->actor, "ready", MANTA_NO_ARGS);
    sgd_hand_set_state(hand, SGD_HAND_STARTING);
    return hand;
}

void sgd_crew_order(struct sgd_hand *hand, const struct sgd_order *order)
{
    MT_ASSERT(!hand->train && hand->rank != SGD_NO_RANK);
    hand->has_outcome = false;
    hand->train = manta_actor_call(hand->actor, "train", MANTA_ARGS(manta_bytes_of(order, sizeof *order)));
}

/* ---- news ---- */

/* Takes the answer of `*ref` into `out`, and frees the ref. */
static manta_status answer_take(manta_ref **ref, void *out, size_t size, manta_error *e)
{
    manta_view   view = {0};
    manta_status code = manta_get(*ref, 0, &view, e);
    if (code == MANTA_OK && view.size != size) {
        *e = (manta_error){.code = MANTA_EPROTO, .message = "a worker's answer has another size than this driver's"};
        code = MANTA_EPROTO;
    } else if (code == MANTA_OK) {
        memcpy(out, view.data, size);
    }
    manta_release(&view);
    manta_free(*ref);
    *ref = NULL;
    return code;
}

/* Its node may have died with it, or before it was placed there. */
static bool is_death(const struct sgd_hand *hand, manta_status code)
{
    return code == MANTA_EACTOR_DIED || code == MANTA_EWORKER_DIED || code == MANTA_ENODE_DIED || code == MANTA_EPREEMPTED ||
           (hand->place != 0 && (code == MANTA_EUNSCHEDULABLE || code == MANTA_EOBJ_LOST || code == MANTA_ECONN));
}

static void die(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, const manta_error *e)
{
    hand->death = *e;
    if (hand->state == SGD_HAND_KILLED)
        snprintf(hand->death.message, sizeof hand->death.message, "%s", hand->why);
    manta_free(hand->ready);
    manta_free(hand->train);
    hand->ready = hand->train = NULL;
    sgd_hand_set_state(hand, SGD_HAND_DEAD);
    tell(crew, hand, SGD_NEWS_DEAD);
}

static manta_status take_ready(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, manta_error *e)
{
    manta_status code = answer_take(&hand->ready, &hand->info, sizeof hand->info, e);
    hand->is_unfit = code != MANTA_OK && hand->state == SGD_HAND_STARTING && hand->place != 0 && crew->has_home &&
                     !is_death(hand, code);
    if (is_death(hand, code) || hand->is_unfit) {
        die(crew, hand, tell, e);
        return MANTA_OK;
    }
    hand->was_ready |= code == MANTA_OK;
    if (code == MANTA_OK && hand->state == SGD_HAND_STARTING) {
        sgd_hand_set_state(hand, SGD_HAND_READY);
        tell(crew, hand, SGD_NEWS_READY);
    }
    return code;
}

static manta_status take_train(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, manta_error *e)
{
    manta_status code = answer_take(&hand->train, &hand->outcome, sizeof hand->outcome, e);
    if (is_death(hand, code)) {
        die(crew, hand, tell, e);
        return MANTA_OK;
    }
    if (code == MANTA_OK) {
        hand->outcome.text[sizeof hand->outcome.text - 1] = 0;
        hand->has_outcome = true;
        tell(crew, hand, SGD_NEWS_BACK);
    }
    return code;
}

static manta_status hand_look(struct sgd_crew *crew, struct sgd_hand *hand, bool ready, bool train, sgd_crew_tell *tell,
                              manta_error *e)
{
    if (ready && hand->ready) {
        manta_status code = take_ready(crew, hand, tell, e);
        if (code != MANTA_OK)
            return code;
    }
    return train && hand->train ? take_train(crew, hand, tell, e) : MANTA_OK;
}

manta_status sgd_crew_look(struct sgd_crew *crew, int wait_ms, sgd_crew_tell *tell, manta_error *e)
{
    manta_ref       *refs[2 * SGD_HANDS_MAX];
    struct sgd_hand *whose[2 * SGD_HANDS_MAX];
    unsigned char    is_there[2 * SGD_HANDS_MAX] = {0};
    size_t           count = 0;
    manta_status     code = MANTA_OK;

    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->ready)
            refs[count] = hand->ready, whose[count++] = hand;
        if (hand->train)
            refs[count] = hand->train, whose[count++] = hand;
    }
    if (count == 0)
        return MANTA_OK;
    int n = manta_wait(refs, count, 1, wait_ms, is_there, e);
    if (n < 0)
        return -n;
    for (size_t i = 0; i < count && code == MANTA_OK; i++)
        if (is_there[i])
            code = hand_look(crew, whose[i], refs[i] == whose[i]->ready, refs[i] == whose[i]->train, tell, e);
    return code;
}

void sgd_crew_kill(struct sgd_hand *hand, const char *why)
{
    if (hand->state == SGD_HAND_KILLED)
        return;
    snprintf(hand->why, sizeof hand->why, "%s", why);
    sgd_hand_set_state(hand, SGD_HAND_KILLED);
    manta_actor_kill(hand->actor, false);
}

void sgd_crew_leave_behind(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, const char *why)
{
    manta_error e = {.code = MANTA_ENODE_DIED, .pid = hand->info.pid};
    snprintf(e.message, sizeof e.message, "%s", why);
    sgd_crew_kill(hand, why);
    die(crew, hand, tell, &e);
}

void sgd_crew_ping(struct sgd_crew *crew)
{
    int64_t now = mt_now_ns();
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->state != SGD_HAND_READY || hand->rank != SGD_NO_RANK)
            continue;
        if (hand->ready && now - hand->pinged_ns > MT_TRAIN_RETURN_MS * 1000000ll)
            sgd_crew_kill(hand, "a spare, killed since it gave no sign of life");
        if (hand->ready || now - hand->pinged_ns < MT_TRAIN_PING_MS * 1000000ll)
            continue;
        hand->pinged_ns = now;
        hand->ready = manta_actor_call(hand->actor, "ready", MANTA_NO_ARGS);
    }
}

/* ---- who is there ---- */

struct sgd_hand *sgd_crew_of_rank(struct sgd_crew *crew, int rank)
{
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++)
        if (hand->state != SGD_HAND_FREE && hand->rank == rank)
            return hand;
    return NULL;
}

struct sgd_hand *sgd_crew_spare(struct sgd_crew *crew)
{
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_READY && hand->rank == SGD_NO_RANK)
            return hand;
    return NULL;
}

/* Its process is there, or comes. */
static bool is_there(const struct sgd_hand *hand)
{
    return hand->state == SGD_HAND_STARTING || hand->state == SGD_HAND_READY || hand->state == SGD_HAND_KILLED;
}

int sgd_crew_count(const struct sgd_crew *crew, int *out_ready)
{
    int count = 0, ready = 0;
    for (const struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        count += is_there(hand);
        ready += hand->state == SGD_HAND_READY;
    }
    *out_ready = ready;
    return count;
}

int sgd_crew_count_at(const struct sgd_crew *crew, int place)
{
    int count = 0;
    for (const struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++)
        count += is_there(hand) && hand->place == place;
    return count;
}

int sgd_crew_ready_at(const struct sgd_crew *crew, int place)
{
    int count = 0;
    for (const struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++)
        count += hand->state == SGD_HAND_READY && hand->place == place;
    return count;
}

void sgd_crew_unplaced_drop(struct sgd_crew *crew, int place)
{
    int64_t now = mt_now_ns();
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->state != SGD_HAND_STARTING || hand->place == place || now - hand->hired_ns < MT_TRAIN_UNPLACED_MS * 1000000ll)
            continue;
        manta_actor_kill(hand->actor, false);
        sgd_crew_bury(hand);
    }
}

/* ---- the end ---- */

void sgd_crew_leave(struct sgd_crew *crew, int place)
{
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->place != place || hand->train || (hand->state != SGD_HAND_STARTING && hand->state != SGD_HAND_READY))
            continue;
        manta_actor_kill(hand->actor, false);
        sgd_crew_bury(hand);
    }
}

void sgd_crew_bury(struct sgd_hand *hand)
{
    manta_free(hand->ready);
    manta_free(hand->train);
    manta_actor_free(hand->actor);
    sgd_hand_set_state(hand, SGD_HAND_FREE);
    *hand = (struct sgd_hand){0};
}

void sgd_crew_dismiss(struct sgd_crew *crew)
{
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->state == SGD_HAND_FREE)
            continue;
        if (hand->train || hand->state == SGD_HAND_STARTING)
            manta_actor_kill(hand->actor, false);
        sgd_crew_bury(hand);
    }
}
