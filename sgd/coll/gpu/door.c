/* SPDX-License-Identifier: Apache-2.0
 *
 * door.c - opens the NCCL plugin where there is one. Owns nothing. Thread: any (the system's loader counts openings).
 */
#include "sgd/coll/gpu/nccl.h"

#include "kernels/plugin.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef MANTA_NCCL_BUILT
enum { IS_BUILT = 1 };
#else
enum { IS_BUILT = 0 }; /* one of another build can be named all the same */
#endif

static mt_status refuse(char text[SGD_NCCL_TEXT], const char *why)
{
    snprintf(text, SGD_NCCL_TEXT, "no NCCL: %.200s", why);
    return mt_error(MT_EUNSUPPORTED, 0, "open NCCL");
}

mt_status sgd_nccl_open(const struct sgd_nccl_plugin **out, char text[SGD_NCCL_TEXT])
{
    char        path[PATH_MAX], why[K_PLUGIN_TEXT];
    const char *asked = getenv("MANTA_NCCL_PLUGIN");
    const void *symbol;
    if (!IS_BUILT && !(asked && asked[0]))
        return refuse(text, "this build has none (nccl.h or its library was not found when it was configured)");
    if (k_plugin_find("libmanta_nccl.so", "MANTA_NCCL_PLUGIN", path, why).code != 0 ||
        k_plugin_open(path, SGD_NCCL_SYMBOL, &symbol, why).code != 0)
        return refuse(text, why);
    const struct sgd_nccl_plugin *plugin = symbol;
    if (plugin->abi != SGD_NCCL_ABI)
        return refuse(text, "libmanta_nccl.so is of another build");
    *out = plugin;
    return mt_ok();
}
