/* SPDX-License-Identifier: Apache-2.0
 *
 * store_test.c - the store: what it confirmed is there after SIGKILL, other clusters and second heads are refused. Of SQLite's:
 * damage is noticed, a full disk is an error and not a loss. `redis` as an argument: the same over a redis-server.
 */
#include "scheduler/head/store/store.h"
#include "tests/redis/redis.h"

#include "core/base/plant.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KILLS = 25, BATCH_KEYS = 3 };

#ifdef MANTA_PLANTS
int mt_plant;
#endif

/* The store's calls come here: what was written is on the disk after them, and not before. */
static int                                 syncs;
static bool                                fails_sync;
__attribute__((visibility("default"))) int fsync(int fd)
{
    syncs++;
    return fails_sync ? (errno = EIO, -1) : (int)syscall(SYS_fsync, fd);
}
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    syncs++;
    return fails_sync ? (errno = EIO, -1) : (int)syscall(SYS_fdatasync, fd);
}

struct dir {
    char path[64];
};

static bool                is_redis;
static struct redis_server server;

static mt_status open_kind(const char *path, const char *cluster, bool must_match, char *text, struct head_store **out)
{
    struct head_store_redis options = {
        .url = server.url, .dir = path, .cluster = cluster, .must_match = must_match, .may_lose = false};
    return is_redis ? head_store_redis_open(&options, text, out)
                    : head_store_sqlite_open(path, cluster, must_match, true, text, out);
}

static int setup(void **state)
{
    struct dir *dir = calloc(1, sizeof *dir);
    snprintf(dir->path, sizeof dir->path, "/tmp/manta-store-XXXXXX");
    *state = dir;
    if (is_redis)
        redis_server_new(&server, NULL);
    return mkdtemp(dir->path) ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm", "state.db-journal", "store"};
    struct dir              *dir = *state;
    char                     path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir->path, names[i]);
        unlink(path);
    }
    if (is_redis)
        redis_server_free(&server);
    int rc = rmdir(dir->path); /* fails where a file was left that nobody knows */
    free(dir);
    return rc;
}

static struct head_store *open_ok(const struct dir *dir)
{
    char               text[HEAD_STORE_TEXT_SIZE];
    struct head_store *store = NULL;
    mt_status          st = open_kind(dir->path, "me", true, text, &store);
    if (st.code != MT_OK)
        fail_msg("%s", text);
    return store;
}

static int open_code(const char *path, const char *cluster, bool must_match, char *text)
{
    struct head_store *store = NULL;
    mt_status          st = open_kind(path, cluster, must_match, text, &store);
    if (st.code == MT_OK)
        store->ops->close(store);
    return st.code;
}

static mt_status put(struct head_store *store, const char *key, const void *value, size_t size)
{
    struct head_record      r = {HEAD_TABLE_NAMES, (uint8_t *)key, strlen(key), (uint8_t *)value, size};
    struct head_store_batch batch = {&r, 1};
    return store->ops->apply(store, &batch, 1);
}

struct finder {
    struct head_store_reader reader;
    const char              *key;
    char                     value[256];
    size_t                   count, found;
};
static mt_status find_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                             const uint8_t *value, size_t value_size)
{
    struct finder *f = mt_container_of(reader, struct finder, reader);
    f->count++;
    if (table == HEAD_TABLE_NAMES && key_size == strlen(f->key) && memcmp(key, f->key, key_size) == 0) {
        f->found++;
        memcpy(f->value, value, value_size < sizeof f->value ? value_size : sizeof f->value);
    }
    return mt_ok();
}
static struct finder find(struct head_store *store, const char *key)
{
    struct finder f = {.reader.record = find_record, .key = key};
    assert_int_equal(store->ops->load(store, &f.reader).code, MT_OK);
    return f;
}

static void records_come_back(void **state)
{
    struct head_store *store = open_ok(*state);
    assert_string_equal(store->cluster, "me");
    assert_int_equal(put(store, "a", "one", 4).code, MT_OK);
    assert_int_equal(put(store, "b", "two", 4).code, MT_OK);
    assert_int_equal(put(store, "b", "new", 4).code, MT_OK);
    struct head_record      drop = {HEAD_TABLE_NAMES, (uint8_t *)"a", 1, NULL, 0};
    struct head_record      empty = {HEAD_TABLE_JOBS, (uint8_t *)"e", 1, (uint8_t *)"", 0};
    struct head_store_batch batches[] = {{&drop, 1}, {&empty, 1}};
    assert_int_equal(store->ops->apply(store, batches, 2).code, MT_OK);
    store->ops->close(store);
    store = open_ok(*state);
    struct finder f = find(store, "b");
    assert_int_equal(f.count, 2);
    assert_string_equal(f.value, "new");
    assert_int_equal(find(store, "a").found, 0);
    store->ops->close(store);
}

