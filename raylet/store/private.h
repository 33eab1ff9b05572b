/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of the object store's part of the shell share, from the lowest up.
 */
#ifndef SH_STORE_PRIVATE_H
#define SH_STORE_PRIVATE_H

#include "objectstore/server/local.h"
#include "objectstore/system/memory.h"
#include "raylet/core/kit/list.h"
#include "raylet/store/copies.h"
#include "raylet/store/store.h"

struct sh_store_job {
    bool            has_local;
    bool            is_over; /* but a thread of the disk is still at work on it */
    struct os_local local;   /* this raylet as a process of that job */
};

struct sh_store {
    struct sh            *sh;
    struct os_store      *store;
    struct os_actions     actions;
    struct io_timer       timer;
    uint64_t              trimmed_ms;
    uint64_t              asked_ms; /* every process for what is empty of its segments; 0: not yet */
    mt_map                jobs;     /* short number -> sh_store_job */
    uint32_t              held;     /* writes to disk that read from segments */
    struct os_cgroup_look group;
    uint64_t              resident;  /* bytes of the segments, when `group` was read */
    MT_VEC(struct os_action) closes; /* segments that a write still reads from */
};

struct quota_waiter {
    struct rlt_list link;
    uint64_t        conn;
    mt_id           request;
    uint64_t        size;
    uint64_t        since_ms;
};

struct sh_quotas {
    struct sh      *sh;
    struct rlt_list waiters; /* longest wait first */
    uint32_t        count;
    uint64_t        asked_ms; /* when writers were last asked for what is empty */
    struct io_timer timer;    /* while somebody waits */
};

/* store.c */
MT_MUST_USE mt_status sh_store_open(struct sh *sh);
void                  sh_store_close(struct sh *sh);
void                  sh_store_carry_out(struct sh_store *s); /* its actions */
void                  sh_store_settle(struct sh *sh);         /* after objects have died: hands their places back */
void                  sh_store_trim(struct sh_store *s, bool now);
struct os_local      *sh_store_local(struct sh *sh, uint32_t job); /* NULL: no process of that job was here, or no memory */
struct sh_store_job  *sh_store_job_get(struct sh_store *s, uint32_t number); /* makes it; NULL: no memory */
void                  sh_store_job_close(struct sh *sh, uint32_t number);
struct sh_conn       *sh_store_conn_of(const struct sh *sh, uint64_t process);
void                  sh_store_refuse(struct sh *sh, uint64_t conn, mt_id id, mt_status st, const char *text);
void                  sh_store_give(struct sh *sh, uint64_t conn, mt_id id, const struct os_segment_view *view, bool is_writer);
uint32_t              sh_store_victims(struct sh *sh, uint64_t bytes, struct lane_ref *out, uint32_t max);
void                  sh_store_ask_back(struct sh *sh, uint32_t job); /* whatever is empty of a job's segments; 0: of all */
/* Segments that are closed between the two stay until the last release: a thread reads from them. */
void sh_store_hold(struct sh *sh);
void sh_store_release(struct sh *sh);

/* room.c */
MT_MUST_USE mt_status sh_store_local_alloc(struct sh *sh, struct os_local *local, uint64_t size, struct os_place *place,
                                           void **data, char *text);
/* Grants a segment, or says why not; only ESTORE_FULL and worse, in `text`, is left to be answered. */
mt_status sh_store_want_now(struct sh *sh, uint64_t conn, mt_id request, uint64_t size, char *text);
/* Whether any room that can be made would be enough. */
bool sh_store_could_fit(const struct sh *sh, uint64_t size);

/* pull.c */
void sh_pulls_node_lost(struct sh *sh, uint32_t node);
void sh_pulls_job_over(struct sh *sh, uint32_t job);
void sh_pull_request(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);
/* This node itself wants a value of another one. `here`: its copy, or NULL where `st` says why there is none. */
typedef void (*sh_pull_done_fn)(struct sh *sh, mt_id id, const struct lane_ref *here, mt_status st);
void sh_pull_for(struct sh *sh, const struct lane_ref *ref, sh_pull_done_fn done); /* `done` may be called before it returns */

#endif
