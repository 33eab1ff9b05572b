/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - where a sweep lies. See folder.h.
 */
#include "sweep/journal/folder.h"

#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

manta_status swp_fail(manta_error *e, manta_status code, const char *format, ...)
{
    va_list args;
    *e = (manta_error){.code = code};
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return code;
}

static bool name_is_valid(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size < MT_SWEEP_NAME_BYTES_MAX && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
}

manta_status swp_folder_of(const char *storage, const char *name, char out[MT_PATH_BYTES_MAX], manta_error *e)
{
    const char *home = getenv("HOME");
    char        here[MT_PATH_BYTES_MAX] = ""; /* trials may have another one */
    name = name ? name : "sweep";
    if (!name_is_valid(name))
        return swp_fail(e, MANTA_EINVAL, "name \"%.80s\": 1 to %d of A-Z a-z 0-9 . _ -, and no dot first", name,
                        MT_SWEEP_NAME_BYTES_MAX - 1);
    if (!storage)
        storage = getenv("MANTA_SWEEPS");
    if (storage && storage[0] && storage[0] != '/' && !getcwd(here, sizeof here))
        return swp_fail(e, MANTA_ESYS, "storage \"%.200s\": the working directory is not known", storage);
    int n = storage && storage[0] ? snprintf(out, MT_PATH_BYTES_MAX, "%s%s%s/%s", here, here[0] ? "/" : "", storage, name)
                                  : snprintf(out, MT_PATH_BYTES_MAX, "%s/.manta/sweeps/%s", home ? home : ".", name);
    if (n >= MT_PATH_BYTES_MAX - 64)
        return swp_fail(e, MANTA_EINVAL, "storage: the path is too long");
    return MANTA_OK;
}
