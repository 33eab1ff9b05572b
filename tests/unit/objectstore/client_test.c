/* SPDX-License-Identifier: Apache-2.0
 *
 * client_test.c - a process's side: places, reuse, pins, trim; refs and headers that lie.
 */
#include "core/base/rng.h"
#include "objectstore/client/private.h"
#include "tests/unit/objectstore/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

static const uint64_t MIB = 1 << 20;

static void expect_code(mt_status st, int32_t code)
{
    assert_string_equal(mt_code_name(st.code), mt_code_name(code));
}
#define expect_ok(st) expect_code((st), MT_OK)

/* Every size gives 64-aligned room that no other place overlaps, up to the segment's last byte. */
static void sizes(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client   *c = node_add(&n, 1, NODE_JOB);
    static const uint64_t all[] = {0, 1, 63, 64, 65, 1024, 4096, 8192, 16384, 21696, 21697, 32768, 65536, 1000000};
    struct lane_ref       refs[sizeof all / sizeof *all];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect_ok(node_put(&n, c, 1, all[i], (uint8_t)i, &refs[i]));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const void *data;
        expect_ok(node_pin(&n, c, &refs[i], &data));
        assert_int_equal((uintptr_t)data % 64, 0);
        node_expect(data, all[i], (uint8_t)i);
        expect_ok(os_client_unpin(&c->client, &refs[i]));
    }
    struct os_place place;
    void           *data;
    expect_code(node_alloc(&n, c, UINT64_C(1) << 50, &place, &data), MT_EINVAL);
    expect_code(node_alloc(&n, c, UINT64_MAX, &place, &data), MT_EINVAL);
    node_close(&n);
}

struct live {
    struct lane_ref ref;
    uint8_t         seed;
};

/* Thousands of puts and frees of random sizes: values stay whole, freed space is used again, nothing is lost.
 */
