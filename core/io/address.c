/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c - see address.h. Owns: nothing. Thread: any.
 */
#include "core/io/address.h"

#include <arpa/inet.h>
#include <string.h>

bool io_address_read(const char *host, uint16_t port, struct sockaddr_in6 *out, socklen_t *out_size)
{
    struct sockaddr_in *in4 = (struct sockaddr_in *)(void *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        *out_size = sizeof *in4;
        return true;
    }
    out->sin6_family = AF_INET6;
    out->sin6_port = htons(port);
    *out_size = sizeof *out;
    return inet_pton(AF_INET6, host, &out->sin6_addr) == 1;
}
