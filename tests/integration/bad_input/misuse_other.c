/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_other.c - the second file of a user's program.
 */
#include "tests/integration/bad_input/misuse.h"

/* One registration is as good as the other. */
manta_ref *misuse_other_call(int64_t x);
manta_ref *misuse_other_call(int64_t x)
{
    return misuse_shared_remote(NULL, x);
}
