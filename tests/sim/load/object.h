/* SPDX-License-Identifier: Apache-2.0
 *
 * object.h - values in shared memory: what processes put, get, pin and free, and what is known of each value.
 *
 * The bytes of a value are made of its id and one number, so that any other bytes show, whoever wrote them.
 */
#ifndef SIM_OBJECT_H
#define SIM_OBJECT_H

#include "clients/lib/owner/own.h"
#include "core/wire/ctl.h"
#include "objectstore/client/client.h"
#include "tests/sim/sim.h"

enum {
    SIM_VALUE_MIN = 4200,     /* what is smaller travels inline ... */
    SIM_VALUE_SMALL_MIN = 40, /* ... but for some of one chunk, which are small ones here */
    SIM_WRITERS_MAX = 4,
};

/* One value, from the moment when its bytes are first written. */
struct sim_value {
    mt_id    id;
    int64_t  value;
    mt_id    maker; /* the generator that yielded it; zero: the task of its id made it, or it was put */
    uint64_t size;
    uint32_t written;                 /* how often: of a task, each attempt may */
    uint32_t node[SIM_WRITERS_MAX];   /* number of the node where it was published last, and before ... */
    uint64_t raylet[SIM_WRITERS_MAX]; /* ... and the serial of the raylet there */
    bool     is_dropped;              /* its owner has given it up, or holds it for lost, ... */
    bool     is_freed;                /* ... although others may hold it */
};

/* ---- value.c: the record of values ---- */
void              sim_values_free(struct sim *s);
struct sim_value *sim_value_of(struct sim *s, mt_id id); /* NULL: none was ever written */
struct sim_value *sim_value_new(struct sim *s, mt_id id, int64_t value);
bool              sim_value_is_small(const struct sim *s, int64_t value);
void              sim_value_fill(const struct sim_value *v, uint8_t *data, uint64_t from, uint64_t to);
void              sim_value_published(struct sim_value *v, uint32_t node, uint64_t raylet);

struct sim_proc;

/* A process on its way to the bytes of a value, as lib_store_pin goes it, and the pin. On the heap, for it is looked at
 * after every event. */
struct sim_reading {
    struct sim_proc  *p;
    struct sim_value *v;
    struct own_ref   *mine;   /* of this process's own value; NULL: of another's */
    struct own_ref   *polled; /* it waits for nothing: each look takes up what the last one has left at this ref; NULL: it waits */
    struct lane_ref   asked, at;
    int               attempts;
    bool              must_ask, is_pinned, is_over; /* pinned, or failed with `code` */
    bool              is_borrowed;                  /* its owner has been told that this process holds the ref */
    mt_id             ask;                          /* request under way; zero: none */
    uint16_t          ask_kind;
    const uint8_t    *data;
    bool              is_doubted; /* it is lost: its owner is asked, or its task runs again */
    bool              is_left;    /* and that question is left at `polled` */
    struct own_doubt  doubt;
    uint64_t          doubted_at;
    int32_t           doubted_for; /* what the fetch said */
    int32_t           code;
    uint64_t          until; /* it is kept so long */
};
/* All that is pinned holds what was written. */
void sim_values_check(struct sim *s);
void sim_value_pinned(struct sim *s, struct sim_reading *r);
void sim_value_unpinned(struct sim *s, struct sim_reading *r);
/* A place is about to be written, or handed back to its writer: nobody pins it. */
void sim_values_written(struct sim *s, uint64_t raylet, const struct os_place *place, uint64_t size);
void sim_values_hand_back(struct sim *s, uint64_t raylet, uint32_t segment, uint64_t offset);
/* A node says that it has adopted a value: its owner knows so, and it is there. */
void sim_value_adopted(struct sim *s, const struct sim_node *n, const struct ctl_moved *word);
/* What was adopted is where its owner looks for it, as long as that node lives. */
void sim_values_check_adopted(struct sim *s);
/* A node has fetched what stood at `ref`: soon its owner's node is to know. */
void sim_copy_made(struct sim *s, const struct sim_node *n, const struct lane_ref *ref);
/* A read has failed: whether it may have. */
void sim_value_lost(struct sim *s, const struct sim_reading *r);

/* ---- object.c: a process's side ---- */
struct sim_segment {
    uint32_t        number;
    struct sim_mem *data, *generations;
};
struct sim_ask {
    mt_id           id;
    bool            is_done;
    int32_t         code;
    struct lane_ref here;
};
struct sim_writing {
    mt_id           ask; /* for a segment; zero: none */
    int             attempts;
    bool            has_room;
    struct os_place place;
    uint8_t        *data;
    int32_t         code;
    uint64_t        ready_at; /* filling it takes until then */
};
struct sim_objects { /* of one process */
    struct os_client client;
    struct sim_mem  *pins;
    MT_VEC(struct sim_segment) segments;
    MT_VEC(struct sim_ask) asks;
    MT_VEC(struct sim_reading *) readings;
    MT_VEC(uint32_t) surrendered; /* segments: a place in one may be handed back meanwhile */
    uint64_t trim_at;
    bool     is_disowned;
};

void sim_objects_welcome(struct sim_proc *p, const struct ctl_welcome *w, struct sim_mem *pins);
void sim_objects_gone(struct sim_proc *p); /* it has died */
/* Its raylet has closed the connection and looks at its pins no longer; it hears of that in a moment, and can't go on. */
void sim_objects_disowned(struct sim_proc *p);
/* A record of the store's. False: it is another's. Takes a count of mem. */
bool sim_objects_control(struct sim_proc *p, const struct lane_record *record, const uint8_t *payload,
                         struct sim_mem *const mem[2]);
void sim_objects_tick(struct sim_proc *p);

struct sim_reading *sim_read(struct sim_proc *p, struct own_ref *ref);             /* the caller holds it meanwhile */
struct sim_reading *sim_read_at(struct sim_proc *p, const struct lane_ref *place); /* by place alone */
/* Goes on. True: it is over. */
bool sim_read_go(struct sim_reading *r);
/* Takes the pin back, and forgets it. */
void sim_read_end(struct sim_reading *r);

/* Goes on: a place, then the bytes. True: it is over, with `code`, or with all bytes written and nothing published. */
bool sim_write_go(struct sim_proc *p, struct sim_writing *w, struct sim_value *v);
/* False: the process has died meanwhile. */
bool sim_write_publish(struct sim_proc *p, struct sim_writing *w, struct sim_value *v, uint32_t owner_node, struct lane_ref *out);

#endif
