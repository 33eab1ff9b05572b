/* SPDX-License-Identifier: Apache-2.0
 *
 * provider.h - what the files of manta-provider share. Thread: main.
 */
#ifndef PROVIDER_H
#define PROVIDER_H

#include "core/base/buf.h"

#include <stdbool.h>
#include <sys/types.h>

enum {
    PAIRS_MAX = 64,
    PAIR_NAME_SIZE = 64,
    PAIR_VALUE_SIZE = 1024,
    TEXT_SIZE = 256,
    FILE_SIZE = 4096,
    JOIN_SIZE = 16384,
    TOGETHER_MAX = 64,       /* launches that are carried out at once */
    LAUNCH_LIMIT_MS = 55000, /* the head waits 60 s for a launch, ... */
    OTHER_LIMIT_MS = 25000,  /* ... and 30 s for all else */
};

struct pair {
    char name[PAIR_NAME_SIZE], value[PAIR_VALUE_SIZE];
};
struct pairs {
    size_t      count;
    struct pair items[PAIRS_MAX];
};
/* NULL: it is not there. */
const char *pairs_find(const struct pairs *pairs, const char *name);

struct cluster { /* what the head has said of itself */
    char         id[TEXT_SIZE], head_file[FILE_SIZE];
    struct pairs settings; /* of the cluster file's `provider` */
};
struct request {
    char         op[32], id[TEXT_SIZE], type[TEXT_SIZE], labels[TEXT_SIZE * 2], handle[TEXT_SIZE];
    char         join[JOIN_SIZE];     /* a secret: what the instance joins with; "": the head's file is enough */
    uint64_t     number, boot_s;      /* boot_s: of the type; 0: not said */
    bool         learns;              /* nobody knows what it has: its raylet finds out */
    uint64_t     more;                /* of a launch: so many of the same type come right behind it */
    struct pairs resources, settings; /* of the type */
};
struct said { /* the answer */
    char   text[TEXT_SIZE], handle[TEXT_SIZE];
    mt_buf listed;
};
/* `failed`: why it will never be a node; "": nothing of that. */
void said_list(struct said *said, const char *id, const char *handle, bool is_waiting, const char *failed);

/* A setting of the type, else of the provider; NULL: neither has it. */
const char *setting_find(const struct cluster *cluster, const struct request *r, const char *name);
/* The value of a label in a text of labels, as far as TEXT_SIZE goes; false: it has none of that name. */
bool labels_find(const char *labels, const char *key, char *out);
/* Whether an id is one of this cluster's. */
bool cluster_has(const struct cluster *cluster, const char *id);

/* ---- options.c: the command line of a raylet, and scripts of sh ---- */

struct options {
    const char *argv[40];
    size_t      count;
    char        labels[TEXT_SIZE * 2 + 96], others[FILE_SIZE]; /* what argv points to */
};
void option_add(struct options *o, const char *name, const char *value); /* value NULL: not said */
/* What the request says of the node: --labels (with the handle), --node-name, what it has. `out` borrows from `r`. */
void options_of(const struct request *r, const char *handle, struct options *out);
void script_add(mt_buf *script, const char *text);
void script_add_word(mt_buf *script, const char *word); /* quoted */
void script_add_options(mt_buf *script, const struct options *o);
/* Where a node has the program manta: in that prefix (NULL: where this one lies here). Returns it; it may be in `out`. */
const char *manta_there(const char *prefix, char out[FILE_SIZE]);

/* ---- child.c: programs that are asked ---- */

struct child {
    const char *const *argv; /* the program is looked for in PATH */
    const char        *input;
    mt_buf             out, wrong; /* what it has printed, ended by a NUL; children_free */
    int                status;     /* its exit status; < 0: it could not be run, was killed, or took too long */
    bool               is_late;
    /* inner: */
    pid_t  pid;
    int    to, from[2], ends;
    size_t given;
};
/* Runs all of them at once, and waits until each has ended; who has not by then is killed. */
void children_run(struct child *children, size_t count, int limit_ms);
void children_free(struct child *children, size_t count);
/* Why it is not well: the last line that it has said, or how it has ended. */
void child_why(const struct child *child, char out[TEXT_SIZE]);

/* ---- the providers ---- */

/* Each true, or false with the reason in said->text. */
struct provider {
    bool (*list)(const struct cluster *cluster, struct said *said);
    bool (*launch)(const struct cluster *cluster, const struct request *r, struct said *said);
    bool (*terminate)(const struct cluster *cluster, const struct request *r, struct said *said);
    /* Of a provider that can start several at once, instead of `launch`: so many of these (1 to TOGETHER_MAX), ... */
    size_t (*together)(const struct cluster *cluster, const struct request *r);
    /* ... and starts `count` of one type; what came of each is in ok[i] and said[i]. */
    void (*launch_all)(const struct cluster *cluster, const struct request *requests, size_t count, struct said *said, bool *ok);
};
extern const struct provider provider_local, provider_command, provider_ssh, provider_slurm, provider_kubernetes;

#endif
