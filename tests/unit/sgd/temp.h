/* SPDX-License-Identifier: Apache-2.0
 *
 * temp.h - a private folder for a test, and files in it.
 */
#ifndef TEST_SGD_TEMP_H
#define TEST_SGD_TEMP_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEMP_PATH = 512 };

static inline int temp_make(void **state)
{
    const char *base = getenv("TMPDIR");
    char       *path = malloc(TEMP_PATH);
    if (!path)
        return -1;
    snprintf(path, TEMP_PATH, "%s/manta-sgd-test-XXXXXX", base ? base : "/tmp");
    *state = path;
    return mkdtemp(path) ? 0 : -1;
}

static inline int temp_entry_remove(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline void temp_clear(const char *path)
{
    nftw(path, temp_entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int temp_remove(void **state)
{
    temp_clear(*state);
    free(*state);
    return 0;
}

static inline char *temp_path(void **state, const char *name, char out[TEMP_PATH])
{
    int n = snprintf(out, TEMP_PATH, "%s/%s", (char *)*state, name);
    assert_true(n > 0 && n < TEMP_PATH);
    return out;
}

static inline void file_put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Reads a whole file; free() the result. */
static inline unsigned char *file_get(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    unsigned char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    *out_size = (size_t)size;
    return data;
}

#endif
