/* SPDX-License-Identifier: Apache-2.0
 *
 * drain_test.c - nodes that leave: asked for by a client, by `manta drain`, by SIGTERM, by a notice that their machine goes;
 * what happens to what runs there.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/leaving.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says that it runs (word 1 counts), and ends when word 0 says so. */
static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[1], 1);
    return manta_return_i64(c, test_board_wait(&board->words[0], 1) ? manta_node() : 0);
}
MANTA_REGISTER(held, "u>l");

static manta_status where(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
MANTA_REGISTER(where, ">l");

static manta_status place_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status place_where(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return where(c, argc, argv);
}
MANTA_ACTOR(place, "", place_new, NULL, {"where", ">l", place_where});

enum { NAPS_AT = 8 }; /* the first of eight words: runs by node */

/* Word 2 counts its runs. */
static manta_status nap(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[2], 1);
    atomic_fetch_add(&board->words[NAPS_AT + manta_node() % 8], 1);
    test_sleep_ms((int)argv[1].l);
    return manta_return_i64(c, argv[1].l);
}
MANTA_REGISTER(nap, "ul>l");

enum { COUNTER_BYTES = 1 << 16 };

/* Counts. Nobody asks for its state but the node that leaves. */
struct counter {
    int64_t count;
    size_t  size; /* of a snapshot */
};
static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct counter *own = calloc(1, COUNTER_BYTES);
    (void)c, (void)argc;
    CHECK(own);
    own->size = argv[0].u;
    *self = own;
    return MANTA_OK;
}
static manta_status counter_save(manta_ctx *c, void *self)
{
    const struct counter *own = self;
    return manta_return_bytes(c, own, own->size);
}
static manta_status counter_load(manta_ctx *c, void *self, const void *data, size_t size)
{
    (void)c;
    memcpy(self, data, size);
    return MANTA_OK;
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct counter *own = self;
    (void)argc, (void)argv;
    return manta_return_i64(c, ++own->count);
}
static manta_status counter_where(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return where(c, argc, argv);
}
MANTA_ACTOR_TYPE(counter, .signature = "u", .create = counter_new, .destroy = free, .save = counter_save, .load = counter_load,
                 .methods = {{"add", ">l", counter_add}, {"where", ">l", counter_where}});

static struct nodes nodes;

static void drain(int i, int64_t limit_ms, manta_status wanted, const char *says)
{
    manta_error   e = {0};
    manta_client *c = leaving_client(&nodes);
    CHECK_CODE(manta_node_drain(c, nodes.ids[i], limit_ms, "a test", &e), wanted, &e);
    if (says)
        CHECK_SAYS(e.message, says);
    manta_client_close(c);
}

static manta_task_opts soft(int i)
{
    return (manta_task_opts){.num_cpus = 1, .node = nodes.ids[i], .node_soft = true};
}

static void waits_for(int i, const char *what)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    for (;;) {
        manta_cluster_node n = leaving_node(&nodes, i);
        CHECK_EQ(n.state, MANTA_NODE_DRAINING);
        if (strstr(n.waits, what))
            break;
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "it waits for \"%s\" instead of \"%s\"", n.waits, what);
        test_sleep_ms(5);
    }
}

static void drains(int i)
{
    CHECK_SOON(leaving_node(&nodes, i).state == MANTA_NODE_DRAINING);
}

/* What is written there, from one moment to the next. */
static void notice(const char *path, const char *text)
{
    char  fresh[300];
    FILE *file;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    CHECK((file = fopen(fresh, "w")));
    CHECK(fputs(text, file) >= 0);
    CHECK_EQ(fclose(file), 0);
    CHECK_EQ(rename(fresh, path), 0);
}

