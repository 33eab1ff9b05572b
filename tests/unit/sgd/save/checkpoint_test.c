/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_test.c - a checkpoint is whole or absent, whatever fails or dies while it is written; damage is
 * found, and the newest whole one is used.
 *
 * The linker wraps the system calls of a save (--wrap), so that each of them can be made to fail, or to be
 * the last thing that the process does.
 */
#include "tests/mounts.h"
#include "tests/unit/sgd/temp.h"

#include "sgd/save/checkpoint.h"
#include "sgd/ground/checksum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- faults ---- */

static struct {
    unsigned calls, at; /* the `at`-th call fails; 0: none */
    int      error;     /* with this errno; 0: the process ends there */
} fault;

static bool fault_now(void)
{
    if (++fault.calls != fault.at)
        return false;
    if (!fault.error)
        _exit(9);
    errno = fault.error;
    return true;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    /* Half of the bytes reach the file before the failure. */
    if (fault.at && fault.calls + 1 == fault.at)
        (void)!__real_write(fd, data, size / 2);
    return fault_now() ? -1 : __real_write(fd, data, size);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return fault_now() ? -1 : __real_fsync(fd);
}

int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
    return fault_now() ? -1 : __real_mkdirat(dir, name, mode);
}

int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new)
{
    return fault_now() ? -1 : __real_renameat(from, old, to, new);
}

int __real_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return fault_now() ? -1 : __real_renameat2(from, old, to, new, flags);
}

int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
    return fault_now() ? -1 : __real_unlinkat(dir, name, flags);
}

/* ---- a small state, different for each value ---- */

enum { COUNT = 24 };

