/* SPDX-License-Identifier: Apache-2.0
 *
 * check_test.c - pins and hand-back, the code itself, under the interleaving checker
 * (tests/unit/lane/check.h).
 *
 * Process 0 is the raylet: it hears that the object is dead, hands its place back when nobody reads it, and
 * notices deaths. Process 1 reads the object by a ref. Process 2 wrote it, gets the place back and writes the
 * next one there.
 */
#include "core/base/plant.h"
#include "objectstore/client/client.h"
#include "objectstore/server/store.h"
#include "tests/unit/lane/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    RAYLET = 0,
    READER = 1,
    WRITER = 2,
    SEGMENT = 5 * OS_CHUNK,                     /* the head and one slab */
    VALUE_SIZE = OS_CLASS_MAX - OS_HEADER_SIZE, /* three places: a short walk */
    CHECKED = 64,                               /* bytes of the value that are written and read */
    OLD = 1,
    NEW = 2,
};

int mt_plant;

struct model {
    struct check_case c;
    uint8_t          *data, *generations;
    struct os_pins   *pins[2]; /* of reader and writer */
    struct os_store  *store;
    struct os_client  reader, writer;
    struct os_actions actions;
    struct lane_ref   ref;
    shm_u64           mail; /* raylet to writer: the offset that came back; a ring in reality */
    bool              handed_back, written;
};

static void must(mt_status st)
{
    check_require(st.code == MT_OK, st.what ? st.what : "ok");
}

static void value_write(void *at, int x)
{
    uint8_t bytes[CHECKED];
    memset(bytes, x, sizeof bytes);
    shm_write(at, bytes, sizeof bytes);
}

static void model_clear(struct model *m)
{
    os_client_fini(&m->reader);
    os_client_fini(&m->writer);
    os_store_free(m->store);
    os_actions_fini(&m->actions);
    m->store = NULL;
}

static void reset(struct check_case *c)
{
    struct model *m = mt_container_of(c, struct model, c);
    model_clear(m);
    memset(m->data, 0, 256); /* what an execution touches: the head, and the starts of the slab's places */
    for (uint64_t at = OS_CHUNK; at < SEGMENT; at += OS_CLASS_MAX)
        memset(m->data + at, 0, OS_HEADER_SIZE + CHECKED);
    memset(m->generations, 0, SEGMENT / OS_UNIT * 4);
    for (int i = 0; i < 2; i++)
        memset(m->pins[i], 0, 1024);
    memset(&m->mail, 0, sizeof m->mail);
    m->handed_back = m->written = false;

    struct os_store_config config = {.bytes_max = SEGMENT, .node = 1};
    struct os_backing      backing = {.data = m->data, .generations = m->generations};
    struct os_place        place;
    void                  *value;
    uint64_t               want;
    uint32_t               segment;
    must(os_store_new(&config, &m->store));
    must(os_store_add_process(m->store, READER, 1, m->pins[0]));
    must(os_store_add_process(m->store, WRITER, 1, m->pins[1]));
    must(os_store_add_segment(m->store, WRITER, SEGMENT, &backing, &segment));
    must(os_client_init(&m->reader, READER, 1, 1, m->pins[0]));
    must(os_client_init(&m->writer, WRITER, 1, 1, m->pins[1]));
    must(os_client_add_own(&m->writer, segment, SEGMENT, m->data, m->data, m->generations));
    must(os_client_add_reader(&m->reader, segment, SEGMENT, m->data, m->generations));
    must(os_client_alloc(&m->writer, VALUE_SIZE, &place, &value, &want));
    value_write(value, OLD);
    os_client_publish(&m->writer, place, value, mt_id_make(WRITER, 1, 1), 1, VALUE_SIZE, 'b', &m->ref);
}

/* The raylet notices a death once. */
static void notice(struct model *m, bool *known, int who)
{
    if (m->c.killed[who] && !*known) {
        *known = true;
        must(os_store_process_gone(m->store, (uint64_t)who));
    }
}

static void raylet(struct model *m)
{
    bool reader_dead = false, writer_dead = false;
    must(os_store_dead(m->store, WRITER, &m->ref));
    for (struct os_stats stats = {0}; stats.back_total == 0;) {
        notice(m, &reader_dead, READER);
        notice(m, &writer_dead, WRITER);
        must(os_store_tick(m->store, 0, &m->actions));
        os_store_stats(m->store, &stats);
        bool news = m->c.killed[READER] != reader_dead || m->c.killed[WRITER] != writer_dead;
        if (stats.back_total == 0 && !news)
            shm_pause();
    }
    if (m->actions.count > 0)
        shm_store64_release(&m->mail, m->actions.data[0].offset);
    m->handed_back = true;
}

