/* SPDX-License-Identifier: Apache-2.0
 *
 * pull_test.c - values that cross nodes: their bytes, their copies, their end, and the end of those who have them.
 *
 * What a node keeps is seen from outside: the pages of its raylet's segments (all of them are open there).
 * Thread: the driver's main one; `get_there` runs on a thread of its own.
 */
#include "tests/integration/cluster/nodes.h"

#include "objectstore/server/pull.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t KIB = 1024, MIB = 1024 * 1024;
enum { BASE_MIB = 20, TRIM_WAIT_MS = 50 * 1000 }; /* 16 MiB stay warm; all else goes after two or three rounds of 10 s */
enum { CROSSING = 256 * 1024 * 1024, BEGUN = 8 * 1024 * 1024, TRIES = 50 };

/* ---- what runs in the workers ---- */
static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, nodes_is_filled(argv[0].y.data, argv[0].y.size, argv[1].l) ? (int64_t)argv[0].y.size : -1);
}
MANTA_REGISTER(look, "yl>l");
static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = malloc(size + 1);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    nodes_fill(data, size, argv[1].l);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ll>y");
/* Says in word 0 that it has begun; when word 1 says so, reads the value. */
static manta_status look_together(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[2].u);
    manta_error        e;
    manta_view         view;
    (void)argc;
    atomic_fetch_add(&board->words[0], 1);
    if (!test_board_wait(&board->words[1], 1))
        return manta_fail(c, 1, "nobody came");
    if (manta_get(argv[0].r, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    int64_t size = nodes_is_filled(view.data, view.size, argv[1].l) ? (int64_t)view.size : -1;
    manta_release(&view);
    return manta_return_i64(c, size);
}
MANTA_REGISTER(look_together, "rlu>l");

/* An actor that owns values made on another node. */
static manta_ref   *owned;
static manta_status owner_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status owner_have(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error   e;
    unsigned char ready;
    (void)self, (void)argc;
    owned = manta_call("make", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_i64(argv[0].l), manta_i64(1)));
    if (manta_wait(&owned, 1, 1, TEST_WAIT_MS, &ready, &e) != 1)
        return manta_fail(c, 1, "not made");
    manta_view   view;
    manta_status code = manta_get(owned, TEST_WAIT_MS, &view, &e);
    if (code)
        return manta_fail(c, code, "%s", e.message);
    manta_release(&view);
    return manta_return_i64(c, getpid());
}
MANTA_ACTOR(owner, "", owner_new, NULL, {"have", "l>l", owner_have});

#define THERE \
    &(manta_task_opts) \
    { \
        AT(1) \
    }

/* ---- from the driver ---- */
static manta_ref *put_filled(size_t size, int64_t seed)
{
    manta_error  e;
    manta_buffer buffer;
    CHECK_CODE(manta_create(size, &buffer, &e), MANTA_OK, &e);
    nodes_fill(buffer.data, size, seed);
    return manta_seal(&buffer);
}
static manta_ref *look_at(manta_ref *ref, int64_t seed, int node)
{
    return manta_call("look", &(manta_task_opts){AT(node)}, MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed)));
}
static manta_ref *make_there(size_t size, int64_t seed)
{
    return manta_call("make", THERE, MANTA_ARGS(manta_i64((int64_t)size), manta_i64(seed)));
}
static void check_filled(manta_ref *ref, size_t size, int64_t seed)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, size);
    CHECK(nodes_is_filled(view.data, view.size, seed));
    manta_release(&view);
}
static void wait_made(manta_ref *ref)
{
    manta_error   e;
    unsigned char ready;
    CHECK_EQ(manta_wait(&ref, 1, 1, TEST_WAIT_MS, &ready, &e), 1);
}

