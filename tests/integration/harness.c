/* SPDX-License-Identifier: Apache-2.0
 *
 * harness.c - runs the cases of an integration test, each in a process of its own, and counts what they leave.
 *
 * Thread: the main one; boards are written by any process.
 */
#include "tests/integration/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int    test_argc;
char **test_argv;

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

void test_skip(const char *format, ...)
{
    va_list args;
    printf("skipped: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    exit(TEST_SKIPPED);
}

int64_t test_i64(manta_ref *take_ref, const char *file, int line)
{
    manta_error e;
    int64_t     x;
    if (manta_get_i64(take_ref, TEST_WAIT_MS, &x, &e) != MANTA_OK)
        test_fail(file, line, "no value: error %d: %s", e.code, e.message);
    manta_free(take_ref);
    return x;
}

void test_fails(manta_ref *take_ref, manta_status wanted, manta_error *e, const char *file, int line)
{
    manta_view   view;
    manta_status code = manta_get(take_ref, TEST_WAIT_MS, &view, e);
    if (code == MANTA_OK)
        test_fail(file, line, "a value instead of error %d", wanted);
    if (code != wanted)
        test_fail(file, line, "error %d instead of %d: %s", code, wanted, e->message);
    if (e->code != code)
        test_fail(file, line, "error %d is returned and %d told", code, e->code);
    manta_free(take_ref);
}

/* ---- time ---- */
int64_t test_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void test_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* ---- boards ---- */
static struct test_board *board_of(int fd)
{
    void *page = mmap(NULL, sizeof(struct test_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

struct test_board *test_board_new(uint64_t *number)
{
    int                fd = memfd_create("test-board", MFD_CLOEXEC); /* open as long as the driver: workers open it through /proc */
    struct test_board *board = fd >= 0 && ftruncate(fd, sizeof *board) == 0 ? board_of(fd) : NULL;
    if (!board)
        test_fail(__FILE__, __LINE__, "no board: %s", strerror(errno));
    *number = (uint64_t)getpid() << 32 | (uint32_t)fd;
    return board;
}

struct test_board *test_board_map(uint64_t number)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)(number >> 32), (int)(uint32_t)number);
    int                fd = open(path, O_RDWR | O_CLOEXEC);
    struct test_board *board = fd >= 0 ? board_of(fd) : NULL;
    if (fd >= 0)
        close(fd);
    if (!board)
        abort(); /* in a worker: the crash says where */
    return board;
}

bool test_board_wait(_Atomic int64_t *word, int64_t wanted)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (atomic_load(word) < wanted) {
        if (test_now_ms() > limit)
            return false;
        test_sleep_ms(1);
    }
    return true;
}

/* ---- processes ---- */
struct process {
    int  pid, parent;
    char state, name[32];
};

static bool process_read(int pid, struct process *out)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = 0;
    char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open_at || !close_at || sscanf(close_at + 1, " %c %d", &out->state, &out->parent) != 2)
        return false;
    out->pid = pid;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    return true;
}

static bool is_below(int pid, int root)
{
    struct process p;
    for (int depth = 0; depth < 64 && pid > 1 && pid != root && process_read(pid, &p); depth++)
        pid = p.parent;
    return pid == root;
}

int test_find(int root, const char *name, int *pids, int max)
{
    int  count = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && count < max && (entry = readdir(dir));) {
        struct process p;
        int            pid = (int)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != root && process_read(pid, &p) && p.state != 'Z' && (!name || !strcmp(p.name, name)) &&
            is_below(pid, root))
            pids[count++] = pid;
    }
    if (dir)
        closedir(dir);
    return count;
}

bool test_gone(int pid)
{
    struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    int64_t       limit = test_now_ms() + TEST_WAIT_MS, left;
    int           rc = 0;
    if (p.fd < 0)
        return errno == ESRCH;
    while ((left = limit - test_now_ms()) > 0 && (rc = poll(&p, 1, (int)left)) < 0 && errno == EINTR)
        ;
    close(p.fd);
    return rc == 1;
}

