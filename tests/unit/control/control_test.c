/* SPDX-License-Identifier: Apache-2.0
 *
 * control_test.c - libmanta_client without a cluster: where it looks for one, what it says when there is none, which files
 * a job brings and where they land.
 */
#include "clients/control/control.h"
#include "clients/control/indices.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    char folder[64], before[512];
};

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* Each test runs in an empty folder, which is its HOME too. */
static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    *state = p;
    snprintf(p->folder, sizeof p->folder, "/tmp/manta-control-XXXXXX");
    if (!p || !getcwd(p->before, sizeof p->before) || !mkdtemp(p->folder) || chdir(p->folder) != 0)
        return -1;
    unsetenv("MANTA_ADDRESS");
    unsetenv("MANTA_TOKEN_FILE");
    unsetenv("MANTA_CONFIG");
    setenv("HOME", p->folder, 1);
    setenv("XDG_RUNTIME_DIR", p->folder, 1);
    return 0;
}

static void remove_tree(const char *path)
{
    char  command_path[] = "/bin/rm";
    char *argv[] = {command_path, (char *)"-rf", (char *)path, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execv(command_path, argv);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static int teardown(void **state)
{
    struct place *p = *state;
    int           rc = chdir(p->before);
    remove_tree(p->folder);
    free(p);
    return rc;
}

/* ---- ids and errors ---- */

static void ids_differ_and_are_fit_for_a_file_name(void **state)
{
    (void)state;
    const char *a = manta_job_new_id(), *b = manta_job_new_id();
    assert_string_not_equal(a, b);
    assert_int_equal(strspn(a, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(a));
    assert_true(strlen(a) < 64);
}

static void an_error_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(ctl_fail(NULL, MT_EINVAL, MANTA_NOT_DONE, "%d", 1), MANTA_EINVAL);
    assert_null(manta_client_open(NULL, NULL));
    manta_client_close(NULL);
}

/* ---- where the cluster is ---- */

static void it_says_that_there_is_no_cluster_and_how_to_get_one(void **state)
{
    (void)state;
    manta_error e;
    assert_null(manta_client_open(NULL, &e));
    assert_int_equal(e.code, MANTA_ENOENT);
    assert_non_null(strstr(e.message, "manta start --head"));
    assert_non_null(strstr(e.message, "MANTA_ADDRESS"));
}

static void the_address_comes_from_the_nearest_place(void **state)
{
    (void)state;
    struct ctl_place  place;
    manta_client_opts none = {0}, opts = {.address = "10.0.0.1:1", .token_file = "t"};
    manta_error       e;
    assert_int_equal(mkdir("manta", 0700), 0); /* of this machine */
    write_file("manta/head.addr", "127.0.0.1:5\ntoken_file=/run/token\npid=1\n", 0600);
    assert_int_equal(ctl_place_find(&none, &place, &e), MANTA_OK);
    assert_string_equal(place.address, "127.0.0.1:5");
    assert_string_equal(place.token_file, "/run/token");
    assert_int_equal(mkdir(".manta", 0700), 0); /* the settings file */
    write_file(".manta/config", "# mine\naddress=cluster:7\ntoken_file=/home/me/token\n", 0600);
    assert_int_equal(ctl_place_find(&none, &place, &e), MANTA_OK);
    assert_string_equal(place.address, "cluster:7");
    assert_string_equal(place.token_file, "/home/me/token");
    setenv("MANTA_ADDRESS", "other:8", 1);
    assert_int_equal(ctl_place_find(&none, &place, &e), MANTA_OK);
    assert_string_equal(place.address, "other:8");
    assert_string_equal(place.token_file, "/home/me/token");
    setenv("MANTA_ADDRESS", "./manta", 1); /* a runtime folder */
    assert_int_equal(ctl_place_find(&none, &place, &e), MANTA_OK);
    assert_string_equal(place.address, "127.0.0.1:5");
    write_file("manta/head.addr", "127.0.0.1:6\ntoken_file=/run/token\npid=2\n", 0600); /* the head came back */
    assert_true(ctl_place_refresh(&place));
    assert_string_equal(place.address, "127.0.0.1:6");
    assert_false(ctl_place_refresh(&place));
    assert_int_equal(ctl_place_find(&opts, &place, &e), MANTA_OK);
    assert_string_equal(place.address, "10.0.0.1:1");
    assert_string_equal(place.token_file, "t");
}

static void wrong_places_are_named(void **state)
{
    (void)state;
    struct ctl_place  place;
    manta_client_opts opts = {.address = "nonsense"};
    manta_error       e;
    assert_int_equal(ctl_place_find(&opts, &place, &e), MANTA_EINVAL);
    assert_non_null(strstr(e.message, "nonsense"));
    opts.address = "host:1"; /* whose token? */
    assert_int_equal(ctl_place_find(&opts, &place, &e), MANTA_EAUTH);
    assert_non_null(strstr(e.message, "MANTA_TOKEN_FILE"));
    setenv("MANTA_CONFIG", "/no/such/file", 1);
    opts.address = NULL;
    assert_int_equal(ctl_place_find(&opts, &place, &e), MANTA_ENOENT);
    assert_non_null(strstr(e.message, "/no/such/file"));
    write_file("cut", "127.0.0.1:5", 0600); /* half a head.addr is none */
    assert_int_equal(mkdir("run", 0700), 0);
    assert_int_equal(rename("cut", "run/head.addr"), 0);
    opts.address = "./run";
    assert_int_equal(ctl_place_find(&opts, &place, &e), MANTA_ECONN);
}

/* ---- files ---- */

static const struct ctl_file *file_at(const struct ctl_files *files, const char *path)
{
    for (size_t i = 0; i < files->items.count; i++)
        if (strcmp(files->items.data[i].path, path) == 0)
            return &files->items.data[i];
    return NULL;
}

static void files_land_where_they_lie_or_under_their_last_name(void **state)
{
    (void)state;
    struct ctl_files files;
    manta_error      e;
    char             hex[MT_SHA256_HEX_SIZE], absolute[128];
    struct place    *p = *state;
    assert_int_equal(mkdir("data", 0700), 0);
    assert_int_equal(mkdir("data/deep", 0700), 0);
    write_file("trainer", "abc", 0700);
    write_file("data/one", "", 0600);
    write_file("data/deep/two", "2", 0600);
    assert_int_equal(symlink("../trainer", "data/linked"), 0);
    snprintf(absolute, sizeof absolute, "%s/data/deep", p->folder);
    const char *const names[] = {"./trainer", "data/", absolute, NULL};
    assert_int_equal(ctl_files_collect(names, &files, &e), MANTA_OK);
    assert_int_equal(files.items.count, 5);
    const struct ctl_file *trainer = file_at(&files, "trainer");
    assert_non_null(trainer);
    assert_int_equal(trainer->mode, 0755);
    assert_int_equal(trainer->size, 3);
    assert_string_equal(mt_sha256_hex(trainer->sha256, hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(file_at(&files, "data/one")->mode, 0644);
    assert_int_equal(file_at(&files, "data/one")->size, 0);
    assert_non_null(file_at(&files, "data/deep/two"));
    assert_int_equal(file_at(&files, "data/linked")->size, 3); /* the content of what it points to */
    assert_non_null(file_at(&files, "deep/two"));
    ctl_files_fini(&files);
    assert_int_equal(ctl_files_collect(NULL, &files, &e), MANTA_OK);
    assert_int_equal(files.items.count, 0);
    ctl_files_fini(&files);
}

static void collect_fails(const char *const *names, int code, const char *says)
{
    struct ctl_files files;
    manta_error      e;
    assert_int_equal(ctl_files_collect(names, &files, &e), code);
    if (!strstr(e.message, says))
        fail_msg("\"%s\" does not say \"%s\"", e.message, says);
}

static void files_that_cannot_be_brought_are_named(void **state)
{
    (void)state;
    collect_fails((const char *const[]){"missing", NULL}, MANTA_ENOENT, "missing");
    collect_fails((const char *const[]){"", NULL}, MANTA_EINVAL, "does not name");
    collect_fails((const char *const[]){"..", NULL}, MANTA_EINVAL, "does not name");
    collect_fails((const char *const[]){"/", NULL}, MANTA_EINVAL, "does not name");
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("b", 0700), 0);
    write_file("a/x", "1", 0600);
    write_file("x", "2", 0600);
    collect_fails((const char *const[]){"x", "./a/../a/x", NULL}, MANTA_EINVAL, "would both be x");
    assert_int_equal(symlink("..", "b/up"), 0);
    collect_fails((const char *const[]){"b", NULL}, MANTA_EINVAL, "b/up");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    collect_fails((const char *const[]){"pipe", NULL}, MANTA_EINVAL, "pipe");
}

static void wrong_jobs_do_not_reach_the_cluster(void **state)
{
    (void)state;
    manta_error e;
    manta_job   job = {.argv = (const char *const[]){"x", NULL}};
    assert_int_equal(manta_job_submit(NULL, &job, &e), MANTA_EINVAL);
    job.id = "j";
    job.argv = NULL;
    assert_int_equal(manta_job_submit(NULL, &job, &e), MANTA_EINVAL);
    job.argv = (const char *const[]){"x", NULL};
    job.cpus = -1;
    assert_int_equal(manta_job_submit(NULL, &job, &e), MANTA_EINVAL);
    assert_non_null(strstr(e.message, "negative"));
}

static void indices_are_read_as_slurm_writes_them(void **state)
{
    static const struct {
        const char *text;
        size_t      size;
        uint32_t    count, most, last[3]; /* first, last and step of the last range */
    } right[] = {
        {"7", 1, 1, 0, {7, 7, 1}},
        {"0-9", 1, 10, 0, {0, 9, 1}},
        {"0-9:3%2", 1, 4, 2, {0, 9, 3}},
        {"1,3,5-999999:7%1", 3, 142859, 1, {5, 999999, 7}},
    };
    static const char *const wrong[][2] = {
        {"", "0 to 999999"},   {"-1", "0 to 999999"},         {"1,", "0 to 999999"},  {"1,,2", "0 to 999999"},
        {"0-", "0 to 999999"}, {"1000000", "0 to 999999"},    {"9-0", "not above"},   {"0-9:0", "a step is"},
        {"0-9:", "a step is"}, {"0-9%", "at a time"},         {"0-9%0", "at a time"}, {"0-9%2%3", "indices are as"},
        {"a", "0 to 999999"},  {"0-9%2,3", "indices are as"}, {"1:2", "indices are"}, {" 1", "0 to 999999"},
    };
    manta_error e;
    manta_job   job = {.id = "j", .argv = (const char *const[]){"x", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct ctl_indices indices;
        assert_null(ctl_indices_read(right[i].text, &indices));
        assert_int_equal(indices.size, right[i].size);
        assert_int_equal(indices.count, right[i].count);
        assert_int_equal(indices.most, right[i].most);
        const Manta__V1__IndexRange *last = indices.list[indices.size - 1];
        assert_true(last->first == right[i].last[0] && last->last == right[i].last[1] && last->step == right[i].last[2]);
        ctl_indices_fini(&indices);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job.array_indices = wrong[i][0];
        assert_int_equal(manta_job_submit(NULL, &job, &e), MANTA_EINVAL);
        if (!strstr(e.message, wrong[i][1]))
            fail_msg("\"%s\": %s", wrong[i][0], e.message);
    }
    job.array_indices = "0-9";
    job.array = 10;
    assert_int_equal(manta_job_submit(NULL, &job, &e), MANTA_EINVAL);
    assert_non_null(strstr(e.message, "or by their indices"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(ids_differ_and_are_fit_for_a_file_name),
        TEST(an_error_may_be_null),
        TEST(it_says_that_there_is_no_cluster_and_how_to_get_one),
        TEST(the_address_comes_from_the_nearest_place),
        TEST(wrong_places_are_named),
        TEST(files_land_where_they_lie_or_under_their_last_name),
        TEST(files_that_cannot_be_brought_are_named),
        TEST(wrong_jobs_do_not_reach_the_cluster),
        TEST(indices_are_read_as_slurm_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
