/* SPDX-License-Identifier: Apache-2.0
 *
 * shell.h - the daemon around the core: turns what gRPC, the disk and time say into events, and carries actions out.
 *
 * Thread: the main loop's. Two more only work for it: the store's (commits) and the files' (logs, uploaded files).
 *
 * One that stands by has no core: standby.c watches the leader, and calls are sent on to it.
 *
 *   rpc server --calls, streams--> shell --events--> core --actions--> shell --+--> replies, streams
 *        store thread <--batches---'  ^---------------------STORED-------------+--> store thread
 *        files thread <--logs, blobs--'
 */
#ifndef HEAD_SHELL_H
#define HEAD_SHELL_H

#include "core/base/buf.h"
#include "core/base/limits/text.h"
#include "core/ds/map.h"
#include "core/sha/sha256.h"
#include "core/ds/vec.h"
#include "core/io/beat.h"
#include "core/io/io.h"
#include "core/io/tls/issue.h"
#include "core/io/tls/join.h"
#include "core/rpc/rpc.h"
#include "scheduler/head/core/core.h"
#include "scheduler/head/shell/options.h"
#include "scheduler/head/shell/provider/provider.h"
#include "scheduler/head/store/role.h"
#include "scheduler/head/store/store.h"

enum { SHELL_PATH_SIZE = MT_PATH_BYTES_MAX };

struct shell {
    struct head_options      options;
    char                     state[SHELL_PATH_SIZE], address_file[SHELL_PATH_SIZE], token_file[SHELL_PATH_SIZE];
    int                      folder_hold;    /* a private cluster's runtime folder (core/sys/folder.h); -1: none */
    bool                     is_driver_gone; /* a private cluster's: the raylet is gone too, or about to */
    bool                     has_made_token, owns_state, is_private, runs_as_root;
    struct io_token          token;
    struct io_tls           *tls;       /* NULL: in clear */
    struct io_tls_authority *authority; /* NULL: in clear, or with certificates that nobody here can sign */
    struct io_timer          renew;     /* looks whether our own certificates are old */
    uint32_t                 renewals;  /* such looks so far */
    struct io_timer          cut;       /* who was revoked is cut off soon: first he may hear it */
    enum shell_join { SHELL_JOIN_NONE, SHELL_JOIN_ASKED, SHELL_JOIN_DONE } join; /* of the ticket in the join file */
    uint64_t            join_call, join_ticket; /* join_ticket: of the file that lies there; 0: none */
    uint64_t            own_member;             /* whom the node's certificate beside the head names; 0: nobody */
    char                tls_dir[SHELL_PATH_SIZE], join_file[SHELL_PATH_SIZE];
    struct io_loop     *loop;
    struct rpc         *rpc;
    struct rpc_server  *server;
    struct rpc_service  service;
    struct io_timer     timer;
    struct io_signal    on_term, on_int;
    struct io_watch     watch;
    struct head        *head;    /* NULL: another head leads */
    struct head_actions actions; /* noted, and carried out at the end of the loop's round */
    struct io_tick      round;
    uint64_t            timer_ms;  /* when `timer` is due */
    bool                is_stored; /* the new epoch */
    bool                is_ready, is_ending;
    bool                is_going_on;              /* as one that stands by */
    char                address[HEAD_PLACE_SIZE]; /* of this head, for others */
    char                cluster[HEAD_CLUSTER_SIZE];
    uint64_t            stepped_ms; /* the last step was then ... */
    uint64_t            doubt_ms;   /* ... and it stood still until then: nothing leaves before the store was asked; 0: no */
    mt_status           end_status;

    /* standby.c, heads.c: which of several heads leads */
    struct head_role  *role;
    struct standby    *standby;  /* NULL: this one leads */
    struct head_store *claimed;  /* its lead is ours: to be led at the end of the round */
    struct stander    *standers; /* list of those that stand by */
    char               heads[MT_HEADS_MAX][HEAD_PLACE_SIZE];
    uint32_t           head_count;
    uint64_t           beat_ms;
    bool               is_heads_new; /* the files that name them are to be written */
    struct head_token *tokens;       /* that are let in beside the cluster's own */
    size_t             token_count;

    struct io_beats beats;    /* raylets say by datagrams that they live; closed: its port was not to be had */
    mt_map          attached; /* stream number -> struct attach */
    struct attach  *said;     /* list of those to whom something was said in this round */
    mt_map          calls;    /* call number -> struct call */
    uint64_t        next_number;

    /* store.c: batches waiting, and those on the store's thread */
    struct head_store     *store;
    struct io_worker      *store_worker;
    struct commit         *commit; /* under way, or waiting for room; NULL: none */
    struct io_job          look;   /* at the room on the disk */
    bool                   is_looking;
    uint64_t               look_ms; /* it began then */
    mt_status              looked;  /* of that look */
    struct head_store_room seen;    /* by it */
    uint64_t               away_ms; /* since then the store is not reached; 0: it is */
    enum head_room         room;
    bool                   is_tight; /* it may soon be another */
    struct io_timer        room_timer;
    MT_VEC(struct head_action) batches;