bool test_write_faults(const void *at)
{
    int   status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* a worker's own, or a sanitizer's, tells of it */
        *(volatile uint8_t *)(uintptr_t)at ^= 1;
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static bool holds(int pid, const char *file)
{
    char path[64], target[4096];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        found = strcmp(target, file) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

int test_holders(const char *path)
{
    int  count = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int pid = (int)strtol(entry->d_name, NULL, 10);
        count += pid > 0 && pid != getpid() && holds(pid, path);
    }
    if (dir)
        closedir(dir);
    return count;
}

int test_program(char *const argv[], char *output, size_t size)
{
    int    ends[2], status = 0;
    size_t got = 0;
    pid_t  child;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    int err = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (err != 0) {
        close(ends[0]);
        snprintf(output, size, "%s: %s", argv[0], strerror(err));
        return -1;
    }
    while (waitpid(child, &status, WNOHANG) == 0) { /* daemons may keep the pipe open: the child's end is the end */
        struct pollfd p = {ends[0], POLLIN, 0};
        if (poll(&p, 1, 10) == 1 && got + 1 < size) {
            ssize_t some = read(ends[0], output + got, size - 1 - got);
            got += some > 0 ? (size_t)some : 0;
        }
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (ssize_t some; got + 1 < size && (some = read(ends[0], output + got, size - 1 - got)) > 0;)
        got += (size_t)some;
    close(ends[0]);
    output[got] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *test_bin(void)
{
    static char bin[4096];
    const char *named = getenv("TEST_BIN");
    snprintf(bin, sizeof bin, "%s", named ? named : "build/release/bin");
    return bin;
}

/* ---- a case's driver ---- */
static int fd_count(void)
{
    int  count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Mappings of shared memory that is not the test's own. */
static int mapping_count(void)
{
    char  line[512];
    int   count = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        count += strstr(line, "memfd:") && !strstr(line, "test-board");
    if (f)
        fclose(f);
    return count;
}

/* What is open, where more is than was. */
static void fds_tell(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) > 0)
            fprintf(stderr, "descriptor %d is open: %s\n", fd, name);
    }
}

static int driver_run(const struct test_case *test)
{
    manta_error e;
    alarm(TEST_CASE_MS / 1000);
    if (test->no_init) {
        test->run();
        return 0;
    }
    int fds = fd_count();
    if (manta_init(&test_argc, &test_argv, &test->opts, &e) != MANTA_OK)
        return manta_perror(&e), 1;
    test->run();
    CHECK_EQ(manta_shutdown(), 0);
    int boards = 0, left = fd_count();
    for (int fd = 3; fd < 64; fd++) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        boards += readlink(path, name, sizeof name - 1) > 0 && strstr(name, "test-board");
    }
    if (left - boards != fds)
        fds_tell();
    CHECK_EQ(left - boards, fds);
    CHECK_EQ(mapping_count(), 0);
    return 0;
}

/* ---- the parent ---- */
static const struct test_case *case_find(const struct test_case *cases, const char *name)
{
    while (cases->name && strcmp(cases->name, name) != 0)
        cases++;
    return cases->name ? cases : NULL;
}

static int file_count, file_told;
static int file_visit(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type;
    if (walk->level > 1 || (walk->level == 1 && strcmp(path + walk->base, "manta") != 0)) {
        file_count++; /* the folder "manta" itself is shared by clusters and may stay */
        if (file_told)
            fprintf(stderr, "left over: %s\n", path);
    }
    return 0;
}
static int file_remove(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}
static int files_in(const char *folder, bool tell)
{
    file_count = 0, file_told = tell;
    nftw(folder, file_visit, 16, FTW_PHYS);
    return file_count;
}

/* Reaps; true when nothing is left below us. */
static bool all_gone(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return pid < 0 && errno == ECHILD;
}

static bool left_nothing(const char *folder)
{
    int64_t limit = test_now_ms() + TEST_GONE_MS;
    while (!all_gone() || files_in(folder, false) > 0) {
        if (test_now_ms() > limit)
            break;
        test_sleep_ms(5);
    }
    int  pids[256], files = files_in(folder, true);
    bool gone = all_gone();
    int  count = test_find(getpid(), NULL, pids, 256);
    for (int i = 0; i < count; i++) {
        struct process p;
        if (process_read(pids[i], &p))
            fprintf(stderr, "left over: process %d %s (%c)\n", p.pid, p.name, p.state);
        kill(pids[i], SIGKILL); /* below us: ours */
    }
    while (!all_gone())
        test_sleep_ms(5);
    return gone && files == 0;
}

static bool is_skipped; /* the last case that was run said so */

static bool ended_well(const struct test_case *test, int status)
{
    if (test->expect_signal)
        return WIFSIGNALED(status) && WTERMSIG(status) == test->expect_signal;
    if (WIFSIGNALED(status))
        fprintf(stderr, "the driver was killed by signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? " (its time was up)" : "");
    is_skipped |= WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED;
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == TEST_SKIPPED);
}

static bool case_run(const struct test_case *test)
{
    char        folder[256];
    const char *base = getenv("TMPDIR");
    pid_t       child;
    int         status = -1;
    snprintf(folder, sizeof folder, "%s/mt.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return perror(folder), false;
    setenv("XDG_RUNTIME_DIR", folder, 1);
    unsetenv("MANTA_ADDRESS");
    char   *argv[] = {test_argv[0], "--run", (char *)test->name, NULL};
    int64_t start = test_now_ms();
    int     err = posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ);
    bool    ok = err == 0 && waitpid(child, &status, 0) == child && ended_well(test, status);
    int64_t ended = test_now_ms();
    ok = left_nothing(folder) && ok;
    nftw(folder, file_remove, 16, FTW_DEPTH | FTW_PHYS);
    printf("%-4s %s (%lld ms, clean after %lld ms)\n", ok ? "ok" : "FAIL", test->name, (long long)(ended - start),
           (long long)(test_now_ms() - ended));
    fflush(stdout);
    return ok;
}

int test_main(int argc, char **argv, const struct test_case *cases)
{
    int failed = 0;
    test_argc = argc, test_argv = argv;
    if (argc == 3 && strcmp(argv[1], "--run") == 0) {
        const struct test_case *test = case_find(cases, argv[2]);
        return test ? driver_run(test) : 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int i = 1; i < argc; i++) {
        const struct test_case *test = case_find(cases, argv[i]);
        if (!test)
            return fprintf(stderr, "no case \"%s\"\n", argv[i]), 2;
        failed += !case_run(test);
    }
    for (const struct test_case *test = cases; argc == 1 && test->name; test++)
        failed += !case_run(test);
    return failed ? 1 : is_skipped ? TEST_SKIPPED : 0;
}
