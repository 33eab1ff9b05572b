/* SPDX-License-Identifier: Apache-2.0
 *
 * gates.c - see gates.h. Thread: any; processes take turns at the file.
 */
#include "tests/integration/sgd/gates.h"
#include "tests/integration/harness.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

struct gates {
    int open, passed;
};

/* Goes through the next one, or opens some more; which one it is, -1: it is shut. */
static int gate_do(const char *path, int open_more)
{
    struct gates gates = {0};
    int          fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
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
