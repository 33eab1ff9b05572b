/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_test.c - under a real memory limit the store refuses with figures, and the kernel kills nobody.
 *
 * Makes a memory group (v1 or v2), puts a child in it, which puts objects until the store is full. Skipped
 * (77) where groups can't be made.
 */
#include "tests/unit/objectstore/node.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

static const uint64_t MIB = 1 << 20;
static const uint64_t LIMIT_MIB = 96, RESERVE_MIB = 16;

static char group[4096];

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int  fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Makes a group with the limit, v1 first: where both are mounted, v1 has the memory controller. */
static bool make_group(void)
{
    char limit[32];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)(LIMIT_MIB * MIB));
    snprintf(group, sizeof group, "/sys/fs/cgroup/memory/manta-test-%d", getpid());
    if (mkdir(group, 0700) == 0 && write_file(group, "memory.limit_in_bytes", limit))
        return true;
    rmdir(group);
    write_file("/sys/fs/cgroup", "cgroup.subtree_control", "+memory");
    snprintf(group, sizeof group, "/sys/fs/cgroup/manta-test-%d", getpid());
    if (mkdir(group, 0700) == 0 && write_file(group, "memory.max", limit))
        return true;
    rmdir(group);
    return false;
}

/* In the group: puts and keeps objects until the store says no. 0: it said so, typed and with figures. */
static int fill_up(void)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%d", getpid());
    if (!write_file(group, "cgroup.procs", pid))
        return SKIPPED;
    struct node n;
    node_open(&n, UINT64_C(1) << 40); /* the store's own limit is far away */
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    uint64_t            stored = 0;
    for (;;) {
        struct os_segment_view view = {0};
        n.room = (struct os_headroom){.reserve = RESERVE_MIB * MIB};
        if (os_cgroup_read("/sys/fs/cgroup", &n.room.limit, &n.room.usage).code != MT_OK)
            return 2;
        if (n.room.limit != LIMIT_MIB * MIB)
            return 3;
        while (os_store_next(n.store, view.segment, &view))
            n.room.resident += os_memory_resident(view.backing.data_rw);
        struct lane_ref ref;
        mt_status       st = node_put(&n, c, 1, 3 * MIB + stored / 7, 1, &ref); /* every byte is touched */
        if (st.code == MT_ESTORE_FULL)
            break;
        if (st.code != MT_OK)
            return 4;
        stored += ref.size;
    }
    fprintf(stderr, "stored %llu MiB under a limit of %llu MiB; then: %s\n", (unsigned long long)(stored / MIB),
            (unsigned long long)LIMIT_MIB, n.text);
    if (stored < 3 * MIB || !strstr(n.text, "cgroup: limit 96 MiB"))
        return 5;
    node_close(&n);
    return 0;
}

static int result;

static void refused_not_killed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fill_up());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status)); /* killed: the limit was passed */
    result = WEXITSTATUS(status);
    if (result != SKIPPED)
        assert_int_equal(result, 0);
}

int main(void)
{
    if (!make_group()) {
        printf("skipped: memory groups can't be made here\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused_not_killed)};
    int                     failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 100 && rmdir(group) != 0 && errno == EBUSY; i++) {
        write_file(group, "memory.force_empty", "0"); /* v1: pages that outlive their process */
        usleep(20000);
    }
    return failed ? 1 : result == SKIPPED ? SKIPPED : 0;
}
