/* SPDX-License-Identifier: Apache-2.0
 *
 * check_claim.c - each task has exactly one outcome: it ran here, its owner took it back, or the worker returned it.
 *
 * Process 0 owns the tasks: sets a claim, sends the record, may revoke, takes outcomes from the back ring. Process 1 is
 * the worker: claims what it reads, runs it, reports; when it is recalled it returns what it has not begun. When the
 * worker is killed the owner drains the back ring first, with what was not published, and then reads the claims: what is
 * PENDING has not run, and of what is DONE nothing is lost.
 */
#include "tests/unit/lane/check_models.h"

#include "core/lane/lane.h"

enum { CLAIM_TASKS_MAX = 4, CLAIM_AREA = 16 * 1024 };

enum outcome { UNKNOWN, RAN, REVOKED, RETURNED, NOT_RUN, MAYBE_RAN };

struct claim_model {
    struct check_case      c;
    int                    tasks;
    bool                   one_slot;     /* a new task takes the slot as soon as the old one's outcome is known */
    bool                   revokes;      /* the owner tries to take its last task back */
    int                    recall_after; /* records that the worker reads before it returns what follows */
    bool                   holds_back;   /* the worker publishes its outcomes together, when all are written */
    bool                   dirty;        /* the back ring has carried records like these before */
    shm_u64                claims[CLAIM_TASKS_MAX];
    struct lane_ring_words forward, back;
    uint8_t                forward_data[CLAIM_AREA], back_data[CLAIM_AREA];
    int                    ran[CLAIM_TASKS_MAX];
    enum outcome           outcome[CLAIM_TASKS_MAX];
    struct lane_producer   to_worker;
    struct lane_consumer   from_worker;
};

static void claim_reset(struct check_case *c)
{
    struct claim_model *m = mt_container_of(c, struct claim_model, c);
    memset(m->claims, 0, sizeof m->claims);
    memset(&m->forward, 0, sizeof m->forward);
    memset(&m->back, 0, sizeof m->back);
    memset(m->forward_data, 0, 1024);
    memset(m->back_data, 0, 1024);
    for (int i = 0; i < CLAIM_TASKS_MAX && m->dirty; i++) { /* the same place and task, of an earlier attempt: all but whole */
        struct lane_record stale = {.length = 2 * LANE_RECORD_SIZE,
                                    .kind = LANE_DONE,
                                    .sequence = (uint64_t)i + 1,
                                    .slot = (uint32_t)i,
                                    .attempt = 0,
                                    .aux = CLAIM_TASKS_MAX};
        memcpy(m->back_data + 2 * LANE_RECORD_SIZE * (size_t)i, &stale, sizeof stale);
    }
    memset(m->ran, 0, sizeof m->ran);
    memset(m->outcome, 0, sizeof m->outcome);
    lane_producer_init(&m->to_worker, &m->forward, m->forward_data);
    lane_consumer_init(&m->from_worker, &m->back, m->back_data);
}

static uint32_t claim_slot(const struct claim_model *m, int task)
{
    return m->one_slot ? 0 : (uint32_t)task;
}

static void claim_settle(struct claim_model *m, int task, enum outcome outcome)
{
    check_require(m->outcome[task] == UNKNOWN, "a task has two outcomes");
    m->outcome[task] = outcome;
    if (outcome != RAN && outcome != MAYBE_RAN)
        check_require(m->ran[task] == 0, "a task ran and was taken back");
    lane_claim_clear(&m->claims[claim_slot(m, task)]);
}

/* Takes what is in the back ring. Whether there was anything. */
static bool claim_owner_look(struct claim_model *m)
{
    struct lane_record r;
    const uint8_t     *payload;
    bool               found, any = false;
    for (;;) {
        check_require(lane_ring_peek(&m->from_worker, &r, &payload, &found).code == MT_OK, "the back ring is broken");
        if (!found)
            break;
        any = true;
        claim_settle(m, (int)r.aux, r.kind == LANE_DONE ? RAN : RETURNED);
        lane_ring_consume(&m->from_worker);
        lane_ring_release(&m->from_worker);
    }
    return any;
}

static bool claim_write(struct lane_producer *p, uint16_t kind, int task, uint32_t slot)
{
    uint8_t            payload[LANE_RECORD_SIZE];
    struct lane_record r = {
        .length = 2 * LANE_RECORD_SIZE, .kind = kind, .sequence = (uint64_t)task + 1, .slot = slot, .aux = (uint64_t)task};
    memset(payload, task + 1, sizeof payload);
    return lane_ring_push(p, &r, payload);
}