/* Bytes in the segments of a raylet's node; each has two descriptors of one file. */
static size_t resident(int raylet)
{
    char           path[64], target[64];
    struct stat    st;
    struct dirent *entry;
    ino_t          seen[256];
    size_t         count = 0, bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", raylet);
    DIR *dir = opendir(path);
    CHECK(dir);
    while ((entry = readdir(dir))) {
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        if (!strstr(target, "manta-segment") || fstatat(dirfd(dir), entry->d_name, &st, 0) != 0)
            continue;
        size_t i = 0;
        while (i < count && seen[i] != st.st_ino)
            i++;
        if (i == count && count < 256) {
            seen[count++] = st.st_ino;
            bytes += (size_t)st.st_blocks * 512;
        }
    }
    closedir(dir);
    return bytes;
}
static void wait_resident(int raylet, size_t at_most)
{
    int64_t limit = test_now_ms() + TRIM_WAIT_MS;
    while (resident(raylet) > at_most && test_now_ms() < limit)
        test_sleep_ms(50);
    if (resident(raylet) > at_most)
        test_fail(__FILE__, __LINE__, "%zu MiB are left in a store instead of %zu", resident(raylet) / MIB, at_most / MIB);
}

/* ---- bytes ---- */
static void pull_sizes(void)
{
    const size_t sizes[] = {KIB, MIB, 64 * MIB};
    struct nodes n;
    nodes_start_store(&n, 2, "2", 512);
    for (int64_t i = 0; i < 3; i++) {
        size_t     size = sizes[i];
        manta_ref *put = put_filled(size, i), *made;
        CHECK_I64(look_at(put, i, 1), (int64_t)size);
        CHECK_I64(look_at(put, i, 1), (int64_t)size); /* the copy */
        manta_free(put);
        made = make_there(size, i + 10);
        check_filled(made, size, i + 10);
        CHECK_I64(look_at(made, i + 10, 0), (int64_t)size);
        manta_free(made);
    }
    nodes_stop(&n);
}

/* A copy of another node's value can't be written either, by a driver or in a task's argument. */
static manta_status writable(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, !test_write_faults(argv[0].y.data));
}
MANTA_REGISTER(writable, "y>l");