/* A task ends where it runs, the rest goes elsewhere; and the words that are wrong. */
static void drain_tasks(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    nodes_start(&nodes, 2, "2");
    manta_task_opts there = soft(1);
    manta_ref      *one = manta_call("held", &there, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    drain(1, 60000, MANTA_OK, NULL);
    drain(1, 60000, MANTA_EEXIST, "being drained already (a test)");
    nodes.ids[2] = 77;
    drain(2, 1000, MANTA_ENOENT, "no node 77");
    drain(0, INT64_C(1) << 40, MANTA_EINVAL, "at most");
    waits_for(1, "1 lease of tasks");
    for (int i = 0; i < 20; i++)
        CHECK_I64(manta_call("where", &there, MANTA_NO_ARGS), nodes.ids[0]);
    board->words[0] = 1;
    CHECK_I64(one, nodes.ids[1]);
    leaving_wait(&nodes, 1);
    CHECK_EQ(board->words[1], 1);
    drain(1, 1000, MANTA_EINVAL, "has left");
    nodes_stop(&nodes);
}

/* What runs at the limit is stopped and runs elsewhere, which costs no retry; what may not run twice says so. */
static void drain_limit(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    nodes_start(&nodes, 2, "2");
    manta_task_opts again = soft(1), once = soft(1);
    again.max_retries = 1;
    once.max_retries = MANTA_NO_RETRY;
    manta_ref *a = manta_call("held", &again, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    manta_ref *b = manta_call("held", &once, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 2));
    int64_t began = test_now_ms();
    drain(1, 300, MANTA_OK, NULL);
    CHECK_FAILS(b, MANTA_EPREEMPTED, &e);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_SAYS(e.message, "its node was to leave (a test)");
    CHECK(test_now_ms() - began >= 300);
    CHECK(test_board_wait(&board->words[1], 3)); /* a, on the other node */
    leaving_wait(&nodes, 1);
    board->words[0] = 1;
    CHECK_I64(a, nodes.ids[0]);
    nodes_stop(&nodes);
}

/* The owner's node stands still while the limit passes: the one that leaves waits until its last words have been heard. */
static void drain_unheard(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    nodes_start(&nodes, 2, "2");
    manta_task_opts once = soft(1);
    once.max_retries = MANTA_NO_RETRY;
    manta_ref *r = manta_call("held", &once, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    CHECK_EQ(kill(nodes.raylets[0], SIGSTOP), 0);
    drain(1, 100, MANTA_OK, NULL);
    waits_for(1, "1 node to hear its last words");
    CHECK_EQ(kill(nodes.raylets[0], SIGCONT), 0);
    CHECK_FAILS(r, MANTA_EPREEMPTED, &e);
    leaving_wait(&nodes, 1);
    nodes_stop(&nodes);
}

/* SIGTERM asks for the same; an actor that may restart moves at once, long before the limit. */
static void drain_actors(void)
{
    nodes_start_as(&nodes, &(struct nodes){.count = 2, .option = "--drain-limit", .option_value = "3600"}, "2", 256);
    manta_actor_opts opts = {.num_cpus = 1, .node = nodes.ids[1], .node_soft = true, .max_restarts = 1, .max_task_retries = 3};
    manta_error      e;
    manta_actor     *moves = manta_actor_new("place", &opts, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(moves, "where", MANTA_NO_ARGS), nodes.ids[1]);
    CHECK_EQ(kill(nodes.raylets[1], SIGTERM), 0);
    leaving_wait(&nodes, 1);
    CHECK_I64(manta_actor_call(moves, "where", MANTA_NO_ARGS), nodes.ids[0]);
    (void)e;
    manta_actor_free(moves);
    nodes_stop(&nodes);
}

/* Its state of that moment goes with it, though no snapshot was ever due: of an actor with one call at a time, and of one with
 * many. */
static void saves(size_t size)
{
    nodes_start(&nodes, 2, "4");
    manta_actor_opts opts = {.num_cpus = 1, .node = nodes.ids[1], .node_soft = true, .max_restarts = 1, .max_task_retries = 3};
    manta_actor     *one = manta_actor_new("counter", &opts, MANTA_ARGS(manta_u64(size)));
    opts.max_concurrency = 4;
    manta_actor *many = manta_actor_new("counter", &opts, MANTA_ARGS(manta_u64(size)));
    CHECK_I64(manta_actor_call(one, "where", MANTA_NO_ARGS), nodes.ids[1]);
    CHECK_I64(manta_actor_call(many, "where", MANTA_NO_ARGS), nodes.ids[1]);
    for (int i = 1; i <= 20; i++) {
        CHECK_I64(manta_actor_call(one, "add", MANTA_NO_ARGS), i);
        CHECK_I64(manta_actor_call(many, "add", MANTA_NO_ARGS), i);
    }
    drain(1, 60000, MANTA_OK, NULL);
    leaving_wait(&nodes, 1);
    CHECK_I64(manta_actor_call(one, "where", MANTA_NO_ARGS), nodes.ids[0]);
    CHECK_I64(manta_actor_call(one, "add", MANTA_NO_ARGS), 21);
    CHECK_I64(manta_actor_call(many, "where", MANTA_NO_ARGS), nodes.ids[0]);
    CHECK_I64(manta_actor_call(many, "add", MANTA_NO_ARGS), 21);
    manta_actor_free(one);
    manta_actor_free(many);
    nodes_stop(&nodes);
}

static void drain_saves(void)
{
    saves(sizeof(struct counter));
}

/* The snapshot stands in the store of the node that leaves. */
static void drain_saves_large(void)
{
    saves(COUNTER_BYTES);
}

enum { NAPS = 300, NAP_MS_MAX = 100 };

/* A busy cluster of two nodes loses the second one by `leave`, which says how many may run twice for that; no more do. Of each task
 * the outcome comes. */
static void naps(int32_t retries, int64_t (*leave)(manta_ref **refs, const struct test_board *board))
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *refs[NAPS];
    manta_task_opts    opts = {.num_cpus = 1, .max_retries = retries}, there = {AT(1)};
    CHECK_I64(manta_call("where", &there, MANTA_NO_ARGS), nodes.ids[1]); /* a worker there: it takes its share from the beginning */
    for (int i = 0; i < NAPS; i++)
        refs[i] = manta_call("nap", &opts, MANTA_ARGS(manta_u64(number), manta_i64(NAP_MS_MAX - i * 37 % 80)));
    CHECK(test_board_wait(&board->words[2], NAPS / 5) && test_board_wait(&board->words[NAPS_AT + nodes.ids[1] % 8], 4));
    printf("%lld have begun, %lld there\n", (long long)board->words[2], (long long)board->words[NAPS_AT + nodes.ids[1] % 8]);
    int64_t most = leave(refs, board);
    for (int i = 0; i < NAPS; i++)
        CHECK_I64(refs[i], NAP_MS_MAX - i * 37 % 80);
    printf("%lld tasks ran again\n", (long long)board->words[2] - NAPS);
    CHECK(board->words[2] - NAPS <= most);
}

static int64_t leave_asked(manta_ref **refs, const struct test_board *board)
{
    (void)refs, (void)board;
    int64_t began = test_now_ms();
    drain(1, 30000, MANTA_OK, NULL);
    int64_t left_at = leaving_wait(&nodes, 1);
    printf("a busy node has left %lld ms after it was asked; its longest task took %d\n", (long long)(left_at - began), NAP_MS_MAX);
    return 0;
}

static int64_t leave_noticed(manta_ref **refs, const struct test_board *board)
{
    (void)refs, (void)board;
    int64_t began = test_now_ms();
    notice(nodes.option_value, "3600"); /* so long that it is no limit: it goes when its tasks are done */
    int64_t left_at = leaving_wait(&nodes, 1);
    printf("a busy node has left %lld ms after a notice\n", (long long)(left_at - began));
    return 0;
}

/* What had begun by the end of its last process, but for that of which the driver had heard before. */
static int64_t leave_killed(manta_ref **refs, const struct test_board *board)
{
    manta_error e;
    int         pids[64];
    int         heard = manta_wait(refs, NAPS, NAPS, 0, NULL, &e), count = test_find(nodes.raylets[1], NULL, pids, 64);
    CHECK(heard >= 0);
    nodes_kill(&nodes.raylets[1]);
    for (int i = 0; i < count; i++)
        CHECK(test_gone(pids[i]));
    return board->words[2] - heard;
}

/* No task fails, though none may run twice, and none does. */
static void drain_busy(void)
{
    nodes_start(&nodes, 2, "2");
    naps(MANTA_NO_RETRY, leave_asked);
    nodes_stop(&nodes);
}

static void drain_busy_notice(void)
{
    char path[250];
    snprintf(path, sizeof path, "%s/notice", getenv("XDG_RUNTIME_DIR"));
    nodes_start_as(&nodes, &(struct nodes){.count = 2, .option = "--notice-file", .option_value = path}, "2", 256);
    naps(MANTA_NO_RETRY, leave_noticed);
    CHECK_EQ(unlink(path), 0);
    nodes_stop(&nodes);
}

/* Nobody has said a word: what ran there runs again. */
static void drain_busy_killed(void)
{
    nodes_start(&nodes, 2, "2");
    naps(3, leave_killed);
    nodes_stop(&nodes);
}

/* One that may not restart lives until the limit; where the node leaves already SIGTERM does not cut that short, and a second one
 * ends the node at once. What only it can hold is told why. */
static void drain_last(void)
{
    nodes_start(&nodes, 2, "2");
    manta_actor_opts opts = {AT(1)};
    manta_task_opts  only = {AT(1)};
    manta_error      e;
    manta_actor     *stays = manta_actor_new("place", &opts, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(stays, "where", MANTA_NO_ARGS), nodes.ids[1]);
    drain(1, 60000, MANTA_OK, NULL);
    waits_for(1, "1 actor");
    CHECK_EQ(kill(nodes.raylets[1], SIGTERM), 0);
    waits_for(1, "1 actor");
    CHECK_FAILS(manta_call("where", &only, MANTA_NO_ARGS), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "is being drained");
    CHECK_I64(manta_actor_call(stays, "where", MANTA_NO_ARGS), nodes.ids[1]);
    CHECK_EQ(kill(nodes.raylets[1], SIGTERM), 0);
    int status = 1;
    CHECK_EQ(waitpid(nodes.raylets[1], &status, 0), nodes.raylets[1]);
    CHECK_EQ(status, 0);
    nodes.raylets[1] = 0;
    manta_actor_free(stays);
    nodes_stop(&nodes);
}

/* A placement group's bundle moves before the node goes; by the command, by the node's name. */
static void drain_group(void)
{
    nodes_start(&nodes, 3, "1");
    manta_bundle bundles[2] = {{.num_cpus = 1}, {.num_cpus = 1}};
    manta_error  e;
    char         program[5000], said[500];
    manta_pg    *pg = manta_pg_new(bundles, 2, &(manta_pg_opts){.strategy = MANTA_PG_STRICT_SPREAD}, &e);
    CHECK(pg);
    CHECK_CODE(manta_pg_wait(pg, TEST_WAIT_MS, &e), MANTA_OK, &e);
    int leaver = 0;
    for (int b = 1; b <= 2; b++) {
        manta_task_opts in = {.num_cpus = 1, .pg = pg, .bundle = b};
        int64_t         at = 0;
        manta_ref      *r = manta_call("where", &in, MANTA_NO_ARGS);
        CHECK_CODE(manta_get_i64(r, TEST_WAIT_MS, &at, &e), MANTA_OK, &e);
        manta_free(r);
        for (int i = 1; i < 3; i++)
            leaver = at == nodes.ids[i] ? i : leaver;
    }
    CHECK(leaver);
    char name[16];
    snprintf(name, sizeof name, "n%d", leaver);
    snprintf(program, sizeof program, "%s/manta", test_bin());
    char *argv[] = {program, "drain", "--address", nodes.folder, "--deadline", "20", "--reason", "to be mended", name, NULL};
    CHECK_EQ(test_program(argv, said, sizeof said), 0);
    CHECK_SAYS(said, "is being drained");
    leaving_wait(&nodes, leaver);
    CHECK_SAYS(leaving_node(&nodes, leaver).reason, "to be mended");
    for (int b = 1; b <= 2; b++) {
        manta_task_opts in = {.num_cpus = 1, .pg = pg, .bundle = b};
        manta_ref      *r = manta_call("where", &in, MANTA_NO_ARGS);
        int64_t         at = 0;
        CHECK_CODE(manta_get_i64(r, TEST_WAIT_MS, &at, &e), MANTA_OK, &e);
        CHECK(at != nodes.ids[leaver]);
        manta_free(r);
    }
    char *list[] = {program, "list", "nodes", "--address", nodes.folder, NULL};
    CHECK_EQ(test_program(list, said, sizeof said), 0);
    CHECK_SAYS(said, "LEFT");
    char *wrong[] = {program, "drain", "--address", nodes.folder, "nobody", NULL};
    CHECK_EQ(test_program(wrong, said, sizeof said), 1);
    CHECK_SAYS(said, "no node has this number or name");
    CHECK_CODE(manta_pg_remove(pg, &e), MANTA_OK, &e);
    manta_pg_free(pg);
    nodes_stop(&nodes);
}

/* The head is killed in the middle: the next one knows, and so does the node. */
static void drain_head_dies(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    nodes_start(&nodes, 2, "2");
    manta_task_opts there = soft(1);
    manta_ref      *one = manta_call("held", &there, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    drain(1, 60000, MANTA_OK, NULL);
    nodes_kill(&nodes.head);
    nodes_start_head(&nodes, "127.0.0.1:0"); /* where it was, unless somebody has that port by now */
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (leaving_node(&nodes, 1).state != MANTA_NODE_DRAINING) {
        CHECK(test_now_ms() < limit);
        CHECK(leaving_node(&nodes, 1).state != MANTA_NODE_ALIVE);
        test_sleep_ms(5);
    }
    waits_for(1, "1 lease of tasks");
    board->words[0] = 1;
    CHECK_I64(one, nodes.ids[1]);
    leaving_wait(&nodes, 1);
    nodes_stop(&nodes);
}

/* A notice: what runs there at that time was stopped before, and runs again elsewhere.
 * One that comes during a drain makes it shorter. */
static void drain_notice(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    char               path[250];
    snprintf(path, sizeof path, "%s/notice", getenv("XDG_RUNTIME_DIR"));
    nodes_start_as(&nodes, &(struct nodes){.count = 2, .option = "--notice-file", .option_value = path}, "2", 256);
    manta_task_opts there = soft(1);
    there.max_retries = 1;
    manta_ref *one = manta_call("held", &there, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    drain(1, 60000, MANTA_OK, NULL);
    waits_for(1, "1 lease of tasks");
    int64_t began = test_now_ms();
    notice(path, "2\n");
    CHECK(test_board_wait(&board->words[1], 2)); /* on the other node */
    CHECK(test_now_ms() - began >= 1500);
    leaving_wait(&nodes, 1);
    CHECK(test_now_ms() - began < 30000);
    board->words[0] = 1;
    CHECK_I64(one, nodes.ids[0]);
    CHECK_EQ(unlink(path), 0);
    nodes_stop(&nodes);
}

/* An empty one gives what runs there the time that SIGTERM would; what EC2 says is taken as it is. */
static void drain_notice_words(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    char               path[250], text[200];
    snprintf(path, sizeof path, "%s/notice", getenv("XDG_RUNTIME_DIR"));
    nodes_start_as(&nodes, &(struct nodes){.count = 2, .option = "--notice-file", .option_value = path}, "2", 256);
    manta_task_opts there = soft(1);
    manta_ref      *one = manta_call("held", &there, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    notice(path, "");
    drains(1);
    waits_for(1, "1 lease of tasks");
    CHECK_SAYS(leaving_node(&nodes, 1).reason, "its machine goes");
    board->words[0] = 1;
    CHECK_I64(one, nodes.ids[1]);
    leaving_wait(&nodes, 1);
    CHECK_EQ(unlink(path), 0);
    time_t soon = time(NULL) + 2;
    strftime(text, sizeof text, "{\"action\": \"terminate\", \"time\": \"%Y-%m-%dT%H:%M:%SZ\"}", gmtime(&soon));
    nodes.raylets[1] = nodes_add(&nodes, 1, "2", NULL);
    CHECK(nodes.raylets[1]);
    nodes_wait_alive(2);
    notice(path, text);
    CHECK_EQ(waitpid(nodes.raylets[1], NULL, 0), nodes.raylets[1]);
    nodes.raylets[1] = 0;
    CHECK_EQ(unlink(path), 0);
    nodes_stop(&nodes);
}

/* A node that knows its end leaves before it. */
static void drain_lifetime(void)
{
    char until[40];
    nodes_start(&nodes, 1, "2");
    snprintf(until, sizeof until, "%lld", (long long)time(NULL) + 4);
    nodes.option = "--until", nodes.option_value = until;
    nodes.raylets[1] = nodes_add(&nodes, nodes.count++, "2", NULL);
    CHECK(nodes.raylets[1]);
    nodes_learn_id(&nodes, 1);
    leaving_wait(&nodes, 1);
    CHECK_SAYS(leaving_node(&nodes, 1).reason, "its lifetime ends");
    nodes_stop(&nodes);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "drain_tasks", .run = drain_tasks, .no_init = true},
        {.name = "drain_limit", .run = drain_limit, .no_init = true},
        {.name = "drain_unheard", .run = drain_unheard, .no_init = true},
        {.name = "drain_actors", .run = drain_actors, .no_init = true},
        {.name = "drain_saves", .run = drain_saves, .no_init = true},
        {.name = "drain_saves_large", .run = drain_saves_large, .no_init = true},
        {.name = "drain_last", .run = drain_last, .no_init = true},
        {.name = "drain_group", .run = drain_group, .no_init = true},
        {.name = "drain_busy", .run = drain_busy, .no_init = true},
        {.name = "drain_busy_notice", .run = drain_busy_notice, .no_init = true},
        {.name = "drain_busy_killed", .run = drain_busy_killed, .no_init = true},
        {.name = "drain_notice", .run = drain_notice, .no_init = true},
        {.name = "drain_notice_words", .run = drain_notice_words, .no_init = true},
        {.name = "drain_lifetime", .run = drain_lifetime, .no_init = true},
        {.name = "drain_head_dies", .run = drain_head_dies, .no_init = true},
        {0},
    };
    return test_main(argc, argv, cases);
}
