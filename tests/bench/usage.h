/* SPDX-License-Identifier: Apache-2.0
 *
 * usage.h - how a program of `manta bench --NAME` is called: told on request, as an answer, and for words that are wrong.
 */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool bench_is_help(int argc, char **argv)
{
    return argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

/* The exit status. `words`: what stands behind "manta bench". */
static inline int bench_usage(bool is_help, const char *words)
{
    fprintf(is_help ? stdout : stderr, "usage: manta bench %s\n", words);
    return is_help ? 0 : 2;
}

#endif
