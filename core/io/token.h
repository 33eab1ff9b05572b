/* SPDX-License-Identifier: Apache-2.0
 *
 * token.h - the cluster token: 256 random bits, in hexadecimal, in a file that only its user can read. Whoever holds
 * it may do everything, so it never stands in argv, in a worker's environment, or in a log.
 */
#ifndef MT_IO_TOKEN_H
#define MT_IO_TOKEN_H

#include "core/base/limits/net.h"
#include "core/base/status.h"

#include <stdbool.h>

enum { IO_TOKEN_HEX = 2 * MT_TOKEN_BYTES };

struct io_token {
    char hex[IO_TOKEN_HEX + 1];
};

/* Draws a token and writes it to a new file (mode 0600). Makes the file's folder (0700) if it is missing; its parents
 * must exist. EEXIST (there is a file already: read it), EAUTH (the folder is open to others), EDISK_FULL, ESYS.
 * Blocks (fsync). Any thread. */
MT_MUST_USE mt_status io_token_make(const char *path, struct io_token *out_token);
/* Reads the file. ENOENT; EAUTH where it is another user's, or others can read it, or it is a link; ECORRUPT where it
 * holds anything else than one token. */
MT_MUST_USE mt_status io_token_read(const char *path, struct io_token *out_token);
/* Takes a token from text, say a user's environment. EAUTH where it is none. */
MT_MUST_USE mt_status io_token_parse(const char *text, struct io_token *out_token);
/* Takes the same time for every text of the right length, whatever it says. */
bool io_token_equal(const struct io_token *token, const char *text, size_t size);
/* Overwrites it; the compiler does not leave this out. */
void io_token_wipe(struct io_token *token);

#endif
