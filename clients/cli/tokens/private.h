/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share. named.c < tokens.c.
 */
#ifndef CLI_TOKENS_PRIVATE_H
#define CLI_TOKENS_PRIVATE_H

#include "clients/cli/table/table.h"

#include <stdlib.h>

int cli_named_create(const struct cli_args *args, manta_client *client);
/* Adds a row for each named token. */
bool cli_named_rows(manta_client *client, json_t *rows, manta_error *e);

#endif
