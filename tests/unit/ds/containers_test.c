/* SPDX-License-Identifier: Apache-2.0
 *
 * containers_test.c - vec, map and heap against plain models, over seeded random operations.
 */
#include "tests/unit/base/says.h"
#include "tests/unit/base/test.h"

#include "core/ds/heap.h"
#include "core/ds/map.h"
#include "core/ds/recent.h"
#include "core/ds/sorted.h"
#include "core/ds/spare.h"
#include "core/ds/stash.h"
#include "core/base/rng.h"
#include "core/ds/vec.h"

#include <stdlib.h>
#include <string.h>

static void a_vec_keeps_its_elements(void **state)
{
    (void)state;
    MT_VEC(struct {
        int    a;
        double b;
    })
    vec = {0};
    for (int i = 0; i < 100; i++) {
        assert_ok(mt_vec_reserve(&vec, 1));
        vec.data[vec.count].a = i;
        vec.count++;
    }
    mt_vec_remove(&vec, 10);
    assert_int_equal(vec.data[10].a, 11);
    assert_int_equal(vec.data[98].a, 99);
    mt_vec_remove_swap(&vec, 0);
    assert_int_equal(vec.data[0].a, 99);
    assert_int_equal(vec.count, 98);
    mt_vec_fini(&vec);
    assert_int_equal(vec.capacity, 0);
}

static void a_vec_pushes_and_pops(void **state)
{
    (void)state;
    MT_VEC(uint64_t) vec = {0};
    for (uint64_t i = 0; i < 1000; i++)
        assert_ok(mt_vec_push(&vec, i * i));
    for (uint64_t i = 1000; i-- > 0;)
        assert_true(mt_vec_pop(&vec) == i * i);
    assert_int_equal(vec.count, 0);
    assert_code(mt_vec_reserve(&vec, SIZE_MAX / 4), MT_ENOMEM);
    mt_vec_fini(&vec);
}

static void a_map_finds_what_was_put(void **state)
{
    (void)state;
    mt_map map = {0};
    int    value;
    assert_null(mt_map_find(&map, mt_map_key(0)));
    assert_false(mt_map_remove(&map, mt_map_key(0)));
    assert_ok(mt_map_put_ptr(&map, mt_map_key(0), &value));
    assert_ptr_equal(mt_map_ptr(&map, mt_map_key(0)), &value);
    assert_null(mt_map_ptr(&map, mt_map_key(1)));
    assert_ok(mt_map_put_ptr(&map, mt_map_key(0), NULL));
    assert_int_equal(map.count, 1);
    assert_true(mt_map_remove(&map, mt_map_key(0)));
    assert_int_equal(map.count, 0);
    assert_code(mt_map_put_num(&map, mt_id_make(0, 0, 0), 1), MT_EINVAL);
    mt_map_fini(&map);
}

/* The model: an array of numbers, 0 for absent, and the time of each insertion. */
enum { MODEL_KEYS = 500 };
struct model {
    uint64_t value[MODEL_KEYS];
    uint64_t inserted[MODEL_KEYS];
    size_t   count;
};

static void check_against_model(const mt_map *map, const struct model *model)
{
    uint64_t last = 0;
    size_t   seen = 0;
    assert_int_equal(map->count, model->count);
    MT_MAP_EACH(map, entry) {
        uint64_t key = entry->key.counter_index >> 16;
        assert_true(entry->value.num == model->value[key]);
        assert_true(model->inserted[key] > last);
        last = model->inserted[key];
        seen++;
    }
    assert_int_equal(seen, model->count);
}

