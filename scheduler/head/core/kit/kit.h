/* SPDX-License-Identifier: Apache-2.0
 *
 * kit.h - door of the lowest room: the tables (tables.h), actions and which of them wait for the store (out.c), records of the
 * store, names of resources (resources.c).
 */
#ifndef HEAD_KIT_H
#define HEAD_KIT_H

#include "core/base/buf.h"
#include "core/base/log.h"
#include "scheduler/head/core/kit/tables.h"

#include "scheduler/head/core/kit/store.pb-c.h"

#include <stdio.h>

/* ---- kit.c -------------------------------------------------------------------------------------------------------- */

/* Remembers that the head itself can't go on. */
void head_broken(struct head *h, mt_status st);
#define HEAD_TRY(h, expr) \
    do { \
        mt_status head_try_st_ = (expr); \
        if (head_try_st_.code != 0) \
            head_broken((h), head_try_st_); \
    } while (0)
/* Whether something new of that size may come in; what is there may always change. */
bool head_has_room(struct head *h, size_t bytes);
/* What to say where there is none. */
mt_status head_room_refusal(const struct head *h);
char     *head_strdup(struct head *h, const char *text);
/* *text becomes a copy of `with`; the old one is freed. */
void head_replace_text(struct head *h, char **text, const char *with);
/* The head has just started: nodes are still registering, so what is missing may still come. */
bool head_in_grace(const struct head *h);

/* One change of this step's batch. `value` NULL: the record goes. */
void head_record_change(struct head *h, enum head_table table, const void *key, size_t key_size, const ProtobufCMessage *value);
void head_record_meta(struct head *h);

/* ---- out.c: actions, and which of them wait for the store ---------------------------------------------------------- */

void head_out_begin(struct head *h, struct head_actions *out);
/* Makes the step's changes one batch and puts what depends on it behind it. */
void head_out_end(struct head *h);
/* The oldest batch is durable: what waited for it goes out. */
void head_out_release(struct head *h, uint64_t token);
void head_out_fini(struct head *h);

/* `after_store`: not before all changes made so far are durable. Sends on one stream never overtake each other. */
void head_out_send(struct head *h, struct stream *s, const to_node *message, bool after_store);
void head_out_send_bytes(struct head *h, struct stream *s, struct head_bytes *bytes);
void head_out_close(struct head *h, struct stream *s);
void head_out_reply(struct head *h, uint64_t call, enum head_method method, const ProtobufCMessage *reply);
void head_out_refuse(struct head *h, uint64_t call, mt_status st);
void head_out_log_append(struct head *h, struct job *job, const uint8_t *text, size_t size);
void head_out_job(struct head *h, enum head_action_kind kind, const char *job); /* after the store */
void head_out_blob_drop(struct head *h, const struct blob *blob);               /* after the store */
/* After the store: whoever shows a certificate of that number is refused, and cut off. */
void head_out_revoked(struct head *h, uint64_t id, uint64_t until_ms);
/* After the store: these named tokens are let in, and no others. */
void head_out_tokens(struct head *h, struct head_token *take_items, size_t count);
void head_out_exit(struct head *h, mt_status st, bool after_store);
/* After the store. `line` and `ticket` are copied; without data, NULL: none. */
void head_out_provide(struct head *h, enum head_provide_op op, uint64_t number, uint32_t limit_ms, mt_view line,
                      const struct head_ticket *ticket);

struct head_bytes *head_bytes_pack(const ProtobufCMessage *message); /* NULL: no memory */

/* ---- resources.c: names of resources to small numbers -------------------------------------------------------------- */

/* EINVAL with a text: an empty or long name, a negative or absurd amount, a name twice, too many. */
MT_MUST_USE mt_status head_resources_to_request(struct head *h, resource *const *from, size_t count, struct policy_request *out,
                                                char *text, size_t text_size);
MT_MUST_USE mt_status head_resources_to_node(struct head *h, resource *const *from, size_t count, struct node *node, char *text,
                                             size_t text_size);
/* The number of a name, made on first use; UINT32_MAX: too many kinds. */
uint32_t head_resources_kind(struct head *h, const char *name);
/* Borrows the name. */
void head_resource_fill(resource *out, const char *name, int64_t milli);

#endif
