/* SPDX-License-Identifier: Apache-2.0
 *
 * bad_input_test.c - each thing that a user or a stranger can get wrong, and the error that says so.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
MANTA_TASK(int64_t, length_of, (const char *, variable))
{
    const char *text = getenv(variable);
    return text ? (int64_t)strlen(text) : -1;
}
MANTA_TASK(double, half, (double, x))
{
    return x / 2;
}
static manta_status first(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_REGISTER(first, "s>l");

static manta_ref *with(const manta_task_opts *opts)
{
    return manta_call("add", opts, MANTA_ARGS(manta_i64(1), manta_i64(2)));
}

/* ---- names and arguments ---- */

/* What manta_perror prints of it, into `out`. */
static void printed(const manta_error *e, char *out, size_t size)
{
    FILE *file = tmpfile();
    int   usual = dup(STDERR_FILENO);
    fflush(stderr);
    CHECK(file && usual >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    manta_perror(e);
    fflush(stderr);
    dup2(usual, STDERR_FILENO);
    close(usual);
    rewind(file);
    out[fread(out, 1, size - 1, file)] = 0;
    fclose(file);
}

static void unknown_function(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("adz", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2))), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "adz");
    CHECK_SAYS(e.message, " add");
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    char text[2048];
    printed(&e, text, sizeof text);
    CHECK_SAYS(text, "in adz, task ");
    CHECK(!strstr(text, "node") && !strstr(text, "pid") && !strstr(text, "manta.")); /* it ran nowhere; ours is called by nobody */
    CHECK_FAILS(manta_call("", NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    manta_ref *none = manta_call(NULL, NULL, MANTA_NO_ARGS);
    manta_view view;
    CHECK(manta_get(none, TEST_WAIT_MS, &view, &e) != MANTA_OK);
    manta_free(none);
    char name[2000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK_FAILS(manta_call(name, NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_I64(with(NULL), 3);
}

static void wrong_arguments(void)
{
    manta_error e;
    manta_arg   odd = manta_i64(1), many[MANTA_ARGS_MAX + 1];
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "add");
    CHECK_FAILS(manta_call("add", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2), manta_i64(3))), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1), manta_f64(2))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "2"); /* which argument */
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1), manta_str("2"))), MANTA_ETYPE, &e);
    odd.type = '?';
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(odd, odd)), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("first", NULL, MANTA_ARGS(manta_str(NULL))), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1), manta_ref_arg(NULL))), MANTA_ETYPE, &e);
    for (int i = 0; i <= MANTA_ARGS_MAX; i++)
        many[i] = manta_i64(i);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS_MAX + 1, many), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("add", NULL, -1, many), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_call("add", NULL, 2, NULL), MANTA_EINVAL, &e);
    CHECK_I64(with(NULL), 3);
}

/* A reference whose value turns out to be of another type. */
static void wrong_type_later(void)
{
    manta_error e;
    int64_t     x;
    manta_ref  *d = half_remote(NULL, 5.0);
    CHECK_CODE(manta_get_i64(d, TEST_WAIT_MS, &x, &e), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(d), manta_i64(1))), MANTA_ETYPE, &e);
    double y;
    CHECK_CODE(manta_get_f64(d, TEST_WAIT_MS, &y, &e), MANTA_OK, &e);
    CHECK(y == 2.5);
    manta_free(d);
}

