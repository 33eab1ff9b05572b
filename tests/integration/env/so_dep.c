/* SPDX-License-Identifier: Apache-2.0
 *
 * so_dep.c - what so_needy.c needs.
 */
#include <stdint.h>

__attribute__((visibility("default"))) int64_t env_dep_value(void);

int64_t env_dep_value(void)
{
    return 7;
}
