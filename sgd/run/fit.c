/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - generations: everybody works, somebody dies, the rest come back, the ranks are filled, and on.
 *
 * Owns:   the crew and what it needs (setup.h), for the time of one call. Thread: the caller's.
 * Always: orders for a generation are given only when each member of the last one is back or dead (group.h).
 */
#include "sgd/run/fit.h"
#include "sgd/run/hire.h"

#include "sgd/run/detach.h"
#include "sgd/sum/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a death ---- */

/* The last completed step, as far as the workers' pulses show. */
static uint64_t steps_done(struct sgd_fit *fit)
{
    uint64_t most = fit->furthest;
    for (uint32_t r = 0; r < (uint32_t)fit->workers; r++) {
        const struct sgd_hand  *hand = sgd_crew_of_rank(&fit->crew, (int)r);
        const struct sgd_place *place = hand ? &fit->places.of[hand->place] : NULL;
        uint64_t                steps = 0;
        if (place && hand->place == 0)
            steps = atomic_load(&sgd_board_pulse(sgd_board_of(fit->setup.region.data), r)->steps);
        else if (place && r >= place->first && r < place->first + place->count)
            steps = place->seen[r - place->first].steps;
        most = steps > most ? steps : most;
    }
    return most;
}

/* Its members come back as soon as they look. */
static void members_recall(struct sgd_fit *fit, enum mt_code reason, int rank)
{
    bool has_next = fit->next.state == SGD_NEXT_ORDERED; /* its end is the present one's as well */
    fit->furthest = steps_done(fit);
    sgd_places_abort(&fit->places, has_next ? fit->next.generation : fit->generation, reason, rank < 0 ? 0 : (uint32_t)rank);
}

static void generation_abort(struct sgd_fit *fit, enum mt_code reason, int rank)
{
    members_recall(fit, reason, rank);
    sgd_generation_over(fit);
}

/* What it printed last; of one on another node, that node's post knows it. */
static void last_words_take(struct sgd_fit *fit, const struct sgd_hand *hand)
{
    uint32_t index = (uint32_t)(hand - fit->crew.hands);
    fit->last_words[0] = 0;
    if (hand->place == 0)
        mt_tail_read(sgd_board_tail(sgd_board_of(fit->setup.region.data), index), fit->last_words, sizeof fit->last_words);
    else if (hand->death.code != MANTA_ENODE_DIED)
        sgd_place_last_words(&fit->places.of[hand->place], index, fit->last_words, sizeof fit->last_words);
}

static void on_death(struct sgd_fit *fit, struct sgd_hand *hand)
{
    struct sgd_recovering *r = &fit->recovering;
    struct sgd_place      *place = &fit->places.of[hand->place];
    bool                   is_leaving = hand->death.code == MANTA_EPREEMPTED || place->state == SGD_PLACE_LEAVING || place->is_away;
    if (hand->is_unfit) {
        sgd_place_bar(&fit->places, place);
        sgd_fit_tell_node(fit, place->node, hand->death.message);
        return;
    }
    if (hand->place != 0 && !hand->was_ready && hand->death.code == MANTA_EUNSCHEDULABLE) { /* its node leaves, or has left */
        sgd_places_doubt(&fit->places);
        return;
    }
    if (hand->rank != SGD_NO_RANK) {
        generation_abort(fit, MT_EWORKER_DIED, hand->rank);
        if (!r->is_open)
            *r = (struct sgd_recovering){.is_open = true, .detected_ns = mt_now_ns()};
        int64_t sign = sgd_fit_read_spans(fit, hand);
        r->sign_ns = r->sign_ns ? r->sign_ns : sign;
        r->lost++;
        fit->has_death = fit->has_death || !is_leaving;
        fit->has_left = fit->has_left || is_leaving;
        fit->result.restarts += !is_leaving;
    }
    fit->last_death = hand->death;
    fit->last_rank = hand->rank;
    last_words_take(fit, hand);
    if (!hand->was_ready && !is_leaving)
        fit->failed_starts++;
    sgd_fit_tell_lost(fit, hand);
}

