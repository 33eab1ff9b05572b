/* SPDX-License-Identifier: Apache-2.0
 *
 * so_needy.c - a shared object that needs another file beside it: loaded here, it cannot be loaded where only it is.
 */
#include <manta.h>

int64_t env_dep_value(void);

MANTA_TASK(int64_t, so_needy, (int64_t, x))
{
    return x + env_dep_value();
}
