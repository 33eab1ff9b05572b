/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.h - tickets that machines join with, and nodes that may not belong to the cluster any more. Thread: main.
 */
#ifndef CLI_TOKENS_H
#define CLI_TOKENS_H

#include "clients/cli/words/words.h"

int cli_token_create(const struct cli_args *args);
int cli_token_list(const struct cli_args *args);
int cli_token_revoke(const struct cli_args *args);
int cli_node_revoke(const struct cli_args *args);

#endif
