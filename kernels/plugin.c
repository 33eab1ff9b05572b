/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c - finds and opens plugins. Owns nothing: a plugin stays until the process ends. Thread: any.
 */
#include "kernels/plugin.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool beside(const char *folder, const char *between, const char *name, char path[PATH_MAX])
{
    int size = snprintf(path, PATH_MAX, "%s%s%s", folder, between, name);
    return size > 0 && size < PATH_MAX && access(path, R_OK) == 0;
}

mt_status k_plugin_find(const char *name, const char *variable, char path[PATH_MAX], char text[K_PLUGIN_TEXT])
{
    const char *asked = getenv(variable);
    Dl_info     own;
    char        folder[PATH_MAX];

    if (asked && asked[0]) {
        if (beside(asked, "", "", path))
            return mt_ok();
        snprintf(text, K_PLUGIN_TEXT, "%s names %.150s, which can't be read", variable, asked);
        return mt_error(MT_EUNSUPPORTED, 0, "find a plugin");
    }
    if (!dladdr((void *)(uintptr_t)&k_plugin_find, &own) || !own.dli_fname || !realpath(own.dli_fname, folder)) {
        snprintf(text, K_PLUGIN_TEXT, "the folder of %s is not known; set %s to it", name, variable);
        return mt_error(MT_EUNSUPPORTED, 0, "find a plugin");
    }
    *strrchr(folder, '/') = 0;
    if (beside(folder, "/", name, path) || beside(folder, "/../lib/", name, path))
        return mt_ok();
    snprintf(text, K_PLUGIN_TEXT, "%s is not in %.120s; set %s to it", name, folder, variable);
    return mt_error(MT_EUNSUPPORTED, 0, "find a plugin");
}

mt_status k_plugin_open(const char *path, const char *symbol, const void **out, char text[K_PLUGIN_TEXT])
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *out = library ? dlsym(library, symbol) : NULL;
    if (*out)
        return mt_ok();
    const char *why = dlerror();
    snprintf(text, K_PLUGIN_TEXT, "a plugin can't be loaded: %.200s", why ? why : path);
    return mt_error(MT_EUNSUPPORTED, 0, "open a plugin");
}