static void a_map_agrees_with_its_model(void **state)
{
    (void)state;
    mt_map       map = {0};
    struct model model = {0};
    mt_rng       rng = {7};
    for (uint64_t step = 1; step <= 20000; step++) {
        uint64_t key = mt_rng_below(&rng, MODEL_KEYS);
        mt_id    id = mt_id_make(99, key, 1);
        /* The share of removals swings, so that the map grows, shrinks and rebuilds in place. */
        if (mt_rng_below(&rng, 100) < (step / 4000 % 2 ? 80u : 35u)) {
            assert_int_equal(mt_map_remove(&map, id), model.value[key] != 0);
            model.count -= model.value[key] != 0;
            model.value[key] = 0;
        } else {
            assert_ok(mt_map_put_num(&map, id, step));
            if (model.value[key] == 0) {
                model.inserted[key] = step;
                model.count++;
            }
            model.value[key] = step;
        }
        if (step % 500 == 0)
            check_against_model(&map, &model);
    }
    mt_map_fini(&map);
}

static void a_map_may_lose_entries_during_a_walk(void **state)
{
    (void)state;
    mt_map map = {0};
    for (uint64_t i = 0; i < 100; i++)
        assert_ok(mt_map_put_num(&map, mt_map_key(i), i));
    uint64_t next = 0;
    MT_MAP_EACH(&map, entry) {
        assert_true(entry->value.num == next++);
        mt_map_remove(&map, entry->key);
    }
    assert_int_equal(next, 100);
    assert_int_equal(map.count, 0);
    mt_map_fini(&map);
}

static void a_churning_map_stays_small(void **state)
{
    (void)state;
    mt_map map = {0};
    for (uint64_t i = 0; i < 100000; i++) {
        assert_ok(mt_map_put_num(&map, mt_map_key(i), i));
        if (i >= 10)
            assert_true(mt_map_remove(&map, mt_map_key(i - 10)));
    }
    assert_int_equal(map.count, 10);
    assert_in_range(map.capacity, 8, 32);
    mt_map_fini(&map);
}

static void a_map_with_room_does_not_grow(void **state)
{
    (void)state;
    mt_map map = {0};
    assert_ok(mt_map_reserve(&map, 100));
    const mt_map_entry *before = map.entries;
    for (uint64_t i = 1; i <= 100; i++)
        assert_ok(mt_map_put_num(&map, mt_map_key(i), i));
    assert_ptr_equal(map.entries, before);
    assert_ok(mt_map_reserve(&map, 1));
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(mt_map_find(&map, mt_map_key(i))->value.num, i);
    mt_map_fini(&map);
}

/* Ids of one process, whose counters are near to each other, and numbers drawn at random, as a daemon sees them. */
static mt_id nth_id(uint64_t n)
{
    mt_rng rng = {n};
    return n % 2 ? mt_id_make(77, n, 0) : mt_map_key(mt_rng_next(&rng));
}

static void the_last_ids_are_remembered_and_no_others(void **state)
{
    (void)state;
    enum { CAPACITY = 64, COUNT = 5000 };
    struct mt_recent recent;
    assert_ok(mt_recent_init(&recent, CAPACITY));
    assert_null(mt_recent_find(&recent, nth_id(1)));
    for (uint64_t n = 1; n <= COUNT; n++) {
        mt_recent_put(&recent, nth_id(n), (int32_t)n);
        for (uint64_t back = 0; back < 2 * CAPACITY && back < n; back++) {
            const int32_t *value = mt_recent_find(&recent, nth_id(n - back));
            assert_true(back < CAPACITY ? value && *value == (int32_t)(n - back) : !value);
        }
    }
    assert_int_equal(recent.count, CAPACITY);
    assert_null(mt_recent_find(&recent, (mt_id){0}));
    mt_recent_fini(&recent);
    assert_null(mt_recent_find(&recent, nth_id(COUNT))); /* a zeroed one remembers nothing */
}

static void a_stash_keeps_its_blocks_while_malloc_gives(void **state)
{
    (void)state;
    mt_stash stash = {0};
    assert_ok(mt_stash_fill(&stash));
    assert_int_equal(stash.small_count, MT_STASH_SMALL);
    assert_int_equal(stash.large_count, MT_STASH_LARGE);
    uint8_t *block = mt_stash_take(&stash, 64);
    assert_non_null(block);
    assert_int_equal(block[63], 0);
    assert_int_equal(stash.small_count, MT_STASH_SMALL);
    free(block);
    mt_stash_fini(&stash);
    assert_int_equal(stash.large_count, 0);
}

