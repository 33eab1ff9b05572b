/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_test.c - the store in Redis, against a real redis-server: what it refuses, what it waits for, and that what was
 * confirmed is there whatever the server loses, as long as the head lives.
 */
#include "scheduler/head/store/store.h"

#include "core/redis/lookup.h"
#include "core/redis/redis.h"
#include "tests/redis/redis.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { PATIENCE_MS = 20000, TRY_MS = 50 };

/* The resolver: as it is; or for names, nobody answers; every name is this machine; no name leads anywhere. */
enum { NAMES_REAL, NAMES_HANG, NAMES_HERE, NAMES_NONE };
static _Atomic int names;

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                                                       struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &found, sizeof real);
    bool is_number = (hints->ai_flags & AI_NUMERICHOST) != 0;
    while (!is_number && names == NAMES_HANG)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (!is_number && names == NAMES_NONE)
        return EAI_NONAME;
    return real(!is_number && names == NAMES_HERE ? "127.0.0.1" : host, port, hints, out);
}

struct world {
    struct redis_server server;
    struct redis_proxy  proxy;
    char                dir[64], auth[96], text[HEAD_STORE_TEXT_SIZE];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_server_new(&w->server, NULL);
    redis_proxy_new(&w->proxy, &w->server);
    snprintf(w->dir, sizeof w->dir, "%s/state", w->server.dir);
    snprintf(w->auth, sizeof w->auth, "%s/auth", w->server.dir);
    *state = w;
    return mkdir(w->dir, 0700);
}

static int teardown(void **state)
{
    struct world *w = *state;
    redis_proxy_free(&w->proxy);
    redis_server_free(&w->server);
    free(w);
    return 0;
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static mt_status open_with(struct world *w, struct head_store_redis o, struct head_store **out)
{
    if (!o.url)
        o.url = w->proxy.url;
    if (!o.dir)
        o.dir = w->dir;
    if (!o.cluster)
        o.cluster = "me";
    return head_store_redis_open(&o, w->text, out);
}

static struct head_store *open_ok(struct world *w)
{
    struct head_store *store = NULL;
    mt_status          st = open_with(w, (struct head_store_redis){0}, &store);
    if (st.code != MT_OK)
        fail_msg("%s", w->text);
    return store;
}

/* The code, and that the text says `said`. */
static void refused(struct world *w, struct head_store_redis o, int code, const char *said)
{
    struct head_store *store = NULL;
    mt_status          st = open_with(w, o, &store);
    if (st.code != code || !strstr(w->text, said))
        fail_msg("code %d instead of %d: \"%s\" lacks \"%s\"", st.code, code, w->text, said);
}

static mt_status put(struct head_store *store, const char *key, const char *value)
{
    struct head_record      r = {HEAD_TABLE_NAMES, (uint8_t *)(uintptr_t)key, strlen(key), (uint8_t *)(uintptr_t)value,
                            value ? strlen(value) + 1 : 0};
    struct head_store_batch batch = {&r, 1};
    return store->ops->apply(store, &batch, 1);
}

/* Not taken, and in the end for this reason; at first it may only be that the connection is gone, or that the server loads. */
static void put_is_refused(struct head_store *store, const char *key, const char *value, const char *why)
{
    bool is_said = false;
    for (int i = 0; i < 500 && !is_said; i++) {
        assert_int_equal(put(store, key, value).code, MT_EAGAIN);
        is_said = strstr(store->text, why) != NULL;
        if (!is_said)
            nap(20);
    }
    assert_true(is_said);
}

/* As the shell does: the same again, until it is in. */
static void put_at_last(struct head_store *store, const char *key, const char *value)
{
    mt_status st = {0};
    for (int waited = 0; waited < PATIENCE_MS; waited += TRY_MS) {
        st = put(store, key, value);
        if (st.code != MT_EAGAIN && st.code != MT_EDISK_FULL)
            break;
        nap(TRY_MS);
    }
    if (st.code != 0)
        fail_msg("%s: %s", key, store->text);
}

struct finder {
    struct head_store_reader reader;
    const char              *key;
    char                     value[64];
    size_t                   count;
};
static mt_status find_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                             const uint8_t *value, size_t value_size)
{
    struct finder *f = mt_container_of(reader, struct finder, reader);
    f->count++;
    if (table == HEAD_TABLE_NAMES && key_size == strlen(f->key) && memcmp(key, f->key, key_size) == 0)
        memcpy(f->value, value, value_size < sizeof f->value ? value_size : sizeof f->value - 1);
    return mt_ok();
}

