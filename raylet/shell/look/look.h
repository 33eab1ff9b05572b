/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - questions about the state of this node, and who answers them. Loop thread.
 */
#ifndef SH_LOOK_H
#define SH_LOOK_H

#include "core/wire/look.h"
#include "raylet/shell/ground/ground.h"

/* look.c */
MT_MUST_USE mt_status sh_looks_start(struct sh *sh);
void                  sh_looks_stop(struct sh *sh);
void                  sh_look_order(struct sh *sh, const Manta__V1__QueryOrder *order);
bool                  sh_look_record(struct sh *sh, const struct rlt_ev_record *event); /* false: it is not for us */

/* answer.c: answers one order; `next` NULL or stage 0: that was all. */
struct sh_cursor {
    char     stage;
    uint64_t at[2];
};
void sh_look_answer(struct sh *sh, uint64_t number, enum lane_look_kind kind, struct mt_rows *rows, const struct sh_cursor *next,
                    const char *notice);
void sh_look_refuse(struct sh *sh, uint64_t number, int32_t code, const char *text);

/* stack.c: where the processes of this node are */
void sh_stacks(struct sh *sh, uint64_t number, const struct lane_look *look, struct sh_cursor at);
void sh_stacks_stop(struct sh *sh);

/* tell.c: what the raylet itself knows */
struct sh_page { /* one answer in the making */
    const struct lane_look *look;
    uint32_t                rows_max;
    uint64_t                at[2]; /* where it begins; afterwards, where the next one does */
    bool                    has_more;
    struct mt_rows          rows;
};
MT_MUST_USE mt_status sh_tell_workers(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_demands(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_node(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_objects(struct sh *sh, struct sh_page *page);

#endif
