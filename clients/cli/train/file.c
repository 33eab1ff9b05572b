/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - a file that a run tells, on a disk that may be full for a while.
 *
 * Owns: nothing; the file is its log's. Thread: the main one.
 */
#include "clients/cli/train/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void train_file_fail(struct train_file *file, const char *what, int err)
{
    fprintf(stderr, "manta train: %s ends here: %s\n", what, strerror(err));
    close(file->out.fd);
    file->out.fd = -1;
    mt_buf_fini(&file->out.waiting);
}

void train_file_put(struct train_file *file, const char *what, const void *data, size_t size)
{
    int err = mt_append(&file->out, data, size);
    if (err && err != EAGAIN) {
        train_file_fail(file, what, err);
        return;
    }
    if (file->is_full != (err == EAGAIN))
        fprintf(stderr, "manta train: %s: %s\n", what,
                err ? "the disk is full: what is told waits for room" : "there is room again, and all of it is written");
    file->is_full = err == EAGAIN;
}

void train_file_close(struct train_file *file, const char *what)
{
    if (file->out.fd >= 0 && file->out.waiting.size)
        train_file_put(file, what, NULL, 0);
    if (file->out.fd >= 0 && file->out.waiting.size)
        train_file_fail(file, what, ENOSPC);
    if (file->out.fd >= 0)
        close(file->out.fd);
    file->out.fd = -1;
    mt_buf_fini(&file->out.waiting);
}
