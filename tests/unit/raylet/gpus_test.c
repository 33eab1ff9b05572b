/* SPDX-License-Identifier: Apache-2.0
 *
 * gpus_test.c - the GPUs that a node finds when it starts, in a folder like /dev.
 */
#include "core/base/limits/raylet.h"
#include "raylet/files/gpus.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static void file_make(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void file_remove(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void devices_are_counted(void **state)
{
    static const char *const names[] = {"nvidia0",    "nvidia1",          "nvidia12", "nvidiactl",
                                        "nvidia-uvm", "nvidia-uvm-tools", "nvidia2x", "tty0"};
    (void)state;
    assert_int_equal(rlt_gpus_found(folder, NULL), 0);
    assert_int_equal(rlt_gpus_found("/nowhere/at/all", NULL), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        file_make(names[i]);
    assert_int_equal(rlt_gpus_found(folder, NULL), 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        file_remove(names[i]);
}

static void what_is_hidden_does_not_count(void **state)
{
    (void)state;
    file_make("nvidia0");
    file_make("nvidia1");
    assert_int_equal(rlt_gpus_found(folder, ""), 0);
    assert_int_equal(rlt_gpus_found(folder, "-1"), 0);
    assert_int_equal(rlt_gpus_found(folder, "1"), 1);
    assert_int_equal(rlt_gpus_found(folder, "1,-1,0"), 1);
    assert_int_equal(rlt_gpus_found(folder, "GPU-a,GPU-b"), 2);
    assert_int_equal(rlt_gpus_found(folder, "0,1,2,3"), 2);
    file_remove("nvidia0");
    file_remove("nvidia1");
}

static void there_is_a_bound(void **state)
{
    char name[32];
    (void)state;
    for (int i = 0; i < MT_RLT_GPUS_MAX + 4; i++) {
        snprintf(name, sizeof name, "nvidia%d", i);
        file_make(name);
    }
    assert_int_equal(rlt_gpus_found(folder, NULL), MT_RLT_GPUS_MAX);
    for (int i = 0; i < MT_RLT_GPUS_MAX + 4; i++) {
        snprintf(name, sizeof name, "nvidia%d", i);
        file_remove(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_counted),
        cmocka_unit_test(what_is_hidden_does_not_count),
        cmocka_unit_test(there_is_a_bound),
    };
    snprintf(folder, sizeof folder, "/tmp/mt-gpus.XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(folder) < 0 ? 1 : failures;
}
