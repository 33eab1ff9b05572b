/* SPDX-License-Identifier: Apache-2.0
 *
 * check_edge.c - a value that goes from worker to worker: nobody begins without it, and none is taken whose task may run again.
 *
 * Process 0 owns both tasks. Process 1 runs the first one: record, claim DONE, cell, then it shows its outcome. Process 2 has the
 * second one, sent ahead: it begins when the cell is filled, and sleeps until then. The owner takes the outcome, fills the cell
 * where the worker died before it could, and wakes the sleeper. Where the first task has no outcome, or is cancelled, the owner
 * takes the second one back. Then the cell serves others.
 */
#include "tests/unit/lane/check_models.h"

#include "core/lane/edge.h"
#include "core/lane/lane.h"

enum { EDGE_AREA = 4096, GENERATION = 5, WORDS = 6 };

struct edge_model {
    struct check_case      c;
    bool                   cancels; /* the owner gives the first task up while it runs */
    bool                   watches; /* process 2 marks its cell before it sleeps, and process 1 shows its outcome late elsewhere */
    struct lane_cell       cell;
    shm_u64                first, second; /* claims */
    struct lane_park       park;          /* of process 2 */
    struct lane_ring_words back;
    uint8_t                data[EDGE_AREA];
    struct lane_consumer   from_first;
    bool                   is_done;  /* the owner has the first one's outcome */
    bool                   is_taken; /* the second one was taken back */
    bool                   ran;      /* the second one */
};

struct edge_value {
    struct lane_value head;
    uint8_t           bytes[8 * WORDS];
};

static struct edge_value value_of(uint8_t byte)
{
    struct edge_value v = {.head = {.type = 'y', .size = sizeof v.bytes}};
    memset(v.bytes, byte, sizeof v.bytes);
    return v;
}

static void edge_reset(struct check_case *c)
{
    struct edge_model *m = mt_container_of(c, struct edge_model, c);
    memset(&m->cell, 0, sizeof m->cell);
    memset(&m->park, 0, sizeof m->park);
    memset(&m->back, 0, sizeof m->back);
    memset(m->data, 0, 1024);
    lane_consumer_init(&m->from_first, &m->back, m->data);
    m->is_done = m->is_taken = m->ran = false;
    lane_cell_open(&m->cell, GENERATION);
    shm_store64(&m->first, lane_claim_word(1, 0, LANE_RUNNING));
    lane_claim_set(&m->second, 1, 0);
}

/* ---- process 1 ---- */

static void edge_first(struct edge_model *m)
{
    struct edge_value    v = value_of(7);
    struct lane_record   r = {.length = LANE_RECORD_SIZE + sizeof v, .kind = LANE_DONE, .sequence = 1};
    struct lane_producer p;
    lane_producer_init(&p, &m->back, m->data);
    if (MT_PLANT(MT_PLANT_CELL_BEFORE))
        lane_cell_fill(&m->cell, GENERATION, true, &v, sizeof v);
    check_require(lane_ring_push(&p, &r, &v), "the back ring is full");
    lane_claim_finish(&m->first, 1, 0);
    bool is_awaited = lane_cell_fill(&m->cell, GENERATION, true, &v, sizeof v) || !m->watches;
    while (!is_awaited && !m->c.killed[2] && shm_load64_acquire(&m->second) == lane_claim_word(1, 0, LANE_PENDING))
        shm_pause();
    lane_ring_publish(&p);
}

/* ---- process 2 ---- */

static void edge_run(struct edge_model *m)
{
    struct edge_value got, v = value_of(7);
    if (!lane_claim_take(&m->second, 1, 0, LANE_RUNNING))
        return;
    m->ran = true;
    check_require(!m->is_taken, "a task runs that was taken back");
    shm_read(&got, m->cell.value, sizeof got);
    check_require(memcmp(&got, &v, sizeof v) == 0, "a task begins with half a value, or another's");
    lane_claim_finish(&m->second, 1, 0);
}

/* Whether it is over with the second task. */
static bool edge_look(struct edge_model *m)
{
    if (shm_load64_acquire(&m->second) != lane_claim_word(1, 0, LANE_PENDING))
        return true;
    enum lane_cell_state state = lane_cell_look(&m->cell, GENERATION);
    if (state == LANE_CELL_VALUE)
        edge_run(m);
    return state == LANE_CELL_VALUE;
}

static void edge_second(struct edge_model *m)
{
    while (!edge_look(m)) {
        uint32_t bell = lane_park_prepare(&m->park);
        if (m->watches)
            lane_cell_watch(&m->cell, GENERATION);
        if (edge_look(m)) {
            lane_park_cancel(&m->park);
            return;
        }
        lane_park_sleep(&m->park, bell, 1000000000);
    }
}

/* ---- process 0 ---- */

static void edge_take_back(struct edge_model *m)
{
    m->is_taken = lane_claim_take(&m->second, 1, 0, LANE_REVOKED);
    if (lane_park_must_wake(&m->park))
        lane_park_wake(&m->park);
}

