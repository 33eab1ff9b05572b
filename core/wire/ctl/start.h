/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h - how a process begins: greeting, welcome, fork, its program and its runtime environments.
 */
#ifndef CTL_START_H
#define CTL_START_H

#include "core/wire/ctl/kind.h"

struct ctl_hello {
    uint32_t magic;
    uint16_t version_min, version_max;
    uint32_t role;    /* enum ctl_role */
    uint32_t flags;   /* CTL_HELLO_... */
    uint64_t process; /* random, drawn by the process */
    uint64_t job;     /* driver: drawn by it; worker: of its zygote */
    uint32_t argc;    /* strings after this struct, each with NUL: argv (argc), environment (envc), working directory */
    uint32_t envc;
    uint32_t strings_size;
    char     job_name[CTL_NAME_SIZE];
};

/* Where a file of the driver's program stands, seen from a folder that has all of them: with the same places elsewhere, run
 * paths that begin with $ORIGIN find what they find here. */
enum { CTL_PROGRAM_PATH_SIZE = 1024 };
struct ctl_program_file {
    char path[CTL_PROGRAM_PATH_SIZE];
};

enum { CTL_HELLO_LOGS = 1 }; /* of a driver: what its workers print goes to it, by messages */

struct ctl_welcome {
    uint32_t magic;
    uint16_t version; /* the one both speak */
    uint16_t reserved;
    int32_t  code; /* enum mt_code */
    uint32_t node, epoch;
    uint32_t job; /* short number of the job on this cluster, in every ref */
    char     node_name[CTL_NAME_SIZE];
    char     address[CTL_NAME_SIZE]; /* of the head */
    char     text[CTL_TEXT_SIZE];    /* why not */
};

struct ctl_fork {
    uint64_t token; /* comes back in CTL_FORKED */
};
struct ctl_forked {
    uint64_t token;
    int32_t  pid; /* < 0: fork failed, -errno */
    int32_t  reserved;
};
struct ctl_child_exit {
    int32_t pid;
    int32_t status; /* as waitpid gives it */
};

/* A runtime environment. It builds on another one: what that one sets and this one does not holds here as well. */
struct ctl_env {
    uint64_t key;    /* drawn from all that follows, so the same environment has the same key; not 0 */
    uint64_t parent; /* key; 0: none */
    uint32_t flags;
    uint32_t strings_size; /* of env_vars after this struct: "NAME=value", each with NUL */
    uint64_t archive_size; /* 0: no files of its own */
    uint8_t  sha256[32];   /* of the archive (core/sys/archive.h) */
    char     code[128];    /* path inside the files of the .so that its workers load; "": none */
};
enum { CTL_ENV_CHDIR = 1 /* its files are the working directory */ };

#endif