/* What the next head finds; "" where there is none. */
static struct finder found(struct world *w, const char *key)
{
    struct finder      f = {.reader.record = find_record, .key = key};
    struct head_store *store = open_ok(w);
    mt_status          st = store->ops->load(store, &f.reader);
    if (st.code != 0)
        fail_msg("%s", store->text);
    store->ops->close(store);
    return f;
}

static struct head_store *open_and_load(struct world *w)
{
    struct finder      f = {.reader.record = find_record, .key = "-"};
    struct head_store *store = open_ok(w);
    assert_int_equal(store->ops->load(store, &f.reader).code, MT_OK);
    return store;
}

/* ---- addresses ---- */

static void addresses_are_read_and_wrong_ones_explained(void **unused)
{
    static const struct {
        const char *url, *host, *port, *said;
        unsigned    database;
        int         code;
    } rows[] = {
        {"redis://db1:7000/3?cluster=a.b", "db1", "7000", "", 3, MT_OK},
        {"redis://db1?cluster=a", "db1", "6379", "", 0, MT_OK},
        {"redis://[fd00::1]:7000/0?cluster=a", "fd00::1", "7000", "", 0, MT_OK},
        {"redis://ann@db1:7000/0?cluster=a", "db1", "7000", "", 0, MT_OK},
        {"redis://db1:7000/0", "", "", "?cluster=NAME", 0, MT_EINVAL},
        {"redis://db1:7000/0?cluster=a{b", "", "", "letters", 0, MT_EINVAL},
        {"redis://db1:70000/0?cluster=a", "", "", "no host and port", 0, MT_EINVAL},
        {"redis://db1:7000/x?cluster=a", "", "", "number of a database", 0, MT_EINVAL},
        {"redis://?cluster=a", "", "", "no host and port", 0, MT_EINVAL},
        {"redis+unix://x?cluster=a", "", "", "begins with", 0, MT_EINVAL},
        {"http://db1", "", "", "no address of a Redis server", 0, MT_EINVAL},
        {"rediss://db1", "", "", "stunnel", 0, MT_EUNSUPPORTED},
        {"redis+sentinel://a,b:7,[fd00::1]:8/main?cluster=a&db=2", "", "", "", 2, MT_OK},
        {"redis+sentinel://ann@a/main?cluster=a", "", "", "", 0, MT_OK},
        {"redis+sentinel://a,b?cluster=a", "", "", "call the master by", 0, MT_EINVAL},
        {"redis+sentinel://a,b/?cluster=a", "", "", "call the master by", 0, MT_EINVAL},
        {"redis+sentinel://a,,b/main?cluster=a", "", "", "between the commas", 0, MT_EINVAL},
        {"redis+sentinel://a,b:0/main?cluster=a", "", "", "between the commas", 0, MT_EINVAL},
        {"redis+sentinel://a,a,a,a,a,a,a,a,a,a/main?cluster=a", "", "", "at most 9", 0, MT_EINVAL},
        {"redis+sentinel://ann:hush@a/main?cluster=a", "", "", "--store-auth", 0, MT_EINVAL},
        {"redis://:hush@db1:7000/0?cluster=a", "", "", "--store-auth", 0, MT_EINVAL},
        {"redis://ann:hu/s?h@db1:7000/0?cluster=a", "", "", "--store-auth", 0, MT_EINVAL},
        {"redis+unix://ann:hush@/tmp/x?cluster=a", "", "", "--store-auth", 0, MT_EINVAL},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rds_place place;
        char             text[RDS_TEXT_SIZE] = "";
        if (rds_place_read(rows[i].url, &place, text).code != rows[i].code || !strstr(text, rows[i].said) || strstr(text, "hu"))
            fail_msg("%s: %s", rows[i].url, text);
        if (rows[i].code == MT_OK && (strcmp(place.host, rows[i].host) || strcmp(place.port, rows[i].port) ||
                                      place.database != rows[i].database || strstr(place.shown, "ann")))
            fail_msg("%s: host %s port %s", rows[i].url, place.host, place.port);
    }
}

