/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_rendezvous.c - what may come to Horovod's rendezvous, whatever it is: each answer is one of HTTP, and bounds hold.
 */
#include "clients/gang/horovod/rendezvous.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void answer_check(struct gng_rendezvous *v, struct gng_request *r)
{
    if (r->is_done != (r->out.size > 0) || (r->is_done && memcmp(r->out.data, "HTTP/1.0 ", 9) != 0) ||
        v->count > MT_GANG_HTTP_KEYS_MAX || r->body > MT_GANG_HTTP_VALUE_BYTES || r->head > MT_GANG_HTTP_HEAD_BYTES)
        abort();
    if (r->is_done)
        gng_request_fini(r);
}

/* Parts of the input come on one connection after the other; a part begins with whose it is and what
   stands before it, and how long. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const char *const before[] = {"",
                                         "PUT /s:1/global/",
                                         "GET /s:1/",
                                         "DELETE /s:1/global/1",
                                         "PUT /s:1/global/0 HTTP/1.1\r\nContent-Length: 1",
                                         " HTTP/1.1\r\n",
                                         "\r\n\r\n",
                                         "PUT /s:1/cross_"};
    struct gng_rendezvous    v;
    struct gng_request       of[3] = {0};
    gng_rendezvous_init(&v, 3, mt_view_text("s"), 1);
    for (size_t at = 0; at + 2 <= size;) {
        struct gng_request *r = &of[input[at] % 3];
        size_t              part = input[at + 1] < size - at - 2 ? input[at + 1] : size - at - 2;
        if (gng_request_take(&v, r, mt_view_text(before[input[at] / 3 % 8])).code)
            abort();
        answer_check(&v, r);
        if (gng_request_take(&v, r, mt_view_of(input + at + 2, part)).code)
            abort();
        answer_check(&v, r);
        at += 2 + part;
    }
    for (int i = 0; i < 3; i++)
        gng_request_fini(&of[i]);
    gng_rendezvous_fini(&v);
    if (v.count || v.bytes)
        abort();
    return 0;
}
