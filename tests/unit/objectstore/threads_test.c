/* SPDX-License-Identifier: Apache-2.0
 *
 * threads_test.c - pins against hand-back at full speed: a writer, a raylet and readers, each a thread.
 *
 * All of them use one mapping, so that the thread sanitizer sees a reader and the writer meet in the same
 * bytes.
 */
#include "objectstore/client/client.h"
#include "objectstore/server/store.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { READERS = 2, PUTS = 20000, SEGMENT = 1 << 20, QUEUE = 64, VALUE_MAX = 3000 };

/* A bounded queue of refs; what a ring is between processes. */
struct queue {
    pthread_mutex_t lock;
    struct lane_ref ref[QUEUE];
    uint32_t        head, tail;
};

static bool queue_push(struct queue *q, const struct lane_ref *ref)
{
    pthread_mutex_lock(&q->lock);
    bool room = q->head - q->tail < QUEUE;
    if (room)
        q->ref[q->head++ % QUEUE] = *ref;
    pthread_mutex_unlock(&q->lock);
    return room;
}

static bool queue_pop(struct queue *q, struct lane_ref *ref)
{
    pthread_mutex_lock(&q->lock);
    bool some = q->head != q->tail;
    if (some)
        *ref = q->ref[q->tail++ % QUEUE];
    pthread_mutex_unlock(&q->lock);
    return some;
}

struct test {
    void            *data, *generations, *pins[READERS + 1];
    struct os_store *store;
    uint32_t         segment;
    struct queue     to_reader[READERS], to_raylet, to_writer;
    uint64_t         good[READERS], lost[READERS], bad[READERS];
    uint64_t         backs; /* under to_writer.lock */
    uint64_t         failed_puts;
};

struct seat {
    struct test *t;
    int          number;
};

static void take_back(struct test *t, struct os_client *client)
{
    struct lane_ref ref;
    while (queue_pop(&t->to_writer, &ref))
        if (os_client_space_back(client, ref.segment, ref.offset).code != MT_OK)
            abort();
}

static void *writer(void *arg)
{
    struct test     *t = arg;
    struct os_client client;
    if (os_client_init(&client, 1, 1, 1, t->pins[READERS]).code != MT_OK ||
        os_client_add_own(&client, t->segment, SEGMENT, t->data, t->data, t->generations).code != MT_OK)
        abort();
    for (uint64_t i = 0; i < PUTS; i++) {
        struct os_place place;
        void           *data;
        uint64_t        want, size = 100 + i * 37 % VALUE_MAX;
        struct lane_ref ref;
        while (os_client_alloc(&client, size, &place, &data, &want).code != MT_OK) {
            t->failed_puts++;
            take_back(t, &client);
            sched_yield();
        }
        memset(data, (int)(i & 0xff), size);
        os_client_publish(&client, place, data, mt_id_make(1, i, 1), 1, size, 'b', &ref);
        for (int r = 0; r < READERS; r++)
            while (!queue_push(&t->to_reader[r], &ref))
                sched_yield();
        while (!queue_push(&t->to_raylet, &ref)) /* dead at once: the readers race with the raylet */
            take_back(t, &client);
        take_back(t, &client);
    }
    for (bool done = false; !done;) {
        take_back(t, &client);
        pthread_mutex_lock(&t->to_writer.lock);
        done = t->backs == PUTS && t->to_writer.head == t->to_writer.tail;
        pthread_mutex_unlock(&t->to_writer.lock);
        sched_yield();
    }
    if (client.used_bytes > (uint64_t)OS_CLASSES * OS_SLAB)
        abort();
    os_client_fini(&client);
    return NULL;
}