static void sentinels_are_read(void **unused)
{
    struct rds_place place;
    char             text[RDS_TEXT_SIZE];
    (void)unused;
    assert_int_equal(rds_place_read("redis+sentinel://a,b:7,[fd00::1]:8/main?cluster=c", &place, text).code, MT_OK);
    assert_int_equal(place.sentinel_count, 3);
    assert_string_equal(place.sentinels[0].host, "a");
    assert_string_equal(place.sentinels[0].port, "26379");
    assert_string_equal(place.sentinels[1].port, "7");
    assert_string_equal(place.sentinels[2].host, "fd00::1");
    assert_string_equal(place.sentinels[2].port, "8");
    assert_string_equal(place.master, "main");
    assert_string_equal(place.shown, "redis+sentinel://a,b:7,[fd00::1]:8/main");
}

static void who_is_not_there_is_named(void **state)
{
    struct world *w = *state;
    refused(w, (struct head_store_redis){.url = "redis+unix:///nowhere/redis.sock?cluster=a"}, MT_ECONN, "/nowhere/redis.sock");
    refused(w, (struct head_store_redis){.url = "redis://127.0.0.1:1/0?cluster=a"}, MT_ECONN, "Connection refused");
    refused(w, (struct head_store_redis){.url = "redis://no-such-name.invalid/0?cluster=a"}, MT_ECONN, "leads nowhere");
}

/* A resolver that hangs holds nobody for longer than the limit of a call, and only so many threads. */
static void a_name_that_stops_resolving_is_waited_for(void **state)
{
    struct world      *w = *state;
    struct head_store *store = NULL;
    struct addrinfo   *where;
    struct finder      f = {.reader.record = find_record, .key = "-"};
    char               url[128];
    redis_server_kill(&w->server, SIGKILL);
    w->server.port = redis_port();
    redis_server_start(&w->server, NULL);
    snprintf(url, sizeof url, "redis://store.test:%d/0?cluster=test", w->server.port);
    names = NAMES_HERE;
    assert_int_equal(open_with(w, (struct head_store_redis){.url = url}, &store).code, MT_OK);
    assert_int_equal(store->ops->load(store, &f.reader).code, MT_OK);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    names = NAMES_HANG;
    assert_int_equal(put(store, "a", "two").code, MT_OK); /* the connection is there */
    redis_server_kill(&w->server, SIGKILL);
    redis_server_start(&w->server, NULL);
    put_is_refused(store, "a", "three", "not looked up in time"); /* and the resolver still hangs */
    for (int i = 0; i < RDS_LOOKUPS_MAX; i++)
        assert_int_equal(rds_lookup("store.test", "1", 10, &where).code, MT_ETIMEDOUT);
    put_is_refused(store, "a", "three", "still being looked up");
    assert_int_equal(rds_lookup("127.0.0.1", "1", 10, &where).code, MT_OK); /* a number is no name */
    freeaddrinfo(where);
    names = NAMES_NONE;
    put_is_refused(store, "a", "three", "leads nowhere");
    names = NAMES_HERE;
    put_at_last(store, "a", "three");
    store->ops->close(store);
    names = NAMES_REAL;
    assert_string_equal(found(w, "a").value, "three"); /* by its socket */
}

