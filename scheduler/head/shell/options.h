/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - the command line of manta-head.
 */
#ifndef HEAD_OPTIONS_H
#define HEAD_OPTIONS_H

#include "scheduler/head/copy/copy.h"

#include <stdbool.h>

struct head_options {
    const char            *dir;        /* runtime folder: head.addr and, by default, the token */
    const char            *state;      /* state folder; NULL: <dir>/state */
    const char            *logs;       /* of jobs; NULL: <state>/logs */
    const char            *token_file; /* NULL: <dir>/token */
    const char            *tls_dir;    /* certificates, and so TLS; NULL: <dir>/tls, and TLS where `host` is not loopback */
    const char            *cluster;    /* refuse a store of another cluster; NULL: take what is there */
    const char            *store;      /* address of the store; NULL: SQLite in the state folder */
    const char            *store_auth; /* file with its password; NULL: none */
    char                   host[64];
    uint16_t               port;
    bool                   is_insecure;    /* no TLS beyond loopback */
    bool                   is_standby;     /* another head leads: stand by */
    bool                   store_may_lose; /* take one that may lose what it acknowledges */
    int                    ready_fd;       /* -1: none */
    int                    watch_fd;       /* -1: none; else a private cluster */
    uint64_t               blob_bytes_max;
    struct head_copy_order copy; /* instead of a head: what to do with a backup */
};

/* Reads argv, which everything points into. Prints what is wrong to standard error and returns EINVAL; ENOENT: --help was
 * asked for and answered. */
MT_MUST_USE mt_status head_options_read(int argc, char **argv, struct head_options *out);

#endif
