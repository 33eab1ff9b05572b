/* SPDX-License-Identifier: Apache-2.0
 *
 * journal_test.c - what the journal calls durable is there after a power cut (tests/plug), with all that it
 * needs to be found.
 */
#include "sweep/journal/journal.h"

#include "tests/plug/plug.h"
#include "tests/unit/sweep/ahead.h"
#include "tests/unit/sweep/test.h"

#include "core/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 12, ROUND_RECORDS = 40, TEXT_SIZE = 48 * 1024 }; /* 23 MB: more than the log holds before it is copied */

static char place[64], disk[96], notes[96], after[96], found[128], folder[128];

static int place_make(void **state)
{
    (void)state;
    snprintf(place, sizeof place, "/tmp/manta-journal-XXXXXX");
    if (!mkdtemp(place))
        return -1;
    snprintf(disk, sizeof disk, "%s/disk", place);
    snprintf(notes, sizeof notes, "%s/notes", place);
    snprintf(after, sizeof after, "%s/after", place);
    snprintf(folder, sizeof folder, "%s/sweeps/one", disk);
    snprintf(found, sizeof found, "%s/sweeps/one", after);
    plug_watch(disk, notes);
    return mkdir(disk, 0700) + mkdir(notes, 0700);
}

static void tree_remove(const char *path)
{
    pid_t pid = fork();
    if (pid == 0)
        execl("/bin/rm", "rm", "-rf", path, (char *)NULL);
    waitpid(pid, NULL, 0);
}

static int place_remove(void **state)
{
    (void)state;
    plug_watch("", "");
    tree_remove(place);
    return 0;
}

static void pull(void)
{
    tree_remove(after);
    if (plug_pull(disk, notes, after) != 0)
        fail_msg("%s", strerror(errno));
}

static struct swp_journal *journal_open(const char *where, bool create)
{
    char                text[MT_ERROR_BYTES_MAX];
    struct swp_journal *j;
    if (swp_journal_open(where, create, false, &j, text).code != 0)
        fail_msg("%s", text);
    return j;
}

static struct swp_record record_of(uint64_t seq)
{
    struct swp_record r = {.seq = seq, .kind = SWP_REC_SUGGEST, .trial = (int64_t)seq * 3, .value = 0.5 * (double)seq};
    char             *text = calloc(1, TEXT_SIZE + 1);
    assert_non_null(text);
    memset(text, 'a' + (int)(seq % 26), TEXT_SIZE);
    r.text = text;
    return r;
}

static mt_status record_check(void *user, const struct swp_record *r)
{
    uint64_t         *count = user;
    struct swp_record want = record_of(++*count);
    assert_true(r->seq == want.seq && r->trial == want.trial && r->value == want.value);
    assert_string_equal(r->text, want.text);
    free((char *)want.text);
    return mt_ok();
}

/* What a driver finds that begins where the power came back: all that was durable, and nothing but what was
 * pushed. */
static void check_found(uint64_t durable)
{
    struct swp_journal *j = journal_open(found, false);
    uint64_t            count = 0;
    mt_buf              seed = {0};
    assert_ok(swp_journal_get(j, "seed", &seed));
    assert_string_equal((const char *)seed.data, "61");
    assert_ok(swp_journal_read(j, record_check, &count));
    assert_true(count >= durable);
    mt_buf_fini(&seed);
    swp_journal_close(j);
}

static void what_is_durable_outlives_the_power(void **state)
{
    struct swp_journal *j = journal_open(folder, true);
    struct swp_news     news = {0};
    uint64_t            seq = 0;
    (void)state;
    assert_ok(swp_journal_set(j, "seed", "61"));
    assert_ok(swp_journal_start(j));
    pull();
    check_found(0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROUND_RECORDS; i++) {
            struct swp_record r = record_of(++seq);
            assert_ok(swp_journal_push(j, &r));
        }
        assert_ok(swp_journal_flush(j));
        swp_journal_news(j, &news);
        assert_int_equal(news.durable, seq);
        pull();
        check_found(news.durable);
    }
    mt_vec_fini(&news.copies);
    mt_vec_fini(&news.words);
    swp_journal_close(j);
    pull();
    check_found(seq);
}

/* Else the test above would say nothing. */
static void the_plug_forgets_what_was_not_synced(void **state)
{
    char        path[160];
    struct stat info;
    (void)state;
    snprintf(path, sizeof path, "%s/file", disk);
    int fd = open(path, O_WRONLY | O_CREAT, 0600), top = open(disk, O_RDONLY | O_DIRECTORY);
    assert_int_equal(write(fd, "one", 3), 3);
    snprintf(path, sizeof path, "%s/file", after);
    pull();
    assert_int_equal(stat(path, &info), -1); /* no name */
    assert_int_equal(fsync(top), 0);
    pull();
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 0); /* a name, and nothing in it */
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(write(fd, "two", 3), 3);
    pull();
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);
    close(fd);
    close(top);
}

