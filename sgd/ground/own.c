/* SPDX-License-Identifier: Apache-2.0
 *
 * own.c - a thread that makes all calls of one thing. See own.h.
 *
 * Owns: the thread.
 */
#include "sgd/ground/own.h"

#include "sgd/ground/team.h"

static void *own_main(void *user)
{
    struct sgd_own *own = user;
    (void)pthread_setname_np(pthread_self(), SGD_COMPUTES "calls");
    pthread_mutex_lock(&own->lock);
    while (!own->is_over) {
        if (!own->call) {
            pthread_cond_wait(&own->changed, &own->lock);
            continue;
        }
        pthread_mutex_unlock(&own->lock);
        own->call(own->user);
        pthread_mutex_lock(&own->lock);
        own->call = NULL;
        pthread_cond_broadcast(&own->changed);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

mt_status sgd_own_start(struct sgd_own *own)
{
    if (pthread_mutex_init(&own->lock, NULL) != 0)
        return mt_error(MT_ENOMEM, 0, "no lock for a thread");
    if (pthread_cond_init(&own->changed, NULL) != 0) {
        pthread_mutex_destroy(&own->lock);
        return mt_error(MT_ENOMEM, 0, "no lock for a thread");
    }
    int sys = pthread_create(&own->thread, NULL, own_main, own);
    own->is_begun = sys == 0;
    if (own->is_begun)
        return mt_ok();
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->changed);
    return mt_error(MT_ESYS, sys, "no thread");
}

void sgd_own_call(struct sgd_own *own, void (*call)(void *user), void *user)
{
    pthread_mutex_lock(&own->lock);
    MT_ASSERT(own->is_begun && !own->call);
    own->user = user;
    own->call = call;
    pthread_cond_broadcast(&own->changed);
    while (own->call)
        pthread_cond_wait(&own->changed, &own->lock);
    pthread_mutex_unlock(&own->lock);
}

void sgd_own_end(struct sgd_own *own)
{
    if (!own->is_begun)
        return;
    pthread_mutex_lock(&own->lock);
    own->is_over = true;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    pthread_join(own->thread, NULL);
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->changed);
    own->is_begun = false;
}