static void random_reuse(void **state)
{
    (void)state;
    enum { LIVE_MAX = 300, STEPS = 20000 };
    struct node n;
    node_open(&n, 256 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct live         live[LIVE_MAX];
    int                 count = 0;
    mt_rng              rng = {42};
    for (int step = 0; step < STEPS; step++) {
        if (count < LIVE_MAX && mt_rng_below(&rng, 2)) {
            uint64_t size = mt_rng_below(&rng, 1u << mt_rng_below(&rng, 18));
            live[count].seed = (uint8_t)step;
            expect_ok(node_put(&n, c, 1, size, live[count].seed, &live[count].ref));
            count++;
        } else if (count > 0) {
            int         i = (int)mt_rng_below(&rng, (uint64_t)count);
            const void *data;
            expect_ok(node_pin(&n, c, &live[i].ref, &data));
            node_expect(data, live[i].ref.size, live[i].seed);
            expect_ok(os_client_unpin(&c->client, &live[i].ref));
            expect_ok(os_client_free(&c->client, live[i].ref.segment, live[i].ref.offset, live[i].ref.generation));
            live[i] = live[--count];
        }
        if (step % 100 == 0)
            assert_null(os_client_check(&c->client));
    }
    while (count-- > 0)
        expect_ok(os_client_free(&c->client, live[count].ref.segment, live[count].ref.offset, live[count].ref.generation));
    struct os_trim trim;
    os_client_trim(&c->client, UINT64_MAX, &trim); /* gives empty slabs back, keeps everything */
    assert_int_equal(trim.kind, OS_TRIM_NOTHING);
    assert_int_equal(c->client.used_bytes, 0);
    assert_true(c->client.own_bytes <= 64 * MIB);
    node_close(&n);
}

static void double_free(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref     small, large;
    expect_ok(node_put(&n, c, 1, 100, 1, &small));
    expect_ok(node_put(&n, c, 1, 100000, 2, &large));
    expect_code(os_client_free(&c->client, small.segment, small.offset + 128, small.generation), MT_EINVAL);
    expect_code(os_client_free(&c->client, large.segment, large.offset + OS_CHUNK, large.generation), MT_EINVAL);
    expect_code(os_client_free(&c->client, small.segment, 0, 0), MT_EINVAL);
    expect_code(os_client_free(&c->client, small.segment, UINT64_MAX / 128 * 128, 0), MT_EINVAL);
    expect_code(os_client_free(&c->client, 77, 0, 0), MT_EINVAL);
    expect_ok(os_client_free(&c->client, small.segment, small.offset, small.generation));
    expect_ok(os_client_free(&c->client, large.segment, large.offset, large.generation));
    expect_code(os_client_free(&c->client, small.segment, small.offset, small.generation), MT_EINVAL);
    expect_code(os_client_free(&c->client, large.segment, large.offset, large.generation), MT_EINVAL);
    expect_code(os_client_space_back(&c->client, large.segment, large.offset), MT_EPROTO);
    expect_code(os_client_space_back(&c->client, 77, 0), MT_ENOENT);
    node_close(&n);
}

/* A place that its own process still reads is free only after the last unpin. */
static void free_while_pinned(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref     ref, next;
    const void         *data;
    expect_ok(node_put(&n, c, 1, 50000, 1, &ref));
    expect_ok(node_pin(&n, c, &ref, &data));
    expect_ok(node_pin(&n, c, &ref, &data));
    expect_ok(os_client_free(&c->client, ref.segment, ref.offset, ref.generation));
    expect_ok(node_put(&n, c, 1, 50000, 2, &next));
    assert_true(next.offset != ref.offset || next.segment != ref.segment);
    expect_ok(os_client_unpin(&c->client, &ref));
    node_expect(data, 50000, 1);
    expect_ok(os_client_unpin(&c->client, &ref));
    expect_code(os_client_unpin(&c->client, &ref), MT_EINVAL);
    expect_ok(node_put(&n, c, 1, 50000, 3, &next));
    assert_int_equal(next.offset, ref.offset);
    expect_code(os_client_pin(&c->client, &ref, &data), MT_EOBJ_LOST); /* same generation, another id */
    node_close(&n);
}

/* Refs that lie about where, how long, whose. */
static void hostile_refs(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, NODE_JOB), *reader = node_add(&n, 2, NODE_JOB);
    struct lane_ref     good, ref;
    const void         *data;
    expect_ok(node_put(&n, writer, 1, 1000, 1, &good));
    expect_ok(node_pin(&n, reader, &good, &data));
    expect_ok(os_client_unpin(&reader->client, &good));
    mt_rng rng = {7};
    for (int i = 0; i < 100000; i++) {
        ref = good;
        switch (mt_rng_below(&rng, 5)) {
        case 0: ref.offset = mt_rng_next(&rng) >> mt_rng_below(&rng, 64); break;
        case 1: ref.size = mt_rng_next(&rng) >> mt_rng_below(&rng, 64); break;
        case 2: ref.generation = (uint32_t)mt_rng_next(&rng); break;
        case 3: ref.id.counter_index ^= UINT64_C(1) << mt_rng_below(&rng, 64); break;
        default: ref.offset = good.offset + OS_UNIT * (1 + mt_rng_below(&rng, 400));
        }
        if (ref.offset == good.offset && ref.size == good.size && ref.generation == good.generation && mt_id_equal(ref.id, good.id))
            continue;
        expect_code(os_client_pin(&reader->client, &ref, &data), MT_EOBJ_LOST);
    }
    ref = good;
    ref.node++;
    expect_code(os_client_pin(&reader->client, &ref, &data), MT_EINVAL);
    ref = good;
    ref.segment = 1000;
    expect_code(os_client_pin(&reader->client, &ref, &data), MT_ENOENT);
    assert_int_equal(reader->client.pinned, 0);
    node_close(&n);
}

/* A writer that scribbles on its headers: a reader gets an error or the bytes that are there, never a fault.
 */
static void hostile_headers(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *writer = node_add(&n, 1, NODE_JOB), *reader = node_add(&n, 2, NODE_JOB);
    struct os_place     place;
    void               *value;
    const void         *data;
    struct lane_ref     ref, copy;
    expect_ok(node_alloc(&n, writer, 1000, &place, &value));
    os_client_publish(&writer->client, place, value, mt_id_make(1, 5, 1), NODE_NUMBER, 1000, 'b', &ref);
    expect_ok(node_pin(&n, reader, &ref, &data));
    expect_ok(os_client_unpin(&reader->client, &ref));
    struct os_object good, *header = (struct os_object *)value - 1;
    memcpy(&good, header, sizeof good);
    mt_rng rng = {9};
    for (int i = 0; i < 50000; i++) {
        memcpy(header, &good, sizeof good);
        ((uint8_t *)header)[mt_rng_below(&rng, 32)] ^= (uint8_t)(1 + mt_rng_below(&rng, 255));
        copy = ref;
        copy.size = header->size;
        mt_status st = os_client_pin(&reader->client, &copy, &data);
        if (st.code == MT_OK) {
            assert_true(copy.offset + OS_HEADER_SIZE + copy.size <= MIB);
            expect_ok(os_client_unpin(&reader->client, &copy));
        }
    }
    node_close(&n);
}

