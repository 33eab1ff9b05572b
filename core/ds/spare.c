/* SPDX-License-Identifier: Apache-2.0
 *
 * spare.c - the end of spare blocks. See spare.h.
 */
#include "core/ds/spare.h"

void mt_spare_fini(mt_spare *spare)
{
    for (size_t i = 0; i <= MT_SPARE_CLASSES; i++) {
        while (spare->first[i]) {
            struct mt_spare_block *block = spare->first[i];
            spare->first[i] = block->next;
            free(block);
        }
    }
    spare->bytes = 0;
}
