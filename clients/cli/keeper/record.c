/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - see keeper.h.
 *
 * Owns: nothing. Thread: any.
 */
#include "clients/cli/keeper/keeper.h"

#include "core/sys/file.h"
#include "core/base/limits/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 512 };

bool cli_record_read(const char *file, struct cli_record *out)
{
    char text[TEXT_SIZE];
    memset(out, 0, sizeof *out);
    if (mt_file_read(file, text, sizeof text) <= 0)
        return false;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        struct cli_process process = {0, 0};
        if (sscanf(line, "daemon %d %lu", &process.pid, &process.start) == 2)
            out->daemon = process;
        else if (sscanf(line, "keeper %d %lu", &process.pid, &process.start) == 2)
            out->keeper = process;
        else if (strncmp(line, "last ", 5) == 0)
            snprintf(out->last, sizeof out->last, "%s", line + 5);
        else
            (void)sscanf(line, "restarts %u", &out->restarts);
    }
    return true;
}

int cli_record_write(const char *file, const struct cli_record *r)
{
    char next[CLI_RECORD_PATH_SIZE], text[TEXT_SIZE];
    int  size = snprintf(text, sizeof text, "daemon %d %lu\nkeeper %d %lu\nrestarts %u\nlast %s\n", r->daemon.pid, r->daemon.start,
                         r->keeper.pid, r->keeper.start, r->restarts, r->last);
    if (snprintf(next, sizeof next, "%s.new", file) >= (int)sizeof next)
        return ENAMETOOLONG;
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    errno = ENOSPC; /* of a short write */
    bool is_written = write(fd, text, (size_t)size) == size;
    is_written = close(fd) == 0 && is_written;
    return is_written && rename(next, file) == 0 ? 0 : errno;
}

int cli_keeper_pause_ms(int before_ms, int64_t lived_ms)
{
    if (before_ms == 0 || lived_ms >= MT_CLI_KEEPER_CALM_MS)
        return MT_CLI_KEEPER_PAUSE_MS_MIN;
    return before_ms * 2 < MT_CLI_KEEPER_PAUSE_MS_MAX ? before_ms * 2 : MT_CLI_KEEPER_PAUSE_MS_MAX;
}
