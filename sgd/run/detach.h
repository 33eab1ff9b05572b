/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.h - a run that outlives its driver: a detached actor drives it, and drivers come and go.
 *
 *   driver --manta_sgd_fit, run.detached--> actor "sgd.<run name>": its own thread is in sgd_fit_here, as a driver is
 *     |                                       |  events -> a ring of the newest ones
 *     |------ differs (options)   ----------> |  "" : the same run; else what differs first
 *     |------ next (cursor, ms, life) ------> |  events from there on; at the end the result
 *     |------ stop                ----------> |  as on_event that returns something
 *     '------ leave               ----------> '  the result has arrived: the actor ends, its name is free
 *
 * A restarted actor (its process or its node died) begins the run again, which goes on from the newest checkpoint. Options
 * and events travel as bytes between processes of one executable.
 */
#ifndef SGD_DETACH_H
#define SGD_DETACH_H

#include "sgd/manta_sgd.h"

#include "core/base/buf.h"
#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "core/base/limits/train.h"

#define SGD_CONTROL_TYPE   "manta_sgd_control"
#define SGD_CONTROL_PREFIX "sgd."

enum { SGD_CONTROL_NAME = MT_NAME_BYTES_MAX + 8 };

/* ---- pack.c ---- */

/* Options and the operator's name as bytes; on_event is left out. EINVAL: they do not fit in MT_TRAIN_OPTIONS_BYTES; ENOMEM. */
manta_status sgd_opts_pack(const char *op, const manta_sgd_opts *opts, mt_buf *out, manta_error *e);

/* The reverse; strings point into `bytes`, config into config[MT_TRAIN_CONFIG_MAX + 1]. False: these are no such bytes. */
bool sgd_opts_unpack(const char *bytes, size_t size, const char **out_op, manta_sgd_opts *out_opts, const char **config);

/* Each option under its name, as text; those that are NULL are left out. */
void sgd_opts_each(const char *op, const manta_sgd_opts *opts, void (*take)(void *user, const char *name, const char *value),
                   void *user);

/* The first option in which two packed ones differ, by its name in manta_sgd_opts; NULL: none. */
const char *sgd_opts_differ(const char *a, size_t a_size, const char *b, size_t b_size);

/* An event as bytes, at most MT_TRAIN_EVENT_BYTES; what does not fit of its text is cut. Returns their number. */
size_t sgd_event_pack(const manta_sgd_event *event, char out[MT_TRAIN_EVENT_BYTES]);

/* The next event of `bytes`; what it points to is in *room. Returns its size; 0: these are no such bytes. */
struct sgd_event_room {
    manta_sgd_recovery recovery;
    const char        *names[MANTA_SGD_METRICS_MAX];
    double             values[MANTA_SGD_METRICS_MAX];
    char               bytes[MT_TRAIN_EVENT_BYTES];
};
size_t sgd_event_unpack(const char *bytes, size_t size, struct sgd_event_room *room, manta_sgd_event *out_event);

/* ---- control.c ---- */

/* What `next` answers; then the events. */
struct sgd_control_news {
    uint64_t         cursor;  /* of the event after those that follow, in this life of the actor */
    uint64_t         life;    /* which; one that is made again begins its events anew */
    uint32_t         events;  /* that follow */
    uint32_t         is_done; /* and there are no more: what follows here is set */
    manta_status     code;
    manta_sgd_result result;
    char             message[512];
};

/* ---- fit.c ---- */

/* manta_sgd_fit in this process. */
manta_status sgd_fit_here(const char *name, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e);

#endif
