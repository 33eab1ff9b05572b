/* SPDX-License-Identifier: Apache-2.0
 *
 * check_park.c - no wake-up is lost: park.h under all interleavings, late stores and kills.
 *
 * Process 0 waits for work until it has seen what each live sender sent; the others publish and wake it.
 */
#include "tests/unit/lane/check_models.h"

#include "core/lane/park.h"

struct park_model {
    struct check_case c;
    struct lane_park  park;
    shm_u64           work[CHECK_PROCESSES_MAX]; /* one word a sender stands for its ring */
    bool              sent[CHECK_PROCESSES_MAX]; /* all of its steps are behind it */
    bool              seen[CHECK_PROCESSES_MAX];
    int               timeouts; /* sleeps that may end by their limit, or by a signal */
};

static void park_reset(struct check_case *c)
{
    struct park_model *m = mt_container_of(c, struct park_model, c);
    memset(&m->park, 0, sizeof m->park);
    memset(m->work, 0, sizeof m->work);
    memset(m->sent, 0, sizeof m->sent);
    memset(m->seen, 0, sizeof m->seen);
    m->timeouts = 1;
}

/* Looks everywhere. Whether there was something new. */
static bool park_look(struct park_model *m)
{
    bool any = false;
    for (int i = 1; i < m->c.processes; i++)
        if (!m->seen[i] && shm_load64_acquire(&m->work[i]))
            m->seen[i] = any = true;
    return any;
}

static bool park_all_seen(const struct park_model *m)
{
    for (int i = 1; i < m->c.processes; i++)
        if (!m->seen[i])
            return false;
    return true;
}

static void park_body(struct check_case *c, int process)
{
    struct park_model *m = mt_container_of(c, struct park_model, c);
    if (process > 0) {
        shm_store64_release(&m->work[process], 1);
        if (lane_park_must_wake(&m->park))
            lane_park_wake(&m->park);
        m->sent[process] = true;
        return;
    }
    while (!park_all_seen(m)) {
        if (park_look(m))
            continue;
        uint32_t bell = lane_park_prepare(&m->park);
        if (park_look(m) || (m->timeouts > 0 && check_choose(2) == 1 && m->timeouts--))
            lane_park_cancel(&m->park);
        else
            lane_park_sleep(&m->park, bell, 1000000000);
    }
}

static void park_finish(struct check_case *c)
{
    struct park_model *m = mt_container_of(c, struct park_model, c);
    for (int i = 1; i < c->processes; i++)
        check_require(!m->sent[i] || m->seen[i], "asleep with work pending");
}

static struct check_result park_explore(int processes, uint32_t kill_mask, int preemptions)
{
    struct park_model m = {
        .c = {.processes = processes, .kill_mask = kill_mask, .reset = park_reset, .body = park_body, .finish = park_finish}};
    struct check_plan plan = {preemptions, 3000000, 100000, 1};
    return check_run(&m.c, &plan, check_tracing);
}

void check_park_two(void **state)
{
    (void)state;
    check_expect_holds(park_explore(2, 0, 4));
}

void check_park_two_senders(void **state)
{
    (void)state;
    check_expect_holds(park_explore(3, 0, 3));
}

/* A sender that dies anywhere, even between two steps of its wake-up, costs nobody else's wake-up. */
void check_park_killed_sender(void **state)
{
    (void)state;
    check_expect_holds(park_explore(3, 1u << 1, 2));
}

void check_park_planted_no_fence(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_PARK_NO_FENCE;
    struct check_result r = park_explore(2, 0, 2);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, "asleep with work pending");
}
