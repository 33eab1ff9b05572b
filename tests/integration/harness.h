/* SPDX-License-Identifier: Apache-2.0
 *
 * harness.h - integration tests: each case is a driver of its own with a private cluster, run by a parent that counts
 * what is left over afterwards.
 *
 *   program            runs all cases          program CASE...     runs these
 *
 * The parent runs the program again for each case (and Manta runs it again for the workers), in a runtime folder of its
 * own, as subreaper: whatever a case leaves behind becomes its child. A case fails when its driver does, when a process,
 * a file of the runtime folder, or (after manta_shutdown) a descriptor or mapping of the driver is left.
 */
#ifndef INTEGRATION_HARNESS_H
#define INTEGRATION_HARNESS_H

#include <manta.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SLOWER 5 /* limits are against hanging */
#else
#define TEST_SLOWER 1
#endif

enum {
    TEST_WAIT_MS = 60 * 1000 * TEST_SLOWER,  /* longest wait for anything that must happen */
    TEST_CASE_MS = 150 * 1000 * TEST_SLOWER, /* longest life of a case's driver */
    TEST_GONE_MS = 20 * 1000 * TEST_SLOWER,  /* longest life of anything after it */
    TEST_BOARD_WORDS = 64,
    TEST_SKIPPED = 77, /* exit status of test_skip */
};

struct test_case {
    const char *name;
    void (*run)(void);
    manta_init_opts opts;
    bool            no_init;       /* the case calls manta_init itself, if at all */
    int             expect_signal; /* the driver must die of it */
};

/* What main returns. `cases` ends with name NULL. */
int test_main(int argc, char **argv, const struct test_case *cases);
/* For cases that call manta_init themselves. */
extern int    test_argc;
extern char **test_argv;

/* Says what is wrong and ends the driver. */
void test_fail(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
/* This machine has not what the case needs: says so and ends the driver. */
void test_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define CHECK(cond) \
    do { \
        if (!(cond)) \
            test_fail(__FILE__, __LINE__, "not true: %s", #cond); \
    } while (0)
#define CHECK_EQ(got, wanted) \
    do { \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted); \
        if (got_ != wanted_) \
            test_fail(__FILE__, __LINE__, "%s is %lld instead of %lld (%s)", #got, got_, wanted_, #wanted); \
    } while (0)
#define CHECK_STR(got, wanted) \
    do { \
        if (strcmp(got, wanted) != 0) \
            test_fail(__FILE__, __LINE__, "%s is \"%s\" instead of \"%s\"", #got, got, wanted); \
    } while (0)
/* `text` says `word` somewhere. */
#define CHECK_SAYS(text, word) \
    do { \
        if (!strstr(text, word)) \
            test_fail(__FILE__, __LINE__, "%s does not say \"%s\": \"%s\"", #text, word, text); \
    } while (0)
/* A call's code, with the error's text where it is another. */
#define CHECK_CODE(call, wanted, e) \
    do { \
        int code_ = (call); \
        if (code_ != (wanted)) \
            test_fail(__FILE__, __LINE__, "%s is %d instead of %s: %s", #call, code_, #wanted, code_ ? (e)->message : "no error"); \
    } while (0)

/* It becomes true within TEST_WAIT_MS; looked at again and again. */
#define CHECK_SOON(cond) \
    do { \
        for (int64_t limit_ = test_now_ms() + TEST_WAIT_MS; !(cond); test_sleep_ms(2)) \
            if (test_now_ms() >= limit_) \
                test_fail(__FILE__, __LINE__, "not true after %d s: %s", TEST_WAIT_MS / 1000, #cond); \
    } while (0)

/* Gets, checks and frees. */
#define CHECK_I64(ref, wanted) CHECK_EQ(test_i64((ref), __FILE__, __LINE__), (wanted))
int64_t test_i64(manta_ref *take_ref, const char *file, int line);
/* Gets the failure of `ref`, whose code must be `wanted`, and frees it. */
#define CHECK_FAILS(ref, wanted, e) test_fails((ref), (wanted), (e), __FILE__, __LINE__)
void test_fails(manta_ref *take_ref, manta_status wanted, manta_error *e, const char *file, int line);

/* ---- a page that driver and workers on this machine share ---- */
struct test_board {
    _Atomic int64_t words[TEST_BOARD_WORDS];
};
/* Never NULL; *number goes to the workers as an argument. Lives as long as the driver. */
struct test_board *test_board_new(uint64_t *number);
struct test_board *test_board_map(uint64_t number);
/* Waits until the word is at least `wanted`; false after TEST_WAIT_MS. */
bool test_board_wait(_Atomic int64_t *word, int64_t wanted);

/* ---- processes ---- */
void    test_sleep_ms(int ms);
int64_t test_now_ms(void);
/* Waits, by pidfd, until there is no such process (or only its zombie). */
bool test_gone(int pid);
/* Pids below `root` whose program is `name`; how many, at most `max`. */
int test_find(int root, const char *name, int *pids, int max);
/* Processes other than this one that have the file open. */
int test_holders(const char *path);
/* Runs a program, waits, and gives its output (both streams, cut at `size`). Returns its exit status, or 128 + signal. */
int test_program(char *const argv[], char *output, size_t size);
/* Whether a write of this byte ends its process by SIGSEGV, tried in a forked child. What is shared with others is changed by a
 * write that does go through. */
bool test_write_faults(const void *at);
/* Folder of the programs under test. */
const char *test_bin(void);

#endif
