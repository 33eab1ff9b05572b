/* SPDX-License-Identifier: Apache-2.0
 *
 * provider.h - what the files of manta-provider share. Thread: main.
 */
#ifndef PROVIDER_H
#define PROVIDER_H

#include "core/base/buf.h"

#include <stdbool.h>

enum { PAIRS_MAX = 64, PAIR_NAME_SIZE = 64, PAIR_VALUE_SIZE = 1024, TEXT_SIZE = 256, FILE_SIZE = 4096 };

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
    uint64_t     number;
    struct pairs resources, settings; /* of the type */
};
struct said { /* the answer */
    char   text[TEXT_SIZE], handle[TEXT_SIZE];
    mt_buf listed;
};
void said_list(struct said *said, const char *id, const char *handle);

/* Each true, or false with the reason in said->text. */
struct provider {
    bool (*list)(const struct cluster *cluster, struct said *said);
    bool (*launch)(const struct cluster *cluster, const struct request *r, struct said *said);
    bool (*terminate)(const struct cluster *cluster, const struct request *r, struct said *said);
};
extern const struct provider provider_local, provider_command;

#endif
