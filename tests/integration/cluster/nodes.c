/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - see nodes.h.
 */
#include "tests/integration/cluster/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { READY_FD = 3 };

/* A daemon, once it has said that it is ready; 0 where it ended before, or did not say so in time (then it is killed). */
static int daemon_start(char *const argv[], int limit_ms)
{
    posix_spawn_file_actions_t actions;
    char                       path[5000], line[256];
    int                        ready[2];
    pid_t                      child;
    CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
    snprintf(path, sizeof path, "%s/%s", test_bin(), argv[0]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (getenv("TEST_DAEMONS_SPEAK"))
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_adddup2(&actions, ready[1], READY_FD);
    CHECK_EQ(posix_spawn(&child, path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ready[1]);
    struct pollfd p = {ready[0], POLLIN, 0};
    ssize_t       size = poll(&p, 1, limit_ms) == 1 ? read(ready[0], line, sizeof line) : 0;
    close(ready[0]);
    if (size > 0)
        return child;
    kill(child, SIGTERM);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    return 0;
}

int nodes_add(struct nodes *n, int number, const char *cpus, const char *token_file)
{
    char places[16], dir[256], name[16], head_file[256], token[256], resources[32], labels[32];
    snprintf(dir, sizeof dir, "%s/n%d", n->folder, number);
    snprintf(places, sizeof places, "%d", n->places && number == 0 ? n->places : 1000);
    snprintf(name, sizeof name, "n%d", number);
    snprintf(head_file, sizeof head_file, "%s/head.addr", n->folder);
    snprintf(token, sizeof token, "%s/token", n->folder);
    snprintf(resources, sizeof resources, "at%d=100,any=1", number);
    snprintf(labels, sizeof labels, "zone=z%d,%s=yes", number, number % 2 ? "odd" : "even");
    CHECK(mkdir(dir, 0700) == 0 || errno == EEXIST);
    char *argv[] = {"manta-raylet",
                    "--dir",
                    dir,
                    "--node-name",
                    name,
                    "--head-file",
                    head_file,
                    "--token-file",
                    token_file ? (char *)token_file : token,
                    "--num-cpus",
                    (char *)cpus,
                    "--resources",
                    resources,
                    "--num-gpus",
                    n->gpus ? (char *)n->gpus : "0",
                    "--labels",
                    labels,
                    "--store-memory",
                    n->store,
                    "--ready-fd",
                    "3",
                    n->job_users ? "--job-users" : "--store-memory",
                    n->job_users ? (char *)n->job_users : n->store,
                    "--max-workers",
                    places,
                    n->is_spilling ? "--max-workers" : "--spill-dir",
                    n->is_spilling ? places : "none",
                    n->option && number ? (char *)n->option : NULL,
                    (char *)n->option_value,
                    NULL};
    return daemon_start(argv, token_file ? 1000 : TEST_WAIT_MS);
}

void nodes_wait_alive(int count)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    for (int alive = -1; alive != count;) {
        manta_node_info info[16];
        manta_error     e;
        int             all = manta_nodes(info, 16, &e);
        alive = 0;
        for (int i = 0; i < all; i++)
            alive += info[i].alive;
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%d nodes alive instead of %d (%d: %s)", alive, count, all, all < 0 ? e.message : "");
        test_sleep_ms(alive == count ? 0 : 5);
    }
}

/* The youngest node of that name; 0: none is listed yet. */
static uint32_t id_of(int number)
{
    manta_node_info info[16];
    manta_error     e;
    char            name[16];
    uint32_t        found = 0;
    int             all = manta_nodes(info, 16, &e);
    snprintf(name, sizeof name, "n%d", number);
    for (int i = 0; i < all; i++)
        found = strcmp(info[i].name, name) == 0 ? info[i].node : found;
    return found;
}

void nodes_learn_id(struct nodes *n, int number)
{
    CHECK_SOON((n->ids[number] = id_of(number)));
}

void nodes_start_head(struct nodes *n, const char *listen)
{
    char address[40], tls[220];
    snprintf(address, sizeof address, "%s", listen);
    snprintf(tls, sizeof tls, "%s/tls", n->folder);
    char *argv[] = {"manta-head", "--dir",      n->folder, "--listen",
                    address,      "--ready-fd", "3",       getenv("TEST_TLS") ? "--tls-dir" : NULL,
                    tls,          NULL};
    n->head = daemon_start(argv, TEST_WAIT_MS);
    CHECK(n->head);
}

void nodes_start_as(struct nodes *n, const struct nodes *how, const char *cpus, int store_mib)
{
    char        address[256];
    manta_error e;
    *n = *how;
    snprintf(n->store, sizeof n->store, "%lld", (long long)store_mib << 20);
    snprintf(n->folder, sizeof n->folder, "%s/manta/c", getenv("XDG_RUNTIME_DIR"));
    snprintf(address, sizeof address, "%s/n0", n->folder);
    manta_init_opts opts = {.address = address, .job_name = "nodes"};
    if (!getenv("MANTA_ROLE")) {
        char parent[200];
        snprintf(parent, sizeof parent, "%s/manta", getenv("XDG_RUNTIME_DIR"));
        CHECK(mkdir(parent, 0700) == 0 || errno == EEXIST);
        CHECK_EQ(mkdir(n->folder, 0700), 0);
        nodes_start_head(n, "127.0.0.1:0");
        for (int i = 0; i < n->count; i++) {
            n->raylets[i] = nodes_add(n, i, cpus, NULL);
            CHECK(n->raylets[i]);
        }
    }
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    nodes_wait_alive(n->count);
    for (int i = 0; i < n->count; i++)
        nodes_learn_id(n, i);
    CHECK_EQ(n->ids[0], manta_node());
}

void nodes_start_store(struct nodes *n, int count, const char *cpus, int store_mib)
{
    nodes_start_as(n, &(struct nodes){.count = count}, cpus, store_mib);
}

void nodes_start_spilling(struct nodes *n, int count, const char *cpus, int store_mib)
{
    nodes_start_as(n, &(struct nodes){.count = count, .is_spilling = true}, cpus, store_mib);
}

void nodes_start_places(struct nodes *n, int count, const char *cpus, int places)
{
    nodes_start_as(n, &(struct nodes){.count = count, .places = places}, cpus, 256);
}

void nodes_start_users(struct nodes *n, int count, const char *cpus, const char *job_users)
{
    nodes_start_as(n, &(struct nodes){.count = count, .job_users = job_users}, cpus, 256);
}

void nodes_start_gpus(struct nodes *n, int count, const char *cpus, const char *gpus)
{
    nodes_start_as(n, &(struct nodes){.count = count, .gpus = gpus}, cpus, 256);
}

void nodes_start(struct nodes *n, int count, const char *cpus)
{
    nodes_start_store(n, count, cpus, 256);
}

static void end(int *pid, int number)
{
    int status = 0;
    if (*pid == 0)
        return;
    CHECK_EQ(kill(*pid, number), 0);
    CHECK_EQ(waitpid(*pid, &status, 0), *pid);
    if (number == SIGTERM)
        CHECK_EQ(status, 0);
    *pid = 0;
}

void nodes_kill(int *pid)
{
    end(pid, SIGKILL);
}

void nodes_stop(struct nodes *n)
{
    CHECK_EQ(manta_shutdown(), 0);
    for (int i = n->count - 1; i >= 0; i--)
        end(&n->raylets[i], SIGTERM);
    end(&n->head, SIGTERM);
    /* State, logs: a head that is to come back keeps them. -f: the reaper of a killed raylet removes its record meanwhile. The
     * folders of its programs nobody may write in, and only root removes what is in such. */
    char *argv[] = {"sh", "-c", "chmod -R u+w \"$0\" 2>/dev/null; exec rm -rf \"$0\"", n->folder, NULL};
    char  said[200];
    CHECK_EQ(test_program(argv, said, sizeof said), 0);
}

void nodes_fill(char *data, size_t size, int64_t seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(seed + (int64_t)(i * 7) + (int64_t)(i >> 12));
}

bool nodes_is_filled(const char *data, size_t size, int64_t seed)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] != (char)(seed + (int64_t)(i * 7) + (int64_t)(i >> 12)))
            return false;
    }
    return true;
}

manta_resource *nodes_at(int number)
{
    static _Thread_local char           names[4][16];
    static _Thread_local manta_resource resources[4];
    static _Thread_local unsigned       next;
    unsigned                            i = next++ % 4;
    snprintf(names[i], sizeof names[i], "at%d", number);
    resources[i] = (manta_resource){names[i], 1};
    return &resources[i];
}
