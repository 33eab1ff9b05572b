/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c - one page of rows, or why there are none, to the head.
 *
 * Owns: nothing. Thread: the loop only.
 */
#include "raylet/shell/links/links.h"
#include "raylet/shell/look/look.h"

#include <inttypes.h>
#include <stdio.h>

void sh_look_answer(struct sh *sh, uint64_t number, enum lane_look_kind kind, struct mt_rows *rows, const struct sh_cursor *next,
                    const char *notice)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    char                  cursor[64] = "";
    reply.n_columns = lane_look_column_count(kind);
    reply.columns = (char **)(uintptr_t)lane_look_columns(kind);
    reply.rows.data = rows ? rows->bytes.data : NULL;
    reply.rows.len = rows ? rows->bytes.size : 0;
    reply.count = rows ? rows->count : 0;
    if (next && next->stage)
        snprintf(cursor, sizeof cursor, "%c%016" PRIx64 ":%" PRIx64, next->stage, next->at[0], next->at[1]);
    reply.cursor = cursor;
    reply.notice = (char *)(uintptr_t)notice;
    sh_head_answer(sh, number, &reply);
}

void sh_look_refuse(struct sh *sh, uint64_t number, int32_t code, const char *text)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    reply.code = code;
    reply.text = (char *)(uintptr_t)text;
    sh_head_answer(sh, number, &reply);
}
