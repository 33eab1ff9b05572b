/* SPDX-License-Identifier: Apache-2.0
 *
 * across_test.c - runtime environments on two nodes: definition and files follow the lease, and go with the job.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BYTES = 3 * 1000 * 1000 };

/* Variable V, node, and a sum over the file: what a task sees of its environment. */
static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    static unsigned char bytes[FILE_BYTES];
    const char          *v = getenv("V");
    char                 text[128];
    int                  fd = open("file", O_RDONLY | O_CLOEXEC);
    ssize_t              n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    unsigned             sum = 0;
    (void)argc;
    (void)argv;
    for (ssize_t i = 0; i < n; i++)
        sum = sum * 31 + bytes[i];
    if (fd >= 0)
        close(fd);
    snprintf(text, sizeof text, "%s %u %zd %u", v ? v : "-", manta_node(), n, sum);
    return manta_return_str(c, text);
}
MANTA_REGISTER(look, ">s");

/* Asks `look` at the node of resource argv[0]: in the own environment, or with V=argv[1] on top of it. */
static manta_status pass_on(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_resource  there = {argv[0].y.data, 1};
    const char     *vars[] = {argv[1].y.data, NULL};
    manta_error     e;
    manta_view      v;
    manta_env      *env = argv[1].y.size ? manta_env_new(&(manta_runtime_env){.env_vars = vars}, &e) : NULL;
    manta_task_opts opts = {.env = env, .resources = &there, .resource_count = 1};
    (void)argc;
    if (argv[1].y.size && !env)
        return manta_fail(c, e.code, "%s", e.message);
    manta_ref   *ref = manta_call("look", &opts, MANTA_NO_ARGS);
    manta_status code = manta_get(ref, TEST_WAIT_MS, &v, &e);
    code = code ? manta_fail(c, e.code, "%s", e.message) : manta_return_str(c, v.data);
    manta_release(&v);
    manta_free(ref);
    manta_env_free(env);
    return code;
}
MANTA_REGISTER(pass_on, "ss>s");

static unsigned file_make(const char *folder)
{
    static unsigned char bytes[FILE_BYTES];
    unsigned             sum = 0, x = 12345;
    char                 path[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        x = x * 1103515245 + 12345;
        bytes[i] = (unsigned char)(x >> 16);
        sum = sum * 31 + bytes[i];
    }
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQ(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
    return sum;
}

static void check_text(manta_ref *ref, const char *v, uint32_t node, unsigned sum)
{
    manta_error e;
    manta_view  view;
    char        wanted[128];
    snprintf(wanted, sizeof wanted, "%s %u %d %u", v, node, FILE_BYTES, sum);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, wanted);
    manta_release(&view);
    manta_free(ref);
}

/* Whether the node's folder of environments is empty (or was never made). */
static bool is_swept(const struct nodes *n, int i)
{
    char path[300];
    int  count = 0;
    snprintf(path, sizeof path, "%s/n%d/env", n->folder, i);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count == 0;
}

static void across(void)
{
    struct nodes n;
    char         folder[] = "/tmp/mt-across.XXXXXX", path[64];
    nodes_start(&n, 2, "2");
    CHECK(mkdtemp(folder));
    unsigned          sum = file_make(folder);
    const char       *vars[] = {"V=one", NULL};
    manta_error       e;
    manta_runtime_env what = {.env_vars = vars, .working_dir = folder};
    manta_env        *env = manta_env_new(&what, &e);
    CHECK(env);
    manta_task_opts here = {AT(0), .env = env}, there = {AT(1), .env = env};
    for (int i = 0; i < 20; i++) {
        check_text(manta_call("look", &there, MANTA_NO_ARGS), "one", n.ids[1], sum);
        check_text(manta_call("look", &here, MANTA_NO_ARGS), "one", n.ids[0], sum);
    }
    /* From there back to here, in the own environment, and in one that only the other node has been given. */
    check_text(manta_call("pass_on", &there, MANTA_ARGS(manta_str("at0"), manta_str(""))), "one", n.ids[0], sum);
    check_text(manta_call("pass_on", &there, MANTA_ARGS(manta_str("at0"), manta_str("V=two"))), "two", n.ids[0], sum);
    check_text(manta_call("pass_on", &here, MANTA_ARGS(manta_str("at1"), manta_str("V=three"))), "three", n.ids[1], sum);
    manta_env_free(env);
    CHECK(!is_swept(&n, 0) && !is_swept(&n, 1));
    snprintf(path, sizeof path, "%s/file", folder);
    unlink(path);
    rmdir(folder);
    manta_shutdown();
    CHECK_SOON(is_swept(&n, 0) && is_swept(&n, 1)); /* the job is over: nothing of it stays on either node */
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"across", across, {0}, true, 0},
        {0},
    };
    return test_main(argc, argv, cases);
}