struct timer {
    int          name;
    mt_heap_node node;
};

static void a_heap_gives_the_smallest_and_the_oldest_first(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static struct timer timers[COUNT];
    mt_heap             heap = {0};
    mt_rng              rng = {3};
    assert_null(mt_heap_pop(&heap));
    for (int i = 0; i < COUNT; i++) {
        timers[i].name = i;
        assert_ok(mt_heap_push(&heap, &timers[i].node, mt_rng_below(&rng, 20)));
    }
    for (int i = 0; i < COUNT; i += 3)
        mt_heap_remove(&heap, &timers[i].node);
    mt_heap_remove(&heap, &timers[0].node);
    uint64_t last_key = 0;
    int      last_name = -1, given = 0;
    for (mt_heap_node *node; (node = mt_heap_pop(&heap)); given++) {
        struct timer *timer = mt_container_of(node, struct timer, node);
        assert_true(node->key >= last_key);
        assert_true(node->key > last_key || timer->name > last_name);
        assert_int_not_equal(timer->name % 3, 0);
        assert_false(mt_heap_holds(node));
        last_key = node->key;
        last_name = timer->name;
    }
    assert_int_equal(given, COUNT - COUNT / 3);
    mt_heap_fini(&heap);
}

static void a_finished_heap_lets_its_nodes_go(void **state)
{
    (void)state;
    struct timer timer = {0};
    mt_heap      heap = {0};
    assert_ok(mt_heap_push(&heap, &timer.node, 5));
    assert_ptr_equal(mt_heap_first(&heap), &timer.node);
    assert_true(mt_heap_holds(&timer.node));
    mt_heap_fini(&heap);
    assert_false(mt_heap_holds(&timer.node));
}

static void freed_blocks_come_again_by_size_and_up_to_a_bound(void **state)
{
    (void)state;
    mt_spare spare = {0};
    void    *block = mt_spare_take(&spare, 1000), *other;
    memset(block, 1, 1000);
    mt_spare_give(&spare, block, 1000);
    assert_int_equal(spare.bytes, MT_SPARE_KEPT_MAX ? 1024 : 0);
    other = mt_spare_take(&spare, 64); /* not of its size */
    memset(other, 2, 64);
    if (MT_SPARE_KEPT_MAX)
        assert_ptr_equal(mt_spare_take(&spare, 1024), block);
    else
        block = mt_spare_take(&spare, 1024);
    memset(block, 3, 1024);
    for (size_t size = 4000; size < 6000; size += 500) { /* the larger ones are not kept */
        void *large = mt_spare_take(&spare, size);
        memset(large, 4, size);
        mt_spare_give(&spare, large, size);
    }
    assert_int_equal(spare.bytes, MT_SPARE_KEPT_MAX ? 4032 : 0);
    for (int i = 0; i < MT_SPARE_BYTES_MAX / 4032 + 10; i++) /* from elsewhere, as it were */
        mt_spare_give(&spare, malloc(4032), 4032);
    assert_true(spare.bytes <= MT_SPARE_KEPT_MAX);
    mt_spare_give(&spare, block, 1024);
    mt_spare_give(&spare, other, 64);
    mt_spare_fini(&spare);
    assert_int_equal(spare.bytes, 0);
}