static void *reader(void *arg)
{
    struct seat     *seat = arg;
    struct test     *t = seat->t;
    struct os_client client;
    struct lane_ref  ref;
    if (os_client_init(&client, 10 + (uint64_t)seat->number, 1, 1, t->pins[seat->number]).code != MT_OK ||
        os_client_add_reader(&client, t->segment, SEGMENT, t->data, t->generations).code != MT_OK)
        abort();
    for (uint64_t i = 0; i < PUTS;) {
        const void *data;
        if (!queue_pop(&t->to_reader[seat->number], &ref)) {
            sched_yield();
            continue;
        }
        i++;
        if (os_client_pin(&client, &ref, &data).code != MT_OK) {
            t->lost[seat->number]++;
            continue;
        }
        bool good = true;
        for (uint64_t b = 0; b < ref.size; b++)
            good &= ((const uint8_t *)data)[b] == (uint8_t)mt_id_counter(ref.id);
        t->good[seat->number] += good;
        t->bad[seat->number] += !good;
        if (os_client_unpin(&client, &ref).code != MT_OK)
            abort();
    }
    os_client_fini(&client);
    return NULL;
}

static void *raylet(void *arg)
{
    struct test      *t = arg;
    struct os_actions actions = {0};
    uint64_t          backs = 0;
    for (int64_t now = 0; backs < PUTS; now++) {
        struct lane_ref ref;
        while (queue_pop(&t->to_raylet, &ref))
            if (os_store_dead(t->store, 1, &ref).code != MT_OK)
                abort();
        if (os_store_sweep(t->store, &actions).code != MT_OK || os_store_tick(t->store, now, &actions).code != MT_OK)
            abort();
        for (size_t i = 0; i < actions.count; i++) {
            struct lane_ref back = {.segment = actions.data[i].segment, .offset = actions.data[i].offset};
            while (!queue_push(&t->to_writer, &back))
                sched_yield();
            pthread_mutex_lock(&t->to_writer.lock);
            t->backs = ++backs;
            pthread_mutex_unlock(&t->to_writer.lock);
        }
        actions.count = 0;
        sched_yield();
    }
    os_actions_fini(&actions);
    return NULL;
}

static void *pages(size_t size)
{
    void *p = aligned_alloc(4096, size);
    assert_non_null(p);
    memset(p, 0, size);
    return p;
}

static void pins_against_hand_back(void **state)
{
    (void)state;
    struct test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    struct os_store_config config = {.bytes_max = SEGMENT, .node = 1};
    assert_int_equal(os_store_new(&config, &t->store).code, MT_OK);
    t->data = pages(SEGMENT);
    t->generations = pages(os_generations_bytes(SEGMENT));
    for (int i = 0; i <= READERS; i++)
        t->pins[i] = pages(OS_PINS_BYTES);
    assert_int_equal(os_store_add_process(t->store, 1, 1, t->pins[READERS]).code, MT_OK);
    struct os_backing backing = {.data = t->data, .generations = t->generations};
    assert_int_equal(os_store_add_segment(t->store, 1, SEGMENT, &backing, &t->segment).code, MT_OK);
    pthread_mutex_init(&t->to_raylet.lock, NULL);
    pthread_mutex_init(&t->to_writer.lock, NULL);
    pthread_t   threads[READERS + 2];
    struct seat seats[READERS];
    for (int i = 0; i < READERS; i++) {
        seats[i] = (struct seat){t, i};
        pthread_mutex_init(&t->to_reader[i].lock, NULL);
        assert_int_equal(os_store_add_process(t->store, 10 + (uint64_t)i, 1, t->pins[i]).code, MT_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, reader, &seats[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[READERS], NULL, raylet, t), 0);
    assert_int_equal(pthread_create(&threads[READERS + 1], NULL, writer, t), 0);
    for (int i = 0; i < READERS + 2; i++)
        pthread_join(threads[i], NULL);
    uint64_t good = 0, lost = 0;
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(t->bad[i], 0);
        assert_int_equal(t->good[i] + t->lost[i], PUTS);
        good += t->good[i];
        lost += t->lost[i];
    }
    print_message("%llu reads, %llu came too late, %llu puts had to wait\n", (unsigned long long)good, (unsigned long long)lost,
                  (unsigned long long)t->failed_puts);
    os_store_free(t->store);
    free(t->data);
    free(t->generations);
    for (int i = 0; i <= READERS; i++)
        free(t->pins[i]);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pins_against_hand_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
