/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - the command line of manta-raylet.
 */
#ifndef RLT_OPTIONS_H
#define RLT_OPTIONS_H

#include "raylet/core/core.h"

/* Of the processes of jobs. */
struct rlt_users {
    uint32_t first, count; /* uids; count 0: the raylet's own */
    uint32_t gid;
    bool     has_gid; /* else each has the gid of its own number */
};

struct rlt_options {
    const char *dir;         /* runtime folder: raylet.sock, jobs; NULL only with driver_fd */
    const char *node_name;   /* NULL: the machine's */
    const char *head;        /* host:port; NULL or "none": no head */
    const char *head_file;   /* wait for this file to hold the head's address */
    const char *token_file;  /* the cluster token; NULL: no TCP at all */
    const char *tls_file;    /* this node's certificate; NULL: the one that the head's file names, if any */
    bool        is_insecure; /* no TLS beyond loopback */
    const char *labels;      /* of the node; "": none */
    const char *listen;      /* host:port for other nodes */
    int         driver_fd;   /* -1: none */
    int         ready_fd;    /* -1: none */
    uint32_t    idle_workers_max;
    uint32_t    blocked_max; /* 0: the default */
    uint64_t    drain_ms;    /* after SIGTERM, for what runs here; 0: it ends at once */
    uint64_t    until_ms;    /* since 1970: this machine goes then; 0: nobody knows */
    uint64_t    orphan_ms;   /* without a head and without work, the node leaves after that; 0: never */
    const char *notice_file; /* its appearance says that the machine goes; NULL: nobody will write one */
    uint32_t    workers_max;
    uint64_t    store_bytes;
    uint32_t    chunk_bytes; /* of a value on its way from another node; 0: MT_OBJECT_CHUNK_BYTES. The simulation's are small */
    uint64_t    job_bytes;   /* of it for one job; 0: no limit of its own */
    struct rlt_users    users;
    const char         *cgroup;      /* folder for the control group of what jobs start; NULL: found; "": none is made */
    uint64_t            job_pids;    /* processes and threads of one program of a job; 0: the default */
    const char         *spill_dir;   /* "": nothing goes to disk */
    uint64_t            spill_bytes; /* most there; 0: what the disk has */
    uint32_t            resource_count;
    struct ctl_resource resources[MT_RLT_RESOURCES_MAX];
};

/* Reads argv; what is not said takes its default (all CPUs and GPUs, most of the memory). Prints what is wrong to
 * standard error and returns EINVAL. Everything points into argv. ENOENT: --help was asked for and answered. */
MT_MUST_USE mt_status rlt_options_read(int argc, char **argv, struct rlt_options *out);

#endif