static void edge_outcome(struct edge_model *m, const uint8_t *payload)
{
    struct edge_value v;
    shm_read(&v, payload, sizeof v);
    m->is_done = true;
    if (!MT_PLANT(MT_PLANT_CELL_UNSETTLED))
        lane_cell_fill(&m->cell, GENERATION, true, &v, sizeof v);
    if (lane_park_must_wake(&m->park))
        lane_park_wake(&m->park);
}

static void edge_owner_look(struct edge_model *m)
{
    struct lane_record r;
    const uint8_t     *payload;
    bool               found;
    check_require(lane_ring_peek(&m->from_first, &r, &payload, &found).code == MT_OK, "the back ring is broken");
    if (!found)
        return;
    edge_outcome(m, payload);
    lane_ring_consume(&m->from_first);
}

static void edge_after_death(struct edge_model *m)
{
    struct lane_record r;
    const uint8_t     *payload;
    edge_owner_look(m);
    if (!m->is_done && lane_next_unpublished(&m->first, &m->from_first, &r, &payload))
        edge_outcome(m, payload);
    if (m->is_done)
        return;
    edge_take_back(m); /* the first one runs again */
    check_require(m->is_taken, "a task has run with a value whose task runs again");
}

static void edge_owner(struct edge_model *m)
{
    struct edge_value other = value_of(9);
    if (m->cancels) {
        edge_take_back(m);
        m->is_done = true;
    }
    for (;;) {
        edge_owner_look(m);
        if (m->is_done || m->c.killed[1])
            break;
        shm_pause();
    }
    if (!m->is_done)
        edge_after_death(m);
    while (!m->is_taken && lane_claim_state_of(shm_load64_acquire(&m->second)) != LANE_DONE_CLAIM &&
           !MT_PLANT(MT_PLANT_CELL_REUSED)) {
        if (m->c.killed[2])
            return;
        shm_pause();
    }
    if (m->cancels && m->is_taken)
        return; /* its worker may be about to fill it: the cell is its until the outcome */
    lane_cell_open(&m->cell, GENERATION + 1);
    lane_cell_fill(&m->cell, GENERATION + 1, true, &other, sizeof other);
}

static void edge_body(struct check_case *c, int process)
{
    struct edge_model *m = mt_container_of(c, struct edge_model, c);
    if (process == 0)
        edge_owner(m);
    else if (process == 1)
        edge_first(m);
    else
        edge_second(m);
}

static void edge_finish(struct check_case *c)
{
    struct edge_model *m = mt_container_of(c, struct edge_model, c);
    check_require(!c->stuck[2] || c->killed[0], "a worker sleeps, and what its next task waits for is known");
    check_require(!m->ran || !m->is_taken, "a task ran and was taken back");
    if (!c->killed[0] && !c->killed[2])
        check_require(m->ran || m->is_taken, "a task has neither run nor come back");
}

static struct check_result edge_explore(bool cancels, bool watches, uint32_t kill_mask, int preemptions)
{
    static struct edge_model m;
    struct check_plan        plan = {preemptions, 1000000, 50000, 3};
    m = (struct edge_model){
        .c = {.processes = 3, .kill_mask = kill_mask, .reset = edge_reset, .body = edge_body, .finish = edge_finish},
        .cancels = cancels,
        .watches = watches};
    return check_run(&m.c, &plan, check_tracing);
}

void check_edge_holds(void **state)
{
    (void)state;
    for (int watches = 0; watches <= 1; watches++) {
        check_expect_holds(edge_explore(false, watches, 0, 2));
        check_expect_holds(edge_explore(true, watches, 0, 2));
    }
}

void check_edge_killed(void **state)
{
    (void)state;
    for (int watches = 0; watches <= 1; watches++) {
        for (uint32_t who = 1; who <= 4; who *= 2)
            check_expect_holds(edge_explore(false, watches, who, 1));
        check_expect_holds(edge_explore(false, watches, 2, 2));
    }
}

void check_edge_planted(void **state)
{
    static const struct {
        int      plant;
        uint32_t kill_mask;
        bool     watches;
    } bugs[] = {{MT_PLANT_CELL_EARLY, 0, false},   {MT_PLANT_CELL_BEFORE, 2, false},   {MT_PLANT_CELL_UNSETTLED, 2, false},
                {MT_PLANT_CELL_REUSED, 0, false},  {MT_PLANT_PARK_NO_FENCE, 0, false}, {MT_PLANT_CELL_UNTOLD, 0, true},
                {MT_PLANT_CELL_UNWATCHED, 0, true}};
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        mt_plant = bugs[i].plant;
        struct check_result r = edge_explore(false, bugs[i].watches, bugs[i].kill_mask, 2);
        mt_plant = MT_PLANT_NONE;
        check_expect_caught(r, NULL);
    }
}
