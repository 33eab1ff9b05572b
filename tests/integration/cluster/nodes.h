/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.h - a cluster of one head and some raylets on this machine, made by a test's driver as its own children.
 *
 * Node i has its runtime folder FOLDER/n<i>, 100 of a resource "at<i>" (so that work can be forced there), 1 of a resource
 * "any" that each node has, the labels "zone=z<i>" and "even=yes" or "odd=yes", and talks to the others as if it were far
 * away: real gRPC, real data sockets. With TEST_TLS in the environment the cluster speaks TLS.
 */
#ifndef INTEGRATION_NODES_H
#define INTEGRATION_NODES_H

#include "tests/integration/harness.h"

enum { NODES_MAX = 4 };

struct nodes {
    char        folder[200]; /* of the head */
    int         count;
    int         head, raylets[NODES_MAX]; /* pids; 0: gone */
    uint32_t    ids[NODES_MAX];           /* as manta_nodes tells them; [0] is ours */
    char        store[24];                /* bytes of each node's object store */
    const char *job_users, *gpus;         /* of each node; NULL: none */
    int         places;                   /* processes that node 0 may run for tasks and actors; 0: the default */
    const char *option, *option_value;    /* one more of each node but the first; NULL: none */
    bool        is_spilling;              /* a full one writes to disk */
};

/* Starts head and raylets, each with `cpus`, and makes this process a driver at node 0. In a worker this never returns.
 * First thing in a case that has no_init. */
void nodes_start(struct nodes *n, int count, const char *cpus);
/* The same with an object store of so many MiB on each node; else it is 256. Full ones refuse, or write to disk. */
void nodes_start_store(struct nodes *n, int count, const char *cpus, int store_mib);
/* ... whose jobs run as these users (--job-users). */
void nodes_start_users(struct nodes *n, int count, const char *cpus, const char *job_users);
/* ... with so many GPUs, which are only counted. */
void nodes_start_gpus(struct nodes *n, int count, const char *cpus, const char *gpus);
/* ... of which node 0 runs so many processes at most. */
void nodes_start_places(struct nodes *n, int count, const char *cpus, int places);
void nodes_start_spilling(struct nodes *n, int count, const char *cpus, int store_mib);
/* ... of which all else is as `how` says: its count, job_users, gpus, places, is_spilling. */
void nodes_start_as(struct nodes *n, const struct nodes *how, const char *cpus, int store_mib);
/* manta_shutdown, then the end of the daemons by SIGTERM; all must end well. */
void nodes_stop(struct nodes *n);
/* A head that was killed comes back, with what it had stored, at this address. */
void nodes_start_head(struct nodes *n, const char *listen);
/* SIGKILL, and waits for the process. */
void nodes_kill(int *pid);
/* One more raylet. Its pid; 0 where it was not ready (with another token_file, NULL is the right one: within a second). */
int nodes_add(struct nodes *n, int number, const char *cpus, const char *token_file);
/* ids[number], of one that was added; waits until it is listed, alive or not. */
void nodes_learn_id(struct nodes *n, int number);
/* Waits until so many nodes are alive. */
void nodes_wait_alive(int count);
/* A pattern that differs by seed and by page; whether it is there. */
void nodes_fill(char *data, size_t size, int64_t seed);
bool nodes_is_filled(const char *data, size_t size, int64_t seed);
/* Options that force a task to node i; each call's text lives until the next four. */
manta_resource *nodes_at(int number);
#define AT(i) .resources = nodes_at(i), .resource_count = 1

#endif