static void pull_read_only(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_error e;
    manta_view  view;
    manta_ref  *made = make_there(MIB, 4), *put = put_filled(MIB, 5);
    CHECK_CODE(manta_get(made, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(test_write_faults(view.data) && test_write_faults((const char *)view.data + MIB - 1));
    manta_release(&view);
    check_filled(made, MIB, 4);
    CHECK_I64(look_at(made, 4, 1), (int64_t)MIB);
    CHECK_I64(manta_call("writable", THERE, MANTA_ARGS(manta_ref_arg(put))), 0);
    CHECK_I64(look_at(put, 5, 1), (int64_t)MIB);
    manta_free(made), manta_free(put);
    nodes_stop(&n);
}

/* Many small and middling ones at once, in both directions: more than a source serves at a time. */
static void pull_results(void)
{
    enum { COUNT = 300 };
    static manta_ref *refs[COUNT], *looks[COUNT];
    struct nodes      n;
    nodes_start(&n, 2, "2");
    for (int64_t i = 0; i < COUNT; i++)
        refs[i] = make_there(5000 + (size_t)i * 100, i);
    for (int64_t i = 0; i < COUNT; i++)
        looks[i] = look_at(refs[i], i, 0);
    for (int64_t i = 0; i < COUNT; i++) {
        check_filled(refs[i], 5000 + (size_t)i * 100, i);
        CHECK_I64(looks[i], 5000 + i * 100);
        manta_free(refs[i]);
    }
    nodes_stop(&n);
}

static void pull_shared(void)
{
    enum { READERS = 8 };
    struct nodes n;
    uint64_t     number;
    manta_ref   *readers[READERS];
    nodes_start(&n, 2, "8");
    struct test_board *board = test_board_new(&number);
    manta_ref         *put = put_filled(32 * MIB, 5);
    for (int i = 0; i < READERS; i++)
        readers[i] = manta_call("look_together", THERE, MANTA_ARGS(manta_ref_arg(put), manta_i64(5), manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], READERS));
    CHECK(resident(n.raylets[1]) < 2 * MIB);
    board->words[1] = 1;
    for (int i = 0; i < READERS; i++)
        CHECK_I64(readers[i], (int64_t)(32 * MIB));
    CHECK(resident(n.raylets[1]) < 40 * MIB); /* one copy, whatever the number of readers */
    manta_free(put);
    nodes_stop(&n);
}

/* ---- room ---- */

/* A copy here makes way for what needs the room; the ref goes on naming the value where it is. */
static void pull_again(void)
{
    struct nodes n;
    manta_error  e;
    manta_view   kept;
    nodes_start_store(&n, 2, "2", 128);
    manta_ref *made = make_there(48 * MIB, 7);
    check_filled(made, 48 * MIB, 7);
    for (int i = 0; i < 3; i++) {
        manta_ref *ours = put_filled(100 * MIB, 8);
        check_filled(ours, 100 * MIB, 8);
        CHECK_CODE(manta_get(made, TEST_WAIT_MS, &kept, &e), MANTA_ESTORE_FULL, &e);
        CHECK_SAYS(e.message, "MiB");
        manta_free(ours);
        ours = put_filled(MIB, 8); /* the large place is free again once we say so */
        manta_free(ours);
        ours = put_filled(60 * MIB, 9);
        CHECK_I64(look_at(ours, 9, 0), (int64_t)(60 * MIB));
        manta_free(ours);
        CHECK_I64(look_at(made, 7, 1), (int64_t)(48 * MIB));
    }
    manta_free(made);
    nodes_stop(&n);
}

static void pull_freed(void)
{
    struct nodes n;
    nodes_start_store(&n, 2, "2", 512);
    manta_ref *put = put_filled(64 * MIB, 1), *made = make_there(64 * MIB, 2);
    CHECK_I64(look_at(put, 1, 1), (int64_t)(64 * MIB));
    check_filled(made, 64 * MIB, 2);
    CHECK(resident(n.raylets[0]) >= 128 * MIB && resident(n.raylets[1]) >= 128 * MIB); /* a value and a copy in each */
    manta_free(put), manta_free(made);
    wait_resident(n.raylets[0], BASE_MIB * MIB);
    wait_resident(n.raylets[1], BASE_MIB * MIB);
    put = put_filled(64 * MIB, 3); /* and all of it works again */
    CHECK_I64(look_at(put, 3, 1), (int64_t)(64 * MIB));
    manta_free(put);
    nodes_stop(&n);
}

/* Results that nobody ever reads, and copies: far more than fits. */
static void pull_unread(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    for (int64_t i = 0; i < 16; i++) {
        manta_ref *made = make_there(48 * MIB, i), *put = put_filled(48 * MIB, i);
        wait_made(made);
        manta_free(made);
        CHECK_I64(look_at(put, i, 1), (int64_t)(48 * MIB));
        manta_free(put);
    }
    nodes_stop(&n);
}

static void pull_full(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start_store(&n, 2, "2", 64);
    manta_ref *fills = make_there(40 * MIB, 1), *put = put_filled(40 * MIB, 2);
    wait_made(fills);
    CHECK_FAILS(look_at(put, 2, 1), MANTA_ESTORE_FULL, &e);
    CHECK_SAYS(e.message, "MiB");
    manta_free(fills);
    manta_ref *small = put_filled(8 * MIB, 3);
    CHECK_I64(look_at(small, 3, 1), (int64_t)(8 * MIB));
    manta_free(small), manta_free(put);
    nodes_stop(&n);
}

/* What is on disk there is fetched; what comes from there finds room here by sending other values to disk. */
static void pull_spilled(void)
{
    enum { COUNT = 20 };
    struct nodes n;
    manta_ref   *puts[COUNT], *made[COUNT];
    nodes_start_spilling(&n, 2, "2", 48);
    for (int i = 0; i < COUNT; i++)
        puts[i] = put_filled(8 * MIB, i);
    for (int i = 0; i < COUNT; i++) {
        CHECK_I64(look_at(puts[i], i, 1), (int64_t)(8 * MIB));
        wait_made(made[i] = make_there(8 * MIB, 100 + i));
    }
    for (int i = 0; i < COUNT; i++) {
        check_filled(made[i], 8 * MIB, 100 + i);
        check_filled(puts[i], 8 * MIB, i);
    }
    for (int i = 0; i < COUNT; i++)
        manta_free(puts[i]), manta_free(made[i]);
    nodes_stop(&n);
}

static const char *listed(void)
{
    static char said[64 * 1024];
    char        path[5000], folder[300];
    char       *argv[] = {path, "list", "objects", "--address", folder, "--output=json", NULL};
    snprintf(path, sizeof path, "%s/manta", test_bin());
    snprintf(folder, sizeof folder, "%s/manta/c", getenv("XDG_RUNTIME_DIR"));
    CHECK_EQ(test_program(argv, said, sizeof said), 0);
    return said;
}

/* Lines of it that say `kind`. */
static int count_in(const char *list, const char *kind)
{
    char word[40];
    int  count = 0;
    snprintf(word, sizeof word, "\"%s\"", kind);
    for (const char *at = list; (at = strstr(at, word)); at++)
        count++;
    return count;
}

/* What only the disk has is listed too: nothing that lives is missing. */
static void pull_spilled_seen(void)
{
    enum { COUNT = 12, IN_MEMORY_MAX = 6 };
    struct nodes n;
    manta_ref   *puts[COUNT];
    nodes_start_spilling(&n, 1, "2", 48);
    for (int i = 0; i < COUNT; i++)
        puts[i] = put_filled(8 * MIB, i);
    const char *list = listed();
    CHECK(count_in(list, "spilled") >= COUNT - IN_MEMORY_MAX);
    CHECK_EQ(count_in(list, "spilled") + count_in(list, "value"), COUNT);
    for (int i = 0; i < COUNT; i++) {
        check_filled(puts[i], 8 * MIB, i);
        manta_free(puts[i]);
    }
    CHECK_SOON(!count_in(listed(), "spilled"));
    nodes_stop(&n);
}

/* ---- deaths ---- */

/* What an owner on another node had here dies with it: else its fourth successor would find no room. */
static void pull_owner_dies(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    for (int i = 0; i < 8; i++) {
        manta_actor *a = manta_actor_new("owner", &(manta_actor_opts){AT(1)}, MANTA_NO_ARGS);
        int64_t      pid = test_i64(manta_actor_call(a, "have", MANTA_ARGS(manta_i64(64 << 20))), __FILE__, __LINE__);
        CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
        CHECK(test_gone((int)pid));
        manta_actor_free(a);
    }
    nodes_stop(&n);
}

/* The last process of a job on a node dies: what it made is read all the same. */
static void pull_maker_dies(void)
{
    struct nodes n;
    int          pids[32];
    nodes_start(&n, 2, "1");
    manta_ref *made = make_there(4 * MIB, 6);
    wait_made(made);
    CHECK_EQ(kill(n.raylets[1], SIGSTOP), 0); /* it starts no other in between */
    int count = test_find(n.raylets[1], NULL, pids, 32);
    CHECK(count >= 2); /* zygote, worker */
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    CHECK_EQ(kill(n.raylets[1], SIGCONT), 0);
    for (int i = 0; i < count; i++)
        CHECK(test_gone(pids[i]));
    check_filled(made, 4 * MIB, 6);
    CHECK_I64(look_at(made, 6, 1), (int64_t)(4 * MIB));
    manta_free(made);
    nodes_stop(&n);
}

struct get_there {
    manta_ref   *ref;
    _Atomic int  is_done;
    manta_status code;
    manta_error  e;
};
static void *get_there(void *arg)
{
    struct get_there *g = arg;
    manta_view        view;
    g->code = manta_get(g->ref, 2 * TEST_WAIT_MS, &view, &g->e);
    if (g->code == MANTA_OK)
        manta_release(&view);
    atomic_store(&g->is_done, 1);
    return NULL;
}
/* Stops the raylet of node 1 while a value of CROSSING bytes comes from there; `before` were here already. False: all of it has
 * come (this process may have stood still for long), and that raylet goes on. */
static bool stop_source(const struct nodes *n, size_t before)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (resident(n->raylets[0]) < before + BEGUN)
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "nothing has come: %zu KiB are here", resident(n->raylets[0]) / KIB);
    CHECK_EQ(kill(n->raylets[1], SIGSTOP), 0);
    test_sleep_ms(20); /* what is on its way still comes */
    if (resident(n->raylets[0]) < CROSSING)
        return true;
    CHECK_EQ(kill(n->raylets[1], SIGCONT), 0);
    return false;
}