/* ---- servers that are refused ---- */

static void a_server_that_may_lose_what_it_acknowledged_is_refused(void **state)
{
    struct world      *w = *state;
    struct head_store *store = NULL;
    REDIS_DO(&w->server, "CONFIG", "SET", "appendfsync", "everysec");
    refused(w, (struct head_store_redis){0}, MT_EDEVICE, "set \"appendfsync always\"; or say --store-may-lose");
    REDIS_DO(&w->server, "CONFIG", "SET", "appendonly", "no");
    refused(w, (struct head_store_redis){0}, MT_EDEVICE, "set \"appendonly yes\"");
    assert_int_equal(open_with(w, (struct head_store_redis){.may_lose = true}, &store).code, MT_OK);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    REDIS_DO(&w->server, "CONFIG", "SET", "appendonly", "yes", "appendfsync", "always");
    REDIS_DO(&w->server, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru");
    refused(w, (struct head_store_redis){0}, MT_EDEVICE, "noeviction");
    REDIS_DO(&w->server, "CONFIG", "SET", "maxmemory-policy", "noeviction");
    assert_string_equal(found(w, "a").value, "one");
    char said[128];
    REDIS_SAY(&w->server, said, "ACL", "SETUSER", "default", "-config");
    assert_non_null(strstr(said, "OK"));
    refused(w, (struct head_store_redis){0}, MT_EDEVICE, "CONFIG GET is not allowed");
}

static void a_password_comes_from_a_private_file(void **state)
{
    struct world      *w = *state;
    struct head_store *store = NULL;
    int                fd = open(w->auth, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "hush\n", 5), 5);
    close(fd);
    REDIS_DO(&w->server, "CONFIG", "SET", "requirepass", "hush");
    refused(w, (struct head_store_redis){0}, MT_EAUTH, "NOAUTH");
    refused(w, (struct head_store_redis){.auth_file = "/nowhere"}, MT_EAUTH, "can't be read");
    refused(w, (struct head_store_redis){.auth_file = w->auth}, MT_EAUTH, "mode 0600");
    assert_null(strstr(w->text, "hush"));
    assert_int_equal(chmod(w->auth, 0600), 0);
    struct head_store_redis with = {.auth_file = w->auth};
    assert_int_equal(open_with(w, with, &store).code, MT_OK);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    assert_int_equal(truncate(w->auth, 3), 0);
    refused(w, with, MT_EAUTH, "WRONGPASS");
    assert_null(strstr(w->text, "hush"));
}

static void what_stands_there_already_is_not_written_over(void **state)
{
    struct world *w = *state;
    REDIS_DO(&w->server, "SET", "manta:{test}:head", "mine");
    refused(w, (struct head_store_redis){0}, MT_EINVAL, "WRONGTYPE");
    REDIS_DO(&w->server, "DEL", "manta:{test}:head");
    REDIS_DO(&w->server, "HSET", "manta:{test}:head", "some", "thing");
    refused(w, (struct head_store_redis){0}, MT_EFENCED, "no head has written");
    REDIS_DO(&w->server, "DEL", "manta:{test}:head");
    REDIS_DO(&w->server, "HSET", "manta:{test}:records", "some", "thing");
    refused(w, (struct head_store_redis){0}, MT_EFENCED, "no head has written");
    char said[256];
    REDIS_SAY(&w->server, said, "HGET", "manta:{test}:records", "some");
    assert_non_null(strstr(said, "thing"));
    REDIS_DO(&w->server, "DEL", "manta:{test}:records");
    REDIS_DO(&w->server, "HSET", "manta:{test}:head", "schema", "9", "cluster", "me");
    refused(w, (struct head_store_redis){0}, MT_EVERSION, "has schema 9");
}

/* ---- one leader ---- */