static bool claim_push(struct lane_producer *p, uint16_t kind, int task, uint32_t slot)
{
    bool ok = claim_write(p, kind, task, slot);
    lane_ring_publish(p);
    return ok;
}

/* What the dead worker had written and not shown. */
static void claim_owner_unpublished(struct claim_model *m)
{
    struct lane_record r;
    const uint8_t     *payload;
    while (lane_next_unpublished(m->claims, &m->from_worker, &r, &payload)) {
        uint8_t copy[LANE_RECORD_SIZE];
        int     task = (int)r.sequence - 1;
        check_require(r.aux == (uint64_t)task && m->ran[task] == 1, "an unpublished outcome of another task");
        shm_read(copy, payload, sizeof copy);
        for (size_t i = 0; i < sizeof copy; i++)
            check_require(copy[i] == task + 1, "an unpublished outcome is torn");
        claim_settle(m, task, RAN);
        lane_ring_consume(&m->from_worker);
    }
}

/* After the worker's death: the ring first, then the claims. */
static void claim_owner_after_death(struct claim_model *m)
{
    claim_owner_look(m);
    claim_owner_unpublished(m);
    for (int t = 0; t < m->tasks; t++) {
        uint64_t word = shm_load64_acquire(&m->claims[claim_slot(m, t)]);
        if (m->outcome[t] != UNKNOWN || word >> 24 != (uint64_t)t + 1)
            continue;
        enum lane_claim_state state = lane_claim_state_of(word);
        if (state == LANE_PENDING)
            check_require(m->ran[t] == 0, "PENDING after a death, yet it has run");
        check_require(state != LANE_DONE_CLAIM, "DONE after a death, yet its outcome is lost");
        claim_settle(m, t, state == LANE_PENDING || state == LANE_RETURNED_CLAIM ? NOT_RUN : MAYBE_RAN);
    }
}

/* Waits until the outcome of `task` is known. False when the worker died instead. */
static bool claim_owner_wait(struct claim_model *m, int task)
{
    while (m->outcome[task] == UNKNOWN) {
        if (claim_owner_look(m))
            continue;
        if (m->c.killed[1])
            return false;
        shm_pause();
    }
    return true;
}

static void claim_owner(struct claim_model *m)
{
    for (int t = 0; t < m->tasks; t++) {
        lane_claim_set(&m->claims[claim_slot(m, t)], (uint64_t)t + 1, 0);
        check_require(claim_push(&m->to_worker, LANE_TASK, t, claim_slot(m, t)), "the ring is full");
        bool last = t == m->tasks - 1;
        if (m->revokes && (last || m->one_slot) && lane_claim_take(&m->claims[claim_slot(m, t)], (uint64_t)t + 1, 0, LANE_REVOKED))
            claim_settle(m, t, REVOKED);
        if (m->one_slot && !claim_owner_wait(m, t))
            break;
    }
    for (int t = 0; t < m->tasks; t++)
        if (!claim_owner_wait(m, t))
            break;
    if (m->c.killed[1])
        claim_owner_after_death(m);
}

static void claim_worker_run(struct claim_model *m, struct lane_producer *p, const struct lane_record *r)
{
    shm_u64 *slot = &m->claims[r->slot];
    m->ran[r->aux]++;
    if (MT_PLANT(MT_PLANT_FINISH_EARLY))
        lane_claim_finish(slot, r->sequence, 0);
    check_require(claim_write(p, LANE_DONE, (int)r->aux, r->slot), "the back ring is full");
    if (!MT_PLANT(MT_PLANT_FINISH_LATE))
        lane_claim_finish(slot, r->sequence, 0);
    if (!m->holds_back)
        lane_ring_publish(p);
    if (MT_PLANT(MT_PLANT_FINISH_LATE)) {
        shm_fence(); /* something in between: the completion is seen before the mark is made */
        lane_claim_finish(slot, r->sequence, 0);
    }
}

