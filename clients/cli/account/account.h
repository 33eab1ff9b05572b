/* SPDX-License-Identifier: Apache-2.0
 *
 * account.h - verbs of users and what they have spent. Thread: main.
 */
#ifndef CLI_ACCOUNT_H
#define CLI_ACCOUNT_H

#include "clients/cli/words/words.h"

int cli_account(const struct cli_args *args);
int cli_user_set(const struct cli_args *args);
int cli_user_list(const struct cli_args *args);

#endif
