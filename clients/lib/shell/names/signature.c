/* SPDX-License-Identifier: Apache-2.0
 *
 * signature.c - what a signature says of results.
 *
 * Owns:   nothing. Thread: any.
 */
#include "clients/lib/shell/names/names.h"

uint32_t lib_result_count(const char *signature)
{
    const char *letters = strchr(signature, '>');
    return letters ? (uint32_t)strcspn(letters + 1, "@") : 0; /* a concurrency group may follow */
}

char lib_result_letter(const char *signature, uint32_t index)
{
    const char *letters = signature ? strchr(signature, '>') : NULL;
    for (uint32_t i = 0; letters && letters[1] && letters[1] != '*' && i < index; i++)
        letters++;
    return letters && letters[1] && letters[1] != '@' ? letters[1] : '*';
}

char lib_result_wanted(const char *signature)
{
    const char *letters = signature ? strchr(signature, '>') : NULL;
    return !letters ? '*' : letters[1] && letters[1] != '@' ? letters[1] : 'v';
}