static void on_news(struct sgd_crew *crew, struct sgd_hand *hand, enum sgd_news news)
{
    struct sgd_fit *fit = mt_container_of(crew, struct sgd_fit, crew);
    if (news == SGD_NEWS_DEAD) {
        on_death(fit, hand);
    } else if (news == SGD_NEWS_READY) {
        fit->failed_starts = 0;
    } else if (hand->outcome.code != MANTA_OK && sgd_generation_lives(fit)) {
        generation_abort(fit, (enum mt_code)hand->outcome.code, hand->rank); /* it has told the others of its node itself */
        fit->last_rank = hand->rank;
        sgd_fail(&fit->last_death, hand->outcome.code, "%s", hand->outcome.text);
    }
}

static bool may_go_on(const struct sgd_fit *fit, int failures)
{
    return fit->opts->failure.max_failures < 0 || failures <= fit->opts->failure.max_failures;
}

static manta_status give_up(struct sgd_fit *fit, manta_error *e)
{
    *e = fit->last_death;
    const char *name = fit->opts->run.name ? fit->opts->run.name : "train";
    char        what[96];
    if (fit->failed_starts >= MT_TRAIN_STARTS_MAX)
        snprintf(what, sizeof what, "%d workers in a row died as they started", fit->failed_starts);
    else
        snprintf(what, sizeof what, "failure %d, failure.max_failures is %d", fit->failures, fit->opts->failure.max_failures);
    snprintf(e->message, sizeof e->message, "training \"%.40s\" was given up (%s); the last, rank %d: %.150s%s%.120s", name, what,
             fit->last_rank, fit->last_death.message, fit->last_words[0] ? "; it printed last: " : "", fit->last_words);
    return e->code = MANTA_EWORKER_DIED;
}

/* ---- who is there ---- */

static void note_take(void *user, struct sgd_note *note)
{
    sgd_fit_take_note(user, note);
}

static void node_pass(void *user, uint32_t node, const char *why)
{
    sgd_fit_tell_node(user, node, why);
}

/* Whoever is on a lost place is lost. */
static void place_leave(struct sgd_fit *fit, int index)
{
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++) {
        if (hand->place != index || (hand->state != SGD_HAND_STARTING && hand->state != SGD_HAND_READY))
            continue;
        if (fit->places.of[index].is_away)
            sgd_crew_leave_behind(&fit->crew, hand, on_news, "its node is silent, so the run goes on without it");
        else
            sgd_crew_kill(hand, "its node does not answer any more");
    }
}

/* Its machine has shards of checkpoints that stand nowhere else but once. Until those who are left have saved, its post keeps the
 * node from being empty, so it does not leave before its limit. */
static bool is_held(const struct sgd_fit *fit, const struct sgd_place *place)
{
    return fit->is_apart && place->generation && fit->saved_generation <= place->generation;
}

/* Of the other nodes: what their posts say; who was on a lost one is lost; where there is room, those who wait for CPUs come. */
static void places_keep(struct sgd_fit *fit)
{
    if (fit->places.max == 1)
        return;
    int      ready;
    uint64_t with_ready;
    (void)sgd_crew_count(&fit->crew, &ready);
    sgd_hire_count(fit);
    bool is_complete = ready >= fit->max + fit->opts->scaling.spares && sgd_nodes_missing(fit, SGD_HERE_READY, &with_ready) <= 0;
    sgd_places_look_for(&fit->places, !is_complete, node_pass, fit);
    uint64_t lost = sgd_places_look(&fit->places, note_take, fit);
    for (int i = 1; i < SGD_PLACES_MAX; i++) {
        struct sgd_place *place = &fit->places.of[i];
        if (lost >> i & 1 && place->why[0])
            sgd_fit_tell_node_failed(fit, place);
        if (lost >> i & 1)
            place_leave(fit, i);
        if (place->state == SGD_PLACE_LEAVING)
            sgd_crew_leave(&fit->crew, i);
        bool is_over = place->state == SGD_PLACE_LOST || (place->state == SGD_PLACE_LEAVING && !is_held(fit, place));
        if (is_over && sgd_crew_count_at(&fit->crew, i) == 0)
            sgd_place_close(place);
        if (place->state == SGD_PLACE_OPEN && sgd_crew_count_at(&fit->crew, i) == 0 && is_complete)
            sgd_place_close(place); /* its node may be given back */
    }
    if (!is_complete)
        sgd_hire_move(fit);
}

