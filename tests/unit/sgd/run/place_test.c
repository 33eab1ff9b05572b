/* SPDX-License-Identifier: Apache-2.0
 *
 * place_test.c - the nodes of a run: which gets a place when all are taken, and what a look at a worker's process shows.
 *
 * The cluster's nodes and the calls to posts are the test's own.
 */
#include "tests/unit/base/test.h"

#include "sgd/ground/team.h"
#include "sgd/run/place.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the cluster ---- */

enum { NODES = SGD_PLACES_MAX + 1, HERE = 1 };

static manta_node_info nodes[NODES];
static char            posts[NODES + 1]; /* of each node: the address is the actor's */
static int             posts_made[NODES + 1];

uint32_t manta_node(void)
{
    return HERE;
}

manta_node_info *roster_list(int *out_count, manta_error *e)
{
    (void)e;
    manta_node_info *all = malloc(sizeof nodes);
    assert_non_null(all);
    *out_count = NODES;
    return memcpy(all, nodes, sizeof nodes);
}

bool roster_look(struct roster *roster, int news_of, int64_t pace_ms)
{
    (void)news_of, (void)pace_ms;
    roster->of = nodes;
    roster->count = NODES;
    return true;
}

void roster_doubt(struct roster *roster)
{
    (void)roster;
}

void roster_fini(struct roster *roster)
{
    (void)roster;
}

manta_actor *manta_actor_new(const char *type, const manta_actor_opts *opts, int argc, const manta_arg *argv)
{
    (void)type, (void)argc, (void)argv;
    posts_made[opts->node]++;
    return (manta_actor *)(void *)&posts[opts->node];
}

/* Never answers. */
manta_ref *manta_actor_call(manta_actor *actor, const char *method, int argc, const manta_arg *argv)
{
    (void)actor, (void)method, (void)argc, (void)argv;
    return NULL;
}

manta_status manta_actor_kill(manta_actor *actor, bool restart)
{
    (void)actor, (void)restart;
    return MANTA_OK;
}

manta_status manta_actor_free(manta_actor *actor)
{
    (void)actor;
    return MANTA_OK;
}

/* ---- places ---- */

static struct {
    struct sgd_places places;
    struct sgd_place  beyond; /* whoever writes behind the last place is found out here */
} table;

static void pass(void *user, uint32_t node, const char *why)
{
    (void)user, (void)node, (void)why;
}

static void look(int count)
{
    static const struct sgd_place none;
    table.places.walked_ns = 0;
    sgd_places_look_for(&table.places, true, pass, NULL);
    assert_int_equal(sgd_places_count(&table.places), count);
    assert_memory_equal(&table.beyond, &none, sizeof none);
}

/* A run on as many nodes as there may be, one of which is drained: who takes over comes when that one has gone, not before. */
static void a_node_waits_for_a_place(void **state)
{
    (void)state;
    manta_region      here = {.data = calloc(1, SGD_BOARD_SIZE), .size = SGD_BOARD_SIZE};
    struct sgd_place *leaves = &table.places.of[7];
    assert_non_null(here.data);
    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = (manta_node_info){.node = i + 1, .alive = true, .cpus = 1, .cpus_free = 1};
    sgd_places_init(&table.places, SGD_PLACES_MAX, &here, 1, 0);
    look(SGD_PLACES_MAX);
    assert_int_equal(posts_made[NODES], 0);
    nodes[leaves->node - 1].draining = true;
    look(SGD_PLACES_MAX - 1);
    assert_int_equal(leaves->state, SGD_PLACE_LEAVING);
    assert_int_equal(posts_made[NODES], 0);
    sgd_place_close(leaves); /* its workers have gone */
    look(SGD_PLACES_MAX);
    assert_int_equal(leaves->node, NODES);
    for (int node = HERE + 1; node <= NODES; node++)
        assert_int_equal(posts_made[node], 1);
    sgd_places_fini(&table.places);
    free(here.data);
}

/* ---- what a process shows ---- */

struct busy {
    const char *name;
    uint32_t    ms;
    sem_t       is_done, may_end;
};

static uint32_t thread_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (uint32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

static void *work(void *arg)
{
    struct busy *busy = arg;
    assert_int_equal(pthread_setname_np(pthread_self(), busy->name), 0);
    while (thread_ms() < busy->ms)
        ;
    sem_post(&busy->is_done);
    sem_wait(&busy->may_end);
    return NULL;
}

/* Of a process' threads those that compute: the first, and those that are called so. What all of them had is another number. */
static void the_time_of_threads_that_compute_is_counted(void **state)
{
    (void)state;
    enum { COMPUTES, OTHER, THREADS, TICKS_MS = 20 /* that the kernel rounds off a thread's time */ };
    struct busy threads[THREADS] = {{.name = SGD_COMPUTES "1", .ms = 200}, {.name = "reader", .ms = 400}};
    pthread_t   ids[THREADS];
    void       *region = calloc(2, SGD_BOARD_SIZE);
    assert_non_null(region);
    for (int i = 0; i < THREADS; i++) {
        sem_init(&threads[i].is_done, 0, 0);
        sem_init(&threads[i].may_end, 0, 0);
        assert_int_equal(pthread_create(&ids[i], NULL, work, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        sem_wait(&threads[i].is_done);
    uint32_t              least = thread_ms() + threads[COMPUTES].ms - 2 * TICKS_MS;
    struct sgd_pulse_seen seen = sgd_place_pulse(region, 0, 0, getpid());
    assert_in_range(seen.cpu_ms, least, least + threads[OTHER].ms / 2);
    assert_true(seen.process_ms >= seen.cpu_ms + threads[OTHER].ms - 2 * TICKS_MS);
    assert_true(seen.ready >= 1 && !seen.is_stopped); /* this thread runs */
    for (int i = 0; i < THREADS; i++) {
        sem_post(&threads[i].may_end);
        pthread_join(ids[i], NULL);
    }
    seen = sgd_place_pulse(region, 0, 0, 0); /* whose is it? */
    assert_true(seen.cpu_ms == 0 && seen.process_ms == 0 && seen.ready == 0);
    free(region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_waits_for_a_place),
        cmocka_unit_test(the_time_of_threads_that_compute_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
