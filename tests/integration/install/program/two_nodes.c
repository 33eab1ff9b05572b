/* SPDX-License-Identifier: Apache-2.0
 *
 * two_nodes.c - a user's program with a library of its own, found by $ORIGIN/../lib: what it runs on another node needs
 * both.
 *
 *   two_nodes task       a task on node n1: prints its answer, its program's path and where its library lies
 *   two_nodes actor      the same by an actor there
 *   two_nodes detached   the same by an actor there that outlives this driver
 */
#define _GNU_SOURCE /* dladdr */
#include <manta.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 60 * 1000 };

int64_t answer(int64_t x);

static manta_status where(manta_ctx *c, int64_t x)
{
    char    program[4096] = "", text[9000];
    Dl_info library = {0};
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || !dladdr((void *)(uintptr_t)&answer, &library))
        return manta_fail(c, 1, "the program does not know where it is");
    int size = snprintf(text, sizeof text, "%lld %s %s", (long long)answer(x), program, library.dli_fname);
    return manta_return_bytes(c, text, (size_t)size);
}

static manta_status there(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return where(c, argv[0].l);
}
MANTA_REGISTER(there, "l>y");

static manta_status teller_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status teller_tell(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return where(c, argv[0].l);
}
MANTA_ACTOR(teller, "", teller_new, NULL, {"tell", "l>y", teller_tell});

/* Prints what the reference says, and frees it. */
static int print(manta_ref *take_ref, manta_error *e)
{
    manta_view view;
    if (manta_get(take_ref, WAIT_MS, &view, e))
        return manta_perror(e);
    printf("%.*s\n", (int)view.size, (const char *)view.data);
    manta_release(&view);
    manta_free(take_ref);
    return 0;
}

static int by_actor(const manta_actor_opts *opts, manta_error *e)
{
    manta_actor *actor = manta_actor_new("teller", opts, 0, NULL);
    int          failed = print(manta_actor_call(actor, "tell", MANTA_ARGS(manta_i64(0))), e);
    if (opts->detached)
        manta_actor_kill(actor, false);
    manta_actor_free(actor);
    return failed;
}

int main(int argc, char **argv)
{
    manta_error      e;
    manta_resource   at1 = {"at1", 1};
    manta_task_opts  task = {.resources = &at1, .resource_count = 1};
    manta_actor_opts actor = {.resources = &at1, .resource_count = 1};
    int              failed;
    if (getenv("TWO_NODES_HIDE")) /* its library goes once it has been loaded */
        unlink(getenv("TWO_NODES_HIDE"));
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (strcmp(argv[1], "task") == 0) {
        failed = print(manta_call("there", &task, MANTA_ARGS(manta_i64(0))), &e);
    } else {
        actor.detached = strcmp(argv[1], "detached") == 0;
        actor.name = actor.detached ? "teller" : NULL;
        actor.max_restarts = actor.detached ? -1 : 0;
        failed = by_actor(&actor, &e);
    }
    manta_shutdown();
    return failed;
}
