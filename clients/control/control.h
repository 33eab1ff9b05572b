/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h - what the files of libmanta_client share.
 *
 * Thread: the caller's; gRPC's own only complete calls.
 */
#ifndef CTL_CONTROL_H
#define CTL_CONTROL_H

#include "clients/control/manta_client.h"
#include "core/base/limits/cli.h"
#include "core/base/limits/head.h"
#include "core/base/limits/net.h"
#include "core/base/limits/text.h"
#include "core/sha/sha256.h"
#include "core/base/status.h"
#include "core/ds/vec.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

enum { CTL_PATH_SIZE = MT_PATH_BYTES_MAX, CTL_ADDRESS_SIZE = MT_NAME_BYTES_MAX, CTL_HEADS_SIZE = MT_HEADS_MAX * CTL_ADDRESS_SIZE };

struct ctl_place {                       /* where a cluster is */
    char address[CTL_ADDRESS_SIZE];      /* host:port: the head that is spoken to */
    char heads[CTL_HEADS_SIZE];          /* all that are known: "host:port,..."; "": only that one */
    char token_file[CTL_PATH_SIZE];      /* "" while unknown */
    char tls_file[CTL_PATH_SIZE];        /* "": in clear */
    bool is_insecure;                    /* in clear beyond this machine too */
    char file_address[CTL_ADDRESS_SIZE]; /* that head.addr named last */
    char address_file[CTL_PATH_SIZE];    /* head.addr, read again when nobody answers; "": the address was given */
};

/* What a manta_client names: that is a number (core/ds/handles.h). */
struct ctl_client {
    struct ctl_place    place;
    struct io_token     token;
    struct io_tls      *tls; /* NULL: in clear */
    struct rpc         *rpc;
    struct rpc_channel *channel;
    int64_t             timeout_ms;
};

/* ---- error.c ---- */

/* Fills *e (or nothing where it is NULL) and returns the code. */
manta_status ctl_fail(manta_error *e, int32_t code, int outcome, const char *format, ...) MT_PRINTF(4, 5);
uint64_t     ctl_now_ms(void);
/* Sleeps before try number `n` (from 0), with some spread; says for how long it meant to, in milliseconds. */
uint32_t ctl_pause(unsigned n);

/* How long tries go on while a head is away. It counts what they were given, not what they took: a process that stood still, as its
 * whole machine may for seconds, has asked nobody then.
 *
 *   for (;;) { limit = ctl_try_begin(); a try with that limit; if (it is good || !ctl_try_end() || !ctl_try_pause()) break; }
 */
struct ctl_patience {
    int64_t  left_ms;
    uint64_t began_ms; /* of the present try */
    uint32_t given_ms;
    unsigned tries;
};
static inline struct ctl_patience ctl_patience_of(int64_t ms)
{
    return (struct ctl_patience){.left_ms = ms};
}
/* A limit with which there are two tries at least: the first may be lost with a machine that stood still. */
static inline uint32_t ctl_half_of(int64_t patience_ms)
{
    int64_t half = patience_ms / 2 + 1;
    return half < UINT32_MAX ? (uint32_t)half : UINT32_MAX;
}
/* A try begins, with that limit, or with what is left if that is less: gives it. */
uint32_t ctl_try_begin(struct ctl_patience *p, uint32_t limit_ms);
/* It is over. False: nothing is left for another one. */
bool ctl_try_end(struct ctl_patience *p);
/* Sleeps before the next one, likewise. */
bool ctl_try_pause(struct ctl_patience *p);

/* ---- place.c ---- */

/* Finds the cluster. *e is filled on failure. */
manta_status ctl_place_find(const manta_client_opts *opts, struct ctl_place *out, manta_error *e);
/* Reads head.addr again; true where the address has changed. */
bool ctl_place_refresh(struct ctl_place *place);
/* Whether another address than the present one is known. */
bool ctl_place_has_others(const struct ctl_place *place);
/* After a call that did not reach a leader: where to go next. `detail` is its text, which may name the leader. True where that is
 * another address. */
bool ctl_place_turn(struct ctl_place *place, int32_t code, const char *detail);

/* ---- client.c ---- */

/* Each public call begins and ends with these. EINVAL (NULL), EHANDLE, EFORKED, EAGAIN: *e names the call. */
manta_status ctl_enter(manta_client *handle, const char *call, struct ctl_client **out_client, manta_error *e);
/* ... of a call that can't do without `what`: EINVAL where the caller gave NULL in its place. */
manta_status ctl_enter_given(manta_client *handle, const char *call, bool is_given, const char *what,
                             struct ctl_client **out_client, manta_error *e);
manta_status ctl_leave(manta_client *handle, manta_status code); /* gives the code */
/* Of the head that it speaks with; "": none. */
void ctl_client_address(manta_client *handle, char out[CTL_ADDRESS_SIZE]);

/* One request, its reply; tried again while the head is away, up to `patience_ms`. `each_ms`: one try. The reply is freed
 * by rpc_unpack_free. On failure *e is filled; the outcome is MANTA_UNKNOWN where a try may have reached the head. */
manta_status ctl_call(struct ctl_client *client, const char *method, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *reply_type, int64_t patience_ms, uint32_t each_ms,
                      ProtobufCMessage **out_reply, manta_error *e);
/* The same in two halves and tried once, for what may be asked again. NULL: no answer came, and only ctl_call tells why. What was
 * asked must be answered. */
struct rpc_asked *ctl_ask(struct ctl_client *client, const char *method, const ProtobufCMessage *request, uint32_t each_ms);
ProtobufCMessage *ctl_answer(struct rpc_asked *take_asked, const ProtobufCMessageDescriptor *reply_type);
/* After a call that failed so: looks whether the head has moved, or another leads. */
void ctl_reconnect(struct ctl_client *client, int32_t code, const char *detail);
/* Whether a failure may pass by itself. */
bool ctl_may_retry(mt_status st);
/* gRPC's own words for a peer that is not who it should be: it calls this a lost connection, and would try for ever. */
bool ctl_is_foreign_certificate(const char *detail);

/* ---- jobs.c ---- */

manta_status ctl_job_get(struct ctl_client *client, const char *id, manta_job_info *out_info, manta_error *e);

/* ---- nodes.c ---- */

manta_status ctl_nodes_list(struct ctl_client *client, manta_cluster_node **out_nodes, size_t *out_count,
                            manta_cluster_info *out_cluster, manta_error *e);

/* ---- files.c ---- */

struct ctl_file {
    char    *source; /* here */
    char    *path;   /* in the job's folder */
    uint8_t  sha256[MT_SHA256_SIZE];
    uint32_t mode;
    uint64_t size;
};
struct ctl_files {
    MT_VEC(struct ctl_file) items;
};
/* Every file of the list, folders walked, with its SHA-256. */
manta_status ctl_files_collect(const char *const *names, struct ctl_files *out, manta_error *e);
void         ctl_files_fini(struct ctl_files *files);

/* ---- upload.c ---- */

/* Uploads what the head does not have. */
manta_status ctl_upload(struct ctl_client *client, const struct ctl_files *files, manta_error *e);

/* ---- tickets.c ---- */

/* A call that is answered by a RevokeReply. */
manta_status ctl_revoke(struct ctl_client *c, const char *method, const ProtobufCMessage *request, manta_error *e);

#endif
