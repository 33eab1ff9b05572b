/* SPDX-License-Identifier: Apache-2.0
 *
 * check_take_test.c - spill's take against a writer's free, the code itself, under the interleaving checker
 * (tests/unit/lane/check.h).
 *
 * Process 0 is the raylet: it has written a value to disk and takes its place; then it hears from the writer what that could
 * not free by itself. Process 1 wrote the value and, since no ref of it left, frees it without a message; then it writes
 * another one, at the same place if that is free, and frees that too.
 */
#include "core/base/plant.h"
#include "objectstore/client/client.h"
#include "objectstore/server/store.h"
#include "objectstore/server/spill.h"
#include "tests/unit/lane/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    RAYLET = 0,
    WRITER = 1,
    SEGMENT = 5 * OS_CHUNK,                     /* the head and one slab */
    VALUE_SIZE = OS_CLASS_MAX - OS_HEADER_SIZE, /* three places: a short walk */
    VALUES = 2,
};

int mt_plant;

struct model {
    struct check_case c;
    uint8_t          *data, *generations;
    struct os_pins   *pins;
    struct os_store  *store;
    struct os_client  writer;
    struct os_actions actions;
    struct lane_ref   ref[VALUES];
    mt_status         freed[VALUES], taken;
    shm_u32           told[VALUES]; /* writer to raylet: this one is dead; a ring in reality */
    shm_u32           is_over;      /* the writer has said all */
    bool              back[VALUES]; /* what the raylet handed back */
};

static void must(mt_status st)
{
    check_require(st.code == MT_OK, st.what ? st.what : "ok");
}

static void model_clear(struct model *m)
{
    os_client_fini(&m->writer);
    os_store_free(m->store);
    os_actions_fini(&m->actions);
    m->store = NULL;
}

static void put(struct model *m, int which)
{
    struct os_place place;
    void           *value;
    uint64_t        want;
    must(os_client_alloc(&m->writer, VALUE_SIZE, &place, &value, &want));
    os_client_publish(&m->writer, place, value, mt_id_make(WRITER, (uint64_t)which + 1, 1), 1, VALUE_SIZE, 'b', &m->ref[which]);
}

static void reset(struct check_case *c)
{
    struct model          *m = mt_container_of(c, struct model, c);
    struct os_store_config config = {.bytes_max = SEGMENT, .node = 1};
    struct os_backing      backing = {.data = m->data, .generations = m->generations};
    struct lane_ref        victim;
    uint32_t               segment;
    model_clear(m);
    memset(m->data, 0, 256);
    for (uint64_t at = OS_CHUNK; at < SEGMENT; at += OS_CLASS_MAX)
        memset(m->data + at, 0, OS_HEADER_SIZE);
    memset(m->generations, 0, SEGMENT / OS_UNIT * 4);
    memset(m->pins, 0, 1024);
    memset(m->told, 0, sizeof m->told);
    memset(&m->is_over, 0, sizeof m->is_over);
    memset(m->back, 0, sizeof m->back);
    must(os_store_new(&config, &m->store));
    must(os_store_add_process(m->store, WRITER, 1, m->pins));
    must(os_store_add_segment(m->store, WRITER, SEGMENT, &backing, &segment));
    must(os_client_init(&m->writer, WRITER, 1, 1, m->pins));
    must(os_client_add_own(&m->writer, segment, SEGMENT, m->data, m->data, m->generations));
    put(m, 0);
    check_require(os_store_victims(m->store, VALUE_SIZE, &victim, 1, &m->actions) == 1, "the value is no victim");
}

/* What the raylet hands back, by place: both values may have had it, and it hears of one of them then. */
static void note_back(struct model *m)
{
    for (size_t i = 0; i < m->actions.count; i++)
        for (int v = 0; v < VALUES; v++)
            if (shm_load32(&m->told[v]) && m->ref[v].offset == m->actions.data[i].offset &&
                m->ref[v].generation + 1 == m->actions.data[i].generation) {
                check_require(!m->back[v], "a place is handed back twice");
                m->back[v] = true;
            }
    m->actions.count = 0;
}

static void raylet(struct model *m)
{
    m->taken = os_store_take(m->store, &m->ref[0]);
    while (!shm_load32_acquire(&m->is_over))
        shm_pause();
    for (int v = 0; v < VALUES; v++)
        if (shm_load32_acquire(&m->told[v]))
            must(os_store_dead(m->store, WRITER, &m->ref[v]));
    must(os_store_sweep(m->store, &m->actions));
    note_back(m);
}

static void writer(struct model *m)
{
    for (int v = 0; v < VALUES; v++) {
        if (v > 0)
            put(m, v);
        m->freed[v] = os_client_free(&m->writer, m->ref[v].segment, m->ref[v].offset, m->ref[v].generation);
        check_require(m->freed[v].code == MT_OK || m->freed[v].code == MT_EAGAIN, "a free is refused");
        if (m->freed[v].code)
            shm_store32_release(&m->told[v], 1);
    }
    shm_store32_release(&m->is_over, 1);
}

static void body(struct check_case *c, int process)
{
    struct model *m = mt_container_of(c, struct model, c);
    if (process == RAYLET)
        raylet(m);
    else
        writer(m);
}

/* Each place is freed once, by one of the two; what was taken is the value that is on disk. */
static void finish(struct check_case *c)
{
    struct model *m = mt_container_of(c, struct model, c);
    check_require((m->taken.code == MT_OK) == (m->freed[0].code == MT_EAGAIN && m->back[0] && m->told[0].v) ||
                      (m->taken.code == MT_ENOENT && m->freed[0].code == MT_OK),
                  "the take and the free have both won, or both lost");
    for (int v = 0; v < VALUES; v++)
        check_require((m->freed[v].code == MT_OK) != m->back[v], "a place is free twice, or never");
    check_require(m->taken.code == MT_OK || m->taken.code == MT_ENOENT, "the take fails otherwise");
}

static struct check_result explore(int preemptions)
{
    struct model m = {.c = {.processes = 2, .reset = reset, .body = body, .finish = finish}};
    m.data = calloc(1, SEGMENT);
    m.generations = calloc(1, os_generations_bytes(SEGMENT));
    m.pins = calloc(1, sizeof *m.pins);
    assert_true(m.data && m.generations && m.pins);
    struct check_plan   plan = {preemptions, 1000000, 20000, 5};
    struct check_result r = check_run(&m.c, &plan, false);
    print_message("  %llu executions, %s\n", (unsigned long long)r.executions,
                  r.complete ? "all within the bound" : "not all within the bound");
    model_clear(&m);
    free(m.data);
    free(m.generations);
    free(m.pins);
    return r;
}

static void one_of_them_wins(void **state)
{
    (void)state;
    struct check_result r = explore(4);
    if (r.failed)
        fail_msg("%s", r.text);
    assert_true(r.complete && r.executions > r.diverged * 10);
}

static void expect_caught(int plant)
{
    mt_plant = plant;
    struct check_result r = explore(3);
    mt_plant = MT_PLANT_NONE;
    assert_true(r.failed);
    print_message("  caught: %s\n", r.text);
}

static void taken_by_store(void **state)
{
    (void)state;
    expect_caught(MT_PLANT_TAKE_BY_STORE);
}

static void taken_whatever_stands_there(void **state)
{
    (void)state;
    expect_caught(MT_PLANT_TAKE_ANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_them_wins),
        cmocka_unit_test(taken_by_store),
        cmocka_unit_test(taken_whatever_stands_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
