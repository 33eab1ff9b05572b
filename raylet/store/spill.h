/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.h - the values on disk, as spilled.c (the table), spill.c (to disk), restore.c (back) and waits.c (who waits) share them.
 */
#ifndef RLT_SPILL_H
#define RLT_SPILL_H

#include "objectstore/system/disk.h"
#include "objectstore/server/local.h"
#include "raylet/core/kit/list.h"
#include "raylet/store/private.h"

struct spill_file {
    int      fd;
    uint32_t users; /* values that live, and jobs under way; the last one closes it */
};

struct spill_waiter {        /* a process that wants a value, or room */
    struct rlt_list in_room; /* sh_spill.room */
    uint64_t        conn;
    mt_id           request;
    uint64_t        size; /* of the segment wanted */
    uint64_t        since_ms;
};

enum spilled_state {
    SPILLED_NEW = 0,
    SPILLED_AWAY = 1,   /* on disk alone */
    SPILLED_HUNGRY = 2, /* to be read back, when there is room */
    SPILLED_READING = 3,
    SPILLED_HERE = 4, /* and a copy in memory */
};

/* A value on disk. */
struct spilled {
    struct io_job       job; /* while READING */
    struct sh_spill    *spill;
    struct lane_ref     ref; /* as the world knows it; `node` is this one */
    struct os_disk_item item;
    struct spill_file  *file;
    enum spilled_state  state;
    bool                is_dead;  /* died while READING: goes when that is done */
    struct rlt_list     link;     /* HERE: sh_spill.copies; HUNGRY: sh_spill.hungry */
    uint64_t            since_ms; /* HUNGRY; HERE: since it was last asked for */
    MT_VEC(struct spill_waiter) waiters;
    struct os_local *local; /* READING: where it goes */
    struct os_place  place;
    void            *data;
    mt_status        result;
};

struct sh_spill {
    struct sh        *sh;
    struct io_worker *writer, *reader; /* NULL until the first value goes to disk */
    struct io_timer   timer;           /* while somebody waits */
    struct io_timer   done;            /* a thread of the disk is done: in the next turn of the loop */
    mt_map            all;             /* spilled_key -> spilled */
    struct rlt_list   room;            /* spill_waiter, longest wait first */
    struct rlt_list   hungry;          /* spilled.link, longest wait first */
    struct rlt_list   copies;          /* spilled.link, the longest unused first */
    uint32_t          waiting;         /* in room and hungry */
    uint32_t          writes, reads, files;
    uint64_t          bytes;       /* on disk */
    uint64_t          largest;     /* value that was ever there */
    uint64_t          progress_ms; /* something got free */
    mt_status         refused;     /* by the disk ... */
    uint64_t          refused_ms;  /* ... then */
    bool              is_ending;
};

/* Where the value was, for its id is not enough: a task that ran twice here may have left two values under one id, and its
 * owner names one of them. */
static inline mt_id spilled_key(const struct lane_ref *ref)
{
    return (mt_id){os_place_word(ref->segment, ref->offset), (uint64_t)ref->generation + 1};
}
struct spilled *spilled_find(const struct sh_spill *s, const struct lane_ref *ref);
/* Changes the state, and the list and the counts that go with it. */
void spilled_set_state(struct spilled *v, enum spilled_state state);
void spill_file_drop(struct sh_spill *s, struct spill_file *file);
/* Forgets a value and its bytes on disk. */
void spilled_end(struct spilled *v);
/* Who waits for it is refused. */
void spilled_refuse(struct spilled *v, mt_status st, const char *text);
/* Makes the two threads, where they are not there. */
mt_status spill_threads(struct sh_spill *s);
/* A thread is done with a job: in the next turn of the loop, what had to wait for it happens (waits.c). */
void spill_note_done(struct sh_spill *s);
/* spill.c: somebody waits: begins to write what can be written; looks again soon. */
void spill_pump(struct sh_spill *s);
/* restore.c: the longest wait first, those for whom there is room now. */
void spill_feed_hungry(struct sh_spill *s);

/* ---- for the rest of the room ---- */

/* spilled.c */
bool     sh_spill_is_awaited(const struct sh *sh);     /* others wait for room already */
uint64_t sh_spill_kept(const struct sh *sh);           /* bytes of the store that are for values that come back from disk */
bool     sh_spill_shed(struct sh *sh, uint64_t bytes); /* gives copies of that many bytes up; false: there are none */

/* waits.c, spill.c, restore.c */
MT_MUST_USE mt_status sh_spill_start(struct sh *sh);
void                  sh_spill_stop(struct sh *sh);
bool sh_spill_wait(struct sh *sh, uint64_t conn, mt_id request, uint64_t size); /* false: nothing can be spilled here */
bool sh_spill_is_making_room(struct sh *sh, uint64_t size);                     /* for a value of another node; begins it */
void sh_spill_conn_gone(struct sh *sh, uint64_t conn);
void sh_spill_dead(struct sh *sh, const struct lane_ref *ref);
void sh_spill_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* either may be 0 */
void sh_spill_job_finish(struct sh *sh, uint32_t job);                  /* later, while a thread is still at it */
void sh_spill_get(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);
/* The copy of a value here, for another node. EAGAIN: it is being read from disk. EOBJ_LOST. */
MT_MUST_USE mt_status sh_spill_serve(struct sh *sh, const struct lane_ref *ref, struct lane_ref *here);

#endif
