/* SPDX-License-Identifier: Apache-2.0
 *
 * gates.c - see gates.h. Thread: any; processes take turns at the file.
 */
#include "tests/integration/sgd/gates.h"
#include "tests/integration/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

struct gates {
    int open, passed;
};

/* Goes through the next one, or opens some more; which one it is, -1: it is shut. Only who opens makes the file: one that waits may
 * outlive the run by a moment, while the driver deletes the folder. */
static int gate_do(const char *path, int open_more)
{
    struct gates gates = {0};
    int          fd = open(path, O_RDWR | (open_more ? O_CREAT : 0) | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT && !open_more)
        return -1;
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && pread(fd, &gates, sizeof gates, 0) >= 0);
    int gate = gates.passed < gates.open ? gates.passed : -1;
    gates.open += open_more;
    gates.passed += open_more == 0 && gate >= 0;
    CHECK(pwrite(fd, &gates, sizeof gates, 0) == sizeof gates);
    close(fd);
    return gate;
}

void gates_open(const char *path, int count)
{
    (void)gate_do(path, count);
}

int gates_pass(const char *path)
{
    int gate;
    while ((gate = gate_do(path, 0)) < 0)
        test_sleep_ms(1);
    return gate;
}

static int opened(const char *path)
{
    struct gates gates = {0};
    int          fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd < 0 || pread(fd, &gates, sizeof gates, 0) >= 0);
    if (fd >= 0)
        close(fd);
    return gates.open;
}

void gates_blows(char *out, size_t size, const char *path, int blows, int64_t steps)
{
    CHECK(snprintf(out, size, "blows=%d:%lld:%s", blows, (long long)steps, path) < (int)size);
}

/* Whether fewer blows have fallen than should have by this step. */
static bool is_early(manta_sgd *t)
{
    const char *config = manta_sgd_conf_str(t, "blows", NULL);
    long long   steps = 0;
    int         blows = 0, used = 0;
    if (!config)
        return false;
    CHECK_EQ(sscanf(config, "%d:%lld:%n", &blows, &steps, &used), 2);
    int64_t due = manta_sgd_step(t) * (blows + 1) / steps;
    return opened(config + used) < (due < blows ? due : blows);
}

void gates_hold(manta_sgd *t)
{
    enum { LINGER_MS = 100 };
    if (manta_sgd_conf_i64(t, "lingers", 0)) {
        if (is_early(t))
            test_sleep_ms(LINGER_MS);
        return;
    }
    while (is_early(t))
        test_sleep_ms(1);
}