static mt_status save_sized(const char *folder, uint32_t keep, uint64_t step, uint64_t generation, float value, size_t count)
{
    struct sgd_checkpoint_meta meta = {.step = step,
                                       .epoch = step / 10,
                                       .samples = step * 96,
                                       .seed = UINT64_MAX,
                                       .data = 7,
                                       .generation = generation,
                                       .kernels = "test"};
    float                     *data = malloc(count * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = value + (float)i;
    struct sgd_tensor tensors[2] = {
        {.name = "w", .dtype = SGD_F32, .ndim = 2, .shape = {2, (count - 8) / 2}, .data = data},
        {.name = "b", .dtype = SGD_F32, .ndim = 1, .shape = {8}, .data = data + (count - 8)},
    };
    mt_status st = sgd_checkpoint_save(folder, &(struct sgd_keep){.newest = keep}, &meta, tensors, 2);
    free(data);
    return st;
}

static mt_status save(const char *folder, uint32_t keep, uint64_t step, uint64_t generation, float value)
{
    return save_sized(folder, keep, step, generation, value, COUNT);
}

/* The newest valid checkpoint must be of this step and value, whole, with so many passed over. */
static void expect_newest(const char *folder, uint64_t step, float value, uint32_t skipped)
{
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;
    mt_status                    st = sgd_checkpoint_load(folder, &checkpoint, &report);
    if (st.code != 0)
        fail_msg("load: %s %s", mt_code_name(st.code), st.what);
    assert_int_equal(checkpoint.meta.step, step);
    assert_int_equal(checkpoint.meta.samples, step * 96);
    assert_int_equal(checkpoint.meta.seed, UINT64_MAX);
    assert_int_equal(report.skipped_count, skipped);
    const struct sgd_tensor *w = sgd_checkpoint_find(&checkpoint, "w"), *b = sgd_checkpoint_find(&checkpoint, "b");
    assert_true(w && b && w->end - w->begin == (COUNT - 8) * 4 && b->end - b->begin == 32);
    assert_null(sgd_checkpoint_find(&checkpoint, "x"));
    for (size_t i = 0; i < COUNT; i++)
        assert_true((i < COUNT - 8 ? ((const float *)w->data)[i] : ((const float *)b->data)[i - (COUNT - 8)]) == value + (float)i);
    sgd_checkpoint_fini(&checkpoint);
}

static uint64_t newest_step(const char *folder)
{
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;
    assert_int_equal(sgd_checkpoint_load(folder, &checkpoint, &report).code, MT_OK);
    uint64_t step = checkpoint.meta.step;
    sgd_checkpoint_fini(&checkpoint);
    return step;
}

/* Entries of a folder whose names begin so. */
static unsigned entries(const char *folder, const char *prefix)
{
    unsigned count = 0;
    DIR     *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        count += strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return count;
}

static int folder_make(void **state)
{
    memset(&fault, 0, sizeof fault);
    return temp_make(state);
}

/* ---- tests ---- */

static void the_newest_is_loaded_and_old_ones_go(void **state)
{
    const char                  *folder = *state;
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;
    assert_int_equal(sgd_checkpoint_load(folder, &checkpoint, &report).code, MT_ENOENT);
    for (uint64_t step = 5; step <= 25; step += 5)
        assert_int_equal(save(folder, 3, step, 1, (float)step).code, MT_OK);
    expect_newest(folder, 25, 25, 0);
    assert_int_equal(entries(folder, "step-"), 3);
    assert_int_equal(entries(folder, ""), 3);
    char path[TEMP_PATH];
    assert_int_equal(sgd_checkpoint_load(temp_path(state, "none", path), &checkpoint, &report).code, MT_ENOENT);
    assert_int_equal(save(temp_path(state, "a/b", path), 3, 5, 1, 5).code, MT_ENOENT);
    assert_int_equal(save(temp_path(state, "new", path), 3, 5, 1, 5).code, MT_OK);
}

static void a_step_is_replaced_but_not_by_the_past(void **state)
{
    const char *folder = *state;
    assert_int_equal(save(folder, 2, 10, 2, 1).code, MT_OK);
    assert_int_equal(save(folder, 2, 10, 2, 2).code, MT_OK);
    expect_newest(folder, 10, 2, 0);
    assert_int_equal(save(folder, 2, 10, 3, 3).code, MT_OK);
    expect_newest(folder, 10, 3, 0);
    assert_int_equal(save(folder, 2, 10, 2, 4).code, MT_EFENCED);
    expect_newest(folder, 10, 3, 0);
    assert_int_equal(entries(folder, ""), 1);
}

static void what_dead_savers_left_is_removed(void **state)
{
    char path[TEMP_PATH];
    assert_int_equal(mkdir(temp_path(state, ".tmp-1-7-00", path), 0755), 0);
    file_put(temp_path(state, ".tmp-1-7-00/model.safetensors", path), "x", 1);
    assert_int_equal(mkdir(temp_path(state, ".tmp-9-7-00", path), 0755), 0); /* a later generation is at work */
    assert_int_equal(save(*state, 2, 10, 2, 1).code, MT_OK);
    assert_int_equal(entries(*state, ".tmp-"), 1);
    assert_int_equal(access(temp_path(state, ".tmp-9-7-00", path), F_OK), 0);
}

/* Two checkpoints; `file` of the newer is damaged by each function in turn. */
static void each_damage(void **state, const char *file, bool is_truncation)
{
    char   path[TEMP_PATH], name[96];
    size_t size;
    assert_int_equal(save(*state, 2, 10, 1, 1).code, MT_OK);
    assert_int_equal(save(*state, 2, 20, 1, 2).code, MT_OK);
    snprintf(name, sizeof name, "step-00000000000000000020/%s", file);
    unsigned char *bytes = file_get(temp_path(state, name, path), &size);
    for (size_t i = 0; i < size; i++) {
        if (is_truncation) {
            file_put(path, bytes, i);
        } else {
            unsigned char bit = (unsigned char)(1u << i % 8);
            bytes[i] ^= bit;
            file_put(path, bytes, size);
            bytes[i] ^= bit;
        }
        expect_newest(*state, 10, 1, 1);
    }
    file_put(path, bytes, size);
    expect_newest(*state, 20, 2, 0);
    assert_int_equal(unlink(path), 0);
    expect_newest(*state, 10, 1, 1);
    free(bytes);
}

static void a_truncated_model_is_passed_over(void **state)
{
    each_damage(state, "model.safetensors", true);
}
static void a_truncated_manifest_is_passed_over(void **state)
{
    each_damage(state, "manifest.json", true);
}
static void any_flipped_bit_of_the_model_is_found(void **state)
{
    each_damage(state, "model.safetensors", false);
}
static void any_flipped_bit_of_the_manifest_is_found(void **state)
{
    each_damage(state, "manifest.json", false);
}

/* Before a manifest named the data, it named the number of parts only where there were any. */
static void a_manifest_of_an_older_version_is_read(void **state)
{
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;
    char                         path[TEMP_PATH], text[4096];
    size_t                       size;
    assert_int_equal(save(*state, 2, 10, 1, 1).code, MT_OK);
    char       *bytes = (char *)file_get(temp_path(state, "step-00000000000000000010/manifest.json", path), &size);
    const char *rest = memmem(bytes, size, ",\"step\"", 7), *end = memchr(bytes, '\n', size);
    assert_true(rest && end && memmem(bytes, size, "\"data\":\"0000000000000007\"", 25));
    int n = snprintf(text, sizeof text, "{\"format\":\"manta-checkpoint-2\"%.*s\n", (int)(end - rest), rest);
    n += snprintf(text + n, sizeof text - (size_t)n, "xxh3 %016llx\n", (unsigned long long)sgd_checksum(text, (size_t)n));
    file_put(path, (unsigned char *)text, (size_t)n);
    assert_int_equal(sgd_checkpoint_load(*state, &checkpoint, &report).code, MT_OK);
    assert_true(checkpoint.meta.step == 10 && checkpoint.meta.data == 0 && checkpoint.meta.parts == 0);
    sgd_checkpoint_fini(&checkpoint);
    free(bytes);
}

static void the_report_names_what_was_passed_over(void **state)
{
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;
    char                         path[TEMP_PATH], other[TEMP_PATH];
    size_t                       size;
    for (uint64_t step = 10; step <= 40; step += 10)
        assert_int_equal(save(*state, 9, step, 1, (float)step).code, MT_OK);
    unsigned char *bytes = file_get(temp_path(state, "step-00000000000000000040/model.safetensors", path), &size);
    bytes[size - 1] ^= 1;
    file_put(path, bytes, size);
    file_put(temp_path(state, "step-00000000000000000030/manifest.json", path), bytes, 9);
    free(bytes);
    temp_path(state, "step-00000000000000000020", path);
    assert_int_equal(rename(path, temp_path(state, "step-00000000000000000025", other)), 0);
    assert_int_equal(sgd_checkpoint_load(*state, &checkpoint, &report).code, MT_OK);
    assert_int_equal(checkpoint.meta.step, 10);
    sgd_checkpoint_fini(&checkpoint);
    assert_int_equal(report.skipped_count, 3);
    assert_string_equal(report.skipped[0].name, "step-00000000000000000040");
    assert_int_equal(report.skipped[0].why.code, MT_ECORRUPT);
    assert_string_equal(report.skipped[0].tensor, "b");
    assert_string_equal(report.skipped[1].name, "step-00000000000000000030");
    assert_int_equal(report.skipped[1].why.code, MT_ECORRUPT);
    assert_string_equal(report.skipped[1].tensor, "");
    assert_string_equal(report.skipped[2].name, "step-00000000000000000025");
    assert_int_equal(report.skipped[2].why.code, MT_ECORRUPT);
    temp_clear(temp_path(state, "step-00000000000000000010", path));
    assert_int_equal(sgd_checkpoint_load(*state, &checkpoint, &report).code, MT_ENOENT);
    assert_int_equal(report.skipped_count, 3);
}

/* A resume from step 10 past a damaged step 100: the good one is not pushed out by the bad. */
static void a_damaged_later_one_does_not_push_out_the_good(void **state)
{
    char path[TEMP_PATH];
    assert_int_equal(save(*state, 1, 100, 1, 100).code, MT_OK);
    file_put(temp_path(state, "step-00000000000000000100/manifest.json", path), "", 0);
    assert_int_equal(save(*state, 1, 10, 2, 10).code, MT_OK);
    assert_int_equal(save(*state, 1, 20, 2, 20).code, MT_OK);
    expect_newest(*state, 20, 20, 1);
    assert_int_equal(save(*state, 1, 100, 2, 101).code, MT_OK); /* at last it is written anew */
    expect_newest(*state, 100, 101, 0);
}

/* Fails the first, second, ... wrapped call of a save of step 20 until a save gets through untouched. */
static void every_failure(void **state, int error, int32_t code, bool is_replacing)
{
    char     path[TEMP_PATH];
    unsigned failed = 0;
    for (unsigned at = 1;; at++) {
        assert_true(at < 200);
        temp_clear(temp_path(state, "c", path));
        assert_int_equal(save(path, 2, 10, 1, 1).code, MT_OK);
        if (is_replacing)
            assert_int_equal(save(path, 2, 20, 1, 2).code, MT_OK);
        fault.calls = 0, fault.at = at, fault.error = error;
        mt_status st = save(path, 2, 20, 1, 2);
        bool      was_reached = fault.calls >= at;
        fault.at = 0;
        uint64_t newest = newest_step(path);
        expect_newest(path, newest, newest == 10 ? 1 : 2, 0);
        if (is_replacing)
            assert_int_equal(newest, 20);
        if (!was_reached) {
            assert_int_equal(st.code, MT_OK);
            break;
        }
        if (st.code != 0) {
            failed++;
            assert_int_equal(st.code, code);
            assert_int_equal(st.sys, error);
        }
        assert_int_equal(save(path, 2, 20, 1, 2).code, MT_OK); /* and the next save cleans up */
        assert_int_equal(entries(path, ".tmp-"), 0);
        expect_newest(path, 20, 2, 0);
    }
    assert_true(failed >= 7); /* tensors, manifest; 4 syncs; folder and rename */
}

static void a_full_disk_leaves_nothing_torn(void **state)
{
    every_failure(state, ENOSPC, MT_EDISK_FULL, false);
}
static void a_failing_disk_leaves_nothing_torn(void **state)
{
    every_failure(state, EIO, MT_ESYS, false);
}
static void a_failing_disk_does_not_harm_what_it_replaces(void **state)
{
    every_failure(state, EIO, MT_ESYS, true);
}

/* Ends the process before the first, second, ... wrapped call; half of a write is on disk by then. */
static void a_saver_killed_anywhere_leaves_nothing_torn(void **state)
{
    char     path[TEMP_PATH];
    unsigned killed = 0;
    for (unsigned at = 1;; at++) {
        int status;
        assert_true(at < 200);
        temp_clear(temp_path(state, "c", path));
        assert_int_equal(save(path, 1, 10, 1, 1).code, MT_OK);
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fault.calls = 0, fault.at = at, fault.error = 0;
            _exit(save(path, 1, 20, 1, 2).code);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        uint64_t newest = newest_step(path);
        expect_newest(path, newest, newest == 10 ? 1 : 2, 0);
        if (WEXITSTATUS(status) == 0)
            break;
        assert_int_equal(WEXITSTATUS(status), 9);
        killed++;
        assert_int_equal(save(path, 1, 30, 2, 3).code, MT_OK);
        assert_int_equal(entries(path, ".tmp-"), 0);
        expect_newest(path, 30, 3, 0);
    }
    assert_true(killed >= 9);
}

/* Runs `body` in a child, which may change limits and mounts; gives its exit status. */
static int in_child(int (*body)(const char *folder), const char *folder)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(folder));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Large enough to go past the page cache, and not of whole pages: written in pieces, whole, and torn by none of them. */
static void a_large_one_is_whole_or_absent(void **state)
{
    enum { FLOATS = MT_FILE_DIRECT_BYTES / 4 + 12346 };
    struct sgd_checkpoint        checkpoint;
    struct sgd_checkpoint_report report;

    assert_int_equal(save_sized(*state, 2, 10, 1, 0, FLOATS).code, MT_OK);
    fault.calls = 0, fault.at = 20, fault.error = ENOSPC; /* the folder, then pieces of a MiB */
    assert_int_equal(save_sized(*state, 2, 20, 1, 1, FLOATS).code, MT_EDISK_FULL);
    fault.at = 0;
    assert_int_equal(entries(*state, ""), 1);
    assert_int_equal(sgd_checkpoint_load(*state, &checkpoint, &report).code, MT_OK);
    assert_int_equal(checkpoint.meta.step, 10);
    const struct sgd_tensor *w = sgd_checkpoint_find(&checkpoint, "w");
    assert_true(w && w->end - w->begin == (FLOATS - 8) * 4);
    for (size_t i = 0; i < FLOATS - 8; i++)
        assert_true(((const float *)w->data)[i] == (float)i);
    sgd_checkpoint_fini(&checkpoint);
}

