/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - a store in Redis that another head leads, as one that stands by sees it. Owns its connection. Thread: one at a time.
 */
#include "scheduler/head/store/link.h"
#include "scheduler/head/store/store.h"

#include <stdio.h>
#include <stdlib.h>

struct head_watch {
    struct head_link link;
};

mt_status head_watch_open(const struct head_store_redis *options, char *text, struct head_watch **out_watch)
{
    struct head_watch *w = calloc(1, sizeof *w);
    if (!w)
        return mt_error(MT_ENOMEM, 0, "watch the head's store");
    mt_status st = head_link_open(&w->link, options->url, options->auth_file, options->may_lose);
    if (st.code != 0) {
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", w->link.text);
        free(w);
        return st;
    }
    *out_watch = w;
    return mt_ok();
}

mt_status head_watch_look(struct head_watch *w, struct head_said *out, char *text)
{
    struct head_ask ask = {.kind = HEAD_ASK_LOOK};
    mt_status       st = head_link_ask(&w->link, &ask, out, NULL);
    if (st.code != 0)
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", w->link.text[0] ? w->link.text : st.what);
    return st;
}

void head_watch_close(struct head_watch *w)
{
    if (!w)
        return;
    rds_hang_up(&w->link.rds);
    free(w);
}
