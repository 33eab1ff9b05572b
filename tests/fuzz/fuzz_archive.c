/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_archive.c - archives of runtime environments with any bytes: what is unpacked stays in its folder.
 */
#include "core/sha/sha256.h"
#include "core/base/limits/env.h"
#include "core/sys/file.h"
#include "raylet/files/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    char      base[] = "/tmp/mt-fuzz.XXXXXX", folder[64], text[MT_ENV_TEXT_BYTES_MAX];
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    bool      is_done;
    int       fd = memfd_create("archive", MFD_CLOEXEC);
    /* The head is right, so that what follows is reached; the number of entries is the input's. */
    static const uint8_t head[] = {'M', 'A', 'N', 'T', 'A', 'E', 'N', 'V', 1, 0, 0, 0};
    if (fd < 0 || !mkdtemp(base) || write(fd, head, sizeof head) < 0 || write(fd, input, size) < 0)
        abort();
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, head, sizeof head);
    mt_sha256_add(&sha, input, size);
    mt_sha256_end(&sha, sum);
    snprintf(folder, sizeof folder, "%s/it", base);
    is_done = rlt_unpack(fd, sizeof head + size, sum, folder, text, sizeof text);
    if (is_done == (text[0] != 0))
        abort(); /* a failure says why, success says nothing */
    if (is_done)
        mt_tree_remove(folder);
    close(fd);
    if (rmdir(base) < 0)
        abort(); /* something was left, or made beside it */
    return 0;
}