static void pin_slots_run_out(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 256 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref    *refs = calloc(OS_PIN_SLOTS + 1, sizeof *refs);
    const void         *data;
    assert_non_null(refs);
    for (uint32_t i = 0; i <= OS_PIN_SLOTS; i++)
        expect_ok(node_put(&n, c, 1, 8, (uint8_t)i, &refs[i]));
    for (uint32_t i = 0; i < OS_PIN_SLOTS; i++)
        expect_ok(node_pin(&n, c, &refs[i], &data));
    mt_status st = os_client_pin(&c->client, &refs[OS_PIN_SLOTS], &data);
    expect_code(st, MT_EAGAIN);
    assert_non_null(strstr(st.what, "release some views"));
    expect_ok(node_pin(&n, c, &refs[5], &data)); /* the same object again needs no slot */
    expect_ok(os_client_unpin(&c->client, &refs[5]));
    expect_ok(os_client_unpin(&c->client, &refs[77]));
    expect_ok(os_client_pin(&c->client, &refs[OS_PIN_SLOTS], &data));
    node_expect(data, 8, (uint8_t)OS_PIN_SLOTS);
    expect_ok(os_client_unpin(&c->client, &refs[OS_PIN_SLOTS]));
    for (uint32_t i = 0; i < OS_PIN_SLOTS; i++)
        if (i != 77)
            expect_ok(os_client_unpin(&c->client, &refs[i]));
    assert_int_equal(c->client.pinned, 0);
    free(refs);
    node_close(&n);
}

/* Free pages go back after a whole round, whole segments too; what is kept warm stays, and all of it works
 * again. */
static void trim(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 256 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref     small, large[4];
    struct os_trim      t;
    expect_ok(node_put(&n, c, 1, 1000, 1, &small));
    for (int i = 0; i < 4; i++)
        expect_ok(node_put(&n, c, 1, 3 * MIB, (uint8_t)i, &large[i]));
    for (int i = 0; i < 4; i++)
        expect_ok(os_client_free(&c->client, large[i].segment, large[i].offset, large[i].generation));
    os_client_trim(&c->client, 0, &t);
    assert_int_equal(t.kind, OS_TRIM_NOTHING); /* used in this round */
    os_client_trim_round(&c->client);
    uint64_t before = c->client.own_bytes, segments = 0, pages = 0;
    for (os_client_trim(&c->client, MIB, &t); t.kind != OS_TRIM_NOTHING; os_client_trim(&c->client, MIB, &t)) {
        if (t.kind == OS_TRIM_SEGMENT) {
            segments += t.size;
            expect_ok(os_store_segment_back(n.store, 1, t.segment));
        } else {
            assert_int_equal(madvise(t.data, t.size, MADV_REMOVE), 0);
            pages += t.size;
        }
    }
    assert_true(segments > 0);
    assert_int_equal(before - segments, c->client.own_bytes);
    assert_true(segments + pages >= 11 * MIB);
    const void *data;
    expect_ok(node_pin(&n, c, &small, &data));
    node_expect(data, 1000, 1);
    expect_ok(os_client_unpin(&c->client, &small));
    for (int i = 0; i < 4; i++)
        expect_ok(node_put(&n, c, 1, 3 * MIB, (uint8_t)i, &large[i]));
    node_close(&n);
}

/* A segment that this process has read becomes its own: its writer is dead, its last object too. */
static void reader_becomes_writer(void **state)
{
    (void)state;
    struct os_client client;
    enum { SEGMENT = 1 << 20 };
    void           *data = aligned_alloc(64, SEGMENT), *generations = calloc(1, os_generations_bytes(SEGMENT));
    void           *view = aligned_alloc(64, SEGMENT); /* where a second mapping would be */
    void           *pins = calloc(1, OS_PINS_BYTES), *value;
    const void     *read;
    struct os_place place;
    struct lane_ref ref;
    uint64_t        want;
    assert_true(data && view && generations && pins);
    memset(data, 0, SEGMENT);
    expect_ok(os_client_init(&client, 1, 1, 1, pins));
    expect_code(os_client_add_reader(&client, 0, SEGMENT, data, generations), MT_EINVAL);
    expect_code(os_client_add_reader(&client, 5, SEGMENT + 1, data, generations), MT_EINVAL);
    expect_ok(os_client_add_reader(&client, 5, SEGMENT, data, generations));
    expect_code(os_client_add_reader(&client, 5, SEGMENT, data, generations), MT_EEXIST);
    expect_code(os_client_free(&client, 5, 65536, 0), MT_EINVAL);
    expect_code(os_client_alloc(&client, 10, &place, &value, &want), MT_EAGAIN);
    assert_int_equal(want, SEGMENT);
    expect_ok(os_client_add_own(&client, 5, SEGMENT, data, view, generations));
    expect_code(os_client_add_own(&client, 5, SEGMENT, data, view, generations), MT_EINVAL);
    expect_ok(os_client_alloc(&client, 10, &place, &value, &want));
    os_client_publish(&client, place, value, mt_id_make(1, 1, 1), 1, 10, 'b', &ref);
    expect_ok(os_client_pin(&client, &ref, &read));
    assert_ptr_equal(read, (uint8_t *)view + place.offset + OS_HEADER_SIZE); /* a reader never gets the writable mapping */
    expect_code(os_client_drop(&client, 5), MT_EAGAIN);
    expect_ok(os_client_unpin(&client, &ref));
    expect_ok(os_client_drop(&client, 5));
    expect_code(os_client_drop(&client, 5), MT_ENOENT);
    os_client_fini(&client);
    free(data);
    free(view);
    free(generations);
    free(pins);
}