static void two_clusters_of_one_name_are_told_apart(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    char               other[96], text[HEAD_STORE_TEXT_SIZE];
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    snprintf(other, sizeof other, "%s/other", w->server.dir);
    assert_int_equal(mkdir(other, 0700), 0);
    struct head_store_redis with = {.dir = other, .cluster = "you", .url = w->server.url};
    refused(w, with, MT_ENOTLEADER, "another head leads it");
    store->ops->close(store);
    with.must_match = true;
    refused(w, with, MT_EFENCED, "belongs to cluster me");
    with.must_match = false;
    assert_int_equal(open_with(w, with, &store).code, MT_OK); /* a head on another machine goes on with it */
    assert_string_equal(store->cluster, "me");
    refused(w, (struct head_store_redis){0}, MT_ENOTLEADER, "another head leads it");
    (void)text;
    store->ops->close(store);
}

/* A head that was stopped for longer than its lock: another took over, and nothing of the first one has an effect any more. */
static void a_head_that_was_followed_has_no_effect(void **state)
{
    struct world      *w = *state;
    struct head_store *old = open_and_load(w), *new = NULL;
    char               other[96];
    struct finder      f = {.reader.record = find_record, .key = "a"};
    assert_int_equal(put(old, "a", "one").code, MT_OK);
    snprintf(other, sizeof other, "%s/other", w->server.dir);
    assert_int_equal(mkdir(other, 0700), 0);
    nap(2200);
    assert_int_equal(open_with(w, (struct head_store_redis){.dir = other, .url = w->server.url}, &new).code, MT_OK);
    assert_int_equal(new->ops->load(new, &f.reader).code, MT_OK);
    assert_string_equal(f.value, "one");
    assert_int_equal(put(old, "a", "late").code, MT_EFENCED);
    assert_non_null(strstr(old->text, "another head has taken the lead"));
    assert_int_equal(put(old, "a", "later").code, MT_EFENCED); /* and so it stays */
    assert_int_equal(put(new, "b", "two").code, MT_OK);
    struct head_store_room room;
    assert_int_equal(old->ops->look(old, &room).code, MT_EFENCED);
    old->ops->close(old); /* does not take the other's lock away */
    refused(w, (struct head_store_redis){0}, MT_ENOTLEADER, "another head leads it");
    new->ops->close(new);
    assert_string_equal(found(w, "a").value, "one");
}

/* ---- a state folder and its store ---- */