/* Begins to fetch a value from node 1, and stops that node's raylet in the middle. */
static void stop_in_the_middle(struct nodes *n, struct get_there *g, pthread_t *thread)
{
    nodes_start_store(n, 2, "2", 600);
    for (int tries = 0; tries < TRIES; tries++) {
        size_t before = resident(n->raylets[0]);
        memset(g, 0, sizeof *g);
        g->ref = manta_call("make", &(manta_task_opts){AT(1), .max_retries = MANTA_NO_RETRY},
                            MANTA_ARGS(manta_i64(CROSSING), manta_i64(4)));
        wait_made(g->ref);
        CHECK_EQ(pthread_create(thread, NULL, get_there, g), 0);
        if (stop_source(n, before)) {
            CHECK(!atomic_load(&g->is_done));
            return;
        }
        CHECK_EQ(pthread_join(*thread, NULL), 0);
        manta_free(g->ref);
        wait_resident(n->raylets[0], BASE_MIB * MIB);
    }
    test_fail(__FILE__, __LINE__, "%d values have come before the node could be stopped", TRIES);
}
static void check_failed(struct nodes *n, struct get_there *g, pthread_t thread)
{
    CHECK_EQ(pthread_join(thread, NULL), 0);
    if (g->code != MANTA_ENODE_DIED && g->code != MANTA_ETIMEDOUT && g->code != MANTA_EOBJ_LOST)
        test_fail(__FILE__, __LINE__, "a get from a dead node ends with %d: %s", g->code, g->e.message);
    CHECK(strlen(g->e.message) > 10);
    manta_free(g->ref);
    manta_ref *put = put_filled(300 * MIB, 4); /* what had come of it is not in the way */
    check_filled(put, 300 * MIB, 4);
    manta_free(put);
    nodes_stop(n);
}