static int file_size_limited(const char *folder)
{
    struct rlimit limit = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    return save_sized(folder, 2, 20, 1, 2, 4000).code == MT_EDISK_FULL ? 0 : 2;
}

static void a_limit_on_file_size_is_a_full_disk(void **state)
{
    assert_int_equal(save(*state, 2, 10, 1, 1).code, MT_OK);
    assert_int_equal(in_child(file_size_limited, *state), 0);
    expect_newest(*state, 10, 1, 0);
    assert_int_equal(entries(*state, ""), 1);
}

enum { CANNOT_MOUNT = 42, DISK_SIZE = 256 * 1024 }; /* the size is repeated in the mount option */

/* On a disk of 256 KiB, in a mount namespace of this child's own. */
static int disk_full(const char *folder)
{
    if (!mounts_apart() || mount("tmpfs", folder, "tmpfs", 0, "size=262144") != 0)
        return CANNOT_MOUNT;
    if (save(folder, 2, 10, 1, 1).code != MT_OK)
        return 1;
    /* Floats: from what just fits to what can't, past the points where the manifest or the header is what is
     * too much. */
    for (size_t size = 60000; size <= 66000; size += 200) {
        mt_status st = save_sized(folder, 9, size, 1, 2, size);
        if (st.code == MT_OK && size * sizeof(float) < DISK_SIZE) {
            char path[TEMP_PATH];
            snprintf(path, sizeof path, "%s/step-%020zu", folder, size);
            temp_clear(path);
            continue;
        }
        if (st.code != MT_EDISK_FULL)
            return 2;
        expect_newest(folder, 10, 1, 0);
        if (entries(folder, "") != 1)
            return 3;
    }
    return 0;
}