/* While the run has too few nodes, its last workers are for those that have none. */
static bool may_hire(const struct sgd_fit *fit, int place, int count, int wanted)
{
    uint64_t places;
    int      missing = sgd_nodes_missing(fit, SGD_HERE, &places);
    return missing > 0 && places >> place & 1 ? fit->max - count > missing : count < wanted || missing > 0;
}

/* One look at a worker that starts, `gap_ns` behind the last one. It loads for as long as it works; who is stopped or hangs would
 * be waited for until the run gives up. */
static void start_look(struct sgd_fit *fit, struct sgd_hand *hand, enum sgd_start shows, int64_t gap_ns)
{
    char    why[SGD_WHY_BYTES];
    int64_t stopped_limit = sgd_watch_limit_ns(&fit->watch, &(struct sgd_pulse_seen){.is_stopped = 1});
    if (shows == SGD_START_UNSEEN)
        return;
    hand->is_seen = true;
    fit->loads_ns = fit->starts_ns;
    hand->stopped_ns = shows == SGD_START_STOPPED ? hand->stopped_ns + gap_ns : 0;
    hand->idle_ns = shows == SGD_START_WORKS ? 0 : hand->idle_ns + gap_ns;
    if (hand->stopped_ns > stopped_limit) {
        sgd_crew_kill(hand, "killed since it was stopped by a signal while it started");
    } else if (hand->idle_ns > sgd_watch_load_limit_ns(&fit->watch)) {
        snprintf(why, sizeof why, "hung as it loaded: no CPU time, no disk for %.0f s (see failure.hang_after)",
                 (double)hand->idle_ns * 1e-9);
        sgd_crew_kill(hand, why);
    }
}

static void starts_look(struct sgd_fit *fit)
{
    int64_t now = mt_now_ns(), gap_ns = now - fit->starts_ns, most_ns = MT_TRAIN_LOOK_MS * 4000000ll;
    gap_ns = gap_ns < most_ns ? gap_ns : most_ns; /* of a time in which nobody looked nothing is known */
    fit->starts_ns = now;
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        fit->places.of[i].starting = (struct sgd_hand_set){0};
    for (uint32_t i = 0; i < SGD_HANDS_MAX; i++) {
        struct sgd_hand *hand = &fit->crew.hands[i];
        if (hand->state != SGD_HAND_STARTING)
            continue;
        sgd_hand_set_add(&fit->places.of[hand->place].starting, i);
        start_look(fit, hand, sgd_place_start(&fit->places, hand->place, i), gap_ns);
    }
}

/* Buries the dead and hires, until there are as many as there should be; spares when there is time for them. Workers that
 * can't be placed wait for their turn. */
static manta_status strength_keep(struct sgd_fit *fit, manta_error *e)
{
    bool is_calm = fit->state == SGD_GEN_NONE || fit->state == SGD_GEN_GOING;
    int  ready, wanted = fit->max + (is_calm ? fit->opts->scaling.spares : 0);
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_DEAD)
            sgd_crew_bury(hand);
    if (fit->failed_starts >= MT_TRAIN_STARTS_MAX || !may_go_on(fit, fit->failures + fit->has_death)) {
        sgd_places_doubt(&fit->places); /* nobody waits for news of nodes now */
        return MANTA_OK;                /* without them, or the run ends once all are back */
    }
    places_keep(fit);
    starts_look(fit);
    sgd_crew_cpu_settle(&fit->crew);
    sgd_fit_wish(fit, steps_done(fit)); /* before somebody is hired on what has come */
    for (int count = sgd_crew_count(&fit->crew, &ready), index;; count++) {
        const struct sgd_place *place = sgd_hire_place(fit, &index);
        if (!place || !may_hire(fit, index, count, wanted))
            break;
        if (!sgd_crew_hire(&fit->crew, index, place->node, place->region, place->host))
            return sgd_fail(e, MANTA_EINTERNAL, "no place for a worker");
    }
    return MANTA_OK;
}

