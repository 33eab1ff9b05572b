/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - generations: everybody works, somebody dies, the rest come back, the ranks are filled, and on.
 *
 * Owns:   the crew and what it needs (setup.h), for the time of one call. Thread: the caller's.
 * Always: orders for a generation are given only when each member of the last one is back or dead (group.h).
 */
#include "sgd/fit.h"

#include "sgd/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *group_of(const struct sgd_fit *fit)
{
    return (char *)fit->setup.region.data + SGD_BOARD_SIZE;
}

/* ---- a death ---- */

static void generation_abort(struct sgd_fit *fit, enum mt_code reason, int rank)
{
    sgd_group_abort(group_of(fit), fit->generation, reason, rank < 0 ? 0 : (uint32_t)rank);
    if (fit->aborted_ns == 0)
        fit->aborted_ns = sgd_now_ns();
}

static void on_death(struct sgd_fit *fit, struct sgd_hand *hand)
{
    struct sgd_recovering *r = &fit->recovering;
    if (hand->rank != SGD_NO_RANK) {
        generation_abort(fit, MT_EWORKER_DIED, hand->rank);
        if (!r->is_open)
            *r = (struct sgd_recovering){.is_open = true, .detected_ns = fit->aborted_ns};
        r->lost++;
    }
    fit->last_death = hand->death;
    fit->last_rank = hand->rank;
    if (!hand->was_ready)
        *(hand->rank == SGD_NO_RANK ? &fit->failed_spares : &fit->failed_starts) += 1;
    sgd_fit_tell_lost(fit, hand);
}

static void on_news(struct sgd_crew *crew, struct sgd_hand *hand, enum sgd_news news)
{
    struct sgd_fit *fit = mt_container_of(crew, struct sgd_fit, crew);
    if (news == SGD_NEWS_DEAD) {
        on_death(fit, hand);
    } else if (news == SGD_NEWS_READY) {
        fit->failed_starts = fit->failed_spares = 0;
        sgd_fit_tell_worker(fit, hand);
    } else if (hand->outcome.code != MANTA_OK && fit->aborted_ns == 0) {
        fit->aborted_ns = sgd_now_ns(); /* it has told the others itself */
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
        snprintf(what, sizeof what, "failure %d, failure.max_failures is %d", fit->failures,
                 fit->opts->failure.max_failures);
    snprintf(e->message, sizeof e->message, "training \"%.60s\" was given up (%s); the last, rank %d: %.250s", name, what,
             fit->last_rank, fit->last_death.message);
    return e->code = MANTA_EWORKER_DIED;
}

/* ---- filling the ranks ---- */

/* Puts a spare or a new process in the place of each dead one. */
static manta_status dead_replace(struct sgd_fit *fit, manta_error *e)
{
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++) {
        if (hand->state != SGD_HAND_DEAD)
            continue;
        int rank = hand->rank;
        if (rank != SGD_NO_RANK && (fit->failed_starts >= MT_TRAIN_STARTS_MAX || !may_go_on(fit, fit->failures + 1)))
            continue; /* the run ends once all are back */
        sgd_crew_bury(hand);
        if (rank == SGD_NO_RANK)
            continue; /* spares are hired when there is time */
        struct sgd_hand *spare = sgd_crew_spare(&fit->crew);
        fit->result.restarts++;
        if (spare) {
            spare->rank = rank;
            if (spare->state == SGD_HAND_READY)
                sgd_fit_tell_worker(fit, spare);
        } else if (!sgd_crew_hire(&fit->crew, rank)) {
            return sgd_fail(e, MANTA_EINTERNAL, "no place for a worker");
        }
    }
    return MANTA_OK;
}

/* Where spares do not start, the training goes on without. */
static manta_status spares_hire(struct sgd_fit *fit, manta_error *e)
{
    if (fit->failed_spares >= MT_TRAIN_STARTS_MAX)
        return MANTA_OK;
    for (int count = sgd_crew_spares(&fit->crew); count < fit->opts->scaling.spares; count++)
        if (!sgd_crew_hire(&fit->crew, SGD_NO_RANK))
            return sgd_fail(e, MANTA_EINTERNAL, "no place for a spare");
    return MANTA_OK;
}

static manta_status starts_check(struct sgd_fit *fit, manta_error *e)
{
    int64_t now = sgd_now_ns();
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_STARTING && now - hand->hired_ns > MT_TRAIN_START_MS * 1000000ll)
            return sgd_fail(e, MANTA_ETIMEDOUT,
                            "a worker has not started within %d s: does node %u have %g free CPUs for each of %d workers?",
                            MT_TRAIN_START_MS / 1000, manta_node(), fit->opts->scaling.cpus, fit->workers);
    return MANTA_OK;
}

