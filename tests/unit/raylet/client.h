/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h - a small process that speaks ctl.h, for tests of the raylet: driver, and (in another process) zygote and
 * worker. It polls; nothing in it is fast.
 */
#ifndef TEST_RAYLET_CLIENT_H
#define TEST_RAYLET_CLIENT_H

#include "core/wire/ctl.h"
#include "core/lane/lane.h"

#include <stdbool.h>

struct client_lane {
    uint64_t             lease;
    void                *memory;
    struct lane_park    *peer;
    struct lane_producer to;
    struct lane_consumer from;
};

struct client_message;

struct client {
    struct client_message *kept[32];
    int                    kept_count;
    int                    fd;
    uint64_t               process, job;
    struct ctl_welcome     welcome;
    void                  *control;
    struct lane_park      *park, *switch_park;
    struct lane_producer   up;
    struct lane_consumer   down;
    struct client_lane     lanes[64];
    int                    lane_count;
    uint64_t               next_id;
};

/* A message from either way. */
struct client_message {
    struct lane_record record;
    uint8_t            payload[LANE_RECORD_MAX];
    int                fds[CTL_FDS_MAX];
    int                fd_count;
};

/* While true, a driver greets with an environment in which its zygote exits with status 7. */
extern bool client_zygote_dies;

/* Greets. Returns welcome.code, or -1 when the raylet closed instead. A zygote gets no memory. */
int   client_hello(struct client *c, int fd, enum ctl_role role, uint64_t job, uint16_t version);
mt_id client_up(struct client *c, enum ctl_kind kind, const void *payload, size_t size);
bool  client_up_id(struct client *c, enum ctl_kind kind, mt_id id, const void *payload, size_t size);
/* The next message from socket or ring, within about timeout_ms. */
bool client_next(struct client *c, struct client_message *out, int timeout_ms);
/* The next one of this kind; others are kept for later calls: socket and ring are not ordered against each other. */
bool client_expect(struct client *c, enum ctl_kind kind, struct client_message *out, int timeout_ms);
/* Maps the lane of a CTL_GRANT or CTL_LANE. */
struct client_lane *client_lane_map(struct client *c, const struct client_message *m, bool is_worker);
void                client_lane_drop(struct client_lane *lane);
void                client_close(struct client *c);
int                 client_connect(const char *path);

/* What this executable does when the raylet started it: never returns. */
void client_serve_as_zygote(int fd);

/* Functions of the tasks that the test's worker knows; in aux. The result is in the DONE record's aux. */
enum { TASK_DOUBLE = 1, TASK_CRASH = 2, TASK_PID = 3, TASK_BLOCK = 4, TASK_SLOW = 5, TASK_HOLD = 6 };
/* Sends one task and waits for its DONE (or RETURNED). */
void client_task(struct client_lane *lane, uint32_t slot, uint64_t function, uint64_t argument);
/* Asks for a task of client_task back; the lane's worker is on another node. */
void client_revoke(struct client_lane *lane, uint32_t slot);
bool client_outcome(struct client_lane *lane, struct lane_record *out, int timeout_ms);
/* A task in slot 0 and its outcome, which must be good: what it has returned. */
uint64_t client_call(struct client_lane *lane, uint64_t function, uint64_t argument);

#endif
