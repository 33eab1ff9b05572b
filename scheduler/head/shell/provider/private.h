/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room call of one another: answers.c < provider.c.
 */
#ifndef HEAD_PROVIDER_PRIVATE_H
#define HEAD_PROVIDER_PRIVATE_H

#include "scheduler/head/shell/provider/provider.h"

struct provider_answer {
    char     op[16], handle[MT_SCL_NAME_SIZE], text[MT_SCL_WHY_SIZE];
    uint64_t number;
    bool     is_ok;
    MT_VEC(struct scl_listed) listed;
};
/* Reads one line. ECORRUPT, ENOMEM. The list is the caller's to free, whatever is returned. */
MT_MUST_USE mt_status head_provider_read(mt_view line, const char *cluster, struct provider_answer *out);

#endif
