/* SPDX-License-Identifier: Apache-2.0
 *
 * private_test.c - the cluster of one driver: it works, it goes when the driver goes, and deaths of its parts are told.
 *
 * Thread: the driver's main one. That nothing is left is checked by the harness after each case.
 */
#include "tests/integration/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
static manta_status sleeper(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[0], 1);
    test_sleep_ms(TEST_WAIT_MS);
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(sleeper, "u>l");

/* Notes in a word of its own that it has begun, and stays. */
static manta_status begun(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[0].u)->words[argv[1].l], 1);
    test_sleep_ms(TEST_WAIT_MS);
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(begun, "ul>l");

static manta_status nobody_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status nobody_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status nobody_begun(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return begun(c, argc, argv);
}
/* Leaves a child behind that has all its descriptors, its socket to the raylet too; gives its zygote. */
static manta_status nobody_leaves(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    if (fork() == 0) {
        setsid(); /* not of the group that ends with the worker */
        for (;;)
            pause();
    }
    return manta_return_i64(c, getppid());
}
MANTA_ACTOR(nobody, "", nobody_new, NULL, {"pid", ">l", nobody_pid}, {"begun", "ul>l", nobody_begun},
            {"leaves", ">l", nobody_leaves});

/* Asks at the terminal, as a program that wants a password does; what the answer failed with, 0: it came. */
static manta_status ask(manta_ctx *c, int argc, const manta_arg *argv)
{
    char answer;
    int  terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    (void)argc, (void)argv;
    CHECK(terminal >= 0 && write(terminal, "password: ", 10) == 10);
    int64_t failed = read(terminal, &answer, 1) < 0 ? errno : 0;
    close(terminal);
    return manta_return_i64(c, failed);
}
MANTA_REGISTER(ask, ">l");