/* Streaming stores are used past a size; every alignment and tail must come out the same. */
static void copy(void **state)
{
    (void)state;
    enum { SIZE = 5 * 1024 * 1024 };
    uint8_t *from = malloc(SIZE + 512), *to = malloc(SIZE + 512);
    assert_true(from && to);
    mt_rng rng = {3};
    for (size_t i = 0; i < SIZE + 512; i++)
        from[i] = (uint8_t)mt_rng_next(&rng);
    for (int i = 0; i < 12; i++) {
        size_t a = mt_rng_below(&rng, 256), b = mt_rng_below(&rng, 256);
        size_t size = i < 2 ? (size_t)i : 2 * 1024 * 1024 - 2 + mt_rng_below(&rng, 3 * 1024 * 1024);
        memset(to, 0, SIZE + 512);
        os_copy(to + a, from + b, size);
        assert_memory_equal(to + a, from + b, size);
        assert_int_equal(to[a + size], 0);
    }
    free(from);
    free(to);
}

/* X(the breach, what plants it into client `c`) */
#define BREACHES(X) \
    X("a slot is counted here and not set in the table, or the other way round", uint32_t, held->count, 0) \
    X("a pinned place is not found", uint64_t, held->place, held->place + 1) \
    X("a pinned place is not found", uint32_t, c->held_bucket[os_held_bucket_of(c, held->place)], 0) \
    X("the counts of pinned places are wrong", uint32_t, c->pinned, 2) \
    X("the counts of pinned places are wrong", uint32_t, own->mapped.pinned, 0) \
    X("a slot is in two places, or in none", uint32_t, c->held_free, c->held[c->held_free - 1].next) \
    X("a slab's free places are counted wrongly", uint64_t, slab->free[0], slab->free[0] & (slab->free[0] - 1)) \
    X("a slab with a free place is not listed, or a full one is", struct os_slab *, c->partial[slab->size_class], NULL) \
    X("a free chunk belongs to a slab or a run, or is passed over", uint32_t, own->chunk[own->chunks - 1].run, 1) \
    X("a segment's free chunks are counted wrongly", uint32_t, own->free_chunks, own->free_chunks - 1) \
    X("the sums of the segments are wrong", uint64_t, c->used_bytes, c->used_bytes + OS_CHUNK) \
    X("the sums of the segments are wrong", uint64_t, c->own_bytes, 0)

static void each_breach_is_named(void **state)
{
    (void)state;
    struct node n;
    node_open(&n, 64 * MIB);
    struct node_client *of = node_add(&n, 1, NODE_JOB);
    struct os_client   *c = &of->client;
    struct lane_ref     ref;
    const void         *data;
    expect_ok(node_put(&n, of, 1, 100, 1, &ref));
    expect_ok(node_pin(&n, of, &ref, &data));
    struct os_held *held = os_find_held(c, os_place_word(ref.segment, ref.offset));
    struct os_own  *own = c->own_newest;
    struct os_slab *slab = own->chunk[ref.offset / OS_CHUNK].slab;
    assert_null(os_client_check(c));
#define X(text, type, field, planted) \
    { \
        type  before = (field); \
        type *at = &(field); \
        *at = (planted); \
        const char *found = os_client_check(c); \
        *at = before; \
        assert_string_equal(found ? found : "nothing", text); \
        assert_null(os_client_check(c)); \
    }
    BREACHES(X)
#undef X
    node_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(random_reuse),
        cmocka_unit_test(double_free),
        cmocka_unit_test(free_while_pinned),
        cmocka_unit_test(hostile_refs),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(pin_slots_run_out),
        cmocka_unit_test(trim),
        cmocka_unit_test(reader_becomes_writer),
        cmocka_unit_test(copy),
        cmocka_unit_test(each_breach_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
