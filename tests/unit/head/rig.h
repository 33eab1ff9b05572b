/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - a head's core with a store in memory, on virtual time: carries actions out, keeps what was sent and replied,
 * and can crash the head at any store write.
 */
#ifndef TESTS_UNIT_HEAD_RIG_H
#define TESTS_UNIT_HEAD_RIG_H

#include "core/base/release.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    RIG_SENT = 16384,
    RIG_RECORDS = 16384,
    RIG_REPLIES = 8192,
    RIG_LOGS = 8,
    RIG_LOG_SIZE = 4096,
    RIG_TOKENS = 1024,
    RIG_ENDED = 8192
};

struct rig_record {
    enum head_table table;
    uint8_t         key[256];
    size_t          key_size;
    uint8_t        *value;
    size_t          value_size;
};

struct rig_sent {
    uint64_t               stream;
    Manta__V1__HeadToNode *message;
};

struct rig_reply {
    uint64_t         call;
    enum head_method method;
    uint8_t         *bytes;
    size_t           size;
    bool             is_refused;
    int32_t          refused; /* the code */
};

enum rig_crash { RIG_NO_CRASH, RIG_BEFORE_WRITE, RIG_AFTER_WRITE };

struct rig {
    struct head        *head;
    struct head_config  config;
    struct head_actions actions;
    uint64_t            now_ms;
    uint64_t            next_stream, next_call;
    bool                holds_store; /* batches are kept until rig_store */
    uint64_t            held[64];
    size_t              held_count;
    struct rig_record   records[RIG_RECORDS];
    size_t              record_count;
    struct rig_sent     sent[RIG_SENT];
    size_t              sent_count;
    struct rig_reply    replies[RIG_REPLIES];
    size_t              reply_count;
    struct {
        char   job[HEAD_JOB_ID_SIZE];
        char   text[RIG_LOG_SIZE];
        size_t size;
    } logs[RIG_LOGS];
    uint64_t       closed[64];
    size_t         closed_count;
    char           ended[RIG_ENDED][HEAD_JOB_ID_SIZE];
    size_t         ended_count;
    uint64_t       batches;  /* since the rig was made */
    uint64_t       crash_at; /* this batch, counted from 1 */
    enum rig_crash crash;
    bool           has_crashed;                                         /* the head is gone: nothing happens until rig_restart */
    void (*provide)(struct rig *rig, const struct head_action *action); /* HEAD_ACT_PROVIDE; may not step the head. NULL: nobody */
    struct head_peer  peer;                                             /* of the next streams and calls */
    uint64_t          asks, token;                                      /* of the next calls */
    struct head_token tokens[RIG_TOKENS];                               /* that the door of the shell lets in */
    size_t            token_count;
    uint64_t          wall_ahead_ms; /* the wall clock was set */
    uint64_t          revoked[64];   /* at the door of the shell */
    size_t            revoked_count;
    bool              has_exited;
    mt_status         exit_status;
};

struct rig *rig_new(void);
/* Checks invariants a last time and frees. */
void rig_free(struct rig *rig);
/* An empty store and a new head on it. */
void rig_wipe(struct rig *rig);
/* The head goes without a word and comes back with what the store has. */
void rig_restart(struct rig *rig);

void rig_event(struct rig *rig, struct head_event *event);
/* Time passes, with ticks where the head wants them. */
void rig_pass(struct rig *rig, uint64_t ms);
/* Confirms (or fails) the oldest held batch. */
void rig_store(struct rig *rig, mt_status st);

uint64_t rig_open(struct rig *rig);
void     rig_close(struct rig *rig, uint64_t stream);
void     rig_say(struct rig *rig, uint64_t stream, const Manta__V1__NodeToHead *message);
/* Returns the call's number. */
uint64_t rig_call(struct rig *rig, enum head_method method, const ProtobufCMessage *request);

/* The reply to a call, unpacked (NULL: none yet); the caller frees it by protobuf_c_message_free_unpacked. */
void *rig_reply_to(struct rig *rig, uint64_t call, const ProtobufCMessageDescriptor *type);
/* The code of a reply that begins with one and a text, or of a refusal; -1: neither has come. */
int rig_code_of(struct rig *rig, uint64_t call, const ProtobufCMessageDescriptor *type);
/* The newest message of a kind on a stream; NULL: none. */
Manta__V1__HeadToNode *rig_last(struct rig *rig, uint64_t stream, Manta__V1__HeadToNode__KindCase kind);
size_t                 rig_count(struct rig *rig, uint64_t stream, Manta__V1__HeadToNode__KindCase kind);
void                   rig_forget(struct rig *rig); /* what was sent and replied so far */
const char            *rig_log(struct rig *rig, const char *job);
bool                   rig_was_closed(struct rig *rig, uint64_t stream);

/* ---- what raylets and clients say ---- */

struct rig_node {
    uint64_t               stream, boot, version;
    uint32_t               node, epoch;
    int64_t                cpus;   /* thousandths, in all and free */
    char                  *labels; /* NULL: none */
    Manta__V1__Forerunner *before; /* a raylet that was killed there; NULL: none */
};
/* Opens a stream and registers; takes over number and epoch where the answer has come. */
void rig_register(struct rig *rig, struct rig_node *node);
/* A client asks that the node leave. */
void rig_drain(struct rig *rig, const struct rig_node *node);
/* `workers_max` of the node: 0, or it has no free place for a process. */
void rig_report_full(struct rig *rig, struct rig_node *node, uint32_t workers_max, bool is_stuck, Manta__V1__Want **wants,
                     size_t count);
void rig_report(struct rig *rig, struct rig_node *node, int64_t free_milli, Manta__V1__Want **wants, size_t count);
void rig_job_state(struct rig *rig, const struct rig_node *node, const char *id, uint32_t attempt, const char *state, int exit_code,
                   const char *reason);
void rig_log_chunk(struct rig *rig, const struct rig_node *node, const char *id, uint32_t attempt, uint64_t offset,
                   const char *text);
/* Returns the reply's code and gives actor and owner where asked for; -1: no reply. */
int  rig_name(struct rig *rig, const struct rig_node *node, uint64_t id, uint32_t op, const char *name, uint64_t actor,
              uint64_t owner, uint32_t owner_node, uint64_t *out_actor);
void rig_gone(struct rig *rig, const struct rig_node *node, uint64_t process);
/* A user who may submit: the number of the token, which is `fill` all over, for rig->token. */
uint64_t rig_user(struct rig *rig, const char *name, uint8_t fill);
uint64_t rig_submit(struct rig *rig, const char *id, uint32_t retries, int64_t cpu_milli);
/* The state text of a job as GetJob gives it; "" where there is no such job. Valid until the next call. */
const char *rig_job(struct rig *rig, const char *id, Manta__V1__JobReply **out_reply);

#endif
