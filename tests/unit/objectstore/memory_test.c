/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_test.c - what the kernel gives: seals, read-only descriptors, pages that come and go, cgroup files.
 */
#include "objectstore/system/memory.h"
#include "core/base/limits/object.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = 1 << 20 };

static void expect_code(mt_status st, int32_t code)
{
    assert_string_equal(mt_code_name(st.code), mt_code_name(code));
}
#define expect_ok(st) expect_code((st), MT_OK)

static void sealed_and_read_only(void **state)
{
    (void)state;
    int   rw, ro;
    void *base;
    expect_code(os_memory_create("test", 0, &rw, &ro), MT_EINVAL);
    expect_ok(os_memory_create("test", SIZE - 100, &rw, &ro));
    struct stat st;
    assert_int_equal(fstat(rw, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(st.st_mode & 0777, 0400);
    assert_int_equal(ftruncate(rw, 0), -1);
    assert_int_equal(ftruncate(rw, 2 * SIZE), -1);
    assert_int_equal(fcntl(rw, F_ADD_SEALS, F_SEAL_WRITE), -1); /* a peer can't stop its reuse either */
    assert_true(fcntl(rw, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(ro, F_GETFD) & FD_CLOEXEC);
    expect_code(os_memory_map(ro, SIZE, true, &base), MT_ESYS);
    assert_int_equal(write(ro, "x", 1), -1);
    assert_int_equal(fallocate(ro, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    expect_ok(os_memory_map(ro, SIZE, false, &base));
    assert_int_equal(mprotect(base, SIZE, PROT_READ | PROT_WRITE), -1);
    os_memory_unmap(base, SIZE);
    close(rw);
    close(ro);
}

static void pages_come_and_go(void **state)
{
    (void)state;
    int   rw, ro;
    void *base, *view;
    expect_ok(os_memory_create("test", SIZE, &rw, &ro));
    expect_ok(os_memory_map(rw, SIZE, true, &base));
    expect_ok(os_memory_map(ro, SIZE, false, &view));
    assert_int_equal(os_memory_resident(rw), 0);
    expect_ok(os_memory_prefault(base, SIZE / 2));
    assert_int_equal(os_memory_resident(rw), SIZE / 2);
    memset(base, 7, SIZE);
    assert_int_equal(os_memory_resident(ro), SIZE);
    expect_ok(os_memory_prefault(base, SIZE)); /* changes nothing that is there */
    assert_memory_equal(base, view, SIZE);
    expect_ok(os_memory_punch(rw, 4096, SIZE - 4096));
    assert_int_equal(os_memory_resident(rw), 4096);
    assert_int_equal(((uint8_t *)view)[4095], 7);
    assert_int_equal(((uint8_t *)view)[4096], 0);
    os_memory_unmap(base, SIZE);
    os_memory_unmap(view, SIZE);
    os_memory_unmap(NULL, SIZE);
    assert_int_equal(os_memory_resident(-1), 0);
    close(rw);
    close(ro);
}

/* Whatever this machine has: a limit that is at least the usage, or none; a mount that is not there is no
 * limit. */
static void cgroup_of_this_machine(void **state)
{
    (void)state;
    uint64_t limit, usage;
    expect_ok(os_cgroup_read("/sys/fs/cgroup", &limit, &usage));
    assert_true(limit == UINT64_MAX || usage <= limit);
    expect_ok(os_cgroup_read("/nowhere", &limit, &usage));
    assert_true(limit == UINT64_MAX);
    char path[5000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_code(os_cgroup_read(path, &limit, &usage), MT_EINVAL);
}

/* 1 s where there is plenty, a part of it where there is less; never later than two CPUs can have used up what is left. */
static void memory_is_looked_at_in_time(void **state)
{
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20, limit = 16000 * mib, bound = limit / 1000 * MT_MEMORY_SHORT_PERMILLE;
    assert_int_equal(os_memory_look_ms(UINT64_MAX, 0, 2), MT_MEMORY_LOOK_MS_MAX);
    assert_int_equal(os_memory_look_ms(limit, 0, 2), MT_MEMORY_LOOK_MS_MAX);
    assert_int_equal(os_memory_look_ms(limit, bound - 4000 * mib, 2), 500);
    assert_int_equal(os_memory_look_ms(limit, bound - 4000 * mib, 4), 250);
    assert_int_equal(os_memory_look_ms(limit, bound, 2), MT_MEMORY_LOOK_MS_MIN);
    assert_int_equal(os_memory_look_ms(limit, limit + mib, 2), MT_MEMORY_LOOK_MS_MIN);
    for (uint64_t usage = 0; usage < bound; usage += 7 * mib) {
        uint64_t ms = os_memory_look_ms(limit, usage, 2), left = bound - usage;
        assert_true(ms == MT_MEMORY_LOOK_MS_MIN || left >= ms * 2 * MT_MEMORY_MIB_EACH_MS * mib);
    }
}

static void number_write(const char *folder, const char *name, unsigned mib)
{
    char  path[160];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_non_null(file = fopen(path, "w"));
    fprintf(file, "%llu\n", (unsigned long long)mib << 20);
    fclose(file);
}

/* A mount of groups of our own, as v2 and v1 have it. */
static void group_says(const char *mount, unsigned limit_mib, unsigned usage_mib)
{
    char v1[128];
    snprintf(v1, sizeof v1, "%s/memory", mount);
    mkdir(v1, 0700);
    number_write(mount, "memory.max", limit_mib);
    number_write(mount, "memory.current", usage_mib);
    number_write(v1, "memory.limit_in_bytes", limit_mib);
    number_write(v1, "memory.usage_in_bytes", usage_mib);
}

static void cgroup_of_a_moment_ago(void **state)
{
    (void)state;
    struct os_cgroup_look look = {0};
    char                  mount[] = "/tmp/os-group-XXXXXX", command[64];
    assert_non_null(mkdtemp(mount));
    group_says(mount, 100, 40);
    assert_true(os_cgroup_look(&look, mount, 5000));
    assert_int_equal(look.limit >> 20, 100);
    assert_int_equal(look.usage >> 20, 40);
    group_says(mount, 80, 70);
    assert_false(os_cgroup_look(&look, mount, 5000 + OS_CGROUP_LOOK_MS - 1)); /* no file is opened */
    assert_int_equal(look.limit >> 20, 100);
    assert_true(os_cgroup_look(&look, mount, 5000 + OS_CGROUP_LOOK_MS));
    assert_int_equal(look.limit >> 20, 80);
    assert_int_equal(look.usage >> 20, 70);
    group_says(mount, 60, 10);
    look.at_ms = 0; /* something was given up */
    assert_true(os_cgroup_look(&look, mount, 5000 + OS_CGROUP_LOOK_MS));
    assert_int_equal(look.usage >> 20, 10);
    snprintf(command, sizeof command, "rm -r %s", mount);
    char *argv[] = {"sh", "-c", command, NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_and_read_only),        cmocka_unit_test(pages_come_and_go),
        cmocka_unit_test(memory_is_looked_at_in_time), cmocka_unit_test(cgroup_of_this_machine),
        cmocka_unit_test(cgroup_of_a_moment_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