static void a_folder_and_its_store_belong_together(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    char               path[128], text[HEAD_STORE_TEXT_SIZE];
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    refused(w, (struct head_store_redis){.url = w->server.url}, MT_EEXIST, "another head uses this state folder");
    store->ops->close(store);
    assert_int_equal(head_store_sqlite_open(w->dir, "me", false, true, text, &store).code, MT_EFENCED);
    assert_non_null(strstr(text, "name that by --store"));
    REDIS_DO(&w->server, "FLUSHALL");
    refused(w, (struct head_store_redis){0}, MT_ECORRUPT, "the store is empty, and this folder's cluster was in it");
    snprintf(path, sizeof path, "%s/sql", w->server.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(head_store_sqlite_open(path, "me", false, true, text, &store).code, MT_OK);
    store->ops->close(store);
    refused(w, (struct head_store_redis){.dir = path}, MT_EFENCED, "SQLite");
}

static void an_older_store_is_refused(void **state)
{
    struct world      *w = *state;
    char               path[128];
    struct head_store *store = open_and_load(w);
    store->ops->close(store);
    store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    REDIS_DO(&w->server, "HSET", "manta:{test}:head", "fence", "1"); /* as a copy from before the second start has it */
    refused(w, (struct head_store_redis){0}, MT_ECORRUPT, "older than what this folder's head has led");
    snprintf(path, sizeof path, "%s/store", w->dir);
    assert_int_equal(unlink(path), 0); /* as the text says */
    assert_string_equal(found(w, "a").value, "one");
    REDIS_DO(&w->server, "HSET", "manta:{test}:records", "\003b", "junk");
    refused(w, (struct head_store_redis){0}, MT_ECORRUPT, "records are missing");
}

static void a_changed_record_is_noticed(void **state)
{
    struct world      *w = *state;
    struct finder      f = {.reader.record = find_record, .key = "a"};
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    REDIS_DO(&w->server, "HSET", "manta:{test}:records", "\003a", "\001changed!.");
    store = open_ok(w);
    assert_int_equal(store->ops->load(store, &f.reader).code, MT_ECORRUPT);
    assert_non_null(strstr(store->text, "restore the store from a copy"));
    store->ops->close(store);
}

/* ---- what goes wrong on the way ---- */

static void a_commit_is_in_once_whatever_its_answer_did(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    char               key[16];
    int                n = 0;
    for (int fault = REDIS_LOSE_REPLY; fault <= REDIS_STALL; fault++)
        for (int times = 1; times <= 3; times++, n++) {
            snprintf(key, sizeof key, "k%d", n);
            redis_proxy_fail(&w->proxy, (enum redis_fault)fault, times, NULL);
            put_at_last(store, key, "value");
            put_at_last(store, "count", key);
            assert_int_equal(w->proxy.count, 0);
        }
    store->ops->close(store);
    struct finder f = found(w, "count");
    assert_int_equal(f.count, (size_t)n + 1);
    assert_string_equal(f.value, key);
}

static void what_a_server_says_for_a_while_is_waited_out(void **state)
{
    static const char *const said[] = {
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-ERR Error running script (call to f_1): @user_script:3: -READONLY You can't write against a read only replica.\r\n",
        "-ERR something new\r\n",
        "+HELLO\r\n",
        "*2\r\n$2\r\nOK\r\n:7\r\n", /* not enough of it */
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*2147483647\r\n",
    };
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        redis_proxy_fail(&w->proxy, REDIS_SAY, 2, said[i]);
        assert_int_equal(put(store, "a", said[i]).code, MT_EAGAIN);
        assert_true(store->text[0] != '\0');
        put_at_last(store, "a", said[i]);
    }
    store->ops->close(store);
    assert_memory_equal(found(w, "a").value, said[11], 13);
}

static void a_script_that_was_forgotten_is_given_again(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    REDIS_DO(&w->server, "SCRIPT", "FLUSH");
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    assert_string_equal(found(w, "a").value, "one");
}

static void a_server_without_memory_is_full_and_no_more(void **state)
{
    struct world          *w = *state;
    struct head_store     *store = open_and_load(w);
    struct head_store_room room;
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    REDIS_DO(&w->server, "CONFIG", "SET", "maxmemory", "1");
    assert_int_equal(put(store, "b", "two").code, MT_EDISK_FULL);
    assert_non_null(strstr(store->text, "raise its maxmemory"));
    REDIS_DO(&w->server, "CONFIG", "SET", "maxmemory", "100mb");
    put_at_last(store, "b", "two");
    nap(200);
    assert_int_equal(store->ops->look(store, &room).code, MT_OK);
    assert_true(room.has_reserve && room.bytes < 100 << 20);
    store->ops->close(store);
    assert_int_equal(found(w, "a").count, 2);
}

static void save_ends_with(const struct redis_server *server, const char *status)
{
    char said[4096] = "";
    REDIS_DO(server, "BGSAVE");
    for (int i = 0; i < 1000 && !strstr(said, status); i++, nap(10))
        REDIS_SAY(server, said, "INFO", "persistence");
    assert_non_null(strstr(said, status));
}

