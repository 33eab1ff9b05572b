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
    MT_ASSERT(next == SGD_HAND_FREE || hand->actor);                                                     /* a process */
    MT_ASSERT(next != SGD_HAND_DEAD || (!hand->ready && !hand->train && !hand->connect && !hand->next)); /* of the dead */
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
    *hand = (struct sgd_hand){
        .rank = SGD_NO_RANK, .next_rank = SGD_NO_RANK, .place = place, .told_rank = SGD_UNTOLD, .hired_ns = mt_now_ns()};
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

void sgd_crew_connect(struct sgd_hand *hand, const struct sgd_order *order)
{
    MT_ASSERT(!hand->connect && !hand->next && hand->next_rank != SGD_NO_RANK);
    hand->has_failed = false;
    hand->connect = manta_actor_call(hand->actor, "connect", MANTA_ARGS(manta_bytes_of(order, sizeof *order)));
}

void sgd_crew_order_next(struct sgd_hand *hand, const struct sgd_order *order)
{
    MT_ASSERT(!hand->connect && !hand->next && hand->next_rank != SGD_NO_RANK);
    hand->next = manta_actor_call(hand->actor, "train", MANTA_ARGS(manta_bytes_of(order, sizeof *order)));
}

void sgd_crew_next_take(struct sgd_hand *hand)
{
    MT_ASSERT(!hand->train && !hand->connect && (hand->next == NULL) == (hand->next_rank == SGD_NO_RANK));
    hand->train = hand->next;
    hand->rank = hand->next_rank;
    hand->next = NULL;
    hand->next_rank = SGD_NO_RANK;
    hand->has_outcome = false;
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

static void refs_free(struct sgd_hand *hand)
{
    manta_ref *refs[] = {hand->ready, hand->train, hand->connect, hand->next};
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++)
        manta_free(refs[i]);
    hand->ready = hand->train = hand->connect = hand->next = NULL;
}

static void die(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, const manta_error *e)
{
    hand->death = *e;
    if (hand->state == SGD_HAND_KILLED)
        snprintf(hand->death.message, sizeof hand->death.message, "%s", hand->why);
    refs_free(hand);
    sgd_hand_set_state(hand, SGD_HAND_DEAD);
    tell(crew, hand, SGD_NEWS_DEAD);
}

static manta_status take_ready(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, manta_error *e)
{
    manta_status code = answer_take(&hand->ready, &hand->info, sizeof hand->info, e);
    bool         was_unfit = hand->is_unfit; /* and was killed for that */
    hand->is_unfit = was_unfit || (code != MANTA_OK && hand->state == SGD_HAND_STARTING && hand->place != 0 && crew->has_home &&
                                   !is_death(hand, code));
    if (is_death(hand, code) || (hand->is_unfit && !was_unfit)) {
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

/* One that can't connect is no error: without it the change is made in another way. */
static void take_connect(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, manta_error *e)
{
    int64_t      answer = MANTA_EINTERNAL;
    manta_status code = answer_take(&hand->connect, &answer, sizeof answer, e);
    hand->has_failed = code != MANTA_OK || answer != MANTA_OK;
    if (is_death(hand, code))
        die(crew, hand, tell, e);
}

/* Of orders that wait behind others a death is of interest, and that they have failed; dropped, that they are over. Else the answer
 * stays where it is until they are the present ones. */
static void take_next(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, manta_error *e)
{
    manta_view   view = {0};
    manta_status code = manta_get(hand->next, 0, &view, e);
    bool         is_ok = code == MANTA_OK && view.size == sizeof(struct sgd_outcome) &&
                 ((const struct sgd_outcome *)view.data)->code == MANTA_OK;
    manta_release(&view);
    hand->has_failed = hand->has_failed || !is_ok;
    if (is_death(hand, code)) {
        die(crew, hand, tell, e);
    } else if (crew->is_next_dropped) {
        manta_free(hand->next);
        hand->next = NULL;
    }
}

static manta_status hand_look(struct sgd_crew *crew, struct sgd_hand *hand, const manta_ref *ref, sgd_crew_tell *tell,
                              manta_error *e)
{
    if (ref == hand->ready)
        return take_ready(crew, hand, tell, e);
    if (ref == hand->train)
        return take_train(crew, hand, tell, e);
    if (ref == hand->connect)
        take_connect(crew, hand, tell, e);
    else if (ref == hand->next)
        take_next(crew, hand, tell, e);
    return MANTA_OK;
}

/* Of one that is killed there is always a call by whose failure its death is heard: what it was asked before may have been
 * answered just before it died. */
static void death_listen(struct sgd_hand *hand)
{
    if (hand->state == SGD_HAND_KILLED && !hand->ready && !hand->train)
        hand->ready = manta_actor_call(hand->actor, "ready", MANTA_NO_ARGS);
}

/* What news of a hand may come by; of the dead nothing. Orders that wait behind others can't be over before these. */
static size_t refs_of(const struct sgd_crew *crew, struct sgd_hand *hand, manta_ref **refs, struct sgd_hand **whose)
{
    manta_ref *next = hand->has_failed && !crew->is_next_dropped ? NULL : hand->next;
    manta_ref *all[SGD_HAND_REFS] = {hand->ready, hand->connect, hand->train ? hand->train : next};
    size_t     count = 0;
    for (size_t i = 0; i < SGD_HAND_REFS; i++)
        if (all[i])
            refs[count] = all[i], whose[count++] = hand;
    return count;
}

manta_status sgd_crew_look(struct sgd_crew *crew, manta_ref *also, sgd_crew_tell *tell, manta_error *e)
{
    manta_ref       *refs[SGD_HAND_REFS * SGD_HANDS_MAX + 1];
    struct sgd_hand *whose[SGD_HAND_REFS * SGD_HANDS_MAX];
    unsigned char    is_there[SGD_HAND_REFS * SGD_HANDS_MAX + 1] = {0};
    size_t           count = 0;
    manta_status     code = MANTA_OK;

    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        death_listen(hand);
        count += refs_of(crew, hand, refs + count, whose + count);
    }
    refs[count] = also;
    size_t all = count + (also != NULL);
    if (all == 0) { /* nobody is asked anything: who waits for more workers must not look all the time */
        mt_sleep_ms(MT_TRAIN_LOOK_MS);
        return MANTA_OK;
    }
    int n = manta_wait(refs, all, 1, MT_TRAIN_LOOK_MS, is_there, e);
    if (n < 0)
        return -n;
    for (size_t i = 0; i < count && code == MANTA_OK; i++)
        if (is_there[i])
            code = hand_look(crew, whose[i], refs[i], tell, e);
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
        if (hand->state != SGD_HAND_READY || hand->rank != SGD_NO_RANK || hand->next)
            continue;
        if (hand->ready && now - hand->pinged_ns > MT_TRAIN_RETURN_MS * 1000000ll)
            sgd_crew_kill(hand, "a spare, killed since it gave no sign of life");
        if (hand->ready || now - hand->pinged_ns < MT_TRAIN_PING_MS * 1000000ll)
            continue;
        hand->pinged_ns = now;
        hand->ready = manta_actor_call(hand->actor, "ready", MANTA_NO_ARGS);
    }
}

