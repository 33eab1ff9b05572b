/* SPDX-License-Identifier: Apache-2.0
 *
 * run_so.c - manta-so JOB.so [ARGUMENT...]: a job whose code is a shared object. Raylets start it for `manta submit JOB.so`.
 *
 * It loads the object, joins the cluster (MANTA_ADDRESS, else one of its own) and calls the object's
 *   int manta_main(int argc, char **argv);
 * whose result is the job's exit code. Workers load the same object, by its content, and find the functions that its
 * constructors have registered. The object links libmanta.so and nothing of its driver.
 *
 * Owns: the process. Thread: main.
 */
#include "clients/lib/manta.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*main_function)(int argc, char **argv);

static main_function main_of(const char *path)
{
    char *full = realpath(path, NULL);
    void *object = full ? dlopen(full, RTLD_NOW | RTLD_NOLOAD) : NULL; /* manta_init has loaded it */
    /* ISO C has no conversion of an object pointer to a function's. */
    union {
        void         *symbol;
        main_function run;
    } found = {object ? dlsym(object, "manta_main") : NULL};
    free(full);
    return found.run;
}

int main(int argc, char **argv)
{
    manta_error       e;
    manta_runtime_env env = {.code = argv[argc > 1]};
    manta_init_opts   opts = {.runtime_env = &env, .job_name = argv[argc > 1]};
    main_function     run;
    int               code;
    if (argc < 2 && !getenv("MANTA_ROLE")) {
        fprintf(stderr, "usage: manta-so JOB.so [ARGUMENT...]\n");
        return 2;
    }
    if (manta_init(&argc, &argv, &opts, &e))
        return manta_perror(&e) & 0xff;
    run = main_of(argv[1]);
    if (!run) {
        fprintf(stderr, "manta: error %d: %s has no function int manta_main(int argc, char **argv)\n", MANTA_ENOFUNC, argv[1]);
        manta_shutdown();
        return MANTA_ENOFUNC;
    }
    code = run(argc - 1, argv + 1);
    manta_shutdown();
    return code;
}