static void pull_source_killed(void)
{
    struct nodes     n;
    struct get_there g;
    pthread_t        thread;
    stop_in_the_middle(&n, &g, &thread);
    nodes_kill(&n.raylets[1]);
    check_failed(&n, &g, thread);
}

static void pull_source_silent(void)
{
    struct nodes     n;
    struct get_there g;
    pthread_t        thread;
    stop_in_the_middle(&n, &g, &thread);
    int64_t limit = test_now_ms() + TEST_WAIT_MS; /* the limit of a fetch without progress is 10 s */
    while (!atomic_load(&g.is_done) && test_now_ms() < limit)
        test_sleep_ms(20);
    CHECK(atomic_load(&g.is_done));
    nodes_kill(&n.raylets[1]);
    check_failed(&n, &g, thread);
}

/* A driver is killed while a value of its crosses: its job goes on both nodes, others stay. */
static void pull_stranger(void)
{
    manta_error e;
    manta_view  view;
    char        address[256];
    snprintf(address, sizeof address, "%s/manta/c/n0", getenv("XDG_RUNTIME_DIR"));
    manta_init_opts opts = {.address = address};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    manta_ref *made = make_there(CROSSING, 1);
    wait_made(made);
    CHECK_CODE(manta_get(made, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    test_sleep_ms(TEST_WAIT_MS); /* it is killed before */
}
static pid_t stranger_starts(void)
{
    extern char **environ;
    char         *argv[] = {"/proc/self/exe", "--run", "pull_stranger", NULL};
    pid_t         stranger;
    CHECK_EQ(posix_spawn(&stranger, argv[0], NULL, NULL, argv, environ), 0);
    return stranger;
}
static void stranger_is_killed(const struct nodes *n, pid_t stranger)
{
    int status;
    CHECK_EQ(kill(stranger, SIGKILL), 0);
    CHECK_EQ(waitpid(stranger, &status, 0), stranger);
    if (!WIFSIGNALED(status))
        test_fail(__FILE__, __LINE__, "the stranger has ended before it was killed: exit %d", WEXITSTATUS(status));
    wait_resident(n->raylets[0], BASE_MIB * MIB);
}
static void pull_driver_killed(void)
{
    struct nodes n;
    nodes_start_store(&n, 2, "2", 600);
    manta_ref *made = make_there(4 * MIB, 2);
    check_filled(made, 4 * MIB, 2);
    bool is_stopped = false;
    for (int tries = 0; !is_stopped; tries++) {
        CHECK(tries < TRIES);
        size_t before = resident(n.raylets[0]);
        pid_t  stranger = stranger_starts();
        is_stopped = stop_source(&n, before);
        stranger_is_killed(&n, stranger);
    }
    CHECK_EQ(kill(n.raylets[1], SIGCONT), 0);
    wait_resident(n.raylets[1], BASE_MIB * MIB);
    check_filled(made, 4 * MIB, 2);
    CHECK_I64(look_at(made, 2, 1), (int64_t)(4 * MIB));
    manta_free(made);
    nodes_stop(&n);
}

/* ---- strangers ---- */

/* The ports that a process listens on. */
static int ports_of(int pid, uint16_t *ports, int max)
{
    char           line[512], path[64], target[64], wanted[64];
    struct dirent *entry;
    int            count = 0;
    FILE          *f = fopen("/proc/net/tcp", "re");
    CHECK(f);
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    while (fgets(line, sizeof line, f)) {
        unsigned      port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*8X:%X %*8X:%*X %X %*s %*s %*s %*d %*d %lu", &port, &state, &inode) != 3 || state != 10)
            continue;
        snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
        DIR *dir = opendir(path);
        CHECK(dir);
        while ((entry = readdir(dir))) {
            ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
            target[size > 0 ? size : 0] = 0;
            if (strcmp(target, wanted) == 0 && count < max)
                ports[count++] = (uint16_t)port;
        }
        closedir(dir);
    }
    fclose(f);
    return count;
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends, says that it is all (with `out`: once an answer is there), and reads to the end. How much came; the first in *out. */
static size_t say(uint16_t port, const void *bytes, size_t size, struct os_wire_reply *out)
{
    char          buffer[4096];
    size_t        got = 0;
    int           fd = dial(port);
    struct pollfd p = {fd, POLLIN, 0};
    if (size)
        (void)!send(fd, bytes, size, MSG_NOSIGNAL);
    if (!out)
        shutdown(fd, SHUT_WR); /* it need not wait for more */
    while (poll(&p, 1, TEST_WAIT_MS) == 1) {
        ssize_t came = recv(fd, buffer, sizeof buffer, 0);
        if (came <= 0)
            break;
        if (out && got == 0 && (size_t)came >= sizeof *out)
            memcpy(out, buffer, sizeof *out);
        got += (size_t)came;
        if (out && got >= sizeof *out)
            shutdown(fd, SHUT_WR);
    }
    close(fd);
    return got;
}

struct greeting {
    struct os_wire_hello   hello;
    struct os_wire_request request;
};
static void greet(const struct nodes *n, struct greeting *g)
{
    char  path[256];
    FILE *f;
    memset(g, 0, sizeof *g);
    snprintf(path, sizeof path, "%s/token", n->folder);
    CHECK((f = fopen(path, "re")));
    CHECK_EQ(fread(g->hello.token, 1, sizeof g->hello.token, f), sizeof g->hello.token);
    fclose(f);
    g->hello.magic = g->request.magic = OS_WIRE_MAGIC;
    g->hello.version_min = MT_WIRE_FIRST;
    g->hello.version_max = UINT16_MAX;
    g->hello.to_node = n->ids[1];
    g->request.ref = (struct lane_ref){.id = {1, 2}, .node = n->ids[1], .segment = 1, .offset = 4096, .size = 100, .job = 77};
    g->request.size = 100;
}

/* The one that answers to our greeting in our words. */
static uint16_t data_port(const struct nodes *n)
{
    struct greeting g;
    uint16_t        ports[8], found = 0;
    int             count = ports_of(n->raylets[1], ports, 8);
    greet(n, &g);
    for (int i = 0; i < count; i++) {
        struct os_wire_reply reply = {0};
        if (say(ports[i], &g, sizeof g, &reply) == sizeof reply && reply.magic == OS_WIRE_MAGIC) {
            CHECK_EQ(reply.code, MANTA_EOBJ_LOST); /* no such thing; it says so and no more */
            found = ports[i];
        }
    }
    CHECK(found);
    return found;
}

static void pull_garbage(void)
{
    struct nodes         n;
    struct greeting      g;
    struct os_wire_reply reply;
    char                 noise[5000];
    nodes_start(&n, 2, "2");
    uint16_t port = data_port(&n);
    for (unsigned i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 2654435761u >> 13);
    for (size_t size = 0; size < sizeof noise; size = size * 3 + 1)
        CHECK_EQ(say(port, noise, size, NULL), 0);       /* strangers are not answered */
    for (size_t size = 1; size < sizeof g; size += 13) { /* cut off */
        greet(&n, &g);
        CHECK_EQ(say(port, &g, size, NULL), 0);
    }
    greet(&n, &g);
    g.hello.token[63] ^= 1;
    CHECK_EQ(say(port, &g, sizeof g, NULL), 0);
    greet(&n, &g);
    memset(g.hello.token, 0, sizeof g.hello.token);
    CHECK_EQ(say(port, &g, sizeof g, NULL), 0);
    greet(&n, &g);
    g.hello.version_min = UINT16_MAX;
    CHECK_EQ(say(port, &g, sizeof g, NULL), 0);
    greet(&n, &g);
    g.hello.to_epoch = 999; /* means another raylet */
    CHECK_EQ(say(port, &g, sizeof g, &reply), sizeof reply);
    CHECK_EQ(reply.code, MANTA_EFENCED);
    greet(&n, &g);
    memcpy(&g.request, noise, sizeof g.request); /* the right token does not make nonsense sense */
    CHECK_EQ(say(port, &g, sizeof g, NULL), 0);
    manta_ref *made = make_there(MIB, 3); /* and the node goes on as before */
    check_filled(made, MIB, 3);
    manta_free(made);
    nodes_stop(&n);
}

#define OWN_INIT {0}, true, 0
/* ---- values that come damaged ---- */

/* Raylets count it down meanwhile (damage.c). */
static void damage(const char *path, int messages)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && ftruncate(fd, 0) == 0);
    CHECK(dprintf(fd, "%d\n", messages) > 0);
    close(fd);
}

/* A chunk that is another when it comes is noticed, and the value fetched again; three times, then its reader is told. */
static void pull_damaged(void)
{
    struct nodes n;
    manta_view   view;
    manta_error  e;
    char         path[256];
    enum { SIZE = 3 << 20 };
    snprintf(path, sizeof path, "%s/damage-%d", getenv("XDG_RUNTIME_DIR") ? getenv("XDG_RUNTIME_DIR") : "/tmp", getppid());
    setenv("DAMAGE_FILE", path, 1);
    if (!getenv("MANTA_ROLE")) {
        damage(path, 0);
        setenv("LD_PRELOAD", DAMAGE_SO, 1);
    }
    nodes_start(&n, 2, "2");
    unsetenv("LD_PRELOAD");
    for (int round = 0; round < 3; round++) {
        static const int messages[] = {0, 1, 100000};
        manta_ref       *r = manta_call("make", &(manta_task_opts){AT(1)}, MANTA_ARGS(manta_i64(SIZE), manta_i64(round)));
        manta_ref       *all[1] = {r};
        CHECK_EQ(manta_wait(all, 1, 1, TEST_WAIT_MS, NULL, &e), 1);
        damage(path, messages[round]);
        if (round < 2) {
            CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
            CHECK(view.size == SIZE && nodes_is_filled(view.data, SIZE, round));
            manta_release(&view);
        } else {
            CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_ECORRUPT, &e);
            CHECK_SAYS(e.message, "came damaged from its node, three times in a row");
            damage(path, 0); /* the value itself is whole */
            CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
            CHECK(nodes_is_filled(view.data, SIZE, round));
            manta_release(&view);
        }
        manta_free(r);
    }
    nodes_stop(&n);
    unlink(path);
}

