/* SPDX-License-Identifier: Apache-2.0
 *
 * check_pin.c - who has pinned a value reads that value: the pin protocol and the hand-back of space.
 *
 * The functions are those of objectstore/layout/pin.h; the hand-back goes through a ring to the writer, as CTL_SPACE_BACK.
 *
 * Process 0 is the raylet, 1 a reader that holds a ref of generation 0, 2 the writer.
 */
#include "tests/unit/lane/check_models.h"

#include "core/lane/ring.h"
#include "objectstore/layout/pin.h"

enum { PIN_VALUE_SIZE = 64, PIN_PLACE = 7, PIN_SLOT = 1 };

struct pin_model {
    struct check_case      c;
    bool                   hands_back_early; /* planted: the place goes back before its generation changes */
    shm_u32                generation;
    struct os_pins        *pins;
    uint8_t                value[PIN_VALUE_SIZE];
    struct lane_ring_words words;
    uint8_t                data[4096];
    int                    reads, written;
    bool                   handed_back;
};

/* ---- the three processes ----------------------------------------------------------------------------------------- */

static void pin_reset(struct check_case *c)
{
    struct pin_model *m = mt_container_of(c, struct pin_model, c);
    memset(&m->generation, 0, sizeof m->generation);
    memset(m->pins, 0, offsetof(struct os_pins, slot) + (PIN_SLOT + 1) * sizeof m->pins->slot[0]);
    memset(&m->words, 0, sizeof m->words);
    memset(m->data, 0, 256);
    memset(m->value, 1, sizeof m->value);
    m->reads = m->written = 0;
    m->handed_back = false;
}

static void raylet_hand_back(struct pin_model *m)
{
    struct lane_producer p;
    struct lane_record   r = {.length = LANE_RECORD_SIZE, .kind = LANE_CTL};
    lane_producer_init(&p, &m->words, m->data);
    check_require(lane_ring_push(&p, &r, NULL), "the ring is full");
    lane_ring_publish(&p);
    m->handed_back = true;
}

static bool raylet_sees_pin(struct pin_model *m)
{
    uint32_t high = os_pins_high(m->pins);
    for (uint32_t slot = 0; slot < high; slot++)
        if (os_pins_look(m->pins, slot) == PIN_PLACE)
            return true;
    return false;
}

static void raylet(struct pin_model *m)
{
    if (m->hands_back_early)
        raylet_hand_back(m);
    os_generation_bump(&m->generation);
    os_pins_before_look();
    while (raylet_sees_pin(m) && !m->c.killed[1])
        shm_pause();
    if (!m->hands_back_early)
        raylet_hand_back(m);
}

static void reader(struct pin_model *m)
{
    uint8_t copy[PIN_VALUE_SIZE];
    for (int i = 0; i < 2; i++) {
        if (!os_pin_hold(m->pins, PIN_SLOT, PIN_PLACE, &m->generation, 0))
            return;
        shm_read(copy, m->value, sizeof copy);
        for (int b = 0; b < PIN_VALUE_SIZE; b++)
            check_require(copy[b] == 1, "a pinned value changed");
        m->reads++;
        os_pin_drop(m->pins, PIN_SLOT);
    }
}

static void writer(struct pin_model *m)
{
    struct lane_consumer c;
    struct lane_record   r;
    const uint8_t       *payload;
    bool                 found;
    uint8_t              next[PIN_VALUE_SIZE];
    lane_consumer_init(&c, &m->words, m->data);
    for (;;) {
        bool dead = m->c.killed[0];
        check_require(lane_ring_peek(&c, &r, &payload, &found).code == MT_OK, "the ring is broken");
        if (found)
            break;
        if (dead)
            return;
        shm_pause();
    }
    memset(next, 2, sizeof next);
    shm_write(m->value, next, sizeof next);
    m->written++;
}

static void pin_body(struct check_case *c, int process)
{
    struct pin_model *m = mt_container_of(c, struct pin_model, c);
    if (process == 0)
        raylet(m);
    else if (process == 1)
        reader(m);
    else
        writer(m);
}

static void pin_finish(struct check_case *c)
{
    struct pin_model *m = mt_container_of(c, struct pin_model, c);
    check_require(c->killed[0] || m->handed_back, "the space never came back");
    check_require(c->killed[0] || c->killed[2] || m->written == 1, "the writer never got its space");
    check_require(c->killed[1] || !c->stuck[1], "the reader is stuck");
}

static struct check_result pin_explore(uint32_t kill_mask, bool early, int preemptions)
{
    static struct os_pins pins;
    struct pin_model m = {.c = {.processes = 3, .kill_mask = kill_mask, .reset = pin_reset, .body = pin_body, .finish = pin_finish},
                          .hands_back_early = early,
                          .pins = &pins};
    struct check_plan plan = {preemptions, 2000000, 50000, 9};
    return check_run(&m.c, &plan, check_tracing);
}

void check_pin_holds(void **state)
{
    (void)state;
    check_expect_holds(pin_explore(0, false, 3));
}

void check_pin_killed(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++)
        check_expect_holds(pin_explore(1u << who, false, 2));
}

void check_pin_planted_no_fence(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_PIN_NO_FENCE;
    struct check_result r = pin_explore(0, false, 2);
    mt_plant = MT_PLANT_NONE;
    check_expect_caught(r, "a pinned value changed");
}

void check_pin_planted_early_hand_back(void **state)
{
    (void)state;
    check_expect_caught(pin_explore(0, true, 3), "a pinned value changed");
}