/* A member that does not come back is killed: it could write into the memory of the next generation. */
static void stragglers_kill(struct sgd_fit *fit)
{
    if (sgd_now_ns() - fit->aborted_ns < MT_TRAIN_RETURN_MS * 1000000ll)
        return;
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->train && hand->state == SGD_HAND_READY)
            manta_actor_kill(hand->actor, false);
}

/* ---- a generation ---- */

static void orders_give(struct sgd_fit *fit)
{
    fit->generation++;
    fit->is_going = false;
    fit->aborted_ns = 0;
    for (int rank = 0; rank < fit->workers; rank++)
        sgd_crew_order(sgd_crew_of_rank(&fit->crew, rank), fit->generation, (uint32_t)fit->workers);
    fit->recovering.placed_ns = sgd_now_ns();
}

static bool is_anybody_out(const struct sgd_fit *fit)
{
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->train)
            return true;
    return false;
}

/* Returns when each member is back or dead. */
static manta_status generation_wait(struct sgd_fit *fit, manta_error *e)
{
    manta_status code = MANTA_OK;
    while (code == MANTA_OK && is_anybody_out(fit)) {
        code = sgd_crew_look(&fit->crew, MT_TRAIN_LOOK_MS, on_news, e);
        sgd_fit_read_notes(fit);
        if (code == MANTA_OK)
            code = dead_replace(fit, e);
        if (code == MANTA_OK)
            code = starts_check(fit, e);
        if (code == MANTA_OK && fit->aborted_ns) {
            stragglers_kill(fit);
        } else if (code == MANTA_OK && fit->is_going) {
            sgd_crew_ping(&fit->crew);
            code = spares_hire(fit, e);
        }
    }
    fit->recovering.back_ns = sgd_now_ns();
    return code;
}

static bool is_of_a_death(int32_t code)
{
    return code == MANTA_EWORKER_DIED || code == MANTA_ETIMEDOUT || code == MANTA_EFENCED;
}

static manta_status done(struct sgd_fit *fit, const struct sgd_outcome *outcome, manta_error *e)
{
    fit->result.loss = (double)outcome->loss;
    fit->result.accuracy = (double)outcome->accuracy;
    fit->result.weights = outcome->weights;
    fit->result.stopped = (int)outcome->is_stopped;
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
    fit->failures++;
    if (fit->failed_starts >= MT_TRAIN_STARTS_MAX || !may_go_on(fit, fit->failures))
        return give_up(fit, e);
    *out_again = true;
    return MANTA_OK;
}

static manta_status fit_run(struct sgd_fit *fit, manta_error *e)
{
    manta_status code = MANTA_OK;
    bool         again = true;

    for (int rank = 0; rank < fit->workers; rank++)
        if (!sgd_crew_hire(&fit->crew, rank))
            return sgd_fail(e, MANTA_EINTERNAL, "no place for a worker");
    code = spares_hire(fit, e);
    while (code == MANTA_OK && again) {
        orders_give(fit);
        code = generation_wait(fit, e);
        if (code == MANTA_OK)
            code = verdict(fit, &again, e);
    }
    sgd_fit_read_notes(fit);
    if (fit->generation && code != MANTA_OK)
        generation_abort(fit, MT_ECANCELLED, 0); /* who is still at it comes back instead of waiting for the others */
    return code;
}

manta_status manta_sgd_fit(const char *name, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e)
{
    static const manta_sgd_opts defaults;
    manta_error                 error = {0};
    int64_t                     start = sgd_now_ns();
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
    int min;
    sgd_setup_workers(fit->opts, &min, &fit->workers);
    fit->crew = (struct sgd_crew){.run = &fit->setup.run, .op = name,
                                  .config = manta_bytes_of(fit->setup.config.data, fit->setup.config.size),
                                  .lent = fit->setup.lent, .region = fit->setup.region.number,
                                  .cpus = fit->opts->scaling.cpus};
    code = fit_run(fit, &error);
    sgd_crew_dismiss(&fit->crew);
    sgd_setup_fini(&fit->setup);
    fit->result.wall_s = (double)(sgd_now_ns() - start) * 1e-9;
    if (out_result)
        *out_result = fit->result;
done:
    free(fit);
    if (e)
        *e = error;
    return code;
}
