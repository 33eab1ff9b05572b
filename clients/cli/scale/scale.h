/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.h - nodes that are started and given back by themselves: the cluster file and the verbs about it. Thread: main.
 */
#ifndef CLI_SCALE_H
#define CLI_SCALE_H

#include "clients/cli/words/words.h"

int cli_up(const struct cli_args *args);
int cli_down(const struct cli_args *args);
int cli_scale_look(const struct cli_args *args); /* status, explain, history */
int cli_scale_request(const struct cli_args *args);

#endif
