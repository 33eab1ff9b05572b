/* SPDX-License-Identifier: Apache-2.0
 *
 * track.h - what a tracking service is told about a run, out of the run's events.
 *
 * The same for the user's hook (opts.tracker), which is called where the driver follows, and for the files of run.tracking, which
 * are written where the run is driven: a detached run's go on without its driver. A hook that fails is called no more.
 *
 *   run.tracking/NAME/  status.json      run, status, step, begun, ended, error
 *                       params.json      what the run was asked for
 *                       metrics.jsonl    a line for each report: step, time, metrics; each step once, however often it was repeated
 *                       artifacts/       links to what the run has made: the newest checkpoint, the timeline
 *                       lock             of the driver
 *
 * Thread: the one that trains.
 */
#ifndef SGD_TRACK_H
#define SGD_TRACK_H

#include <manta_sgd.h>

#include <stdbool.h>

struct sgd_track {
    const manta_sgd_tracker *hook; /* NULL: none, or it has failed */
    void                    *user;
    const char              *op;
    const manta_sgd_opts    *opts;
    int64_t                  step;
    bool                     has_begun;
};

/* False: the hook has just failed. */
bool sgd_track_event(struct sgd_track *t, const manta_sgd_event *event);
bool sgd_track_end(struct sgd_track *t, manta_status code, bool is_stopped, const manta_error *error);

struct sgd_track_files;
extern const manta_sgd_tracker sgd_track_to_files; /* its user is what this makes: */
/* Makes the folder of a run, and locks it. EEXIST: another driver has the run; ENOENT: no parent folder;
 * EDISK_FULL, ESYS, ENOMEM. */
manta_status sgd_track_files_open(const char *folder, const char *run, struct sgd_track_files **out, manta_error *e);
void         sgd_track_files_close(struct sgd_track_files *files); /* may be NULL */

#endif
