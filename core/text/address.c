/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c - see address.h. Owns nothing.
 */
#include "core/text/address.h"

#include <stdint.h>
#include <string.h>

bool mt_address_split(const char *address, char *out_host, size_t size, const char **out_port)
{
    const char *colon = strrchr(address, ':');
    size_t      length = colon ? (size_t)(colon - address) : 0;
    bool        has_brackets = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    length -= has_brackets ? 2 : 0;
    if (length == 0 || length >= size)
        return false;
    memcpy(out_host, address + has_brackets, length);
    out_host[length] = '\0';
    *out_port = colon + 1;
    return true;
}

bool mt_address_is_any(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

size_t mt_address_count(const char *list)
{
    size_t count = list[0] != '\0';
    for (; *list; list++)
        count += *list == ',';
    return count;
}

bool mt_address_at(const char *list, size_t index, char *out, size_t size)
{
    for (; index > 0 && *list; index--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    size_t length = strcspn(list, ",");
    if (length == 0 || length >= size)
        return false;
    memcpy(out, list, length);
    out[length] = '\0';
    return true;
}

size_t mt_address_find(const char *list, const char *address)
{
    size_t size = strlen(address), index = 0;
    for (const char *at = list; *at; at += *at == ',', index++) {
        size_t length = strcspn(at, ",");
        if (length == size && strncmp(at, address, size) == 0)
            return index;
        at += length;
    }
    return SIZE_MAX;
}