    struct head_provider *provider; /* of nodes; made when there is one */

    struct io_worker *files;
    uint64_t          log_bytes; /* on the way to the disk, from the moment they are noted */
    uint64_t          next_upload;
    uint32_t          uploads, feed_count, backups;
    struct feed      *feeds; /* list of followers and downloads */
};

struct attach { /* rpc.c's: a raylet's stream */
    struct rpc_stream_handler handler;
    struct shell             *sh;
    struct rpc_stream        *stream;
    uint64_t                  number;
    bool                      is_unread, is_forgotten; /* unread: nothing is read of it; forgotten: the core has ended it */
    mt_buf                    said;                    /* in this round */
    struct attach            *next_said;               /* of those to whom something was said; only while `said` holds any */
    uint8_t                   beat_key[HEAD_BEAT_KEY_SIZE];
};

/* ---- step.c ---- */

/* Gives one event (times are filled in) to the core. What follows is carried out at the end of the loop's round. */
void head_shell_step(struct shell *sh, struct head_event *event);
/* Ends the loop once; the first status counts. */
void head_shell_end(struct shell *sh, mt_status st);
/* There are actions that this round has still to carry out. */
bool head_shell_has_noted(const struct shell *sh);
/* Prints what went wrong and where, and gives `st` back. */
mt_status head_shell_complain(mt_status st, const char *what, const char *which);
/* As mkdir; and the name outlives a power cut, where the state is meant to. */
int head_shell_mkdir(const struct shell *sh, const char *path);
/* <state>/<folder>/<name> */
void head_shell_path(const struct shell *sh, const char *folder, const char *name, char out[SHELL_PATH_SIZE]);

/* ---- rpc.c: calls and attached raylets ---- */

void head_shell_rpc_init(struct shell *sh);
void head_shell_send(struct shell *sh, const struct head_action *action);
/* At the end of a round: what was said in it goes out. */
void head_shell_send_said(struct shell *sh);
void head_shell_close(struct shell *sh, const struct head_action *action);
void head_shell_reply(struct shell *sh, const struct head_action *action);
/* Reads from raylets again that were held up by full disk queues. */
void head_shell_resume_streams(struct shell *sh);

/* ---- beats.c: datagrams of attached raylets ---- */

/* At the server's address, by the same number where it is free. Where it can't be, raylets report by their streams as ever. */
void head_shell_beats_open(struct shell *sh);
void head_shell_beats_terms(const struct shell *sh, struct head_beat_terms *out);

/* ---- store.c ---- */

/* Opens the store, loads the core from it. On failure prints why. */
MT_MUST_USE mt_status head_shell_store_open(struct shell *sh);
/* Whether a store was led from this state folder. */
bool head_shell_has_led(const struct shell *sh);
/* The same of a store whose lead was claimed. */
MT_MUST_USE mt_status head_shell_store_take(struct shell *sh, struct head_store *take_store);
/* Asks the store whether this head still leads, and clears `doubt_ms` by the answer. */
void head_shell_store_ask(struct shell *sh);
/* Takes the batch out of the action. */
void head_shell_store_batch(struct shell *sh, struct head_action *action);
/* The commit under way is carried through, with all that follows from it; no other begins. Before anything
 * that replies or writes files is closed; then the lead is let go. Blocks (disk). */
void head_shell_store_finish(struct shell *sh);
void head_shell_store_close(struct shell *sh);

/* ---- files.c: what lies in the state folder beside the database ---- */

/* Makes the folders, tells the core of the logs and blobs that are there, removes what is nobody's. */
MT_MUST_USE mt_status head_shell_files_open(struct shell *sh);
void                  head_shell_log_append(struct shell *sh, struct head_action *action);
void                  head_shell_log_drop(struct shell *sh, const char *job);
void                  head_shell_blob_drop(struct shell *sh, const uint8_t sha256[HEAD_SHA_SIZE]);
/* Removes everything of a private cluster. */
void head_shell_files_remove(struct shell *sh);

/* ---- feed.c: files to clients: FollowJob, GetBlob ---- */

struct rpc_stream_handler *head_shell_follow(struct rpc_service *service, struct rpc_stream *stream);
struct rpc_stream_handler *head_shell_get_blob(struct rpc_service *service, struct rpc_stream *stream);
/* A log has grown, or its job has ended. */
void head_shell_feed_wake(struct shell *sh, const char *job);

/* ---- upload.c: PutBlob ---- */

struct rpc_stream_handler *head_shell_put_blob(struct rpc_service *service, struct rpc_stream *stream);

#endif
