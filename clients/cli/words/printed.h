/* SPDX-License-Identifier: Apache-2.0
 *
 * printed.h - the exit status of a program that prints: what could not be printed was not told. For programs that link nothing else
 * of words/. Thread: the main one.
 */
#ifndef CLI_WORDS_PRINTED_H
#define CLI_WORDS_PRINTED_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* `status`; 1 in place of 0 where standard output could not take all of it, and that is said. */
static inline int cli_printed(const char *program, int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != 0)
        return status;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
    return 1;
}

#endif
