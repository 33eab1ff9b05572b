/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - verbs that look at a cluster. Thread: main.
 */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "clients/cli/words/words.h"

/* ---- state.c, for timeline.c too ---- */

/* What the nodes tell of a kind, with the filters and the limit of the options; one_more_filter may be NULL. NULL: the reason
 * is printed. */
manta_rows *cli_rows(const struct cli_args *args, manta_client *client, const char *kind, double limit,
                     const char *one_more_filter);

/* ---- verbs ---- */
int cli_status(const struct cli_args *args);
int cli_list_nodes(const struct cli_args *args);
int cli_list(const struct cli_args *args);
int cli_get(const struct cli_args *args);
int cli_summary(const struct cli_args *args);
int cli_stack(const struct cli_args *args);
int cli_memory(const struct cli_args *args);
int cli_timeline(const struct cli_args *args);
int cli_healthcheck(const struct cli_args *args);

#endif
