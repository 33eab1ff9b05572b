/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_test.c - a whole lane between two real processes, and between two threads for the thread sanitizer.
 *
 * The owner sends records of changing sizes and sleeps when it has nothing to do; the worker claims each, answers, and
 * sleeps likewise. Both sides check every byte. A lost wake-up shows as a sleep that only its limit ends.
 */
#include "core/base/clock.h"
#include "core/base/rng.h"
#include "core/lane/lane.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
enum { STRESS_TASKS = 20000 };
#else
enum { STRESS_TASKS = 200000 };
#endif
enum { STRESS_WINDOW = 300 };

static const int64_t STRESS_SLEEP_NS = 10000000000; /* far longer than any wake-up takes */

struct side {
    struct lane_park    *own, *peer;
    shm_u64             *claims;
    struct lane_producer out;
    struct lane_consumer in;
    struct mt_rng        rng;
    uint64_t             slept_to_limit;
};

struct arena {
    struct lane_park owner_park, worker_park;
    shm_u32          failures; /* of the worker, which can not assert for cmocka */
    _Alignas(4096) uint8_t lane[LANE_BYTES];
};

static struct arena *arena_new(void)
{
    void *at = mmap(NULL, sizeof(struct arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static void side_init(struct side *s, struct arena *a, bool is_owner)
{
    struct lane_header *h = lane_header_of(a->lane);
    memset(s, 0, sizeof *s);
    s->own = is_owner ? &a->owner_park : &a->worker_park;
    s->peer = is_owner ? &a->worker_park : &a->owner_park;
    s->claims = lane_claims_of(a->lane);
    s->rng.state = is_owner;
    lane_producer_init(&s->out, is_owner ? &h->forward : &h->back, is_owner ? lane_forward_of(a->lane) : lane_back_of(a->lane));
    lane_consumer_init(&s->in, is_owner ? &h->back : &h->forward, is_owner ? lane_back_of(a->lane) : lane_forward_of(a->lane));
}

static void side_show(struct side *s)
{
    if (!lane_ring_has_unpublished(&s->out))
        return;
    lane_ring_publish(&s->out);
    if (lane_park_must_wake(s->peer))
        lane_park_wake(s->peer);
}

static void side_sleep(struct side *s)
{
    uint32_t bell = lane_park_prepare(s->own);
    if (lane_ring_has_more(&s->in)) {
        lane_park_cancel(s->own);
        return;
    }
    /* The bell does not tell: a sender between its ring of the bell and its wake-up wakes the next sleep for nothing. */
    int64_t since = mt_now_ns();
    lane_park_sleep(s->own, bell, STRESS_SLEEP_NS);
    s->slept_to_limit += mt_now_ns() - since >= STRESS_SLEEP_NS;
}

static uint8_t payload_byte(uint64_t sequence)
{
    return (uint8_t)(sequence * 31 + 7);
}

static bool side_push(struct side *s, uint16_t kind, uint64_t sequence, uint32_t slot)
{
    uint8_t            payload[2048];
    struct lane_record r = {.length = LANE_RECORD_SIZE + (uint32_t)mt_rng_below(&s->rng, sizeof payload),
                            .kind = kind,
                            .sequence = sequence,
                            .slot = slot};
    memset(payload, payload_byte(sequence), r.length - LANE_RECORD_SIZE);
    return lane_ring_push(&s->out, &r, payload);
}

/* The next record, checked. False where there is none; *bad is set on anything wrong. */
static bool side_take(struct side *s, struct lane_record *r, bool *bad)
{
    const uint8_t *payload;
    bool           found;
    if (lane_ring_peek(&s->in, r, &payload, &found).code != MT_OK) {
        *bad = true;
        return false;
    }
    for (uint32_t i = 0; found && i < r->length - LANE_RECORD_SIZE; i++)
        *bad |= payload[i] != payload_byte(r->sequence);
    if (found) {
        lane_ring_consume(&s->in);
        lane_ring_release(&s->in);
    }
    return found;
}

/* Returns the number of things that went wrong. */
static uint32_t worker(struct arena *a)
{
    struct side        s;
    struct lane_record r;
    bool               bad = false;
    side_init(&s, a, false);
    for (uint64_t expected = 1; expected <= STRESS_TASKS && !bad;) {
        if (!side_take(&s, &r, &bad)) {
            side_show(&s);
            side_sleep(&s);
            continue;
        }
        bad |= r.sequence != expected++ || r.slot >= LANE_SLOTS;
        if (bad || !lane_claim_take(&s.claims[r.slot], r.sequence, 0, LANE_RUNNING))
            continue;
        lane_claim_finish(&s.claims[r.slot], r.sequence, 0);
        bad |= !side_push(&s, LANE_DONE, r.sequence, r.slot);
        if (mt_rng_below(&s.rng, 8) == 0)
            side_show(&s);
    }
    side_show(&s);
    return (uint32_t)bad + (uint32_t)s.slept_to_limit;
}

struct ledger {
    uint64_t sent, settled, revoked, done;
    uint32_t free_slots[LANE_SLOTS];
    uint32_t free_count;
};

static void owner_send(struct side *s, struct ledger *l)
{
    while (l->sent < STRESS_TASKS && l->sent - l->settled < STRESS_WINDOW && l->free_count > 0) {
        uint32_t slot = l->free_slots[--l->free_count];
        uint64_t sequence = ++l->sent;
        lane_claim_set(&s->claims[slot], sequence, 0);
        assert_true(side_push(s, LANE_TASK, sequence, slot));
        if (mt_rng_below(&s->rng, 8) == 0)
            side_show(s);
        if (mt_rng_below(&s->rng, 16) == 0 && lane_claim_take(&s->claims[slot], sequence, 0, LANE_REVOKED)) {
            lane_claim_clear(&s->claims[slot]);
            l->free_slots[l->free_count++] = slot;
            l->revoked++;
            l->settled++;
        }
    }
    side_show(s);
}

static void owner(struct arena *a)
{
    static struct ledger l;
    struct side          s;
    struct lane_record   r;
    bool                 bad = false;
    memset(&l, 0, sizeof l);
    side_init(&s, a, true);
    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        l.free_slots[l.free_count++] = i;
    while (l.settled < STRESS_TASKS) {
        owner_send(&s, &l);
        if (!side_take(&s, &r, &bad)) {
            assert_false(bad);
            if (l.settled < STRESS_TASKS && l.sent - l.settled > 0)
                side_sleep(&s);
            continue;
        }
        assert_false(bad);
        assert_int_equal(r.kind, LANE_DONE);
        assert_int_equal(lane_claim_state_of(shm_load64_acquire(&s.claims[r.slot])), LANE_DONE_CLAIM);
        lane_claim_clear(&s.claims[r.slot]);
        l.free_slots[l.free_count++] = r.slot;
        l.done++;
        l.settled++;
    }
    assert_int_equal(l.done + l.revoked, STRESS_TASKS);
    assert_true(l.done > l.revoked);
    assert_int_equal(s.slept_to_limit, 0);
}

#ifndef __SANITIZE_THREAD__
static void between_two_processes(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    pid_t         child = fork();
    int           status = -1;
    assert_true(child >= 0);
    if (child == 0)
        _exit(worker(a) ? 1 : 0);
    owner(a);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(a, sizeof *a);
}

/* A worker that is killed in the middle: what arrived is whole and in order, and every slot tells what became of it. */
static void a_killed_worker_leaves_a_readable_lane(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct arena      *a = arena_new();
        struct side        s;
        struct lane_record r;
        bool               bad = false;
        uint64_t           done = 0, sequence = 0;
        pid_t              child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(worker(a) ? 1 : 0);
        side_init(&s, a, true);
        while (done < 200u + (unsigned)round * 37) {
            while (sequence < done + LANE_SLOTS / 2) {
                lane_claim_set(&s.claims[sequence % LANE_SLOTS], sequence + 1, 0);
                assert_true(side_push(&s, LANE_TASK, sequence + 1, (uint32_t)(sequence % LANE_SLOTS)));
                sequence++;
            }
            side_show(&s);
            while (side_take(&s, &r, &bad))
                assert_int_equal(r.sequence, ++done);
        }
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        while (side_take(&s, &r, &bad))
            assert_int_equal(r.sequence, ++done);
        assert_false(bad);
        bool pending = false;
        for (uint64_t n = done; n < sequence; n++) { /* DONE or RUNNING unreported, then PENDING to the end */
            enum lane_claim_state st = lane_claim_state_of(shm_load64_acquire(&s.claims[n % LANE_SLOTS]));
            pending |= st == LANE_PENDING;
            assert_true(st == LANE_PENDING || (!pending && (st == LANE_RUNNING || st == LANE_DONE_CLAIM)));
        }
        munmap(a, sizeof *a);
    }
}
#endif

static void *worker_thread(void *arg)
{
    struct arena *a = arg;
    shm_store32(&a->failures, worker(a));
    return NULL;
}

static void between_two_threads(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    pthread_t     thread;
    assert_int_equal(pthread_create(&thread, NULL, worker_thread, a), 0);
    owner(a);
    pthread_join(thread, NULL);
    assert_int_equal(shm_load32(&a->failures), 0);
    munmap(a, sizeof *a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_THREAD__ /* it sees one process only */
        cmocka_unit_test(between_two_processes),
        cmocka_unit_test(a_killed_worker_leaves_a_readable_lane),
#endif
        cmocka_unit_test(between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