static void what_is_confirmed_was_synced(void **state)
{
    struct head_store *store = open_ok(*state);
    for (int i = 0; i < 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        syncs = 0;
        assert_int_equal(put(store, key, "value", 6).code, MT_OK);
        assert_true(syncs > 0);
    }
    store->ops->close(store);
}

static void files_are_private(void **state)
{
    struct dir        *dir = *state;
    struct head_store *store = open_ok(dir);
    struct stat        info;
    char               path[128], text[HEAD_STORE_TEXT_SIZE];
    assert_int_equal(put(store, "a", "one", 4).code, MT_OK);
    static const char *const names[] = {"state.db", "state.db-wal"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir->path, names[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
    store->ops->close(store);
    assert_int_equal(chmod(dir->path, 0755), 0);
    assert_int_equal(open_code(dir->path, "me", true, text), MT_EAUTH);
    assert_non_null(strstr(text, "0700"));
    assert_int_equal(chmod(dir->path, 0700), 0);
}

static void another_cluster_and_a_second_head_are_refused(void **state)
{
    struct dir        *dir = *state;
    struct head_store *store = open_ok(dir);
    char               text[HEAD_STORE_TEXT_SIZE];
    assert_int_equal(open_code(dir->path, "me", true, text), MT_EEXIST);
    assert_non_null(strstr(text, "another head"));
    store->ops->close(store);
    assert_int_equal(open_code(dir->path, "other", true, text), MT_EFENCED);
    assert_non_null(strstr(text, "belongs to cluster me, not to"));
    assert_int_equal(open_code(dir->path, "other", false, text), MT_OK);
}

/* ---- a full disk ---- */

static void file_size_limit(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A commit that has no room leaves nothing behind, can be tried again, and loses nothing of what was confirmed. */
static void what_does_not_fit_may_be_tried_again(void **state)
{
    static char            large[100000];
    struct dir            *dir = *state;
    struct head_store     *store = open_ok(dir);
    struct head_store_room room;
    char                   key[16];
    int                    count = 0;
    signal(SIGXFSZ, SIG_IGN);
    file_size_limit(1 << 20);
    mt_status st;
    do
        snprintf(key, sizeof key, "key%d", count++);
    while ((st = put(store, key, large, sizeof large)).code == MT_OK && count < 100);
    assert_int_equal(st.code, MT_EDISK_FULL);
    assert_in_range(count, 2, 99);
    assert_non_null(strstr(store->text, "make room"));
    assert_int_equal(put(store, key, large, sizeof large).code, MT_EDISK_FULL); /* and so it stays */
    assert_int_equal(put(store, "small", "one", 4).code, MT_OK);                /* while what fits still comes in */
    file_size_limit(RLIM_INFINITY);
    assert_int_equal(find(store, key).found, 0);
    assert_int_equal(put(store, key, large, sizeof large).code, MT_OK);
    assert_int_equal(store->ops->look(store, &room).code, MT_OK);
    assert_true(room.has_reserve);
    assert_true(room.bytes > 0);
    store->ops->close(store);
    store = open_ok(dir);
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(find(store, key).found, 1);
    }
    assert_int_equal(find(store, "small").found, 1);
    store->ops->close(store);
}

/* ---- SIGKILL ---- */

/* Writes batches of three keys with one number each, and says so once they are confirmed. */
static void writer(const char *path, int out)
{
    char               text[HEAD_STORE_TEXT_SIZE];
    struct head_store *store = NULL;
    if (open_kind(path, "me", true, text, &store).code != MT_OK)
        _exit(1);
    struct finder f = {.reader.record = find_record, .key = "k0"};
    if (store->ops->load(store, &f.reader).code != MT_OK)
        _exit(2);
    uint64_t n = 0;
    memcpy(&n, f.value, sizeof n);
    for (;;) {
        struct head_record records[BATCH_KEYS];
        char               keys[BATCH_KEYS][4];
        n++;
        for (int i = 0; i < BATCH_KEYS; i++) {
            snprintf(keys[i], sizeof keys[i], "k%d", i);
            records[i] = (struct head_record){HEAD_TABLE_NAMES, (uint8_t *)keys[i], 2, (uint8_t *)&n, sizeof n};
        }
        struct head_store_batch batch = {records, BATCH_KEYS};
        if (store->ops->apply(store, &batch, 1).code != MT_OK || write(out, &n, sizeof n) != sizeof n)
            _exit(3);
    }
}

static uint64_t kill_a_writer(const char *path, unsigned usec)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        writer(path, fds[1]);
    close(fds[1]);
    uint64_t        confirmed = 0, n;
    struct timespec pause = {0, (long)usec * 1000};
    ssize_t         size = read(fds[0], &confirmed, sizeof confirmed); /* it runs */
    assert_int_equal(size, sizeof confirmed);
    nanosleep(&pause, NULL);
    kill(pid, SIGKILL);
    while (read(fds[0], &n, sizeof n) == sizeof n)
        confirmed = n;
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    return confirmed;
}

static void what_was_confirmed_survives_sigkill(void **state)
{
    struct dir *dir = *state;
    uint64_t    last = 0;
    for (unsigned i = 0; i < KILLS; i++) {
        uint64_t           confirmed = kill_a_writer(dir->path, 300 + i * 997 % 7000);
        struct head_store *store = open_ok(dir);
        uint64_t           n[BATCH_KEYS];
        for (int k = 0; k < BATCH_KEYS; k++) {
            char          key[4];
            struct finder f;
            snprintf(key, sizeof key, "k%d", k);
            f = find(store, key);
            assert_int_equal(f.found, 1);
            memcpy(&n[k], f.value, sizeof n[k]);
            assert_int_equal(n[k], n[0]); /* a batch is there whole, or not at all */
        }
        assert_true(n[0] >= confirmed && n[0] <= confirmed + 1);
        assert_true(n[0] > last);
        last = n[0];
        store->ops->close(store);
    }
}

/* ---- damage ---- */

static void flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    fputc(byte ^ 0x10, file);
    fclose(file);
}

