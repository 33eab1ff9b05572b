/* SPDX-License-Identifier: Apache-2.0
 *
 * lookup.c - see lookup.h.
 *
 *   caller --begins--> thread: getaddrinfo --done--> the caller takes what it found, and frees
 *      '--limit: leaves------------'--------done--> nobody is there: the thread frees
 *
 * Owns:    struct lookup: both until one of them is through with it; who comes second frees it.
 */
#include "core/redis/lookup.h"
#include "core/base/cond.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 256 * 1024 };

struct lookup {
    pthread_mutex_t  lock;
    pthread_cond_t   changed;
    bool             is_done, is_left;
    int              rc, sys;
    struct addrinfo *found;
    char             host[256], port[8];
};

static atomic_int lookups;

static void lookup_free(struct lookup *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void ask(struct lookup *l, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    l->rc = getaddrinfo(l->host, l->port, &hints, &l->found);
    l->sys = errno;
    if (l->rc != 0)
        l->found = NULL;
}

static void *run(void *arg)
{
    struct lookup *l = arg;
    ask(l, 0);
    pthread_mutex_lock(&l->lock);
    bool is_left = l->is_left;
    l->is_done = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (is_left)
        lookup_free(l);
    atomic_fetch_sub(&lookups, 1);
    return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port)
{
    struct lookup *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    snprintf(l->host, sizeof l->host, "%s", host);
    snprintf(l->port, sizeof l->port, "%s", port);
    mt_cond_init(&l->changed);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static bool begin(struct lookup *l)
{
    pthread_attr_t attr;
    pthread_t      thread;
    if (atomic_fetch_add(&lookups, 1) >= RDS_LOOKUPS_MAX) {
        atomic_fetch_sub(&lookups, 1);
        return false;
    }
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    bool is_begun = pthread_create(&thread, &attr, run, l) == 0;
    pthread_attr_destroy(&attr);
    if (!is_begun)
        atomic_fetch_sub(&lookups, 1);
    return is_begun;
}

/* Whether it was done in time; else it is the thread's. */
static bool wait_for(struct lookup *l, int limit_ms)
{
    struct timespec until = mt_cond_until(limit_ms);
    int             rc = 0;
    pthread_mutex_lock(&l->lock);
    while (!l->is_done && rc == 0)
        rc = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    bool is_done = l->is_done;
    l->is_left = !is_done;
    pthread_mutex_unlock(&l->lock);
    return is_done;
}

mt_status rds_lookup(const char *host, const char *port, int limit_ms, struct addrinfo **out)
{
    struct lookup *l = lookup_new(host, port);
    if (!l)
        return mt_error(MT_ENOMEM, 0, "no memory to look a name up");
    ask(l, AI_NUMERICHOST);
    if (l->rc != 0) {
        if (!begin(l)) {
            lookup_free(l);
            return mt_error(MT_ETIMEDOUT, 0, "many names are still being looked up");
        }
        if (!wait_for(l, limit_ms))
            return mt_error(MT_ETIMEDOUT, 0, "its name was not looked up in time");
    }
    *out = l->found;
    l->found = NULL;
    int rc = l->rc, sys = l->sys;
    lookup_free(l);
    if (rc == 0)
        return mt_ok();
    return rc == EAI_SYSTEM ? mt_error(MT_ESYS, sys, "its name can't be looked up")
                            : mt_error(MT_ENOENT, 0, "its name leads nowhere");
}
