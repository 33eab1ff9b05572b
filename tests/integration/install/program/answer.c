/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c - a user's own shared library, beside the program that needs it.
 */
#include <stdint.h>

int64_t answer(int64_t x);

int64_t answer(int64_t x)
{
    return x + 42;
}
