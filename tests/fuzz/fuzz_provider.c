/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_provider.c - lines of a provider, of any bytes: what is taken is of our own cluster, and its texts end.
 */
#include "scheduler/head/shell/provider/private.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const char      right[] = "{\"op\":\"list\",\"number\":7,\"ok\":true,\"text\":\"\",\"handle\":\"h\",\"instances\":["
                                     "{\"id\":\"c-1\",\"handle\":\"h\",\"waits\":true},{\"id\":\"c-2\",\"failed\":\"no\"}]}";
    struct provider_answer answer;
    mt_buf                 line = {0};
    /* A right beginning of a length that the input says, so that what follows is reached. */
    size_t begin = size ? input[0] % sizeof right : 0;
    if (mt_buf_reserve(&line, 1).code || mt_buf_append(&line, right, begin).code ||
        (size && mt_buf_append(&line, input + 1, size - 1).code))
        abort();
    mt_status st = head_provider_read(mt_buf_view(&line), "c", &answer);
    if (st.code && !st.what)
        abort(); /* a refusal says why */
    if (!memchr(answer.op, 0, sizeof answer.op) || !memchr(answer.handle, 0, sizeof answer.handle) ||
        !memchr(answer.text, 0, sizeof answer.text))
        abort();
    for (size_t i = 0; i < answer.listed.count; i++)
        if (answer.listed.data[i].instance == 0 || !memchr(answer.listed.data[i].handle, 0, sizeof answer.listed.data[i].handle) ||
            !memchr(answer.listed.data[i].failed, 0, sizeof answer.listed.data[i].failed))
            abort();
    mt_vec_fini(&answer.listed);
    mt_buf_fini(&line);
    return 0;
}