/* Each rule that a container's file names is broken once, and the check says so. */
static void sorted_numbers_come_in_order(void **state)
{
    enum { ROOM = 500, STEPS = 40000 };
    static mt_sorted_node nodes[ROOM];
    bool                  is_in[ROOM] = {false};
    mt_sorted             sorted = {0};
    size_t                count = 0;
    mt_rng                rng = {7};
    (void)state;
    assert_null(mt_sorted_first(&sorted));
    assert_null(mt_sorted_after(&sorted, 0));
    for (int step = 0; step < STEPS; step++) {
        size_t i = mt_rng_below(&rng, ROOM), next = mt_rng_below(&rng, ROOM), first = 0;
        if (is_in[i])
            mt_sorted_remove(&sorted, &nodes[i]);
        else
            mt_sorted_add(&sorted, &nodes[i], 3 * i);
        is_in[i] = !is_in[i];
        count += is_in[i] ? 1 : (size_t)-1;
        assert_int_equal(sorted.count, count);
        uint64_t from = 3 * next + mt_rng_below(&rng, 3); /* of one that is in it, or not, or of none */
        for (next++; next < ROOM && !is_in[next];)
            next++;
        while (first < ROOM && !is_in[first])
            first++;
        assert_ptr_equal(mt_sorted_after(&sorted, from), next < ROOM ? &nodes[next] : NULL);
        assert_ptr_equal(mt_sorted_first(&sorted), first < ROOM ? &nodes[first] : NULL);
    }
}

static void breaches_are_told(void **state)
{
    (void)state;
    mt_heap          heap = {0}, other = {0};
    mt_heap_node     node = {0}, two[2] = {{0}};
    mt_map           map = {0};
    struct mt_recent recent;
    mt_id            key = {1, 1};
    assert_ok(mt_heap_push(&heap, &node, 5));
    assert_string_not_equal(SAYS(mt_heap_remove(&other, &node)), ""); /* it is in none of the other's places */
    assert_ok(mt_heap_push(&other, &two[0], 1));
    assert_string_not_equal(SAYS(mt_heap_remove(&other, &node)), ""); /* that place is another's */
    assert_string_not_equal(SAYS((void)mt_heap_push(&other, &node, 5).code), "");
    assert_string_equal(SAYS(mt_heap_remove(&heap, &node)), "");
    mt_heap_fini(&heap);
    mt_heap_fini(&other);

    assert_ok(mt_map_put_ptr(&map, key, &map));
    map.used = map.capacity + 1; /* as after a write past its end */
    assert_string_not_equal(SAYS((void)mt_map_put_ptr(&map, (mt_id){2, 2}, &map).code), "");
    mt_map_fini(&map);

    assert_ok(mt_recent_init(&recent, 2));
    for (uint64_t i = 1; i <= 2; i++)
        mt_recent_put(&recent, (mt_id){i, i}, 0);
    assert_string_not_equal(SAYS(mt_recent_put(&recent, key, 0)), ""); /* it is there */
    memset(recent.index, 0, 2 * (size_t)recent.capacity * sizeof *recent.index);
    assert_string_not_equal(SAYS(mt_recent_put(&recent, (mt_id){3, 3}, 0)), ""); /* nothing leads to what is forgotten */
    mt_recent_fini(&recent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vec_keeps_its_elements),
        cmocka_unit_test(a_vec_pushes_and_pops),
        cmocka_unit_test(a_map_finds_what_was_put),
        cmocka_unit_test(a_map_agrees_with_its_model),
        cmocka_unit_test(a_map_may_lose_entries_during_a_walk),
        cmocka_unit_test(a_churning_map_stays_small),
        cmocka_unit_test(a_map_with_room_does_not_grow),
        cmocka_unit_test(the_last_ids_are_remembered_and_no_others),
        cmocka_unit_test(freed_blocks_come_again_by_size_and_up_to_a_bound),
        cmocka_unit_test(a_stash_keeps_its_blocks_while_malloc_gives),
        cmocka_unit_test(a_heap_gives_the_smallest_and_the_oldest_first),
        cmocka_unit_test(a_finished_heap_lets_its_nodes_go),
        cmocka_unit_test(sorted_numbers_come_in_order),
        cmocka_unit_test(breaches_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