static void null_pointers(void)
{
    manta_error e;
    manta_view  view;
    int64_t     x;
    manta_ref  *ref = with(NULL);
    CHECK_CODE(manta_get(NULL, 0, &view, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_get_i64(NULL, 0, &x, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, NULL, &e), MANTA_EINVAL, &e);
    CHECK_EQ(manta_get_i64(NULL, 0, &x, NULL), MANTA_EINVAL); /* nobody wants the error */
    CHECK_EQ(manta_wait(NULL, 3, 1, 0, NULL, &e), -MANTA_EINVAL);
    CHECK_EQ(manta_wait(&ref, 1, 2, 0, (unsigned char[1]){0}, &e), -MANTA_EINVAL); /* more than there are */
    manta_ref *put = manta_put(NULL, 8);
    CHECK_FAILS(put, MANTA_EINVAL, &e);
    CHECK_EQ(manta_create(8, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_nodes(NULL, 3, &e), -MANTA_EINVAL);
    CHECK(!manta_nodes_news(7, &e) && e.code == MANTA_EINVAL);
    CHECK_EQ(manta_actor_watch(NULL, NULL, NULL, NULL, &e), MANTA_EINVAL);
    manta_actor_kill(NULL, false);
    CHECK(!manta_actor_find(NULL, 0, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    manta_unwatch(12345);
    manta_release(NULL);
    manta_release(&(manta_view){0});
    CHECK_I64(ref, 3);
}

/* ---- resources ---- */
static void wrong_resources(void)
{
    manta_error         e;
    static const double bad[] = {-1, -0.001, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        manta_resource gold = {"gold", bad[i]};
        CHECK_FAILS(with(&(manta_task_opts){.num_cpus = bad[i]}), MANTA_EINVAL, &e);
        CHECK_FAILS(with(&(manta_task_opts){.num_gpus = bad[i]}), MANTA_EINVAL, &e);
        CHECK_FAILS(with(&(manta_task_opts){.resources = &gold, .resource_count = 1}), MANTA_EINVAL, &e);
        CHECK_SAYS(e.message, "gold");
    }
    manta_resource zero = {"gold", 0}, nameless = {NULL, 1}, empty = {"", 1};
    CHECK_FAILS(with(&(manta_task_opts){.resources = &zero, .resource_count = 1}), MANTA_EINVAL, &e);
    CHECK_FAILS(with(&(manta_task_opts){.resources = &nameless, .resource_count = 1}), MANTA_EINVAL, &e);
    CHECK_FAILS(with(&(manta_task_opts){.resources = &empty, .resource_count = 1}), MANTA_EINVAL, &e);
    CHECK_FAILS(with(&(manta_task_opts){.resources = NULL, .resource_count = 1}), MANTA_EINVAL, &e);
    CHECK_FAILS(with(&(manta_task_opts){.resources = &zero, .resource_count = -1}), MANTA_EINVAL, &e);
    CHECK_FAILS(with(&(manta_task_opts){.memory = -5}), MANTA_EINVAL, &e);
    CHECK_I64(with(NULL), 3);
}

static void unschedulable(void)
{
    manta_error    e;
    manta_resource gold = {"gold", 1};
    CHECK_FAILS(with(&(manta_task_opts){.num_cpus = 1000}), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "CPU");
    CHECK_SAYS(e.message, "1000");
    CHECK_SAYS(e.message, "2"); /* what there is */
    CHECK_FAILS(with(&(manta_task_opts){.num_gpus = 64}), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "GPU");
    CHECK_FAILS(with(&(manta_task_opts){.resources = &gold, .resource_count = 1}), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "gold");
    CHECK_FAILS(with(&(manta_task_opts){.memory = (int64_t)1 << 50}), MANTA_EUNSCHEDULABLE, &e);
    CHECK_FAILS(with(&(manta_task_opts){.node = 4711}), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "4711");
    CHECK_I64(with(&(manta_task_opts){.node = 4711, .node_soft = true}), 3);
    CHECK_I64(with(NULL), 3);
}

/* ---- manta_init ---- */
static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int  count = 0;
    CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void init_errors(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = -1}, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_gpus = -1}, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_gpus = 1.5}, &e), MANTA_EINVAL, &e);
    CHECK(strstr(e.message, "num_gpus 1.5: a node has whole GPUs"));
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 0.0001}, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.address = "/nowhere"}, &e), MANTA_ECONN, &e);
    CHECK_SAYS(e.message, "/nowhere");
    CHECK_SAYS(e.message, "manta start");
    char path[5000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.address = path}, &e), MANTA_EINVAL, &e);
    setenv("MANTA_ADDRESS", "/nowhere/else", 1);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_ECONN, &e);
    CHECK_SAYS(e.message, "/nowhere/else");
    unsetenv("MANTA_ADDRESS");
    char folder[] = "/tmp/manta-gone-XXXXXX"; /* workers would start in it */
    int  before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int  open_ones = descriptors();
    CHECK(before >= 0 && mkdtemp(folder) && chdir(folder) == 0 && rmdir(folder) == 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_ESYS, &e);
    CHECK_SAYS(e.message, "current folder");
    CHECK_EQ(descriptors(), open_ones); /* by the end of its socket the raylet hears that it is to end */
    CHECK(fchdir(before) == 0 && close(before) == 0);
}

/* What workers can't be given is said, and no part of it is left out. */
static void long_arguments(void)
{
    enum { LONG = 100 * 1000 };
    static char text[LONG + 1];
    manta_error e;
    memset(text, 'a', LONG);
    char *args[] = {test_argv[0], text, text, NULL}, **argv = args;
    int   argc = 3, open_ones = descriptors();
    CHECK_CODE(manta_init(&argc, &argv, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "more than 128 KiB");
    CHECK(setenv("LONG", text, 1) == 0 && setenv("LONGER", text, 1) == 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "more than 128 KiB");
    CHECK_EQ(descriptors(), open_ones);
    CHECK_EQ(unsetenv("LONGER"), 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 1}, &e), MANTA_OK, &e);
    CHECK_I64(length_of_remote(NULL, "LONG"), LONG);
    CHECK_EQ(manta_shutdown(), 0);
}

