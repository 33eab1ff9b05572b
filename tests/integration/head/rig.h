/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - a real manta-head as a child, and a raylet that is only its stream to the head.
 */
#ifndef TESTS_INTEGRATION_HEAD_RIG_H
#define TESTS_INTEGRATION_HEAD_RIG_H

#include "manta_client.h"

#include "core/base/clock.h"
#include "core/base/release.h"
#include "core/io/token.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/types.h>

enum {
    RIG_ARGS = 24,
    RIG_MESSAGES = 256,
    RIG_PATIENCE_MS = 60000,
    RIG_LIFE_MS = 500, /* so often a fake raylet says that it lives, while something is waited for */
    RIG_END = 1500,
    RIG_CPU_MILLI = 4000, /* of a fake raylet */
};

struct daemon {
    char        folder[64]; /* of the test; the head's is <folder>/run */
    char        run[80], state[96];
    pid_t       pid;
    char        address[64];
    int         out;     /* its standard error goes there; -1: to ours */
    const char *preload; /* a library that it is started with; NULL: none */
};

void daemon_init(struct daemon *d);
/* Starts it with more arguments (NULL-terminated) and waits until it serves; false: it ended instead, status in *out_status. */
bool daemon_start(struct daemon *d, const char *const *more, int *out_status);
/* Sends the signal and waits for the end; the wait status. */
int daemon_end(struct daemon *d, int signal);
int daemon_wait(struct daemon *d);
/* Whether it has ended by itself; daemon_wait still has its status. */
bool daemon_is_over(const struct daemon *d);
/* Of its cluster. */
manta_client *daemon_client(const struct daemon *d);
/* Ends what runs, removes all that the head may leave; fails where something unknown is left. */
void daemon_fini(struct daemon *d);

/* Makes it anew, with that mode. */
void rig_file_write(const char *path, const char *text, mode_t mode);
/* Whether `text` stands in the file's first MiB. */
bool rig_file_says(const char *path, const char *text);
/* The last that stands in the file, for who reads why a test failed; until the next look at a file. */
const char *rig_file_end(const char *path);

struct fake_raylet {
    struct rpc_stream_handler handler;
    struct rpc               *rpc;
    struct rpc_channel       *channel;
    struct rpc_stream        *stream;
    pthread_mutex_t           lock;
    pthread_cond_t            changed;
    Manta__V1__HeadToNode    *messages[RIG_MESSAGES];
    size_t                    count, taken;
    bool                      is_closed, is_registered;
    uint64_t                  boot, version;
    uint32_t                  node, epoch;
};
/* Connects, registers, waits for the answer. */
void raylet_open(struct fake_raylet *r, const struct daemon *d, uint64_t boot);
/* As above, after the head came back. */
void raylet_again(struct fake_raylet *r, const struct daemon *d);
void raylet_close(struct fake_raylet *r);
void raylet_say(struct fake_raylet *r, const Manta__V1__NodeToHead *message);
/* The next message of that kind; others are passed over. Reports meanwhile: to a node that says nothing for a while no job is sent.
 * Fails the test after RIG_PATIENCE_MS. */
const Manta__V1__HeadToNode *raylet_next(struct fake_raylet *r, Manta__V1__HeadToNode__KindCase kind);
void raylet_job_state(struct fake_raylet *r, const char *id, uint32_t attempt, const char *state, int exit_code,
                      const char *reason);
void raylet_log(struct fake_raylet *r, const char *id, uint32_t attempt, uint64_t offset, const char *text);
/* That it lives; where nothing can be sent now, nothing is said. */
void raylet_report(struct fake_raylet *r);

#endif
