/* SPDX-License-Identifier: Apache-2.0
 *
 * team.c - threads that take one piece of work after the other.
 *
 * Owns:   the threads. What a member is to do is the runner's until `posted` changes, and the member's until `done` follows.
 * Thread: see team.h.
 */
#include "sgd/ground/team.h"

#include "core/base/clock.h"
#include "core/base/limits/lib.h"
#include "core/base/limits/train.h"
#include "sgd/ground/futex.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

/* A word that one thread writes and one waits for. */
struct word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleeps; /* who waits is asleep, or about to be */
};

struct member {
    struct word      posted, done; /* rounds of this member */
    pthread_t        thread;
    struct sgd_team *team;
    uint32_t         index;
    mt_status        st; /* what its last piece came to */
};

struct sgd_team {
    uint32_t       members;
    bool           is_ending;
    sgd_team_work *work; /* of this round */
    void          *user;
    struct member *of;
};

/* ---- a word ---- */

static void say(struct word *w, uint32_t value)
{
    atomic_store(&w->value, value); /* in one order with `sleeps`: either the sleeper sees this, or we see the sleeper */
    if (atomic_load(&w->sleeps))
        sgd_futex_wake_all(&w->value);
}

static void await(struct word *w, uint32_t wanted)
{
    int64_t until = 0;
    while (atomic_load_explicit(&w->value, memory_order_acquire) != wanted) {
        int64_t now = mt_now_ns();
        until = until ? until : now + MT_SPIN_NS_MAX;
        if (now < until) {
            sched_yield();
            continue;
        }
        atomic_store(&w->sleeps, 1);
        uint32_t seen = atomic_load(&w->value);
        if (seen != wanted)
            sgd_futex_wait(&w->value, seen, MT_GROUP_WAIT_MS);
        atomic_store(&w->sleeps, 0);
    }
}

/* ---- a member ---- */

static void *serve(void *arg)
{
    struct member *m = arg;
    (void)pthread_setname_np(pthread_self(), SGD_COMPUTES "device");
    for (uint32_t round = 1;; round++) {
        await(&m->posted, round);
        if (m->team->is_ending)
            return NULL;
        m->st = m->team->work(m->team->user, m->index);
        say(&m->done, round);
    }
}

static void post(struct member *m)
{
    say(&m->posted, atomic_load_explicit(&m->posted.value, memory_order_relaxed) + 1);
}

/* ---- the runner's calls ---- */

struct sgd_team *sgd_team_new(uint32_t members)
{
    struct sgd_team *team = calloc(1, sizeof *team);
    if (!team)
        return NULL;
    team->members = 1;
    team->of = aligned_alloc(64, members * sizeof *team->of);
    for (uint32_t i = 1; team->of && i < members; i++) {
        team->of[i] = (struct member){.team = team, .index = i};
        if (pthread_create(&team->of[i].thread, NULL, serve, &team->of[i]) != 0)
            break;
        team->members++;
    }
    if (team->of && team->members == members)
        return team;
    sgd_team_free(team);
    return NULL;
}

void sgd_team_free(struct sgd_team *team)
{
    if (!team)
        return;
    team->is_ending = true;
    for (uint32_t i = 1; i < team->members; i++) {
        post(&team->of[i]);
        pthread_join(team->of[i].thread, NULL);
    }
    free(team->of);
    free(team);
}

uint32_t sgd_team_members(const struct sgd_team *team)
{
    return team->members;
}

mt_status sgd_team_run(struct sgd_team *team, uint32_t count, sgd_team_work *work, void *user)
{
    MT_ASSERT(count >= 1 && count <= team->members);
    team->work = work;
    team->user = user;
    for (uint32_t i = 1; i < count; i++)
        post(&team->of[i]);
    mt_status st = work(user, 0);
    for (uint32_t i = 1; i < count; i++) {
        struct member *m = &team->of[i];
        await(&m->done, atomic_load_explicit(&m->posted.value, memory_order_relaxed));
        st = st.code != MT_OK ? st : m->st;
    }
    return st;
}