static int64_t backoff_ns(const struct sgd_fit *fit)
{
    double ms = fit->opts->failure.backoff_s > 0 ? fit->opts->failure.backoff_s * 1e3 : MT_TRAIN_BACKOFF_MS;
    if (fit->in_a_row < 2)
        return 0;
    for (int i = 2; i < fit->in_a_row && ms < MT_TRAIN_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return (int64_t)((ms < MT_TRAIN_BACKOFF_MAX_MS ? ms : MT_TRAIN_BACKOFF_MAX_MS) * 1e6);
}

/* Whether those who are ready can begin: all that there may be; or enough, and this is no time to wait for more. */
static bool is_gathered(const struct sgd_fit *fit, int64_t now)
{
    int      ready;
    uint64_t places;
    (void)sgd_crew_count(&fit->crew, &ready);
    if (now - fit->gather_ns < backoff_ns(fit) || !fit->crew.cpu[0])
        return false;
    if (sgd_nodes_missing(fit, SGD_HERE_READY, &places) > 0)
        return false;
    if (ready >= fit->max)
        return true;
    return ready >= fit->min && (fit->generation || now - fit->gather_ns > MT_TRAIN_GATHER_MS * 1000000ll);
}

/* What the cluster has said of those who are missing. */
static const char *why_missing(const struct sgd_fit *fit, char *text, size_t size)
{
    const struct sgd_elastic *x = &fit->elastic;
    bool                      is_coming = x->stands == MANTA_WISH_COMING;
    snprintf(text, size, "%s%s%s", is_coming ? "; nodes are being started for them" : "",
             !x->why[0]  ? ""
             : is_coming ? ": "
                         : "; ",
             x->why);
    return text;
}

/* How many are ready, and what is missing of one that is not. */
static const char *who_is_there(const struct sgd_fit *fit, char *text, size_t size)
{
    int ready, used;
    (void)sgd_crew_count(&fit->crew, &ready);
    used = snprintf(text, size, "%d of %d are ready", ready, fit->max);
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_STARTING) {
            snprintf(text + used, size - (size_t)used, ", one on node %u %s", fit->places.of[hand->place].node,
                     hand->is_seen ? "loads" : "has no process yet");
            break;
        }
    return text;
}

static manta_status gather_failed(struct sgd_fit *fit, manta_error *e)
{
    uint64_t places;
    char     why[300], there[120];
    int      waited = (int)((mt_now_ns() - fit->gather_ns) / 1000000000);
    if (fit->failed_starts >= MT_TRAIN_STARTS_MAX)
        return give_up(fit, e);
    why_missing(fit, why, sizeof why);
    if (fit->elastic.stands == MANTA_WISH_NEVER && !fit->has_begun)
        return sgd_fail(e, MANTA_EUNSCHEDULABLE, "the training can't have its fewest workers (%d, %g CPUs and %g GPUs each)%s",
                        fit->min, fit->opts->scaling.cpus, fit->setup.gpus, why);
    int missing = sgd_nodes_missing(fit, SGD_HERE_READY, &places);
    if (missing > 0)
        return sgd_fail(e, MANTA_ETIMEDOUT, "nodes on which a worker is ready: %d after %d s; scaling.min_nodes is %d%s",
                        fit->min_nodes - missing, waited, fit->min_nodes, why);
    return sgd_fail(e, MANTA_ETIMEDOUT,
                    "a worker has not started within %d s (%s): has node %u%s %g free CPUs and %g GPUs for each of %d workers?%s",
                    waited, who_is_there(fit, there, sizeof there), manta_node(), fit->places.max > 1 ? ", or another," : "",
                    fit->opts->scaling.cpus, fit->setup.gpus, fit->min, why);
}

/* Whether those who are missing are waited for no longer: they have had their time to start since more nodes could come and nobody
 * loads, all the time is over that the user gives, or none can ever come. */
static bool is_in_vain(const struct sgd_fit *fit, int64_t now)
{
    int64_t since = fit->elastic.may_come_ns > fit->gather_ns ? fit->elastic.may_come_ns : fit->gather_ns;
    double  most_s = fit->opts->scaling.wait_s > 0 ? fit->opts->scaling.wait_s : MT_TRAIN_WAIT_S;
    bool    is_never = fit->elastic.stands == MANTA_WISH_NEVER && !fit->has_begun;
    int64_t idle_ns = now - (fit->loads_ns > since ? fit->loads_ns : since);
    return fit->failed_starts >= MT_TRAIN_STARTS_MAX || is_never || idle_ns > MT_TRAIN_START_MS * 1000000ll ||
           (since != fit->gather_ns && (double)(now - fit->gather_ns) * 1e-9 > most_s);
}

