/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_door.c - opens the NCCL plugin where there is one. Owns nothing. Thread: any (the system's loader counts openings).
 */
#include "sgd/nccl.h"

#include "kernels/plugin.h"

#include <stdio.h>

static mt_status refuse(char text[SGD_NCCL_TEXT], const char *why)
{
    snprintf(text, SGD_NCCL_TEXT, "no NCCL: %.200s", why);
    return mt_error(MT_EUNSUPPORTED, 0, "open NCCL");
}

mt_status sgd_nccl_open(const struct sgd_nccl_plugin **out, char text[SGD_NCCL_TEXT])
{
#ifdef MANTA_NCCL_BUILT
    char        path[PATH_MAX], why[K_PLUGIN_TEXT];
    const void *symbol;
    if (k_plugin_find("libmanta_nccl.so", "MANTA_NCCL_PLUGIN", path, why).code != 0 ||
        k_plugin_open(path, SGD_NCCL_SYMBOL, &symbol, why).code != 0)
        return refuse(text, why);
    *out = symbol;
    return (*out)->abi == SGD_NCCL_ABI ? mt_ok() : refuse(text, "libmanta_nccl.so is of another build");
#else
    (void)out;
    return refuse(text, "this build has none (nccl.h or its library was not found when it was configured)");
#endif
}