/* Before manta_init every call says that it is missing. */
static void before_init(void)
{
    manta_error     e;
    manta_node_info node;
    CHECK_FAILS(with(NULL), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "manta_init");
    CHECK_FAILS(manta_put("x", 1), MANTA_EINVAL, &e);
    CHECK(manta_nodes(&node, 1, &e) < 0);
    CHECK(!manta_nodes_news(MANTA_NEWS_NODES, &e));
    CHECK(!manta_actor_find("x", 0, &e));
    CHECK_FAILS(manta_actor_call(manta_actor_new("x", NULL, MANTA_NO_ARGS), "x", MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_EQ(manta_shutdown(), 0);
}

static void init_twice(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EINVAL, &e);
    CHECK_I64(with(NULL), 3);
}

/* A folder where something else listens, or nothing that speaks our language. */
static void init_wrong_server(void)
{
    manta_error        e;
    char               folder[] = "/tmp/mt-server.XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int                fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/raylet.sock", folder);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fd, 4), 0);
    manta_init_opts opts = {.address = folder, .timeout_ms = 200};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_ETIMEDOUT, &e); /* nobody answers */
    close(fd);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_ECONN, &e);
    unlink(address.sun_path);
    rmdir(folder);
}

/* ---- strangers at the raylet's socket ---- */
static int connect_raylet(void)
{
    char               base[256];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(base, sizeof base, "%s/manta", getenv("XDG_RUNTIME_DIR"));
    DIR *dir = opendir(base);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[sizeof address.sun_path];
        snprintf(path, sizeof path, "%.60s/%.20s/raylet.sock", base, entry->d_name);
        if (access(path, F_OK) == 0)
            memcpy(address.sun_path, path, sizeof path);
    }
    closedir(dir);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void garbage_at_the_socket(void)
{
    uint64_t seed = 12345;
    CHECK_I64(with(NULL), 3);
    for (int round = 0; round < 200; round++) {
        static uint64_t bytes[2048];
        int             fd = connect_raylet();
        for (size_t i = 0; i < 2048; i++)
            bytes[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t length = (uint32_t)(seed >> 40) % sizeof bytes;
        if (round % 3 == 0) { /* a record header that is nearly right */
            memcpy(bytes, &length, sizeof length);
            ((uint16_t *)bytes)[2] = (uint16_t)(64 + round % 50);
        }
        for (int part = 0; part < 1 + round % 3; part++)
            (void)!send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
    }
    int held[8]; /* and some that say nothing at all */
    for (int i = 0; i < 8; i++)
        held[i] = connect_raylet();
    CHECK_I64(with(NULL), 3);
    for (int i = 0; i < 8; i++)
        close(held[i]);
    CHECK_I64(with(NULL), 3);
}

/* Other users can't reach the sockets: the folder and they are ours alone. */
static void modes(void)
{
    char        base[256], path[600];
    struct stat st;
    snprintf(base, sizeof base, "%s/manta", getenv("XDG_RUNTIME_DIR"));
    DIR *dir = opendir(base);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != 'p')
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        CHECK_EQ(stat(path, &st), 0);
        CHECK_EQ(st.st_mode & 0777, 0700);
        snprintf(path, sizeof path, "%s/%s/raylet.sock", base, entry->d_name);
        CHECK_EQ(stat(path, &st), 0);
        CHECK_EQ(st.st_mode & 077, 0);
        snprintf(path, sizeof path, "%s/%s/token", base, entry->d_name);
        if (stat(path, &st) == 0)
            CHECK_EQ(st.st_mode & 0777, 0600);
    }
    closedir(dir);
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"unknown_function", unknown_function, TWO_CPUS},
    {"wrong_arguments", wrong_arguments, TWO_CPUS},
    {"wrong_type_later", wrong_type_later, TWO_CPUS},
    {"null_pointers", null_pointers, TWO_CPUS},
    {"wrong_resources", wrong_resources, TWO_CPUS},
    {"unschedulable", unschedulable, TWO_CPUS},
    {"init_errors", init_errors, {0}, true, 0},
    {"long_arguments", long_arguments, {0}, true, 0},
    {"before_init", before_init, {0}, true, 0},
    {"init_twice", init_twice, TWO_CPUS},
    {"init_wrong_server", init_wrong_server, {0}, true, 0},
    {"garbage_at_the_socket", garbage_at_the_socket, TWO_CPUS},
    {"modes", modes, TWO_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
