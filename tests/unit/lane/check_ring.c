/* SPDX-License-Identifier: Apache-2.0
 *
 * check_ring.c - no record is lost, doubled, reordered or torn; after a kill the consumer has a prefix.
 *
 * Process 0 pushes records and publishes after each `batch` of them; process 1 takes them out.
 */
#include "tests/unit/lane/check_models.h"

#include "core/lane/ring.h"

enum { RING_BYTES_USED = 64 * 1024 /* areas 0 to 3 */ };

struct ring_model {
    struct check_case      c;
    int                    count, batch;
    uint32_t               lengths[8];
    struct lane_ring_words words;
    uint8_t                data[RING_BYTES_USED];
    int                    pushed, taken;
};

static void ring_reset(struct check_case *c)
{
    struct ring_model *m = mt_container_of(c, struct ring_model, c);
    memset(&m->words, 0, sizeof m->words);
    memset(m->data, 0, 16 * 1024);
    m->pushed = m->taken = 0;
}

static void ring_produce(struct ring_model *m)
{
    struct lane_producer p;
    uint8_t              payload[LANE_RECORD_MAX];
    lane_producer_init(&p, &m->words, m->data);
    for (int i = 0; i < m->count; i++) {
        struct lane_record r = {.length = m->lengths[i], .kind = LANE_TASK, .sequence = (uint64_t)i + 1, .aux = (uint64_t)i + 1};
        memset(payload, i + 1, r.length);
        check_require(lane_ring_push(&p, &r, payload), "the ring is full");
        m->pushed++;
        if (m->pushed % m->batch == 0 || m->pushed == m->count)
            lane_ring_publish(&p);
    }
}

static void ring_take(struct ring_model *m, struct lane_consumer *c, const struct lane_record *r, const uint8_t *payload)
{
    uint8_t copy[LANE_RECORD_MAX];
    int     i = m->taken++;
    check_require(i < m->count, "a record too many");
    check_require(r->sequence == (uint64_t)i + 1 && r->aux == r->sequence && r->length == m->lengths[i],
                  "a record is lost, doubled, reordered or torn");
    shm_read(copy, payload, r->length - LANE_RECORD_SIZE);
    for (uint32_t b = 0; b < r->length - LANE_RECORD_SIZE; b++)
        check_require(copy[b] == i + 1, "a payload is torn");
    lane_ring_consume(c);
    lane_ring_release(c);
}

static void ring_consume(struct ring_model *m)
{
    struct lane_consumer c;
    struct lane_record   r;
    const uint8_t       *payload;
    bool                 found, last_look = false;
    lane_consumer_init(&c, &m->words, m->data);
    while (m->taken < m->count) {
        bool dead = m->c.killed[0];
        check_require(lane_ring_peek(&c, &r, &payload, &found).code == MT_OK, "the consumer distrusts an honest producer");
        if (found)
            ring_take(m, &c, &r, payload);
        else if (last_look)
            return;
        else if (dead)
            last_look = true;
        else
            shm_pause();
    }
}

static void ring_body(struct check_case *c, int process)
{
    struct ring_model *m = mt_container_of(c, struct ring_model, c);
    if (process == 0)
        ring_produce(m);
    else
        ring_consume(m);
}

static void ring_finish(struct check_case *c)
{
    struct ring_model *m = mt_container_of(c, struct ring_model, c);
    check_require(!c->stuck[0], "the producer is stuck");
    check_require(c->killed[0] || c->killed[1] || m->taken == m->count, "a published record never arrived");
    check_require(m->taken <= m->pushed, "more taken than pushed");
}

static struct ring_model *ring_model_of(int count, int batch, uint32_t length, uint32_t kill_mask)
{
    static struct ring_model m;
    m = (struct ring_model){
        .c = {.processes = 2, .kill_mask = kill_mask, .reset = ring_reset, .body = ring_body, .finish = ring_finish},
        .count = count,
        .batch = batch};
    for (int i = 0; i < count; i++)
        m.lengths[i] = length + (uint32_t)i; /* odd lengths as well: padding */
    return &m;
}

void check_ring_batches(void **state)
{
    (void)state;
    struct check_plan plan = {3, 2000000, 50000, 2};
    check_expect_holds(check_run(&ring_model_of(3, 1, 100, 0)->c, &plan, check_tracing));
    check_expect_holds(check_run(&ring_model_of(4, 2, 100, 0)->c, &plan, check_tracing));
}

/* Records of which one and a half fill an area: pads, wraps and jumps in every order with the consumer's releases. */
void check_ring_grows(void **state)
{
    (void)state;
    struct check_plan plan = {2, 2000000, 50000, 3};
    check_expect_holds(check_run(&ring_model_of(6, 1, 1300, 0)->c, &plan, check_tracing));
    check_expect_holds(check_run(&ring_model_of(4, 1, 2600, 0)->c, &plan, check_tracing));
}

void check_ring_killed_producer(void **state)
{
    (void)state;
    struct check_plan plan = {2, 2000000, 50000, 4};
    check_expect_holds(check_run(&ring_model_of(4, 2, 1300, 1)->c, &plan, check_tracing));
}

void check_ring_planted_early_head(void **state)
{
    (void)state;
    struct check_plan plan = {2, 2000000, 50000, 5};
    mt_plant = MT_PLANT_RING_EARLY_HEAD;
    struct check_result r = check_run(&ring_model_of(3, 1, 100, 0)->c, &plan, check_tracing);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, NULL);
}