/* ---- types of CPUs ---- */

/* Whose type the run takes: of this node's workers the first that is ready, as long as there may be one. */
static const struct sgd_hand *cpu_choose(const struct sgd_crew *crew)
{
    const struct sgd_hand *chosen = NULL;
    for (const struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->place == 0 && hand->state == SGD_HAND_READY)
            return hand;
        chosen = hand->state == SGD_HAND_READY && !chosen ? hand : chosen;
    }
    return sgd_crew_count_at(crew, 0) ? NULL : chosen;
}

bool sgd_crew_fits(const struct sgd_crew *crew, const struct sgd_hand *hand)
{
    return !hand->info.cpu[0] || strcmp(hand->info.cpu, crew->cpu) == 0;
}

void sgd_crew_cpu_settle(struct sgd_crew *crew)
{
    const struct sgd_hand *chosen = crew->cpu[0] ? NULL : cpu_choose(crew);
    char                   why[SGD_WHY_BYTES];
    if (chosen)
        snprintf(crew->cpu, sizeof crew->cpu, "%s", chosen->info.cpu[0] ? chosen->info.cpu : "GPU");
    for (struct sgd_hand *hand = crew->hands; crew->cpu[0] && hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->state != SGD_HAND_READY || hand->place == 0 || sgd_crew_fits(crew, hand))
            continue;
        snprintf(why, sizeof why,
                 "its CPU gives other bits (%s) than the run's (%s); the run's OPENBLAS_CORETYPE may make them alike",
                 hand->info.cpu, crew->cpu);
        hand->is_unfit = true;
        sgd_crew_kill(hand, why);
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
        if (hand->state == SGD_HAND_READY && hand->rank == SGD_NO_RANK && sgd_crew_fits(crew, hand))
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

bool sgd_crew_is_placed(const struct sgd_hand *hand)
{
    return is_there(hand) && (hand->was_ready || hand->is_seen);
}

bool sgd_crew_unplaced_drop(struct sgd_crew *crew, int place, int64_t waited_ns)
{
    int64_t now = mt_now_ns();
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->state != SGD_HAND_STARTING || hand->place != place || hand->is_seen || now - hand->hired_ns < waited_ns)
            continue;
        manta_actor_kill(hand->actor, false);
        sgd_crew_bury(hand);
        return true;
    }
    return false;
}

/* ---- the end ---- */

void sgd_crew_leave(struct sgd_crew *crew, int place)
{
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (hand->place != place || hand->train || hand->connect || hand->next ||
            (hand->state != SGD_HAND_STARTING && hand->state != SGD_HAND_READY))
            continue;
        manta_actor_kill(hand->actor, false);
        sgd_crew_bury(hand);
    }
}

void sgd_crew_bury(struct sgd_hand *hand)
{
    refs_free(hand);
    manta_actor_free(hand->actor);
    sgd_hand_set_state(hand, SGD_HAND_FREE);
    *hand = (struct sgd_hand){0};
}

/* Let go with a call open, it would end after that call: never, if it stands still, and keep its CPUs. */
static bool owes_answer(const struct sgd_hand *hand)
{
    return hand->state == SGD_HAND_KILLED || hand->state == SGD_HAND_STARTING ||
           (hand->state == SGD_HAND_READY && (hand->ready || hand->train || hand->connect || hand->next));
}

void sgd_crew_dismiss(struct sgd_crew *crew)
{
    manta_ref *deaths[SGD_HANDS_MAX];
    size_t     count = 0;
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++) {
        if (!owes_answer(hand))
            continue;
        manta_actor_kill(hand->actor, false);
        deaths[count++] = manta_actor_call(hand->actor, "ready", MANTA_NO_ARGS); /* fails when its process has ended */
    }
    if (count)
        (void)manta_wait(deaths, count, count, MT_TRAIN_DISMISS_MS, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        manta_free(deaths[i]);
    for (struct sgd_hand *hand = crew->hands; hand < crew->hands + SGD_HANDS_MAX; hand++)
        if (hand->state != SGD_HAND_FREE)
            sgd_crew_bury(hand);
}