/* MISCONF: its snapshots fail (a folder stands where the file belongs), so it takes no writes. */
static void a_server_that_cannot_save_is_waited_for(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    char               path[96];
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    snprintf(path, sizeof path, "%s/dump.rdb", w->server.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    REDIS_DO(&w->server, "CONFIG", "SET", "save", "3600 1000000");
    save_ends_with(&w->server, "rdb_last_bgsave_status:err");
    put_is_refused(store, "b", "two", "MISCONF");
    assert_int_equal(rmdir(path), 0);
    save_ends_with(&w->server, "rdb_last_bgsave_status:ok");
    put_at_last(store, "b", "two");
    store->ops->close(store);
    assert_int_equal(found(w, "a").count, 2);
}

static void a_replica_and_a_restarted_server_are_waited_for(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    REDIS_DO(&w->server, "REPLICAOF", "127.0.0.1", "1");
    put_is_refused(store, "b", "two", "READONLY");
    REDIS_DO(&w->server, "REPLICAOF", "NO", "ONE");
    put_at_last(store, "b", "two");
    redis_server_kill(&w->server, SIGKILL);
    assert_int_equal(put(store, "c", "three").code, MT_EAGAIN);
    redis_server_start(&w->server, NULL);
    put_at_last(store, "c", "three");
    redis_server_kill(&w->server, SIGKILL);
    redis_server_start(&w->server, (const char *const[]){"--appendfsync", "no", NULL});
    put_is_refused(store, "d", "four", "set \"appendfsync always\""); /* it must not be believed */
    REDIS_DO(&w->server, "CONFIG", "SET", "appendfsync", "always");
    put_at_last(store, "d", "four");
    store->ops->close(store);
    assert_int_equal(found(w, "d").count, 4);
}

/* As that of a large store does. It answers once in 1,024 commands of the file. */
static void a_server_that_reads_its_file_is_waited_for(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(put(store, "a", i % 2 ? "one" : "two").code, MT_OK);
    redis_server_kill(&w->server, SIGKILL);
    redis_server_start(&w->server,
                       (const char *const[]){"--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024", NULL});
    put_is_refused(store, "a", "three", "LOADING");
    REDIS_DO(&w->server, "CONFIG", "SET", "key-load-delay", "0");
    put_at_last(store, "a", "three");
    store->ops->close(store);
    assert_string_equal(found(w, "a").value, "three");
}

/* ---- a store that forgets ---- */

static void a_store_that_was_emptied_under_a_living_head_is_filled_again(void **state)
{
    struct world          *w = *state;
    struct head_store     *store = open_and_load(w);
    struct head_store_room room;
    char                   key[16];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(put(store, key, "old").code, MT_OK);
        assert_int_equal(put(store, key, i % 2 ? "new" : NULL).code, MT_OK);
    }
    REDIS_DO(&w->server, "FLUSHALL");
    nap(200);
    assert_int_equal(store->ops->look(store, &room).code, MT_OK); /* without any commit */
    REDIS_DO(&w->server, "FLUSHALL");
    assert_int_equal(put(store, "last", "in").code, MT_OK);
    REDIS_DO(&w->server, "DEL", "manta:{test}:records"); /* a part of it */
    assert_int_equal(put(store, "last", "again").code, MT_OK);
    store->ops->close(store);
    assert_int_equal(found(w, "k0").count, 101);
    assert_string_equal(found(w, "k199").value, "new");
    assert_string_equal(found(w, "last").value, "again");
}

/* As after a failover to a replica that was behind: the store stands at an earlier commit of ours. */
static void what_the_store_forgot_it_is_given_again(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    redis_keys_copy(&w->server, "manta:{test}", "copy");
    assert_int_equal(put(store, "b", "two").code, MT_OK);
    assert_int_equal(put(store, "a", NULL).code, MT_OK);
    redis_keys_copy(&w->server, "copy", "manta:{test}");
    assert_int_equal(put(store, "c", "three").code, MT_OK);
    store->ops->close(store);
    assert_int_equal(found(w, "b").count, 2);
    assert_string_equal(found(w, "b").value, "two");
    assert_string_equal(found(w, "c").value, "three");
}

