/* SPDX-License-Identifier: Apache-2.0
 *
 * floor.c - records per second over one gRPC stream, told by a program beside this one (main.c).
 *
 * This program links no gRPC, as no user's program does. Without manta-bench-grpc there is no such floor.
 */
#include "tests/bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

double bench_grpc_floor(struct bench *b)
{
    char  path[4160], text[128] = "";
    int   out[2], status;
    pid_t child;
    if (!bench_program(b, "manta-bench-grpc", path, sizeof path) || pipe(out) != 0)
        return 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    char *argv[] = {path, "--floor", NULL};
    bool  ok = posix_spawn(&child, path, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    ssize_t size = ok ? read(out[0], text, sizeof text - 1) : 0;
    close(out[0]);
    if (ok && (waitpid(child, &status, 0) != child || status != 0))
        ok = false;
    return ok && size > 0 ? strtod(text, NULL) : 0;
}