static const struct test_case cases[] = {
    {"pull_sizes", pull_sizes, OWN_INIT},
    {"pull_results", pull_results, OWN_INIT},
    {"pull_read_only", pull_read_only, OWN_INIT},
    {"pull_shared", pull_shared, OWN_INIT},
    {"pull_again", pull_again, OWN_INIT},
    {"pull_freed", pull_freed, OWN_INIT},
    {"pull_unread", pull_unread, OWN_INIT},
    {"pull_full", pull_full, OWN_INIT},
    {"pull_spilled", pull_spilled, OWN_INIT},
    {"pull_spilled_seen", pull_spilled_seen, OWN_INIT},
    {"pull_owner_dies", pull_owner_dies, OWN_INIT},
    {"pull_maker_dies", pull_maker_dies, OWN_INIT},
    {"pull_source_killed", pull_source_killed, OWN_INIT},
    {"pull_source_silent", pull_source_silent, OWN_INIT},
    {"pull_driver_killed", pull_driver_killed, OWN_INIT},
    {"pull_garbage", pull_garbage, OWN_INIT},
    {"pull_damaged", pull_damaged, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
    {"pull_stranger", pull_stranger, OWN_INIT}, /* started by pull_driver_killed only */
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "pull_stranger") == 0)
        return test_main(argc, argv, &cases[sizeof cases / sizeof cases[0] - 1]);
    return test_main(argc, argv, cases);
}