/* Whether the user wants the run to pause; then the workers are told. */
static bool pause_look(struct sgd_fit *fit)
{
    bool is_wanted = fit->opts->pause && *fit->opts->pause;
    if (is_wanted)
        sgd_board_stop(sgd_board_of(fit->setup.region.data), SGD_BOARD_PAUSES);
    return is_wanted;
}

/* Waits until a generation can be made. */
static manta_status gather(struct sgd_fit *fit, manta_error *e)
{
    manta_status code = MANTA_OK;
    int          told = -1, ready; /* how many were ready when it was told last */
    char         why[300];
    fit->gather_ns = mt_now_ns();
    fit->moves = 0;
    fit->elastic.stands = MANTA_WISH_UNKNOWN;
    fit->elastic.why[0] = '\0';
    for (int64_t now = fit->gather_ns; code == MANTA_OK; now = mt_now_ns()) {
        if (pause_look(fit))
            return sgd_fail(e, MANTA_ECANCELLED,
                            fit->has_begun ? "paused while no worker had the state: the newest checkpoint stands"
                                           : "paused before its first step");
        fit->failures += fit->has_death; /* somebody died between two generations */
        fit->has_death = false;
        if (!may_go_on(fit, fit->failures))
            return give_up(fit, e);
        code = strength_keep(fit, e);
        if (code != MANTA_OK || is_gathered(fit, now))
            break;
        bool is_long = now - fit->gather_ns > MT_TRAIN_WAITING_MS * 1000000ll;
        if (is_in_vain(fit, now))
            return gather_failed(fit, e);
        (void)sgd_crew_count(&fit->crew, &ready);
        if (is_long && (ready != told || fit->elastic.has_news)) {
            sgd_fit_tell_waiting(fit, why_missing(fit, why, sizeof why));
            fit->elastic.has_news = false;
            told = ready;
        }
        sgd_crew_ping(&fit->crew);
        code = sgd_crew_look(&fit->crew, fit->places.nodes.news, on_news, e);
    }
    return code;
}

/* ---- a generation ---- */

static void places_tell(struct sgd_fit *fit)
{
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_READY && hand->told_rank != hand->rank)
            sgd_fit_tell_worker(fit, hand);
}

/* What the members show. Who is back from its call is not to be blamed for anything. */
static void pulses_read(struct sgd_fit *fit, struct sgd_pulse_seen *seen)
{
    for (uint32_t r = 0; r < (uint32_t)fit->workers; r++) {
        const struct sgd_hand  *hand = sgd_crew_of_rank(&fit->crew, (int)r);
        const struct sgd_place *place = hand ? &fit->places.of[hand->place] : NULL;
        bool                    is_back = !hand || !hand->train;
        seen[r] = (struct sgd_pulse_seen){.arrived = UINT64_MAX};
        if (place && hand->place == 0)
            seen[r] = sgd_place_pulse(fit->setup.region.data, r, r - place->first, hand->info.pid);
        else if (place && r >= place->first && r < place->first + place->count)
            seen[r] = place->seen[r - place->first];
        if (is_back)
            seen[r].arrived = UINT64_MAX;
    }
}

static const char *doing_name(uint32_t doing)
{
    static const char *const names[] = {
#define X(name, text) text,
        SGD_DOINGS(X)
#undef X
    };
    static_assert(SGD_DOINGS_COUNT <= SGD_WATCH_DOING + 1, "travels in the bits of a look");
    return doing < SGD_DOINGS_COUNT ? names[doing] : "something unknown";
}

static bool is_anybody_out(const struct sgd_fit *fit)
{
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->train)
            return true;
    return false;
}

static manta_status order_next(struct sgd_fit *fit, manta_error *e)
{
    struct sgd_hand *by_rank[MT_GROUP_MEMBERS_MAX];
    for (int rank = 0; rank < fit->workers; rank++)
        by_rank[rank] = sgd_crew_of_rank(&fit->crew, rank);
    fit->generation = ++fit->generations;
    return sgd_order_make(fit, fit->generation, by_rank, fit->workers, &fit->order, e);
}