/* Tasks that run and wait, actors, objects: a bit of everything is under way. */
static void be_busy(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    char              *data = calloc(1, 8 << 20);
    for (int i = 0; i < 20; i++)
        manta_call("sleeper", NULL, MANTA_ARGS(manta_u64(number)));
    for (int i = 0; i < 3; i++)
        test_i64(manta_actor_call(manta_actor_new("nobody", NULL, MANTA_NO_ARGS), "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    manta_put(data, 8 << 20);
    CHECK(test_board_wait(&board->words[0], 2));
    free(data);
}

static void nodes(void);

/* ---- the driver goes ---- */
static void shutdown_busy(void)
{
    be_busy();
}
static void killed_idle(void)
{
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    kill(getpid(), SIGKILL);
}
static void killed_busy(void)
{
    be_busy();
    kill(getpid(), SIGKILL);
}
static void killed_at_once(void)
{
    kill(getpid(), SIGKILL);
}
static void exits_without_shutdown(void)
{
    be_busy();
    _exit(0);
}
static void held_handles(void)
{
    char         data[5000] = {1};
    manta_ref   *value = manta_put(data, sizeof data), *sum = add_remote(NULL, 1, 2), *done = add_remote(NULL, 1, 3);
    manta_actor *actor = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    manta_error  e;
    int64_t      x;
    CHECK_CODE(manta_get_i64(done, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    CHECK_EQ(manta_shutdown(), 0);
    manta_free(value), manta_free(sum), manta_free(done);
    manta_actor_free(actor);
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- parts go ---- */
static int part(const char *name)
{
    int pids[4], count;
    CHECK_SOON((count = test_find(getpid(), name, pids, 4)) <=
               1); /* a child of it has its name until it has become another program */
    CHECK_EQ(count, 1);
    return pids[0];
}

static void raylet_killed(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_ref         *held = manta_call("sleeper", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref         *done = add_remote(NULL, 4, 5);
    int64_t            x;
    CHECK_CODE(manta_get_i64(done, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&board->words[0], 1));
    CHECK_EQ(kill(part("manta-raylet"), SIGKILL), 0);
    CHECK_FAILS(held, MANTA_ECONN, &e); /* told, not waited for */
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
    CHECK_CODE(manta_get_i64(done, 0, &x, &e), MANTA_OK, &e); /* what is here stays here */
    manta_free(done);
}

/* What had begun may have been done: nobody who submits again what is "not done" runs it twice. Tasks without retries in words 0
 * to 29, calls in 30 to 34. */
static void raylet_killed_outcomes(void)
{
    enum { TASKS = 30, ALL = 35 };
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *actor = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    manta_task_opts    once = {.max_retries = MANTA_NO_RETRY};
    manta_ref         *refs[ALL];
    int                not_done = 0;
    for (int i = 0; i < ALL; i++)
        refs[i] = i < TASKS ? manta_call("begun", &once, MANTA_ARGS(manta_u64(number), manta_i64(i)))
                            : manta_actor_call(actor, "begun", MANTA_ARGS(manta_u64(number), manta_i64(i)));
    CHECK(test_board_wait(&board->words[0], 1) && test_board_wait(&board->words[TASKS], 1));
    CHECK_EQ(kill(part("manta-raylet"), SIGKILL), 0);
    for (int round = 0; round < 2; round++) /* asked again, it says the same */
        for (int i = 0; i < ALL; i++) {
            manta_error e;
            int64_t     x;
            CHECK_CODE(manta_get_i64(refs[i], TEST_WAIT_MS, &x, &e), MANTA_ECONN, &e);
            CHECK(e.outcome == MANTA_UNKNOWN || !board->words[i]);
            CHECK_SAYS(e.message, e.outcome ? "may have run" : "did not begin");
            not_done += e.outcome == MANTA_NOT_DONE;
        }
    CHECK(not_done > 0);
    for (int i = 0; i < ALL; i++)
        manta_free(refs[i]);
    manta_actor_free(actor);
}

/* A loop that submits again at once what failed must not fill a core, or a log. */
static void raylet_killed_refusals(void)
{
    manta_error e;
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    CHECK_EQ(kill(part("manta-raylet"), SIGKILL), 0);
    for (manta_status code = MANTA_OK; code != MANTA_ECONN;) { /* a worker that still lives may serve a few */
        manta_ref *ref = add_remote(NULL, 1, 2);
        int64_t    x;
        code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
        manta_free(ref);
    }
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    CHECK_SAYS(e.message, "call manta_shutdown, then manta_init");
    int64_t since = test_now_ms();
    for (int i = 0; i < 200; i++)
        CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
    CHECK(test_now_ms() - since > 500); /* a floor, not a limit: without a pause it takes 2 ms */
}

/* Processor time of a process, in ticks of 10 ms. */
static long ticks_of(int pid)
{
    char          path[64], line[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    CHECK_EQ(sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return (long)(user + system);
}

/* A raylet and a head that have nothing to do sleep: in two seconds they take less than a quarter of one. */
static void idle_sleeps(void)
{
    CHECK_I64(add_remote(NULL, 1, 1), 2);
    test_sleep_ms(500);
    long raylet = ticks_of(part("manta-raylet")), head = ticks_of(part("manta-head"));
    test_sleep_ms(2000);
    CHECK(ticks_of(part("manta-raylet")) - raylet < 25);
    CHECK(ticks_of(part("manta-head")) - head < 25);
}

/* Without the head, tasks and actors go on. */
static void head_killed(void)
{
    manta_actor *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    int64_t      pid = test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    int          head = part("manta-head");
    CHECK_EQ(kill(head, SIGKILL), 0);
    CHECK(test_gone(head));
    for (int i = 0; i < 100; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
    CHECK_I64(manta_actor_call(a, "pid", MANTA_NO_ARGS), pid);
    manta_actor *b = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    CHECK(test_i64(manta_actor_call(b, "pid", MANTA_NO_ARGS), __FILE__, __LINE__) != pid);
    manta_actor_free(a), manta_actor_free(b);
}

static void zygote_killed(void)
{
    int pids[64], workers = 0;
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    int raylet = part("manta-raylet"), count = test_find(raylet, NULL, pids, 64);
    for (int i = 0; i < count; i++)
        workers += kill(pids[i], SIGKILL) == 0; /* the zygote and each of its workers */
    CHECK(workers > 0);
    for (int i = 0; i < 100; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
}

/* ---- the terminal ---- */

/* This process leads a session of its own, on a terminal of its own; the other end of it. Workers come this
 * way too, before manta_init, and lead a group already, which gets no session. */
static int own_terminal(void)
{
    if (setsid() < 0)
        return -1;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_CLOEXEC); /* the first that a session's leader opens is its terminal */
    CHECK(slave >= 0 && tcsetpgrp(slave, getpgrp()) == 0);
    return master;
}

static void start_busy(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 3}, &e), MANTA_OK, &e);
    be_busy();
    nodes(); /* its head has begun too */
}

static void type(int terminal, char key)
{
    CHECK_EQ(write(terminal, &key, 1), 1);
    test_sleep_ms(TEST_WAIT_MS);
}
static void ctrl_c(void)
{
    int terminal = own_terminal();
    start_busy();
    type(terminal, 'C' - '@');
}
static void ctrl_backslash(void)
{
    int terminal = own_terminal();
    start_busy();
    type(terminal, '\\' - '@');
}
static void terminal_closed(void)
{
    int terminal = own_terminal();
    start_busy();
    close(terminal);
    test_sleep_ms(TEST_WAIT_MS);
}

static volatile sig_atomic_t interrupts;
static void                  interrupted(int number)
{
    (void)number;
    interrupts = interrupts + 1;
}

/* A driver that goes on after ^C still has its whole cluster: the head too, which knows the names of actors.
 */
static void ctrl_c_handled(void)
{
    manta_error e;
    int         terminal = own_terminal();
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    signal(SIGINT, interrupted);
    manta_actor *named = manta_actor_new("nobody", &(manta_actor_opts){.name = "one"}, MANTA_NO_ARGS);
    int64_t      pid = test_i64(manta_actor_call(named, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    int          head = part("manta-head"), raylet = part("manta-raylet");
    CHECK_EQ(write(terminal, "\3", 1), 1);
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; !interrupts && test_now_ms() < limit;)
        test_sleep_ms(5);
    CHECK_EQ(interrupts, 1);
    test_sleep_ms(300); /* who was to end of it has ended */
    CHECK_EQ(part("manta-head"), head);
    CHECK_EQ(part("manta-raylet"), raylet);
    manta_actor *found = manta_actor_find("one", TEST_WAIT_MS, &e);
    CHECK(found != NULL);
    CHECK_I64(manta_actor_call(found, "pid", MANTA_NO_ARGS), pid);
    manta_actor_free(found), manta_actor_free(named);
    CHECK_EQ(manta_shutdown(), 0);
}

/* The terminal is the driver's: a task that asks there is refused, and not stopped for ever, and what it writes comes through, also
 * where the terminal stops others that write (stty tostop). */
static void terminal_is_the_drivers(void)
{
    manta_error    e;
    struct termios line;
    char           shown[64];
    int            terminal = own_terminal();
    if (terminal >= 0) {
        CHECK(tcgetattr(terminal, &line) == 0);
        line.c_lflag |= TOSTOP;
        CHECK(tcsetattr(terminal, TCSANOW, &line) == 0);
    }
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    CHECK_I64(manta_call("ask", NULL, MANTA_NO_ARGS), EIO);
    CHECK(read(terminal, shown, sizeof shown) == 10 && memcmp(shown, "password: ", 10) == 0);
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- nobody is left of those who would have cleaned up ---- */

static void raylet_and_driver_killed(void)
{
    nodes(); /* the head has begun */
    be_busy();
    kill(part("manta-raylet"), SIGKILL);
    kill(getpid(), SIGKILL);
}
static void head_and_driver_killed(void)
{
    nodes();
    be_busy();
    int head = part("manta-head");
    kill(head, SIGKILL);
    CHECK(test_gone(head));
    kill(getpid(), SIGKILL);
}

/* ---- parts stand still as the driver goes ---- */

/* Stops what runs below us: all of it, or all but head and raylet. */
static void parts_stop(bool all)
{
    int pids[64], count = test_find(getpid(), NULL, pids, 64), head = part("manta-head"), raylet = part("manta-raylet");
    CHECK(count > 4); /* a reaper, a zygote and workers too */
    for (int i = 0; i < count; i++)
        if (all || (pids[i] != head && pids[i] != raylet))
            CHECK_EQ(kill(pids[i], SIGSTOP), 0);
}

static void shutdown_workers_stopped(void)
{
    be_busy();
    parts_stop(false);
}
static void shutdown_all_stopped(void)
{
    nodes();
    be_busy();
    parts_stop(true);
}
static void killed_workers_stopped(void)
{
    be_busy();
    parts_stop(false);
    kill(getpid(), SIGKILL);
}
static void killed_all_stopped(void)
{
    nodes();
    be_busy();
    parts_stop(true);
    kill(getpid(), SIGKILL);
}

static void all_killed(void)
{
    nodes();
    int parts[] = {part("manta-head"), part("manta-raylet")};
    for (int i = 0; i < 2; i++)
        CHECK(kill(parts[i], SIGKILL) == 0 && waitpid(parts[i], NULL, 0) == parts[i]); /* with all its threads and descriptors */
    kill(getpid(), SIGKILL);
}

static int folders(void)
{
    char path[300];
    int  count = 0;
    snprintf(path, sizeof path, "%s/manta", getenv("XDG_RUNTIME_DIR"));
    DIR *base = opendir(path);
    for (struct dirent *entry; base && (entry = readdir(base));)
        count += entry->d_name[0] != '.';
    if (base)
        closedir(base);
    return count;
}

/* What nobody could remove, the next that starts here does; what lives beside it is left alone. */
static void dead_ones_are_swept(void)
{
    char *const inner[] = {test_argv[0], "--run", "all_killed", NULL};
    manta_error e;
    int         status;
    pid_t       pid;
    CHECK_EQ(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, inner, environ), 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    CHECK_EQ(folders(), 1);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    CHECK_EQ(folders(), 1);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- what it says about itself ---- */
static void nodes(void)
{
    manta_node_info info[4];
    manta_error     e;
    int64_t         limit = test_now_ms() + TEST_WAIT_MS;
    int             count;
    do { /* the head may still be on its way */
        count = manta_nodes(info, 4, &e);
        if (count < 1)
            test_sleep_ms(5);
    } while (count < 1 && test_now_ms() < limit);
    CHECK_EQ(count, 1);
    CHECK_EQ(info[0].node, manta_node());
    CHECK(info[0].alive && info[0].cpus == 3 && info[0].gpus == 0 && info[0].name[0]);
    CHECK_EQ(manta_nodes(info, 0, &e), 1);
}

/* ---- a process without standard streams: nothing of ours is mistaken for one ---- */
static void closed_streams(void)
{
    manta_error e;
    int         saved = fcntl(2, F_DUPFD_CLOEXEC, 100);
    close(0), close(1), close(2);
    manta_status code = manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e);
    manta_ref   *ref = code ? NULL : add_remote(NULL, 20, 3);
    int64_t      x = 0;
    if (!code)
        code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
    manta_free(ref);
    manta_shutdown();
    dup2(saved, 2);
    CHECK_CODE(code, MANTA_OK, &e);
    CHECK_EQ(x, 23);
}

/* What the driver has open is its own: no daemon, zygote or worker has it too, and a lock goes when the
 * driver lets it go. */
static void own_descriptors(void)
{
    static const int at[] = {3, 9, 300};
    manta_error      e;
    char             path[300];
    int              fd = -1;
    snprintf(path, sizeof path, "%s/held", getenv("XDG_RUNTIME_DIR"));
    for (int i = 0; i < 3 && !getenv("MANTA_ROLE"); i++) { /* the program of the workers is this one */
        fd = open(path, O_RDWR | O_CREAT, 0600);
        CHECK_EQ(dup2(fd, at[i]), at[i]);
        if (fd != at[i])
            close(fd);
    }
    CHECK(getenv("MANTA_ROLE") || flock(9, LOCK_EX) == 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    manta_actor *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    CHECK(test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__) > 0);
    CHECK_EQ(test_holders(path), 0);
    for (int i = 0; i < 3; i++)
        close(at[i]);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    unlink(path);
    manta_actor_free(a);
    CHECK_EQ(manta_shutdown(), 0);
}

/* Descriptors run out in the driver: an error, not a hang. */
static void no_descriptors(void)
{
    manta_error   e;
    struct rlimit few = {8, 8};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    int last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) {
        last = fd;
    }
    CHECK(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2, .timeout_ms = 2000}, &e) != MANTA_OK);
    CHECK(e.message[0]);
    close(last); /* AddressSanitizer needs one to look for leaks */
}

static void hard_limit(rlim_t fds)
{
    struct rlimit few = {fds, fds};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* Too few for the daemons: an error that says so, before anything is started. */
static void few_descriptors(void)
{
    manta_error e;
    hard_limit(64);
    CHECK_EQ(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_EAGAIN);
    CHECK_SAYS(e.message, "128 descriptors");
    CHECK_SAYS(e.message, "64");
}

/* A folder that can't be: the error names it. The program may try again. */
static void bad_folders(void)
{
    char        usual[256], folder[512];
    manta_error e;
    snprintf(usual, sizeof usual, "%s", getenv("XDG_RUNTIME_DIR"));
    setenv("HOME", "/proc", 1); /* for who is not root */
    setenv("XDG_RUNTIME_DIR", "/proc", 1);
    CHECK_EQ(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_ESYS);
    CHECK_SAYS(e.message, "/proc/");
    CHECK_SAYS(e.message, "No such file");
    snprintf(folder, sizeof folder, "%s/%0*d", usual, 100, 0);
    CHECK_EQ(mkdir(folder, 0700), 0);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    CHECK_EQ(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "00000000/manta");
    CHECK_SAYS(e.message, "too long for a socket");
    setenv("XDG_RUNTIME_DIR", usual, 1);
    snprintf(folder + strlen(folder), sizeof folder - strlen(folder), "/manta");
    CHECK_EQ(rmdir(folder), 0); /* and there is nothing in it */
    *strrchr(folder, '/') = 0;
    CHECK_EQ(rmdir(folder), 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    CHECK_EQ(manta_shutdown(), MANTA_OK);
}

/* Enough for the daemons and not for all that is asked of them: who gets nothing is told, and the rest goes on. */
static void scarce_descriptors(void)
{
    enum { ACTORS = 200 };
    manta_actor *actors[ACTORS];
    manta_error  e, refused = {0};
    int64_t      x;
    int          made = 0;
    if (!getenv("MANTA_ROLE"))
        hard_limit(180);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    for (int i = 0; i < ACTORS; i++)
        actors[i] = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < ACTORS; i++) {
        manta_ref   *ref = manta_actor_call(actors[i], "pid", MANTA_NO_ARGS);
        manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
        CHECK(code == MANTA_OK || code == MANTA_EAGAIN);
        made += code == MANTA_OK;
        if (code)
            refused = e; /* not always the last */
        manta_free(ref);
    }
    CHECK(made > 10 && made < ACTORS);
    CHECK_SAYS(refused.message, "descriptors");
    for (int i = 0; i < ACTORS; i++) {
        manta_actor_kill(actors[i], false);
        manta_actor_free(actors[i]);
    }
    CHECK_I64(add_remote(NULL, 1, 2), 3); /* there is room again */
    CHECK_EQ(manta_shutdown(), 0);
}

static int fds_of(int pid)
{
    char path[64];
    int  count = -2;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* How many actors a node holds is a matter of descriptors: each costs the raylet its socket and a sixteenth for its park page, and
 * its owner nothing. */
static void descriptors_of_actors(void)
{
    enum { ACTORS = 64 };
    manta_actor *actors[ACTORS];
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    int raylet = part("manta-raylet"), before = fds_of(raylet), ours = fds_of(getpid());
    for (int i = 0; i < ACTORS; i++)
        actors[i] = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < ACTORS; i++)
        CHECK(test_i64(manta_actor_call(actors[i], "pid", MANTA_NO_ARGS), __FILE__, __LINE__) > 0);
    int theirs = fds_of(raylet) - before;
    CHECK(theirs >= ACTORS - 2 && theirs <= ACTORS + ACTORS / 16 + 8);
    CHECK(fds_of(getpid()) - ours <= 2);
    for (int i = 0; i < ACTORS; i++) {
        manta_actor_kill(actors[i], false);
        manta_actor_free(actors[i]);
    }
    /* What they shared goes with the last, warm processes beyond the bound after MT_RLT_IDLE_MS. The raylet may have opened some
     * of its own meanwhile, to its head. */
    CHECK_SOON(fds_of(raylet) <= before + theirs / 4);
}

/* A signal to a worker takes a descriptor for a moment. A raylet that has none left kills as soon as it has one. */
static void kill_without_descriptors(void)
{
    struct rlimit before, none;
    manta_error   e;
    manta_actor  *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    int worker = (int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__), raylet = part("manta-raylet");
    CHECK(!manta_actor_find("nobody", TEST_WAIT_MS, &e)); /* the head answers: gRPC, which ends a process that runs out of */
    CHECK_EQ(e.code, MANTA_ENOENT);                       /* descriptors while it starts, has started */
    CHECK_EQ(prlimit(raylet, RLIMIT_NOFILE, NULL, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    CHECK_EQ(prlimit(raylet, RLIMIT_NOFILE, &none, NULL), 0);
    manta_actor_kill(a, false);
    test_sleep_ms(300);
    CHECK_EQ(kill(raylet, 0), 0); /* its workers would go with it */
    CHECK_EQ(kill(worker, 0), 0);
    CHECK_EQ(prlimit(raylet, RLIMIT_NOFILE, &before, NULL), 0);
    CHECK(test_gone(worker));
    manta_actor_free(a);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

/* The end of a worker whose child keeps its socket open is told by its zygote, and seen by the raylet where that is stopped. */
static void worker_killed_under_its_child(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    for (int i = 0; i < 2; i++) {
        manta_actor *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
        int          worker = (int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
        int          zygote = (int)test_i64(manta_actor_call(a, "leaves", MANTA_NO_ARGS), __FILE__, __LINE__);
        manta_ref   *ref = manta_actor_call(a, "begun", MANTA_ARGS(manta_u64(number), manta_i64(i)));
        CHECK(test_board_wait(&board->words[i], 1));
        if (i)
            CHECK_EQ(kill(zygote, SIGSTOP), 0);
        CHECK_EQ(kill(worker, SIGKILL), 0);
        CHECK_FAILS(ref, MANTA_EACTOR_DIED, &e);
        CHECK_EQ(e.signal_number, SIGKILL); /* the system knows it as long as the zygote has not reaped it */
        if (i)
            CHECK_EQ(kill(zygote, SIGCONT), 0);
        manta_actor_free(a);
    }
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

#define TWO_CPUS {.num_cpus = 2}, false
static const struct test_case cases[] = {
    {"shutdown_busy", shutdown_busy, TWO_CPUS, 0},
    {"killed_idle", killed_idle, TWO_CPUS, SIGKILL},
    {"killed_busy", killed_busy, TWO_CPUS, SIGKILL},
    {"killed_at_once", killed_at_once, TWO_CPUS, SIGKILL},
    {"exits_without_shutdown", exits_without_shutdown, TWO_CPUS, 0},
    {"held_handles", held_handles, TWO_CPUS, 0},
    {"raylet_killed", raylet_killed, TWO_CPUS, 0},
    {"raylet_killed_outcomes", raylet_killed_outcomes, TWO_CPUS, 0},
    {"raylet_killed_refusals", raylet_killed_refusals, TWO_CPUS, 0},
    {"idle_sleeps", idle_sleeps, TWO_CPUS, 0},
    {"head_killed", head_killed, TWO_CPUS, 0},
    {"zygote_killed", zygote_killed, TWO_CPUS, 0},
    {"nodes", nodes, {.num_cpus = 3}, false, 0},
    {"closed_streams", closed_streams, {0}, true, 0},
    {"own_descriptors", own_descriptors, {0}, true, 0},
    {"few_descriptors", few_descriptors, {0}, true, 0},
    {"bad_folders", bad_folders, {0}, true, 0},
    {"scarce_descriptors", scarce_descriptors, {0}, true, 0},
    {"no_descriptors", no_descriptors, {0}, true, 0},
    {"descriptors_of_actors", descriptors_of_actors, TWO_CPUS, 0},
    {"kill_without_descriptors", kill_without_descriptors, TWO_CPUS, 0},
    {"worker_killed_under_its_child", worker_killed_under_its_child, TWO_CPUS, 0},
    {"ctrl_c", ctrl_c, {0}, true, SIGINT},
    {"ctrl_backslash", ctrl_backslash, {0}, true, SIGQUIT},
    {"terminal_closed", terminal_closed, {0}, true, SIGHUP},
    {"ctrl_c_handled", ctrl_c_handled, {0}, true, 0},
    {"terminal_is_the_drivers", terminal_is_the_drivers, {0}, true, 0},
    {"raylet_and_driver_killed", raylet_and_driver_killed, {.num_cpus = 3}, false, SIGKILL},
    {"head_and_driver_killed", head_and_driver_killed, {.num_cpus = 3}, false, SIGKILL},
    {"shutdown_workers_stopped", shutdown_workers_stopped, {.num_cpus = 3}, false, 0},
    {"shutdown_all_stopped", shutdown_all_stopped, {.num_cpus = 3}, false, 0},
    {"killed_workers_stopped", killed_workers_stopped, {.num_cpus = 3}, false, SIGKILL},
    {"killed_all_stopped", killed_all_stopped, {.num_cpus = 3}, false, SIGKILL},
    {"dead_ones_are_swept", dead_ones_are_swept, {0}, true, 0},
    {"all_killed", all_killed, {.num_cpus = 3}, false, SIGKILL}, /* only of the one above: it leaves its folder */
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