static void a_really_full_disk_leaves_nothing_torn(void **state)
{
    int status = in_child(disk_full, *state);
    if (status == CANNOT_MOUNT)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_make, temp_remove)
    const struct CMUnitTest tests[] = {
        TEST(the_newest_is_loaded_and_old_ones_go),
        TEST(a_step_is_replaced_but_not_by_the_past),
        TEST(what_dead_savers_left_is_removed),
        TEST(a_truncated_model_is_passed_over),
        TEST(a_truncated_manifest_is_passed_over),
        TEST(any_flipped_bit_of_the_model_is_found),
        TEST(any_flipped_bit_of_the_manifest_is_found),
        TEST(a_manifest_of_an_older_version_is_read),
        TEST(the_report_names_what_was_passed_over),
        TEST(a_damaged_later_one_does_not_push_out_the_good),
        TEST(a_full_disk_leaves_nothing_torn),
        TEST(a_failing_disk_leaves_nothing_torn),
        TEST(a_failing_disk_does_not_harm_what_it_replaces),
        TEST(a_saver_killed_anywhere_leaves_nothing_torn),
        TEST(a_large_one_is_whole_or_absent),
        TEST(a_limit_on_file_size_is_a_full_disk),
        TEST(a_really_full_disk_leaves_nothing_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