/* ... where even the lead itself was forgotten. */
static void a_lead_that_the_store_forgot_is_taken_again(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    redis_keys_copy(&w->server, "manta:{test}", "copy");
    store = open_and_load(w);
    assert_int_equal(put(store, "b", "two").code, MT_OK);
    redis_keys_copy(&w->server, "copy", "manta:{test}");
    assert_int_equal(put(store, "c", "three").code, MT_OK);
    store->ops->close(store);
    assert_int_equal(found(w, "b").count, 3);
}

/* A failover may forget what a head before has confirmed, too. */
static void what_a_head_before_has_confirmed_is_given_again(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    redis_keys_copy(&w->server, "manta:{test}", "copy");
    assert_int_equal(put(store, "b", "two").code, MT_OK);
    store->ops->close(store);
    store = open_and_load(w);
    redis_keys_copy(&w->server, "copy", "manta:{test}");
    assert_int_equal(put(store, "c", "three").code, MT_OK);
    store->ops->close(store);
    assert_int_equal(found(w, "b").count, 3);
}

/* A copy that somebody has put there is none of our commits: nothing is acknowledged on top of it. */
static void what_is_not_ours_is_not_written_over(void **state)
{
    struct world      *w = *state;
    struct head_store *store = open_and_load(w);
    assert_int_equal(put(store, "a", "one").code, MT_OK);
    store->ops->close(store);
    redis_keys_copy(&w->server, "manta:{test}", "copy");
    store = open_and_load(w);
    assert_int_equal(put(store, "a", "two").code, MT_OK);
    store->ops->close(store);
    store = open_and_load(w); /* loads what stands behind the copy */
    assert_int_equal(put(store, "a", "three").code, MT_OK);
    redis_keys_copy(&w->server, "manta:{test}", "right");
    redis_keys_copy(&w->server, "copy", "manta:{test}");
    REDIS_DO(&w->server, "HSET", "manta:{test}:head", "digest", "00000000000000ab");
    assert_int_equal(put(store, "b", "four").code, MT_EAGAIN);
    assert_non_null(strstr(store->text, "acknowledges nothing more"));
    char said[64];
    REDIS_SAY(&w->server, said, "HLEN", "manta:{test}:records");
    assert_string_equal(said, ":1\r\n");
    redis_keys_copy(&w->server, "right", "manta:{test}"); /* restored */
    put_at_last(store, "b", "four");
    store->ops->close(store);
    assert_string_equal(found(w, "a").value, "three");
}

int main(int argc, char **argv)
{
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    cmocka_set_test_filter(argc > 2 ? argv[2] : NULL); /* the one that is to catch it */
#endif
    (void)argc, (void)argv;
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_wrong_ones_explained),
        cmocka_unit_test(sentinels_are_read),
        WITH(who_is_not_there_is_named),
        WITH(a_name_that_stops_resolving_is_waited_for),
        WITH(a_server_that_may_lose_what_it_acknowledged_is_refused),
        WITH(a_password_comes_from_a_private_file),
        WITH(what_stands_there_already_is_not_written_over),
        WITH(two_clusters_of_one_name_are_told_apart),
        WITH(a_head_that_was_followed_has_no_effect),
        WITH(a_folder_and_its_store_belong_together),
        WITH(an_older_store_is_refused),
        WITH(a_changed_record_is_noticed),
        WITH(a_commit_is_in_once_whatever_its_answer_did),
        WITH(what_a_server_says_for_a_while_is_waited_out),
        WITH(a_script_that_was_forgotten_is_given_again),
        WITH(a_server_without_memory_is_full_and_no_more),
        WITH(a_server_that_cannot_save_is_waited_for),
        WITH(a_replica_and_a_restarted_server_are_waited_for),
        WITH(a_server_that_reads_its_file_is_waited_for),
        WITH(a_store_that_was_emptied_under_a_living_head_is_filled_again),
        WITH(what_the_store_forgot_it_is_given_again),
        WITH(a_lead_that_the_store_forgot_is_taken_again),
        WITH(what_a_head_before_has_confirmed_is_given_again),
        WITH(what_is_not_ours_is_not_written_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