static manta_status orders_give(struct sgd_fit *fit, manta_error *e)
{
    struct sgd_pulse_seen seen[MT_GROUP_MEMBERS_MAX];
    int                   before = fit->workers;
    bool                  is_ahead = fit->next.state == SGD_NEXT_ORDERED; /* its members are at it */
    MT_ASSERT(!is_anybody_out(fit)); /* it could write into the memory of the next generation */
    fit->workers = is_ahead ? sgd_fit_next_take(fit) : sgd_ranks_give(fit);
    fit->has_death = fit->has_left = false;
    fit->leave_ns = 0;
    manta_status code = is_ahead ? MANTA_OK : order_next(fit, e);
    if (code != MANTA_OK)
        return code;
    sgd_ranks_place(fit);
    sgd_generation_ordered(fit);
    pulses_read(fit, seen); /* before they have orders: they may make many steps until we look again */
    for (int rank = 0; rank < fit->workers && !is_ahead; rank++) {
        struct sgd_order order = sgd_order_of(&fit->order, rank);
        sgd_crew_order(sgd_crew_of_rank(&fit->crew, rank), &order);
    }
    if (is_ahead && fit->has_next_stepped)
        sgd_generation_stepped(fit);
    fit->recovering.placed_ns = mt_now_ns();
    sgd_watch_begin(&fit->watch, fit->recovering.placed_ns, (uint32_t)fit->workers, seen);
    places_tell(fit);
    if (before && before != fit->workers) {
        fit->result.resizes++;
        sgd_fit_tell_resized(fit, is_ahead);
    }
    return MANTA_OK;
}

/* Says where it hangs, to the user now and to whoever asks for the reason of its death, and kills it. */
static void hung_end(struct sgd_fit *fit, struct sgd_hand *hand, const struct sgd_pulse_seen *seen)
{
    char               why[SGD_WHY_BYTES];
    double             silence = (double)sgd_watch_silence_ns(&fit->watch, (uint32_t)hand->rank) * 1e-9;
    unsigned long long step = seen->steps + (seen->doing != SGD_DOES_VALIDATE); /* that is behind the step */
    snprintf(why, sizeof why, "hung at step %llu in %s for %.1f s%s, so it was killed (failure.hang_after)", step,
             doing_name(seen->doing), silence, seen->is_stopped ? ", stopped by a signal" : "");
    sgd_fit_tell_hung(fit, hand, why);
    sgd_crew_kill(hand, why);
}

/* A member that does not come back is killed: it could write into the memory of the next generation. */
static void stragglers_kill(struct sgd_fit *fit)
{
    struct sgd_pulse_seen seen[MT_GROUP_MEMBERS_MAX];
    pulses_read(fit, seen);
    uint64_t late = sgd_watch_late(&fit->watch, mt_now_ns(), seen);
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->train && hand->state == SGD_HAND_READY && late >> hand->rank & 1)
            hung_end(fit, hand, &seen[hand->rank]);
}

static void hung_kill(struct sgd_fit *fit)
{
    struct sgd_pulse_seen seen[MT_GROUP_MEMBERS_MAX];
    int                   straggler;
    int64_t               now = mt_now_ns();

    pulses_read(fit, seen);
    uint64_t hung = sgd_watch_look(&fit->watch, now, seen, &straggler);
    for (int r = 0; r < fit->workers; r++) {
        struct sgd_hand *hand = sgd_crew_of_rank(&fit->crew, r);
        if (!hand || !hand->train || hand->state == SGD_HAND_KILLED)
            continue;
        if (hung >> r & 1) {
            hung_end(fit, hand, &seen[r]);
        } else if (r == straggler && now - fit->straggler_ns > 2 * MT_TRAIN_WINDOW_MS * 1000000ll) {
            fit->straggler_ns = now;
            sgd_fit_tell_straggler(fit, hand);
        }
    }
}

/* More can work than do. */
static bool is_growth_due(struct sgd_fit *fit)
{
    return fit->workers < fit->max && sgd_crew_spare(&fit->crew);
}