static void a_changed_record_is_noticed(void **state)
{
    struct dir        *dir = *state;
    struct head_store *store = open_ok(dir);
    char               path[128], text[HEAD_STORE_TEXT_SIZE];
    static uint8_t     data[65536];
    assert_int_equal(put(store, "key", "a value that can be found", 26).code, MT_OK);
    store->ops->close(store);
    snprintf(path, sizeof path, "%s/state.db", dir->path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    uint8_t *at = memmem(data, size, "can be found", 12);
    assert_non_null(at);
    flip(path, at - data);
    store = open_ok(dir); /* SQLite itself sees nothing wrong */
    struct finder f = {.reader.record = find_record, .key = "key"};
    assert_int_equal(store->ops->load(store, &f.reader).code, MT_ECORRUPT);
    assert_non_null(strstr(store->text, "restore it from a copy"));
    store->ops->close(store);
    flip(path, at - data);
    flip(path, 0); /* nor is this a database */
    assert_int_equal(open_code(dir->path, "me", true, text), MT_ECORRUPT);
}

/* ---- a full disk ---- */

/* Nobody knows what a disk has kept that fails to sync: nothing is applied after that, though it may work again. */
static void a_failed_sync_is_the_end_and_the_confirmed_stays(void **state)
{
    struct dir        *dir = *state;
    struct head_store *store = open_ok(dir);
    assert_int_equal(put(store, "before", "kept", 5).code, MT_OK);
    fails_sync = true;
    assert_int_equal(put(store, "now", "lost?", 6).code, MT_ESYS);
    fails_sync = false;
    assert_true(store->text[0] != '\0');
    assert_int_equal(put(store, "after", "never", 6).code, MT_ESYS);
    store->ops->close(store);
    store = open_ok(dir);
    assert_string_equal(find(store, "before").value, "kept");
    assert_int_equal(find(store, "after").found, 0);
    store->ops->close(store);
}

int main(int argc, char **argv)
{
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    is_redis = argc > 1 && strcmp(argv[1], "redis") == 0;
    const struct CMUnitTest both[] = {
        cmocka_unit_test_setup_teardown(records_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(another_cluster_and_a_second_head_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_confirmed_survives_sigkill, setup, teardown),
    };
    if (is_redis)
        return cmocka_run_group_tests(both, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_confirmed_was_synced, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_private, setup, teardown),
        cmocka_unit_test_setup_teardown(another_cluster_and_a_second_head_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_confirmed_survives_sigkill, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_record_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_sync_is_the_end_and_the_confirmed_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_may_be_tried_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
