/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_test.c - files of other machines by their sum: fetched once, bounded, whole or absent, one process at a time.
 */
#include "sgd/data/kept.h"
#include "tests/unit/sgd/temp.h"

#include "core/base/clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sgd_kept kept;
static char            folder[TEMP_PATH], path[SGD_KEPT_PATH_BYTES];

/* What a source gives: `size` bytes of one letter. */
struct source {
    char     letter, gives;
    uint64_t size;
    int      asked;
    int      fail_at, pause_ms; /* 0: never */
};

static mt_status give(void *user, uint64_t at, void *out, size_t size)
{
    struct source *s = user;
    assert_true(at + size <= s->size);
    s->asked++;
    if (s->pause_ms)
        mt_sleep_ms(s->pause_ms);
    if (s->asked == s->fail_at)
        return mt_error(MT_ECONN, 0, "it went away");
    memset(out, s->gives ? s->gives : s->letter, size);
    return mt_ok();
}

static mt_status get(struct source *s)
{
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    mt_sha256_init(&sha);
    for (uint64_t i = 0; i < s->size; i++)
        mt_sha256_add(&sha, &s->letter, 1);
    mt_sha256_end(&sha, sum);
    return sgd_kept_get(&kept, sum, s->size, give, s, path);
}

static bool holds(const struct source *s)
{
    char    first = 0;
    int     fd = open(path, O_RDONLY);
    off_t   size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    ssize_t n = fd >= 0 ? pread(fd, &first, 1, 0) : -1;
    close(fd);
    return size == (off_t)s->size && n == 1 && first == s->letter;
}

static int begin(void **state)
{
    if (temp_make(state) != 0)
        return -1;
    temp_path(state, "kept", folder);
    return sgd_kept_open(&kept, folder, 250).code;
}

static int end(void **state)
{
    sgd_kept_close(&kept);
    return temp_remove(state);
}

static void once(void **state)
{
    (void)state;
    struct source a = {.letter = 'a', .size = 100};
    assert_int_equal(get(&a).code, MT_OK);
    assert_true(holds(&a) && a.asked == 1);
    assert_int_equal(get(&a).code, MT_OK);
    assert_true(holds(&a) && a.asked == 1);
}

static void oldest_goes(void **state)
{
    (void)state;
    struct source a = {.letter = 'a', .size = 100}, b = {.letter = 'b', .size = 100}, c = {.letter = 'c', .size = 100};
    assert_int_equal(get(&a).code, MT_OK);
    mt_sleep_ms(20); /* the clock of a file system has ticks */
    assert_int_equal(get(&b).code, MT_OK);
    mt_sleep_ms(20);
    assert_int_equal(get(&a).code, MT_OK); /* b was used longest ago now */
    mt_sleep_ms(20);
    assert_int_equal(get(&c).code, MT_OK);
    assert_int_equal(get(&a).code, MT_OK);
    assert_int_equal(a.asked, 1);
    assert_int_equal(get(&b).code, MT_OK);
    assert_int_equal(b.asked, 2);
}

/* Nothing of what failed stays, and what was there before does. */
static void whole_or_absent(void **state)
{
    (void)state;
    struct source a = {.letter = 'a', .size = 100}, large = {.letter = 'l', .size = 251};
    struct source other = {.letter = 'o', .gives = 'x', .size = 100}, gone = {.letter = 'g', .size = 100, .fail_at = 1};
    char          part[TEMP_PATH + 8];
    assert_int_equal(get(&a).code, MT_OK);
    assert_int_equal(get(&large).code, MT_EDISK_FULL);
    assert_int_equal(large.asked, 0);
    assert_int_equal(get(&other).code, MT_ECORRUPT);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(get(&gone).code, MT_ECONN);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(part, sizeof part, "%s/part", folder);
    assert_int_equal(access(part, F_OK), -1);
    gone.fail_at = 0;
    assert_int_equal(get(&gone).code, MT_OK);
    assert_int_equal(get(&a).code, MT_OK);
    assert_int_equal(a.asked, 1);
}

static void of_others(void **state)
{
    struct sgd_kept no;
    char            link[TEMP_PATH];
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(sgd_kept_open(&no, folder, 250).code, MT_ESYS);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(symlink(folder, temp_path(state, "link", link)), 0);
    assert_int_equal(sgd_kept_open(&no, link, 250).code, MT_ESYS);
}

/* Returns when it has begun, or has ended already: then *status is not -1. */
static pid_t fetch_apart(struct source *s, int *status)
{
    char  part[TEMP_PATH + 8];
    pid_t pid = fork();
    if (pid == 0) {
        sgd_kept_close(&kept);
        _exit(sgd_kept_open(&kept, folder, 250).code || get(s).code);
    }
    assert_true(pid > 0);
    snprintf(part, sizeof part, "%s/part", folder);
    for (*status = -1; access(part, F_OK) != 0 && waitpid(pid, status, WNOHANG) == 0;)
        mt_sleep_ms(1);
    return pid;
}

/* One waits for the other, and asks for nothing; unless that one is killed. */
static void two_processes(void **state)
{
    (void)state;
    struct source a = {.letter = 'a', .size = 100, .pause_ms = 200};
    int           status;
    pid_t         pid = fetch_apart(&a, &status);
    assert_int_equal(get(&a).code, MT_OK);
    assert_int_equal(a.asked, 0);
    assert_true(status != -1 || waitpid(pid, &status, 0) == pid);
    assert_true(status == 0 && holds(&a));
    struct source b = {.letter = 'b', .size = 100, .pause_ms = 60000};
    pid = fetch_apart(&b, &status);
    assert_int_equal(kill(pid, SIGKILL), 0);
    b.pause_ms = 0;
    assert_int_equal(get(&b).code, MT_OK);
    assert_true(b.asked == 1 && holds(&b));
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(once, begin, end),
        cmocka_unit_test_setup_teardown(oldest_goes, begin, end),
        cmocka_unit_test_setup_teardown(whole_or_absent, begin, end),
        cmocka_unit_test_setup_teardown(of_others, begin, end),
        cmocka_unit_test_setup_teardown(two_processes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