/* A node is drained: the next generation is made of the others. */
static bool is_leave_due(const struct sgd_fit *fit)
{
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->train && fit->places.of[hand->place].state == SGD_PLACE_LEAVING)
            return true;
    return false;
}

/* All members come back after one and the same step, so none is computed twice; if that can be, when the next generation is ready
 * beside them. Where a node is to leave and that step takes long, it is left. */
static void change_maybe(struct sgd_fit *fit)
{
    int patience_ms = is_leave_due(fit) ? MT_TRAIN_LEAVE_MS : MT_TRAIN_START_MS;
    if (fit->state != SGD_GEN_GOING)
        return;
    if (fit->leave_ns && mt_now_ns() - fit->leave_ns > patience_ms * 1000000ll) {
        members_recall(fit, MT_EAGAIN, 0);
        sgd_generation_resize(fit);
    } else if (!fit->leave_ns && fit->next.state == SGD_NEXT_NONE && (is_growth_due(fit) || is_leave_due(fit))) {
        if (fit->next_tried != fit->generation)
            sgd_fit_next_begin(fit);
        if (fit->next.state != SGD_NEXT_NONE)
            return;
        fit->leave_ns = mt_now_ns();
        sgd_places_leave(&fit->places, fit->generation);
    } else if (fit->workers == fit->max) {
        places_tell(fit);
    }
}

/* Returns when each member is back or dead. */
static manta_status generation_wait(struct sgd_fit *fit, manta_error *e)
{
    manta_status code = MANTA_OK;
    bool         has_next = false;
    while (code == MANTA_OK && (is_anybody_out(fit) || has_next)) {
        (void)pause_look(fit);
        code = sgd_crew_look(&fit->crew, fit->places.nodes.news, on_news, e);
        sgd_fit_read_notes(fit);
        (void)sgd_fit_read_spans(fit, NULL);
        if (code == MANTA_OK)
            code = strength_keep(fit, e);
        if (!sgd_generation_lives(fit)) {
            stragglers_kill(fit);
        } else {
            hung_kill(fit);
            sgd_crew_ping(&fit->crew);
            change_maybe(fit);
        }
        has_next = sgd_fit_next_look(fit);
    }
    if (fit->leave_ns && fit->state == SGD_GEN_GOING)
        sgd_generation_resize(fit);
    else if (sgd_generation_lives(fit))
        sgd_generation_over(fit);
    fit->recovering.back_ns = mt_now_ns();
    return code;
}

/* A death, or a change of size: the next generation takes over. */
static bool is_of_a_death(int32_t code)
{
    return code == MANTA_EWORKER_DIED || code == MANTA_ETIMEDOUT || code == MANTA_EFENCED || code == MANTA_EAGAIN;
}

static manta_status done(struct sgd_fit *fit, const struct sgd_outcome *outcome, manta_error *e)
{
    fit->result.loss = (double)outcome->loss;
    fit->result.accuracy = (double)outcome->accuracy;
    fit->result.weights = outcome->weights;
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->has_outcome && (int64_t)hand->outcome.optimizer_bytes > fit->result.optimizer_bytes)
            fit->result.optimizer_bytes = (int64_t)hand->outcome.optimizer_bytes;
    fit->result.stopped = (int)outcome->stopped;
    fit->result.steps = (int64_t)outcome->step;
    if (outcome->save_code)
        return sgd_fail(e, outcome->save_code, "the training is done, but its last checkpoint is not in %.200s: %s",
                        fit->setup.run.folder, outcome->text);
    return MANTA_OK;
}

/* The one whose error ends the run: that of its own making, if one knows; NULL: none. */
static const struct sgd_hand *faulty_find(const struct sgd_fit *fit)
{
    const struct sgd_hand *found = NULL;
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++) {
        if (!hand->has_outcome || hand->outcome.code == MANTA_OK || is_of_a_death(hand->outcome.code))
            continue;
        if (!found || (!found->outcome.is_culprit && hand->outcome.is_culprit))
            found = hand;
    }
    return found;
}

