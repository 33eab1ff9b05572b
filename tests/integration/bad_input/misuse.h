/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse.h - a header as users write them: two files include it, and both register what it defines.
 */
#ifndef MISUSE_H
#define MISUSE_H

#include <manta.h>

MANTA_TASK(int64_t, misuse_shared, (int64_t, x))
{
    return x + 1;
}

#endif
