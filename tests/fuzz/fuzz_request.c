/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_request.c - what strangers with a ticket send: requests for certificates, of any bytes or a right one that was altered. None
 * but the right one is taken. The text of an identity, likewise: it is read, or refused with a reason.
 */
#include "core/io/private.h"
#include "core/io/tls/issue.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static mt_buf right;

static void take(const uint8_t *bytes, size_t size)
{
    mt_status st = io_tls_request_check(mt_view_of(bytes, size));
    bool      is_right = size == right.size && memcmp(bytes, right.data, size) == 0;
    if ((st.code == MT_OK) != is_right || (st.code && !st.what))
        abort(); /* a fuzzer that makes a key and signs with it would deserve better */
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    mt_buf         key = {0}, altered = {0};
    struct io_tls *tls;
    if (!right.size && io_tls_ask(&right, &key).code)
        abort();
    io_private_wipe(&key);
    take(input, size);
    if (mt_buf_append(&altered, right.data, right.size).code)
        abort();
    for (size_t i = 0; i + 2 < size && i < 30; i += 3) /* where, and what is put there */
        altered.data[(input[i] << 8 | input[i + 1]) % altered.size] = input[i + 2];
    take(altered.data, altered.size);
    mt_buf_fini(&altered);
    mt_status st = io_tls_parse(mt_view_of(input, size), &tls);
    if (st.code == MT_OK)
        io_tls_free(tls);
    else if (!st.what)
        abort();
    return 0;
}
