/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - a generation's connections and pages, made beside the one that computes. See ahead.h.
 *
 * Owns: the connections and the scratch until they are taken.
 */
#include "sgd/sum/ahead.h"

#include "core/base/machine.h"

#include <stdlib.h>
#include <string.h>

static const char *const ahead_names[] = {[SGD_AHEAD_NONE] = "NONE", [SGD_AHEAD_MAKING] = "MAKING", [SGD_AHEAD_MADE] = "MADE"};
static const uint32_t    ahead_next[] = {
       [SGD_AHEAD_NONE] = MT_STATE(SGD_AHEAD_MAKING),
       [SGD_AHEAD_MAKING] = MT_STATE(SGD_AHEAD_MADE) | MT_STATE(SGD_AHEAD_NONE),
       [SGD_AHEAD_MADE] = MT_STATE(SGD_AHEAD_NONE),
};
static const struct mt_machine ahead_machine = MT_MACHINE("what is made ahead", ahead_names, ahead_next);

static void ahead_set_state(struct sgd_ahead *ahead, enum sgd_ahead_state next)
{
    MT_TRANSITION(&ahead_machine, ahead->state, next);
    ahead->state = next;
    pthread_cond_broadcast(&ahead->changed);
}

mt_status sgd_ahead_init(struct sgd_ahead *ahead)
{
    if (pthread_mutex_init(&ahead->lock, NULL) != 0 || pthread_cond_init(&ahead->changed, NULL) != 0)
        return mt_error(MT_ENOMEM, 0, "worker: no lock");
    ahead->region = NULL;
    return mt_ok();
}

/* Asked by the waits of whoever connects. */
static bool is_over(void *user, enum mt_code *reason, uint32_t *rank)
{
    const struct sgd_ahead *ahead = user;
    *reason = MT_ECANCELLED;
    *rank = MT_GROUP_MEMBERS_MAX;
    return atomic_load(&ahead->is_unwanted) || coll_shm_why(ahead->region).generation >= ahead->ends_at;
}

static mt_status connect_all(struct sgd_ahead *ahead, const struct sgd_group_config *config)
{
    struct coll_tcp_config c = sgd_group_tcp_config(config);
    struct coll_at         at;
    memcpy(ahead->secret, config->net->secret, sizeof ahead->secret);
    c.secret = ahead->secret;
    c.is_aborted = is_over;
    c.user = ahead;
    MT_TRY(coll_tcp_open(&ahead->made.tcp, &c, &at));
    return coll_tcp_join(&ahead->made.tcp, config->net->at);
}

static mt_status make(struct sgd_ahead *ahead, const struct sgd_group_config *config)
{
    bool is_leader = config->net && config->net->nodes > 1 && config->rank == config->net->first[config->net->node];
    MT_TRY(sgd_group_touch(config, is_leader, &ahead->made));
    return is_leader ? connect_all(ahead, config) : mt_ok();
}

/* What was made goes. */
static void clear(struct sgd_ahead *ahead)
{
    coll_tcp_fini(&ahead->made.tcp);
    free(ahead->made.scratch);
    ahead->made = (struct sgd_group_made){0};
    explicit_bzero(ahead->secret, sizeof ahead->secret);
}

mt_status sgd_ahead_make(struct sgd_ahead *ahead, const struct sgd_group_config *config, uint32_t present)
{
    pthread_mutex_lock(&ahead->lock);
    if (ahead->state == SGD_AHEAD_MADE) { /* of a generation that never came */
        clear(ahead);
        ahead_set_state(ahead, SGD_AHEAD_NONE);
    }
    bool is_free = ahead->state == SGD_AHEAD_NONE;
    if (is_free) {
        ahead->made = (struct sgd_group_made){0};
        ahead->generation = config->generation;
        ahead->region = config->region;
        ahead->ends_at = present ? present : config->generation;
        atomic_store(&ahead->is_unwanted, false);
        ahead_set_state(ahead, SGD_AHEAD_MAKING);
    }
    pthread_mutex_unlock(&ahead->lock);
    if (!is_free)
        return mt_error(MT_EAGAIN, 0, "another generation's connections are being made");
    mt_status st = make(ahead, config);
    pthread_mutex_lock(&ahead->lock);
    if (st.code)
        clear(ahead);
    ahead_set_state(ahead, st.code ? SGD_AHEAD_NONE : SGD_AHEAD_MADE);
    pthread_mutex_unlock(&ahead->lock);
    return st;
}

/* Waits until nobody makes anything; then it is this thread's. */
static void settle(struct sgd_ahead *ahead, uint32_t wanted)
{
    if (ahead->generation != wanted)
        atomic_store(&ahead->is_unwanted, true);
    while (ahead->state == SGD_AHEAD_MAKING)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
}

bool sgd_ahead_take(struct sgd_ahead *ahead, uint32_t generation, struct sgd_group_made *out)
{
    pthread_mutex_lock(&ahead->lock);
    settle(ahead, generation);
    bool is_there = ahead->state == SGD_AHEAD_MADE && ahead->generation == generation;
    if (is_there) {
        *out = ahead->made;
        ahead->made = (struct sgd_group_made){0};
    }
    if (ahead->state == SGD_AHEAD_MADE) {
        clear(ahead);
        ahead_set_state(ahead, SGD_AHEAD_NONE);
    }
    explicit_bzero(ahead->secret, sizeof ahead->secret);
    pthread_mutex_unlock(&ahead->lock);
    return is_there;
}

void sgd_ahead_fini(struct sgd_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    settle(ahead, 0);
    if (ahead->state == SGD_AHEAD_MADE) {
        clear(ahead);
        ahead_set_state(ahead, SGD_AHEAD_NONE);
    }
    pthread_mutex_unlock(&ahead->lock);
    pthread_mutex_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->changed);
}
