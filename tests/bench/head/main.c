/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - head_writes: commits per second of the head's stores, one after the other, each a record of 300 bytes, synced.
 *
 *   head_writes [-o table|json]
 *
 *   redis_writes    over a unix socket to a redis-server of its own, `appendfsync always`. Floor: redis-benchmark with the same
 *                   script and arguments over one connection; its check of the position is taken out, so that each is a commit.
 *   sqlite_writes   the default store, on the same disk; the same floor.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include "scheduler/head/store/script.h"
#include "scheduler/head/store/store.h"
#include "tests/redis/redis.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUE = 300, RECORDS = 2000, FLOOR_CALLS = 4000 };

static struct bench bench = {.options.seconds = 1};

struct step {
    struct bench_step  step;
    struct head_store *store;
    unsigned           next;
};

static double commit(struct bench_step *step)
{
    struct step   *s = mt_container_of(step, struct step, step);
    static uint8_t value[VALUE];
    char           key[16];
    snprintf(key, sizeof key, "job-%u", s->next % RECORDS);
    memcpy(value, &s->next, sizeof s->next); /* SQLite writes nothing where a record stays as it is */
    s->next++;
    struct head_record      r = {HEAD_TABLE_JOBS, (uint8_t *)key, strlen(key), value, sizeof value};
    struct head_store_batch batch = {&r, 1};
    mt_status               st = s->store->ops->apply(s->store, &batch, 1);
    if (st.code != 0)
        fprintf(stderr, "head_writes: %s\n", s->store->text);
    return st.code == 0 ? 1 : -1;
}

static mt_status no_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                           const uint8_t *value, size_t value_size)
{
    (void)reader, (void)table, (void)key, (void)key_size, (void)value, (void)value_size;
    return mt_ok();
}

static bool writes(const char *id, struct head_store *store, double floor)
{
    struct step              s = {{commit, &bench}, store, 0};
    struct head_store_reader reader = {no_record};
    struct bench_row         row = {.id = id, .unit = "commits/s", .floor = FLOOR_REDIS, .floor_value = floor};
    bool                     is_fine = store->ops->load(store, &reader).code == 0 && bench_rate(&s.step, &row, 1);
    if (is_fine)
        bench_print_row(&bench, &row);
    store->ops->close(store);
    return is_fine;
}

/* ---- the floor ---- */

/* The text with each of these conditions made true or false; NULL: one is not there. */
static char *script_without_checks(void)
{
    static const char *const cut[][2] = {
        {"if at[5] == seq and at[6] == digest then", "if false then"},
        {"if op ~= 'APPLY' or at[5] ~= w_seq or at[6] ~= w_digest then", "if false then"},
        {"if s ~= at[5] or d ~= at[6] then", "if true then"},
    };
    char *text = strdup(head_store_script);
    for (size_t i = 0; text && i < sizeof cut / sizeof *cut; i++) {
        char *at = strstr(text, cut[i][0]);
        if (!at) {
            fprintf(stderr, "head_writes: the script has changed: \"%s\" is not there\n", cut[i][0]);
            free(text);
            return NULL;
        }
        size_t was = strlen(cut[i][0]), is = strlen(cut[i][1]);
        memcpy(at, cut[i][1], is);
        memset(at + is, ' ', was - is);
    }
    return text;
}

static double redis_benchmark(const struct redis_server *server, const char *sha)
{
    static char value[VALUE + 1], out[1 << 16];
    char        calls[16];
    int         fds[2];
    pid_t       pid;
    memset(value, 'v', VALUE);
    snprintf(calls, sizeof calls, "%d", FLOOR_CALLS);
    const char *const          argv[] = {"redis-benchmark",
                                         "-s",
                                         server->socket,
                                         "-c",
                                         "1",
                                         "-n",
                                         calls,
                                         "-r",
                                         "2000",
                                         "--csv",
                                         "evalsha",
                                         sha,
                                         "4",
                                         "bench:{f}:head",
                                         "bench:{f}:records",
                                         "bench:{f}:lock",
                                         "bench:{f}:past",
                                         "APPLY",
                                         "1",
                                         "me",
                                         "1",
                                         "00000000000000aa",
                                         "7",
                                         "00000000000000bb",
                                         "1",
                                         "00000000000000aa",
                                         "6",
                                         "00000000000000cc",
                                         "me@here",
                                         "2000",
                                         "",
                                         "",
                                         "1",
                                         "1",
                                         "bench",
                                         "job-__rand_int__",
                                         value,
                                         NULL};
    posix_spawn_file_actions_t files;
    if (pipe2(fds, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&files) != 0 ||
        posix_spawn_file_actions_adddup2(&files, fds[1], 1) != 0)
        return 0;
    int rc = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(const void *)argv, environ);
    close(fds[1]);
    FILE  *file = rc == 0 ? fdopen(fds[0], "r") : NULL;
    size_t size = file ? fread(out, 1, sizeof out - 1, file) : 0;
    out[size] = '\0';
    if (file)
        fclose(file);
    if (rc == 0)
        waitpid(pid, NULL, 0);
    posix_spawn_file_actions_destroy(&files);
    const char *line = strrchr(out, '\n'); /* "the command","rate","latencies"... */
    while (line && line > out && line[1] != '"')
        line = memrchr(out, '\n', (size_t)(line - out));
    const char *at = line ? strstr(line, "\",\"") : NULL;
    return at ? strtod(at + 3, NULL) : 0;
}

static double floor_of(const struct redis_server *server)
{
    char  said[256] = "";
    char *script = script_without_checks();
    if (!script)
        return 0;
    REDIS_SAY(server, said, "SCRIPT", "LOAD", script);
    free(script);
    char *sha = strstr(said, "\r\n");
    if (!sha || strlen(sha) < 42)
        return 0;
    sha[42] = '\0';
    REDIS_DO(server, "HSET", "bench:{f}:head", "schema", "1", "cluster", "me", "fence", "1", "run", "00000000000000aa", "seq", "6",
             "digest", "00000000000000cc", "count", "0");
    return redis_benchmark(server, sha + 2);
}

int main(int argc, char **argv)
{
    struct redis_server     server = {.is_on_disk = true};
    char                    dir[96], text[HEAD_STORE_TEXT_SIZE] = "";
    struct head_store      *store = NULL;
    struct head_store_redis options = {.url = server.url, .dir = dir, .cluster = "me"};
    if (argc == 3 && strcmp(argv[1], "-o") == 0)
        bench.options.output = strcmp(argv[2], "json") == 0 ? BENCH_JSON : BENCH_TABLE;
    bench_print_head(&bench);
    redis_server_new(&server, NULL);
    snprintf(dir, sizeof dir, "%s/redis", server.dir);
    double floor = floor_of(&server);
    bool   is_fine = floor > 0 && mkdir(dir, 0700) == 0 && head_store_redis_open(&options, text, &store).code == 0 &&
                   writes("redis_writes", store, floor);
    snprintf(dir, sizeof dir, "%s/sqlite", server.dir);
    is_fine = is_fine && mkdir(dir, 0700) == 0 && head_store_sqlite_open(dir, "me", false, true, text, &store).code == 0 &&
              writes("sqlite_writes", store, floor);
    if (!is_fine)
        fprintf(stderr, "head_writes: %s\n", text);
    redis_server_free(&server);
    return is_fine ? 0 : 1;
}
