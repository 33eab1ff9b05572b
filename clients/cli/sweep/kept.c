/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - see kept.h.
 */
#include "clients/cli/sweep/kept.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NAME of the sweep's folder; "": the path is too long. */
static void path_of(const char *storage, const char *sweep, const char *name, char out[KEPT_PATH_SIZE])
{
    const char *home = getenv("HOME"), *sweeps = getenv("MANTA_SWEEPS");
    int         n;
    storage = storage ? storage : sweeps && sweeps[0] ? sweeps : NULL;
    if (storage)
        n = snprintf(out, KEPT_PATH_SIZE, "%s/%s/%s", storage, sweep, name);
    else
        n = snprintf(out, KEPT_PATH_SIZE, "%s/.manta/sweeps/%s/%s", home ? home : ".", sweep, name);
    if (n >= KEPT_PATH_SIZE)
        out[0] = 0;
}

/* What the sweep was run by last is kept, whole or not at all. */
static void text_write(const struct settings *read, const char *path)
{
    char part[KEPT_PATH_SIZE + 8];
    snprintf(part, sizeof part, "%s.new", path);
    FILE *to = read->text ? fopen(part, "we") : NULL;
    bool  is_whole = to && fwrite(read->text, 1, read->size, to) == read->size;
    if (to && fclose(to) == 0 && is_whole)
        rename(part, path);
}

void kept_write(const char *storage, const char *name, const struct settings *read)
{
    char path[KEPT_PATH_SIZE], here[KEPT_PATH_SIZE];
    path_of(storage, name, "sweep.yaml", path);
    text_write(read, path);
    path_of(storage, name, "begun_in", path);
    FILE *f = getcwd(here, sizeof here) ? fopen(path, "we") : NULL; /* the folder may have moved: the last one counts */
    if (f) {
        fputs(here, f);
        fclose(f);
    }
}

static bool fail(char error[KEPT_ERROR_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char error[KEPT_ERROR_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, KEPT_ERROR_SIZE, format, args);
    va_end(args);
    return false;
}

/* The folder that is written in `path`. False: nothing is written there, by an older release. */
static bool begun_in(const char *path, char out[KEPT_PATH_SIZE])
{
    FILE  *f = fopen(path, "re");
    size_t size = f ? fread(out, 1, KEPT_PATH_SIZE - 1, f) : 0;
    out[size] = 0;
    if (f)
        fclose(f);
    return size > 0;
}

/* A relative address of the cluster was meant from here, too. */
static void address_keep(void)
{
    char        path[KEPT_PATH_SIZE];
    const char *address = getenv("MANTA_ADDRESS");
    if (address && address[0] && address[0] != '/' && realpath(address, path))
        setenv("MANTA_ADDRESS", path, 1);
}

bool kept_enter(const char *storage, const char *name, char out_file[KEPT_PATH_SIZE], char out_storage[KEPT_PATH_SIZE],
                char error[KEPT_ERROR_SIZE])
{
    char path[KEPT_PATH_SIZE], folder[KEPT_PATH_SIZE];
    path_of(storage, name, ".", path);
    if (!realpath(path, folder))
        return fail(error, errno == ENOENT ? "there is no sweep \"%s\" (%.*s)" : "the sweep \"%s\" in %.*s can't be read: %s", name,
                    (int)strlen(path) - 2, path, strerror(errno));
    path_of(storage, name, "sweep.yaml", path);
    if (!realpath(path, out_file))
        return fail(error, "the sweep \"%s\" keeps no file that describes it (%s): the program that has begun it goes on with it",
                    name, path);
    snprintf(out_storage, KEPT_PATH_SIZE, "%s", folder);
    *strrchr(out_storage, '/') = 0;
    path_of(storage, name, "begun_in", path);
    if (!begun_in(path, folder))
        return true;
    address_keep();
    if (chdir(folder) != 0)
        return fail(error,
                    "the folder %s, in which the sweep \"%s\" was begun, can't be entered: %s. From another one: manta sweep %s",
                    folder, name, strerror(errno), out_file);
    return true;
}
