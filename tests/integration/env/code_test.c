/* SPDX-License-Identifier: Apache-2.0
 *
 * code_test.c - code from a shared object: functions and actors that this program does not have; objects that cannot be
 * loaded, here or in the workers.
 *
 * Thread: the driver's main one. The objects lie beside this program.
 */
#include "tests/integration/harness.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

MANTA_TASK(int64_t, plain, (int64_t, x))
{
    return x + 1;
}

/* Path of a file beside this program; lives until the next two. */
static const char *beside(const char *name)
{
    static char path[2][512];
    static int  next;
    char       *slash;
    ssize_t     n = readlink("/proc/self/exe", path[next ^= 1], sizeof path[0] - 64);
    CHECK(n > 0);
    path[next][n] = 0;
    slash = strrchr(path[next], '/');
    snprintf(slash + 1, 60, "%s", name);
    return path[next];
}

static void init_with(const char *code)
{
    manta_error       e;
    manta_runtime_env env = {.code = code};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2, .runtime_env = &env}, &e), MANTA_OK, &e);
}

static void refused(const char *code, const char *word)
{
    manta_error e;
    CHECK(!manta_env_new(&(manta_runtime_env){.code = code}, &e));
    CHECK_EQ(e.code, MANTA_EENV);
    CHECK_SAYS(e.message, "could not load code");
    CHECK_SAYS(e.message, word);
}

/* Of the whole job: the program's own functions and the object's, tasks and actors. */
static void of_the_job(void)
{
    manta_error e;
    init_with(beside("so_job.so"));
    CHECK_I64(manta_call("so_add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2))), 3);
    CHECK_I64(plain_remote(NULL, 1), 2);
    manta_actor *a = manta_actor_new("so_tally", NULL, MANTA_ARGS(manta_i64(5)));
    CHECK_I64(manta_actor_call(a, "add", MANTA_ARGS(manta_i64(2))), 7);
    manta_actor_free(a);
    CHECK_FAILS(manta_call("so_ad", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2))), MANTA_ENOFUNC, &e); /* no such function */
    CHECK_SAYS(e.message, "so_add");
    /* An environment with files of its own keeps the code. */
    const char *files[] = {"/proc/self/status", NULL}; /* of no size, as /proc has it */
    manta_env  *env = manta_env_new(&(manta_runtime_env){.files = files}, &e);
    CHECK(env);
    CHECK_I64(manta_call("so_add", &(manta_task_opts){.env = env}, MANTA_ARGS(manta_i64(3), manta_i64(4))), 7);
    manta_env_free(env);
}

/* Of some tasks only: other workers do not know it. */
static void of_a_task(void)
{
    manta_error e;
    manta_env  *env = manta_env_new(&(manta_runtime_env){.code = beside("so_job.so")}, &e);
    if (!env)
        test_fail(__FILE__, __LINE__, "%s", e.message);
    manta_task_opts opts = {.env = env};
    CHECK_I64(manta_call("so_add", &opts, MANTA_ARGS(manta_i64(1), manta_i64(2))), 3);
    CHECK_FAILS(manta_call("so_add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2))), MANTA_ENOFUNC, &e);
    CHECK_I64(plain_remote(&opts, 1), 2);
    CHECK_I64(plain_remote(NULL, 1), 2);
    manta_env_free(env);
}

static void not_loadable(void)
{
    char        path[] = "/tmp/mt-code.XXXXXX.so";
    int         to = mkstemps(path, 3), from = open(beside("so_job.so"), O_RDONLY | O_CLOEXEC);
    struct stat st;
    refused("/nowhere/job.so", "No such file");
    refused(path, "not an ELF file"); /* empty */
    CHECK_EQ(write(to, "#!/bin/sh\n", 10), 10);
    refused(path, "not an ELF file");
    refused("/proc/self/exe", "");
    CHECK(fstat(from, &st) == 0 && lseek(to, 0, SEEK_SET) == 0);
    CHECK_EQ(sendfile(to, from, NULL, (size_t)st.st_size), st.st_size);
    Elf64_Half machine = EM_S390;
    CHECK_EQ(pwrite(to, &machine, sizeof machine, offsetof(Elf64_Ehdr, e_machine)), sizeof machine);
    refused(path, "another architecture");
    Elf64_Half type = ET_REL;
    CHECK_EQ(pread(from, &machine, sizeof machine, offsetof(Elf64_Ehdr, e_machine)), sizeof machine);
    CHECK_EQ(pwrite(to, &machine, sizeof machine, offsetof(Elf64_Ehdr, e_machine)), sizeof machine);
    CHECK_EQ(pwrite(to, &type, sizeof type, offsetof(Elf64_Ehdr, e_type)), sizeof type);
    refused(path, "not a shared object");
    type = ET_DYN;
    CHECK_EQ(pwrite(to, &type, sizeof type, offsetof(Elf64_Ehdr, e_type)), sizeof type);
    CHECK_EQ(ftruncate(to, 1000), 0);
    refused(path, "cut short"); /* the dynamic linker would die of it */
    close(to);
    close(from);
    unlink(path);
    CHECK_I64(plain_remote(NULL, 1), 2);
}

static void init_not_loadable(void)
{
    manta_error       e;
    manta_runtime_env env = {.code = "/etc/passwd"};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.runtime_env = &env}, &e), MANTA_EENV, &e);
    CHECK_SAYS(e.message, "not an ELF file");
}

/* It can be loaded here, where another file lies beside it, but not in a worker, which has the one file. */
static void not_loadable_there(void)
{
    manta_error e;
    manta_env  *env = manta_env_new(&(manta_runtime_env){.code = beside("so_needy.so")}, &e);
    if (!env)
        test_fail(__FILE__, __LINE__, "%s", e.message);
    CHECK_FAILS(manta_call("so_needy", &(manta_task_opts){.env = env}, MANTA_ARGS(manta_i64(1))), MANTA_EENV, &e);
    CHECK_SAYS(e.message, "could not load code");
    CHECK_SAYS(e.message, "so_dep");
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    manta_env_free(env);
    CHECK_I64(plain_remote(NULL, 1), 2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"of_the_job", of_the_job, {0}, true, 0},
        {"of_a_task", of_a_task, {.num_cpus = 2}, false, 0},
        {"not_loadable", not_loadable, {.num_cpus = 2}, false, 0},
        {"init_not_loadable", init_not_loadable, {0}, true, 0},
        {"not_loadable_there", not_loadable_there, {.num_cpus = 2}, false, 0},
        {0},
    };
    return test_main(argc, argv, cases);
}