static void reader(struct model *m)
{
    for (int i = 0; i < 2; i++) {
        const void *value;
        uint8_t     copy[CHECKED];
        mt_status   st = os_client_pin(&m->reader, &m->ref, &value);
        if (st.code == MT_EOBJ_LOST)
            return;
        must(st);
        shm_read(copy, value, sizeof copy);
        for (int b = 0; b < CHECKED; b++)
            check_require(copy[b] == OLD, "a pinned value changed");
        must(os_client_unpin(&m->reader, &m->ref));
    }
}

static void writer(struct model *m)
{
    struct os_place place;
    struct lane_ref ref;
    void           *value;
    uint64_t        want, offset;
    while ((offset = shm_load64_acquire(&m->mail)) == 0) {
        if (m->c.killed[RAYLET])
            return;
        shm_pause();
    }
    must(os_client_space_back(&m->writer, m->ref.segment, offset));
    must(os_client_alloc(&m->writer, VALUE_SIZE, &place, &value, &want));
    check_require(place.offset == m->ref.offset, "the place was not used again");
    check_require(place.generation == m->ref.generation + 1, "the place has its old generation");
    value_write(value, NEW);
    os_client_publish(&m->writer, place, value, mt_id_make(WRITER, 2, 1), 1, VALUE_SIZE, 'b', &ref);
    m->written = true;
}

static void body(struct check_case *c, int process)
{
    struct model *m = mt_container_of(c, struct model, c);
    if (process == RAYLET)
        raylet(m);
    else if (process == READER)
        reader(m);
    else
        writer(m);
}

/* Whatever is sealed under the place's generation is whole, also where its writer was killed. */
static void finish(struct check_case *c)
{
    struct model     *m = mt_container_of(c, struct model, c);
    struct os_object *object = (struct os_object *)(void *)(m->data + m->ref.offset);
    const uint8_t    *value = (const uint8_t *)(object + 1);
    shm_u32          *generation = (shm_u32 *)(void *)m->generations + m->ref.offset / OS_UNIT;
    if (shm_load32(&object->state) == OS_SEALED && object->generation == shm_load32(generation)) {
        int expected = object->generation == m->ref.generation ? OLD : NEW;
        for (int b = 0; b < CHECKED; b++)
            check_require(value[b] == expected, "a sealed object is not whole");
    }
    check_require(c->killed[RAYLET] || m->handed_back, "the place never came back");
    check_require(c->killed[RAYLET] || c->killed[WRITER] || m->written, "the writer never got its place");
    check_require(!c->stuck[READER], "the reader is stuck");
}

static struct check_result explore(uint32_t kill_mask, int preemptions)
{
    struct model m = {.c = {.processes = 3, .kill_mask = kill_mask, .reset = reset, .body = body, .finish = finish}};
    m.data = calloc(1, SEGMENT);
    m.generations = calloc(1, os_generations_bytes(SEGMENT));
    m.pins[0] = calloc(1, sizeof *m.pins[0]);
    m.pins[1] = calloc(1, sizeof *m.pins[1]);
    assert_true(m.data && m.generations && m.pins[0] && m.pins[1]);
    struct check_plan   plan = {preemptions, 3000000, 20000, 5};
    struct check_result r = check_run(&m.c, &plan, false);
    print_message("  %llu executions, %s\n", (unsigned long long)r.executions,
                  r.complete ? "all within the bound" : "not all within the bound");
    model_clear(&m);
    free(m.data);
    free(m.generations);
    free(m.pins[0]);
    free(m.pins[1]);
    return r;
}

static void expect_holds(struct check_result r)
{
    if (r.failed)
        fail_msg("%s", r.text);
    assert_true(r.executions > r.diverged * 10);
}

static void nobody_dies(void **state)
{
    (void)state;
    expect_holds(explore(0, 3));
}

static void one_dies(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++)
        expect_holds(explore(1u << who, 2));
}

static void without_the_fence(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_PIN_NO_FENCE;
    struct check_result r = explore(0, 2);
    mt_plant = MT_PLANT_NONE;
    assert_true(r.failed);
    print_message("  caught: %s\n", r.text);
}

static void freed_under_a_pin(void **state)
{
    (void)state;
    mt_plant = MT_PLANT_FREE_UNDER_PIN;
    struct check_result r = explore(0, 2);
    mt_plant = MT_PLANT_NONE;
    assert_true(r.failed);
    print_message("  caught: %s\n", r.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_dies),
        cmocka_unit_test(one_dies),
        cmocka_unit_test(without_the_fence),
        cmocka_unit_test(freed_under_a_pin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