static void claim_worker(struct claim_model *m)
{
    struct lane_producer p;
    struct lane_consumer c;
    struct lane_record   r;
    const uint8_t       *payload;
    bool                 found;
    lane_producer_init(&p, &m->back, m->back_data);
    lane_consumer_init(&c, &m->forward, m->forward_data);
    for (int read = 0; read < m->tasks;) {
        bool owner_dead = m->c.killed[0];
        check_require(lane_ring_peek(&c, &r, &payload, &found).code == MT_OK, "the forward ring is broken");
        if (!found && owner_dead)
            return;
        if (!found) {
            shm_pause();
            continue;
        }
        lane_ring_consume(&c);
        lane_ring_release(&c);
        bool recalled = read++ >= m->recall_after;
        if (!recalled && lane_claim_take(&m->claims[r.slot], r.sequence, 0, LANE_RUNNING))
            claim_worker_run(m, &p, &r);
        else if (recalled && lane_claim_take(&m->claims[r.slot], r.sequence, 0, LANE_RETURNED_CLAIM))
            check_require(claim_push(&p, LANE_RETURNED, (int)r.aux, r.slot), "the back ring is full");
    }
    lane_ring_publish(&p);
}

static void claim_body(struct check_case *c, int process)
{
    struct claim_model *m = mt_container_of(c, struct claim_model, c);
    if (process == 0)
        claim_owner(m);
    else
        claim_worker(m);
}

static void claim_finish(struct check_case *c)
{
    struct claim_model *m = mt_container_of(c, struct claim_model, c);
    for (int t = 0; t < m->tasks; t++) {
        check_require(m->ran[t] <= 1, "a task ran twice");
        if (c->killed[0])
            continue;
        check_require(m->outcome[t] != UNKNOWN || (c->killed[1] && m->one_slot), "a task has no outcome");
        check_require(m->outcome[t] != RAN || m->ran[t] == 1, "a task was reported done and has not run");
    }
    check_require(!c->stuck[1] || c->killed[0], "the worker is stuck");
}

static struct check_result claim_explore(struct claim_model *m, int preemptions)
{
    struct check_plan plan = {preemptions, 2000000, 50000, 7};
    m->c = (struct check_case){
        .processes = 2, .kill_mask = m->c.kill_mask, .reset = claim_reset, .body = claim_body, .finish = claim_finish};
    return check_run(&m->c, &plan, check_tracing);
}

static struct claim_model *claim_model_of(int tasks, bool one_slot, bool revokes, int recall_after)
{
    static struct claim_model m;
    m = (struct claim_model){.tasks = tasks, .one_slot = one_slot, .revokes = revokes, .recall_after = recall_after};
    return &m;
}

void check_claim_one_winner(void **state)
{
    (void)state;
    check_expect_holds(claim_explore(claim_model_of(1, false, true, 1), 4));
    check_expect_holds(claim_explore(claim_model_of(2, false, true, 1), 3));
    check_expect_holds(claim_explore(claim_model_of(3, false, true, 2), 2));
}

/* A revoked slot is used again at once, while the worker still has the first record before it. */
void check_claim_slot_reused(void **state)
{
    (void)state;
    check_expect_holds(claim_explore(claim_model_of(3, true, true, 3), 2));
}

void check_claim_killed(void **state)
{
    (void)state;
    for (uint32_t who = 1; who <= 2; who++) {
        struct claim_model *m = claim_model_of(2, false, true, 1);
        m->c.kill_mask = who;
        check_expect_holds(claim_explore(m, 2));
        m = claim_model_of(2, true, false, 2);
        m->c.kill_mask = who;
        check_expect_holds(claim_explore(m, 2));
    }
}

/* Outcomes that stand in the ring unpublished when their worker is killed are not lost, and none is made up. */
void check_claim_killed_before_publishing(void **state)
{
    (void)state;
    for (int tasks = 1; tasks <= 3; tasks++) {
        struct claim_model *m = claim_model_of(tasks, false, false, tasks);
        m->holds_back = true;
        m->dirty = tasks == 2;
        m->c.kill_mask = 2;
        check_expect_holds(claim_explore(m, tasks == 1 ? 2 : 1));
    }
}

void check_claim_planted_early_finish(void **state)
{
    (void)state;
    struct claim_model *m = claim_model_of(2, false, false, 2);
    m->holds_back = true;
    m->c.kill_mask = 2;
    mt_plant = MT_PLANT_FINISH_EARLY;
    struct check_result r = claim_explore(m, 2);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, NULL);
}

void check_claim_planted_store(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_CLAIM_BY_STORE;
    struct check_result r = claim_explore(claim_model_of(1, false, true, 1), 3);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, NULL);
}

void check_claim_planted_late_finish(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_FINISH_LATE;
    struct check_result r = claim_explore(claim_model_of(2, true, false, 2), 3);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, NULL);
}

void check_claim_planted_any(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_CLAIM_ANY;
    struct check_result r = claim_explore(claim_model_of(3, true, true, 3), 3);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, NULL);
}
