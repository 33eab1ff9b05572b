/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_pmi.c - what ranks may say on their PMI connections, whatever it is: answers are whole lines, and bounds hold.
 */
#include "clients/gang/pmi/pmi.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void out_check(struct gng_pmi *p)
{
    for (int i = 0; i < p->local; i++) {
        mt_buf *out = &p->ranks[i].out;
        if (out->size && out->data[out->size - 1] != '\n')
            abort();
        out->size = 0;
    }
    if (p->fault_rank >= p->size || p->pairs.count > MT_GANG_PMI_KEYS_MAX)
        abort();
}

/* Parts of the input are said by one rank after the other; a part begins with whose it is, and how long. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const char init[] = "cmd=init pmi_version=1 pmi_subversion=1\n";
    struct gng_pmi    p;
    int               first = size && input[0] & 1 ? 0 : 2; /* all ranks are here, or others are elsewhere */
    if (gng_pmi_init(&p, first, 3, first ? 5 : 3, "(vector,(0,1,3))", "s").code)
        abort();
    for (size_t at = 1; at + 2 < size;) {
        int    rank = first + input[at] % 3;
        size_t part = input[at + 1] < size - at - 2 ? input[at + 1] : size - at - 2;
        if (input[at] & 0x80 && gng_pmi_take(&p, rank, mt_view_text(init)).code)
            abort();
        mt_status st = input[at] & 0x40   ? gng_pmi_end(&p, rank)
                       : input[at] & 0x20 ? gng_pmi_fenced(&p, mt_view_of(input + at + 2, part))
                                          : gng_pmi_take(&p, rank, mt_view_of(input + at + 2, part));
        if (st.code && st.code != MT_EPROTO)
            abort();
        out_check(&p);
        at += 2 + part;
    }
    gng_pmi_fini(&p);
    return 0;
}