/* What all that came back say together. *out_again: another generation is due. */
static manta_status verdict(struct sgd_fit *fit, bool *out_again, manta_error *e)
{
    *out_again = false;
    const struct sgd_hand *faulty = faulty_find(fit);
    if (faulty) {
        *e = (manta_error){.pid = faulty->info.pid};
        snprintf(e->message, sizeof e->message, "rank %d, after step %llu: %s", faulty->rank,
                 (unsigned long long)faulty->outcome.step, faulty->outcome.text);
        return e->code = faulty->outcome.code;
    }
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->has_outcome && hand->outcome.is_finisher)
            return done(fit, &hand->outcome, e);
    bool is_resize = fit->state == SGD_GEN_RESIZED || (fit->has_left && !fit->has_death);
    fit->failures += !is_resize;
    fit->in_a_row = sgd_generation_has_stepped(fit) ? !is_resize : fit->in_a_row + 1;
    fit->has_death = false; /* it is counted */
    if (fit->failed_starts >= MT_TRAIN_STARTS_MAX || !may_go_on(fit, fit->failures))
        return give_up(fit, e);
    *out_again = true;
    return MANTA_OK;
}

static manta_status fit_run(struct sgd_fit *fit, manta_error *e)
{
    manta_status code = MANTA_OK;
    bool         again = true;

    while (code == MANTA_OK && again) {
        code = fit->next.state == SGD_NEXT_ORDERED ? MANTA_OK : gather(fit, e);
        if (code != MANTA_OK)
            break;
        code = orders_give(fit, e);
        if (code == MANTA_OK)
            code = generation_wait(fit, e);
        if (code == MANTA_OK)
            code = verdict(fit, &again, e);
    }
    sgd_fit_read_notes(fit);
    sgd_places_drain(&fit->places, note_take, fit);
    (void)sgd_fit_read_spans(fit, NULL);
    if (fit->generation && (code != MANTA_OK || fit->next.state == SGD_NEXT_ORDERED))
        generation_abort(fit, MT_ECANCELLED, 0); /* who is still at it comes back instead of waiting for the others */
    return code;
}

manta_status sgd_fit_here(const char *name, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e)
{
    static const manta_sgd_opts defaults;
    manta_error                 error = {0};
    int64_t                     start = mt_now_ns();
    struct sgd_fit             *fit = calloc(1, sizeof *fit);
    manta_status                code;

    if (!fit) {
        code = sgd_fail(&error, MANTA_ENOMEM, "no memory for a training run");
        goto done;
    }
    fit->opts = opts ? opts : &defaults;
    code = sgd_setup_init(&fit->setup, name, fit->opts, &error);
    if (code != MANTA_OK)
        goto done;
    sgd_setup_workers(fit->opts, &fit->min, &fit->max);
    fit->min_nodes = sgd_setup_nodes_min(fit->opts);
    fit->watch.hang_after_ns = (int64_t)(fit->opts->failure.hang_after * 1e9);
    fit->crew = (struct sgd_crew){.run = &fit->setup.run,
                                  .op = name,
                                  .config = manta_bytes_of(fit->setup.config.data, fit->setup.config.size),
                                  .lent = fit->setup.lent,
                                  .cpus = fit->opts->scaling.cpus,
                                  .gpus = fit->setup.gpus};
    sgd_places_init(&fit->places, sgd_setup_nodes(fit->opts), &fit->setup.region, fit->opts->scaling.cpus, fit->setup.gpus);
    fit->crew.has_home = fit->places.of[0].state == SGD_PLACE_OPEN;
    fit->mapped = sgd_files_offer(fit->setup.run.group, fit->setup.op);
    fit->setup.run.has_files = fit->mapped != NULL;
    code = sgd_fit_logs_open(fit, name, &error);
    if (code == MANTA_OK)
        code = fit_run(fit, &error);
    sgd_fit_logs_end(fit, code, &error);
    sgd_fit_wish_end(fit);
    sgd_crew_dismiss(&fit->crew);
    fit->result.node_looks = fit->places.nodes.asks;
    sgd_places_fini(&fit->places);
    manta_actor_free(fit->mapped);
    sgd_setup_fini(&fit->setup);
    fit->result.wall_s = (double)(mt_now_ns() - start) * 1e-9;
    if (out_result)
        *out_result = fit->result;
done:
    free(fit);
    if (e)
        *e = error;
    return code;
}
