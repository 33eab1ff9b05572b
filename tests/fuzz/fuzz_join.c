/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_join.c - files to join a cluster with, of any bytes: what is taken is written back as it was.
 */
#include "core/io/tls/join.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const char right[] = "manta-join 1\naddress=10.0.0.1:6380\ntoken="
                                "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n-----BEGIN ";
    static const char ticket[] = "manta-join 2\naddress=10.0.0.1:6380\ncheck=0011223344556677\n-----BEGIN ";
    struct io_join    join;
    mt_buf            text = {0}, again = {0};
    /* A right beginning of a length that the input says, so that what follows is reached; the whole of it stands for itself. */
    bool   is_ticket = size && input[0] >= 128;
    size_t begin = !size ? 0 : is_ticket ? input[0] % sizeof ticket : input[0] % sizeof right;
    if (mt_buf_append(&text, is_ticket ? ticket : right, begin).code || (size && mt_buf_append(&text, input + 1, size - 1).code))
        abort();
    mt_status st = io_join_read(mt_buf_view(&text), &join);
    if (!st.code && (io_join_write(&join, &again).code || !mt_view_equal(mt_buf_view(&text), mt_buf_view(&again))))
        abort();
    if (st.code && !st.what)
        abort(); /* a refusal says why */
    mt_buf_fini(&text);
    mt_buf_fini(&again);
    return 0;
}