/* ---- a disk that is full ---- */

static void disk_fill(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes; /* no file of this process grows beyond */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Looks for news until it is so, for at most 20 s. Returns the words that came meanwhile. */
static int news_until(struct swp_journal *j, struct swp_news *news, bool is_full, bool is_behind, uint64_t durable)
{
    int words = 0;
    for (int64_t until = mt_now_ns() + 20 * 1000000000ll; mt_now_ns() < until; mt_sleep_ms(10)) {
        swp_journal_news(j, news);
        for (size_t i = 0; i < news->words.count; i++)
            words += news->words.data[i].what == SWP_CONTROL_STOP;
        if (news->is_full == is_full && news->is_behind == is_behind && news->durable >= durable)
            return words;
    }
    fail_msg("full %d, behind %d, durable %llu", news->is_full, news->is_behind, (unsigned long long)news->durable);
    return words;
}

/* What waits for room is bounded: from a limit on the journal says that it is behind. All of it is written when there is room. */
static void a_full_disk_holds_the_caller(void **state)
{
    struct swp_news     news = {0};
    uint64_t            seq = 0, most = SWP_JOURNAL_BYTES_MAX / TEXT_SIZE + 8, count = 0; /* five may find room before it is full */
    struct swp_record   r;
    struct swp_journal *j = journal_open(folder, true);
    (void)state;
    assert_ok(swp_journal_set(j, "seed", "61"));
    assert_ok(swp_journal_start(j));
    disk_fill(256 * 1024);
    while (seq < most / 2)
        r = record_of(++seq), assert_ok(swp_journal_push(j, &r));
    assert_int_equal(news_until(j, &news, true, false, 0), 0);
    while (seq < most)
        r = record_of(++seq), assert_ok(swp_journal_push(j, &r));
    (void)news_until(j, &news, true, true, 0);
    disk_fill(RLIM_INFINITY);
    (void)news_until(j, &news, false, false, seq);
    assert_ok(news.failed);
    swp_journal_close(j);
    j = journal_open(folder, false);
    assert_ok(swp_journal_read(j, record_check, &count));
    assert_int_equal(count, seq);
    swp_journal_close(j);
    mt_vec_fini(&news.copies);
    mt_vec_fini(&news.words);
}

/* Who stops a sweep whose disk is full is heard, though the disk has no room for his word. The next driver does not heed it. */
static void a_full_disk_hears_a_stop(void **state)
{
    char                text[MT_ERROR_BYTES_MAX], path[256];
    struct swp_news     news = {0};
    uint64_t            seq = 0;
    struct swp_journal *j = journal_open(folder, true);
    (void)state;
    assert_ok(swp_journal_set(j, "seed", "61"));
    assert_ok(swp_journal_start(j));
    disk_fill(256 * 1024);
    while (seq < ROUND_RECORDS) {
        struct swp_record r = record_of(++seq);
        assert_ok(swp_journal_push(j, &r));
    }
    (void)news_until(j, &news, true, false, 0);
    disk_fill(0); /* not a row fits */
    assert_code(swp_journal_tell(folder, SWP_CONTROL_TRIALS, 5, text), MT_EDISK_FULL);
    assert_ok(swp_journal_tell(folder, SWP_CONTROL_STOP, 0, text));
    snprintf(path, sizeof path, "%s/stop", folder);
    assert_int_equal(access(path, F_OK), 0);
    int words = 0;
    for (int i = 0; i < 2000 && !words; i++) {
        mt_sleep_ms(10);
        words = news_until(j, &news, true, false, 0);
    }
    assert_int_equal(words, 1); /* once */
    mt_sleep_ms(300);
    assert_int_equal(news_until(j, &news, true, false, 0), 0);
    swp_journal_give_up(j);
    disk_fill(RLIM_INFINITY);
    swp_journal_close(j);
    j = journal_open(folder, true);
    assert_ok(swp_journal_start(j));
    assert_int_equal(access(path, F_OK), -1);
    swp_journal_close(j);
    mt_vec_fini(&news.copies);
    mt_vec_fini(&news.words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_plug_forgets_what_was_not_synced, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_is_durable_outlives_the_power, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_full_disk_holds_the_caller, place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_full_disk_hears_a_stop, place_make, place_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
