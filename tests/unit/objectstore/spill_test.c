/* SPDX-License-Identifier: Apache-2.0
 *
 * spill_test.c - victims, taking, and what becomes of the places; values in files, whole and broken.
 */
#include "tests/unit/objectstore/node.h"
#include "objectstore/server/spill.h"

#include "objectstore/system/disk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static const uint64_t MIB = 1 << 20;
enum { MOST = 64, OWNER = 50 };

static void expect_ok(mt_status st)
{
    if (st.code != MT_OK)
        fail_msg("%s: %s (errno %d)", mt_code_name(st.code), st.what, st.sys);
}

static uint32_t victims(struct node *n, uint64_t bytes, struct lane_ref *out)
{
    uint32_t count = os_store_victims(n->store, bytes, out, MOST, &n->actions);
    node_act(n);
    return count;
}

/* ---- victims ---- */

static void large_first_and_none_twice(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref ref[6], got[MOST];
    node_open(&n, 64 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    for (int i = 0; i < 6; i++)
        expect_ok(node_put(&n, c, 1, i % 2 ? MIB : 5000, (uint8_t)i, &ref[i]));
    assert_int_equal(victims(&n, 2 * MIB, got), 2);
    assert_true(mt_id_equal(got[0].id, ref[1].id) && mt_id_equal(got[1].id, ref[3].id));
    assert_int_equal(victims(&n, 64 * MIB, got + 2), 4);
    assert_true(mt_id_equal(got[2].id, ref[5].id));
    assert_int_equal(got[3].size, 5000);
    assert_int_equal(victims(&n, 64 * MIB, got + 6), 0); /* all are on their way */
    os_store_spare(n.store, &got[4]);
    assert_int_equal(victims(&n, 64 * MIB, got + 6), 1);
    assert_true(mt_id_equal(got[6].id, got[4].id));
    node_close(&n);
}

static void nothing_pinned_or_unfinished_and_no_copy(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref pinned, copy, got[MOST];
    struct os_place place;
    const void     *data;
    void           *to;
    node_open(&n, 64 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    expect_ok(node_put(&n, c, 1, MIB, 1, &pinned));
    expect_ok(node_pin(&n, c, &pinned, &data));
    expect_ok(node_alloc(&n, c, MIB, &place, &to));
    expect_ok(node_put(&n, c, 7, MIB, 2, &copy));
    expect_ok(os_store_copy_add(n.store, &copy));
    assert_int_equal(victims(&n, 64 * MIB, got), 0);
    expect_ok(os_client_unpin(&c->client, &pinned));
    assert_int_equal(victims(&n, 64 * MIB, got), 1);
    node_close(&n);
}

/* ---- taking ---- */

/* A large one: its pages are gone at once, its place comes back when there is room; old pins see the value to the end. */
static void taken_under_a_pin(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref ref, got[MOST];
    struct os_stats stats;
    const void     *data, *again;
    node_open(&n, 16 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB), *reader = node_add(&n, 2, NODE_JOB);
    expect_ok(node_put(&n, c, OWNER, 4 * MIB, 9, &ref));
    assert_int_equal(victims(&n, MIB, got), 1);
    expect_ok(node_pin(&n, reader, &ref, &data));
    expect_ok(os_store_take(n.store, &got[0]));
    node_sweep(&n);
    node_expect(data, 4 * MIB, 9);
    os_store_stats(n.store, &stats);
    assert_int_equal(stats.bytes_withheld, 0);
    assert_int_equal(os_client_pin(&c->client, &ref, &again).code, MT_EOBJ_LOST);
    assert_false(os_store_lives(n.store, &ref));
    expect_ok(os_client_unpin(&reader->client, &ref));
    expect_ok(os_store_sweep(n.store, &n.actions)); /* pinned ones are looked at by the tick */
    expect_ok(os_store_tick(n.store, 0, &n.actions));
    bool punched = false;
    for (size_t i = 0; i < n.actions.count; i++)
        punched = punched || n.actions.data[i].kind == OS_PUNCH;
    assert_true(punched);
    node_act(&n);
    assert_int_equal(n.space_backs, 1); /* by the same tick: the store is far from full */
    os_store_stats(n.store, &stats);
    assert_int_equal(stats.bytes_withheld, 0);
    expect_ok(node_put(&n, c, OWNER, 4 * MIB, 3, &got[1])); /* at the same place */
    assert_int_equal(got[1].offset, ref.offset);
    node_close(&n);
}

static void who_frees_and_who_takes(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref a, b, got[MOST];
    node_open(&n, 16 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    expect_ok(node_put(&n, c, 1, MIB, 1, &a));
    assert_int_equal(victims(&n, MIB, got), 1);
    expect_ok(os_client_free(&c->client, a.segment, a.offset, a.generation)); /* its writer was faster */
    assert_int_equal(os_store_take(n.store, &got[0]).code, MT_ENOENT);
    assert_int_equal(victims(&n, MIB, got), 0);
    expect_ok(node_put(&n, c, 1, MIB, 2, &b));
    assert_int_equal(b.offset, a.offset);
    assert_int_equal(os_store_take(n.store, &a).code, MT_ENOENT); /* another object by now ... */
    assert_true(os_store_lives(n.store, &b));                     /* ... which lives on */
    assert_int_equal(victims(&n, MIB, got), 1);
    expect_ok(os_store_take(n.store, &got[0])); /* the raylet was faster */
    assert_int_equal(os_client_free(&c->client, b.segment, b.offset, b.generation).code, MT_EAGAIN);
    expect_ok(os_store_dead(n.store, 1, &b)); /* what the writer then says */
    node_close(&n);
}

/* The place of a value on disk is in use again when the value is freed: who lives there now stays. */
static void freed_after_its_place_was_reused(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {MIB, 1000};
    for (int i = 0; i < 2; i++) {
        struct node     n;
        struct lane_ref a, b, got[MOST];
        const void     *data;
        node_open(&n, 16 * MIB);
        struct node_client *c = node_add(&n, 1, NODE_JOB);
        expect_ok(node_put(&n, c, 1, sizes[i], 1, &a));
        assert_int_equal(victims(&n, sizes[i], got), 1);
        expect_ok(os_store_take(n.store, &got[0]));
        expect_ok(os_store_sweep(n.store, &n.actions));
        expect_ok(os_store_tick(n.store, 0, &n.actions));
        node_act(&n);
        expect_ok(node_put(&n, c, 1, sizes[i], 2, &b));
        assert_int_equal(b.offset, a.offset);
        assert_int_equal(os_client_free(&c->client, a.segment, a.offset, a.generation).code, MT_EAGAIN);
        expect_ok(node_pin(&n, c, &b, &data));
        assert_int_equal(os_client_free(&c->client, a.segment, a.offset, a.generation).code, MT_EAGAIN);
        expect_ok(os_client_unpin(&c->client, &b));
        assert_true(os_store_lives(n.store, &b));
        expect_ok(os_client_free(&c->client, b.segment, b.offset, b.generation));
        node_close(&n);
    }
}

/* A free that waits for the writer's own pin meets a place that was taken. */
static void freed_under_its_own_pin(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref ref, got[MOST];
    const void     *data;
    node_open(&n, 16 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    expect_ok(node_put(&n, c, 1, MIB, 1, &ref));
    assert_int_equal(victims(&n, MIB, got), 1);
    expect_ok(node_pin(&n, c, &ref, &data));
    expect_ok(os_client_free(&c->client, ref.segment, ref.offset, ref.generation));
    expect_ok(os_store_take(n.store, &got[0]));
    assert_int_equal(os_client_unpin(&c->client, &ref).code, MT_EAGAIN);
    node_close(&n);
}

/* What is taken makes room for another process, and its writer gives the empty segment back when it is asked. */
static void room_for_another(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref ref[4], got[MOST], other;
    struct os_trim  trim;
    node_open(&n, 12 * MIB);
    struct node_client *a = node_add(&n, 1, NODE_JOB), *b = node_add(&n, 2, NODE_JOB);
    for (int i = 0; i < 3; i++)
        expect_ok(node_put(&n, a, 1, 2 * MIB + MIB / 2, (uint8_t)i, &ref[i]));
    assert_int_equal(node_put(&n, b, 2, 5 * MIB, 1, &other).code, MT_ESTORE_FULL);
    uint32_t count = victims(&n, 12 * MIB, got);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++)
        expect_ok(os_store_take(n.store, &got[i]));
    node_sweep(&n);
    expect_ok(node_put(&n, b, 2, 5 * MIB, 1, &other));
    assert_int_equal(os_store_victims(n.store, 64 * MIB, got, MOST, &n.actions), 1);
    uint32_t asked = 0;
    for (size_t i = 0; i < n.actions.count; i++) {
        if (n.actions.data[i].kind != OS_ASK_BACK)
            continue;
        assert_int_equal(n.actions.data[i].process, 1);
        expect_ok(os_client_surrender(&a->client, n.actions.data[i].segment, &trim));
        expect_ok(os_store_segment_back(n.store, 1, trim.segment));
        asked++;
    }
    assert_true(asked >= 1);
    node_act(&n);
    assert_int_equal(os_client_surrender(&b->client, other.segment, &trim).code, MT_EAGAIN); /* something lives there */
    node_close(&n);
}

/* A place of a segment is handed back while its writer, which was asked for the segment, gives it up: what comes to the writer
 * then is of a segment that it has no more. The place may not be in use again, by the same writer, before that has come. */
static void handed_back_while_given_up(void **state)
{
    (void)state;
    struct node     n;
    struct lane_ref ref, got[MOST], other;
    struct os_trim  trim;
    node_open(&n, 16 * MIB);
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    expect_ok(node_put(&n, c, 1, 4 * MIB, 1, &ref));
    assert_int_equal(victims(&n, 4 * MIB, got), 1);
    expect_ok(os_store_take(n.store, &got[0]));
    expect_ok(os_store_sweep(n.store, &n.actions)); /* to the kernel */
    assert_int_equal(os_store_victims(n.store, MIB, got, MOST, &n.actions), 0);
    const struct os_action *last = &n.actions.data[n.actions.count - 1];
    assert_true(last->kind == OS_ASK_BACK && last->segment == ref.segment); /* its writer does not look at it yet */
    node_act(&n);
    expect_ok(os_store_tick(n.store, 0, &n.actions));
    assert_int_equal(n.actions.count, 1);
    struct os_action back = n.actions.data[0];
    assert_true(back.kind == OS_SPACE_BACK && back.segment == ref.segment && back.offset == ref.offset);
    n.actions.count = 0; /* that neither */

    expect_ok(os_client_surrender(&c->client, ref.segment, &trim)); /* now it does: first what came first */
    expect_ok(os_store_segment_back(n.store, 1, trim.segment));
    expect_ok(node_put(&n, c, 1, 4 * MIB, 2, &other)); /* the grant is faster than what was said before it */
    assert_int_not_equal(other.segment, ref.segment);
    assert_int_equal(os_client_space_back(&c->client, back.segment, back.offset).code, MT_ENOENT);
    assert_true(os_store_lives(n.store, &other));
    node_close(&n);
}

/* `user` counts the pins of all. */
static void count_pin(void *user, struct os_seen *object, uint64_t process)
{
    (void)object, (void)process;
    ++*(uint32_t *)user;
}

/* Every living object once, in pieces of three. */
static void listed(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct node     n;
    struct lane_ref ref[COUNT], copy, found;
    struct os_seen  out[3];
    const void     *data;
    uint32_t        segment = 0, seen = 0, pinned = 0, copies = 0;
    uint64_t        offset = 0, bytes = 0;
    node_open(&n, 64 * MIB);
    struct node_client *a = node_add(&n, 1, NODE_JOB), *b = node_add(&n, 2, NODE_JOB);
    assert_int_equal(os_store_look(n.store, &segment, &offset, out, 3), 0);
    for (int i = 0; i < COUNT; i++)
        expect_ok(node_put(&n, i % 3 ? a : b, 1, i % 2 ? 100000 : 5000, (uint8_t)i, &ref[i]));
    expect_ok(node_put(&n, b, 9, 7000, 1, &copy));
    expect_ok(os_store_copy_add(n.store, &copy));
    expect_ok(node_pin(&n, a, &ref[3], &data));
    expect_ok(node_pin(&n, b, &ref[3], &data));
    expect_ok(os_store_dead(n.store, 1, &ref[5]));
    do {
        uint32_t count = os_store_look(n.store, &segment, &offset, out, 3);
        for (uint32_t i = 0; i < count; i++) {
            seen++;
            bytes += out[i].size;
            copies += os_store_copy_find(n.store, out[i].id, &found).code == 0 && found.segment == out[i].segment;
            assert_false(mt_id_equal(out[i].id, ref[5].id));
            assert_true(out[i].writer == 1 || out[i].writer == 2);
        }
        os_store_pins_of(n.store, out, count, count_pin, &pinned);
    } while (segment);
    assert_int_equal(seen, COUNT - 1 + 1);
    assert_int_equal(bytes, 10 * 5000 + 9 * 100000 + 7000);
    assert_int_equal(copies, 1);
    assert_int_equal(pinned, 2);
    node_close(&n);
}

/* ---- files ---- */

static void values_in_files(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4095, 4096, 16384, 100000, 3 << 20, (5 << 20) + 13};
    enum { N = sizeof sizes / sizeof sizes[0] };
    struct os_disk_item items[2 * N];
    uint64_t            at = 0;
    int                 fd;
    uint8_t            *data = malloc(6 * MIB), *back = malloc(6 * MIB);
    assert_true(data && back);
    expect_ok(os_disk_open("/var/tmp", &fd));
    for (int i = 0; i < 2 * N; i++) {
        for (uint64_t b = 0; b < sizes[i / 2]; b++)
            data[b] = i % 2 ? (uint8_t)(b / 1000) : (uint8_t)((b * 2654435761u) >> 13 ^ b * b >> 3);
        items[i] = (struct os_disk_item){.size = sizes[i / 2]};
        expect_ok(os_disk_write(fd, &at, &items[i], data));
        assert_int_equal(items[i].is_compressed, i % 2 && sizes[i / 2] >= 4096);
    }
    for (int i = 2 * N; i-- > 0;) {
        memset(back, 1, 6 * MIB);
        expect_ok(os_disk_read(fd, &items[i], back));
        for (uint64_t b = 0; b < sizes[i / 2]; b++)
            assert_int_equal(back[b], i % 2 ? (uint8_t)(b / 1000) : (uint8_t)((b * 2654435761u) >> 13 ^ b * b >> 3));
    }
    close(fd);
    free(data);
    free(back);
}

static void what_is_broken_is_told(void **state)
{
    (void)state;
    uint64_t at = 0;
    int      fd;
    uint8_t *data = calloc(1, MIB), *back = malloc(MIB), byte;
    assert_true(data && back);
    expect_ok(os_disk_open("/var/tmp", &fd));
    struct os_disk_item packed = {.size = MIB}, plain = {.size = 1000};
    expect_ok(os_disk_write(fd, &at, &packed, data));
    expect_ok(os_disk_write(fd, &at, &plain, data));
    for (int i = 0; i < 2; i++) { /* one bit of each */
        struct os_disk_item *item = i ? &plain : &packed;
        off_t                where = (off_t)(item->offset + item->stored / 2);
        assert_int_equal(pread(fd, &byte, 1, where), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, where), 1);
        assert_int_equal(os_disk_read(fd, item, back).code, MT_ECORRUPT);
    }
    assert_int_equal(ftruncate(fd, (off_t)packed.offset + 3), 0);
    assert_int_equal(os_disk_read(fd, &packed, back).code, MT_ECORRUPT);
    assert_int_equal(os_disk_read(fd, &plain, back).code, MT_ECORRUPT);
    close(fd);
    assert_int_equal(os_disk_open("/no/such/folder", &fd).code, MT_ESYS);
    free(data);
    free(back);
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    struct rlimit       old, small = {64 << 10, 64 << 10};
    struct os_disk_item item = {.size = MIB};
    uint64_t            at = 0;
    int                 fd;
    uint8_t            *data = malloc(MIB);
    assert_non_null(data);
    for (uint64_t b = 0; b < MIB; b++)
        data[b] = (uint8_t)((b * 2654435761u) >> 13 ^ b * b >> 3);
    expect_ok(os_disk_open("/var/tmp", &fd));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(os_disk_write(fd, &at, &item, data).code, MT_EDISK_FULL);
    assert_int_equal(at, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    expect_ok(os_disk_write(fd, &at, &item, data));
    close(fd);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_first_and_none_twice),
        cmocka_unit_test(nothing_pinned_or_unfinished_and_no_copy),
        cmocka_unit_test(taken_under_a_pin),
        cmocka_unit_test(who_frees_and_who_takes),
        cmocka_unit_test(freed_after_its_place_was_reused),
        cmocka_unit_test(freed_under_its_own_pin),
        cmocka_unit_test(room_for_another),
        cmocka_unit_test(handed_back_while_given_up),
        cmocka_unit_test(listed),
        cmocka_unit_test(values_in_files),
        cmocka_unit_test(what_is_broken_is_told),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
