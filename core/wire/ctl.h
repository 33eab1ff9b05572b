/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl.h - what a process and its raylet say to each other.
 *
 * Two ways, one format. Every message is a struct lane_record whose payload is the struct named beside its kind:
 *   ring    in the up or down ring of the process's control lane: everything without descriptors.
 *   socket  one SOCK_SEQPACKET message on the unix socket, with descriptors (SCM_RIGHTS): the handshake and whatever
 *           gives memory. The raylet then adds 1 to park->socket_count and wakes the process; the process reads the
 *           socket until EAGAIN whenever the count has changed.
 * The two are not ordered against each other: a receiver that meets a lease it has not been given yet keeps the record.
 *
 * Request and reply: `record.id` is made by the one who asks; the reply carries the same id. A request that is repeated
 * with its id has the effect of one. Texts in fixed arrays are NUL-terminated; a reader forces that.
 *
 * Start of a process:
 *   driver   connects to <runtime>/raylet.sock, sends CTL_HELLO (with a descriptor of its executable)
 *   zygote   is started by the raylet with its socket in MANTA_FD and MANTA_ROLE=zygote; sends CTL_HELLO
 *   worker   is forked by the zygote on CTL_FORK (which brings its socket); sends CTL_HELLO
 *   raylet   answers CTL_WELCOME with descriptors: [0] control lane, [1] its park page, [2] pin table (all read-write),
 *            and [3] the park page of the switch, to wake it when the up ring has news (a zygote gets none of them);
 *            [4] to a worker, where events are kept: its ring of them (event.h);
 *            on a refusal code != 0 and no descriptors, then it closes.
 */
#ifndef LANE_CTL_H
#define LANE_CTL_H

#include "core/base/limits.h"
#include "core/lane/record.h"

enum {
    CTL_MAGIC = 0x61746e6d, /* "mnta" */
    CTL_VERSION = 1,        /* of this header; the handshake carries the range that a side speaks */
    CTL_NAME_SIZE = 64,
    CTL_TEXT_SIZE = 512,
    CTL_HELLO_STRINGS_MAX = 128 * 1024, /* argv, environment and working directory of a driver */
    CTL_RESOURCES = 8,
    CTL_MESSAGE_MAX = LANE_RECORD_MAX - LANE_RECORD_SIZE - 64,
    CTL_FDS_MAX = 5,
};

enum ctl_role { CTL_DRIVER = 1, CTL_ZYGOTE = 2, CTL_WORKER = 3 };

/* kind            way          direction            payload */
enum ctl_kind {
    CTL_HELLO = 64,      /* socket  up    ctl_hello, then strings; fd: executable (driver only) */
    CTL_WELCOME = 65,    /* socket  down  ctl_welcome */
    CTL_FORK = 66,       /* socket  down  to the zygote: ctl_fork; fds: [0] the child's socket, [1] where it
                                            prints, if that is not where the zygote does */
    CTL_FORKED = 67,     /* socket  up    from the zygote: ctl_forked; fd: pidfd of the child */
    CTL_CHILD_EXIT = 68, /* socket  up    from the zygote: ctl_child_exit */

    CTL_CLASS = 70,         /* ring    up    ctl_class: defines a scheduling class before its first demand */
    CTL_DEMAND = 71,        /* ring    up    ctl_demand: a level, newest version wins */
    CTL_GRANT = 72,         /* socket  down  ctl_grant; fds: [0] lane, [1] peer's park page: a lease, to its owner */
    CTL_LANE = 73,          /* socket  down  ctl_grant; same fds: the same lease, to its worker */
    CTL_RECALL = 74,        /* ring    down  ctl_lease: to owner and worker (the lane's recall word is already set) */
    CTL_DRAINED = 75,       /* ring    up    ctl_lease: the worker has written LANE_END and forgets the lane */
    CTL_ENDED = 76,         /* ring    down  ctl_ended: to the owner; drain the completion ring, then read the claims */
    CTL_UNSCHEDULABLE = 77, /* ring  down  ctl_unschedulable */
    CTL_BLOCKED = 78,       /* ring    up    no payload: the worker waits inside a task; its CPUs are free */
    CTL_UNBLOCKED = 79,     /* ring    up    no payload */
    CTL_KILL = 80,          /* ring    up    ctl_lease: the owner wants the worker killed (actor kill, forced cancel) */
    CTL_LANE_WANT = 81,     /* ring    up    ctl_lane_want: a lane to the worker that holds an actor of somebody else;
                                           answered by CTL_GRANT (id of the request) or CTL_REPLY with an error */
    CTL_LANE_DROP = 82,     /* ring    up    ctl_lease: the caller is done with such a lane; an owner has no use for a lease */

    CTL_SEGMENT_WANT = 90, /* ring   up    ctl_segment: size wanted; answered by CTL_SEGMENT or CTL_REPLY */
    CTL_SEGMENT_MAP = 91,  /* ring   up    ctl_segment: which one to read; answered likewise */
    CTL_SEGMENT = 92,      /* socket down  ctl_segment; fds: [0] data (rw for the writer only), [1] generations */
    CTL_OBJECT_DEAD = 93,  /* ring   up    lane_ref: its owner will never name it again */
    CTL_SPACE_BACK = 94,   /* ring   down  ctl_space: the place may be written again */
    CTL_PULL = 95,         /* ring   up    lane_ref on another node, or of a value that a pin has not found here (it may be on
                                           disk); answered by CTL_HERE or CTL_REPLY with an error */
    CTL_HERE = 96,         /* ring   down  lane_ref of the local copy */
    CTL_SEGMENT_BACK = 97, /* ring   up    ctl_segment: its writer has nothing in it any more, and unmapped it */

    CTL_SEGMENT_ASK = 98, /* ring   down  ctl_segment: give it back, if nothing of yours stands in it (CTL_SEGMENT_BACK) */

    CTL_MESSAGE = 100,     /* ring    both  ctl_message, then bytes: process to process, through the raylets */
    CTL_BOUNCE = 101,      /* ring    down  ctl_bounce: a message could not be delivered; id is the message's */
    CTL_MONITOR = 102,     /* ring    up    ctl_monitor: tell me when it dies (at once, if it is dead already) */
    CTL_DEMONITOR = 103,   /* ring    up    no payload; id of the monitor */
    CTL_DEATH = 104,       /* ring    down  ctl_death; id of the monitor, which is spent */
    CTL_REQUEST = 105,     /* ring    up    ctl_request, then bytes: to the head */
    CTL_REPLY = 106,       /* ring    down  ctl_reply, then bytes: the answer to any request */
    CTL_REGION_WANT = 107, /* ring   up    ctl_segment: shared memory that all who know its number may write
                                           (segment 0: a new one of that size; else: map that one) */
    CTL_REGION = 108,      /* socket  down  ctl_segment; fd: [0] read-write */
    CTL_REGION_DROP = 109, /* ring   up    ctl_segment: freed when every member has dropped it or is dead */
    CTL_SHUTDOWN = 110,    /* ring    both  ctl_reply with a reason: down, the raylet ends; up, the process leaves */

    CTL_LOOK = 126,         /* ring    down  lane_look (look.h): tell of your tasks or actors */
    CTL_LOOKED = 127,       /* ring    up    lane_looked, then rows; id of the question */
    CTL_ENV = 133,          /* socket  up    ctl_env, then strings; fd: archive of its files, if it has any: defines a
                                           runtime environment of the job; answered by CTL_REPLY in the ring */
    CTL_DETACH = 180,       /* socket  up    ctl_request (CTL_OP_ACTOR_NEW), ctl_detached, its bytes; fd: values that are too large
                                           for those; answered by CTL_REPLY in the ring */
    CTL_PROGRAM_FILE = 135, /* socket up   ctl_program_file, from a driver before CTL_HELLO; fd: a library of its program; none: the
                                           program itself, whose descriptor comes with CTL_HELLO */
    CTL_ZYGOTE_FAILED = 134, /* socket up  from a zygote or a new worker: ctl_reply: why it cannot serve; it leaves */
};

struct ctl_hello {
    uint32_t magic;
    uint16_t version_min, version_max;
    uint32_t role;    /* enum ctl_role */
    uint32_t flags;   /* CTL_HELLO_... */
    uint64_t process; /* random, drawn by the process */
    uint64_t job;     /* driver: drawn by it; worker: of its zygote */
    uint32_t argc;    /* strings after this struct, each with NUL: argv (argc), environment (envc), working directory */
    uint32_t envc;
    uint32_t strings_size;
    char     job_name[CTL_NAME_SIZE];
};

/* Where a file of the driver's program stands, seen from a folder that has all of them: with the same places elsewhere, run
 * paths that begin with $ORIGIN find what they find here. */
enum { CTL_PROGRAM_PATH_SIZE = 1024 };
struct ctl_program_file {
    char path[CTL_PROGRAM_PATH_SIZE];
};

enum { CTL_HELLO_LOGS = 1 }; /* of a driver: what its workers print goes to it, by messages */

struct ctl_welcome {
    uint32_t magic;
    uint16_t version; /* the one both speak */
    uint16_t reserved;
    int32_t  code; /* enum mt_code */
    uint32_t node, epoch;
    uint32_t job; /* short number of the job on this cluster, in every ref */
    char     node_name[CTL_NAME_SIZE];
    char     address[CTL_NAME_SIZE]; /* of the head */
    char     text[CTL_TEXT_SIZE];    /* why not */
};

struct ctl_fork {
    uint64_t token; /* comes back in CTL_FORKED */
};
struct ctl_forked {
    uint64_t token;
    int32_t  pid; /* < 0: fork failed, -errno */
    int32_t  reserved;
};
struct ctl_child_exit {
    int32_t pid;
    int32_t status; /* as waitpid gives it */
};

struct ctl_resource {
    char    name[24]; /* "CPU", "GPU", "memory" (bytes), or the user's */
    int64_t milli;    /* thousandths; of "memory": bytes */
};

enum {
    CTL_CLASS_ACTOR = 1,      /* one actor: the lease is not recalled, and ends with the actor */
    CTL_CLASS_STRICT = 2,     /* ... that never runs twice at a time: its worker runs while its park page says so */
    CTL_CLASS_FOR_ALL = 0x20, /* ... whose name all jobs may find: between an owner's parts only */
    CTL_CLASS_CAPTURE = 0x80, /* what its tasks submit belongs to its placement group as well */
    CTL_CLASS_PIN = 0x40,     /* its threads are bound to CPUs of its own; it wants whole ones */
};
enum ctl_policy { CTL_HYBRID = 0, CTL_SPREAD = 1, CTL_NODE = 2 /* `node`, hard */, CTL_NODE_SOFT = 3 };

struct ctl_class {
    uint32_t            class_id; /* the owner's number */
    uint32_t            flags;
    uint32_t            resource_count;
    uint32_t            policy; /* enum ctl_policy */
    uint32_t            node;
    uint32_t            reserved;
    uint64_t            env;                 /* key of a runtime environment (CTL_ENV); 0: that of the owner itself */
    char                name[CTL_NAME_SIZE]; /* function or actor, for people */
    struct ctl_resource resources[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX]; /* selector (core/text/labels.h); "": any node */
    mt_id               group;                       /* placement group in whose pool its leases are; zero: none */
    uint32_t            bundle;                      /* of it, from 1; 0: any */
    uint32_t            reserved2;
};
static inline bool ctl_class_is_grouped(const struct ctl_class *c)
{
    return c->group.process != 0;
}

/* A runtime environment. It builds on another one: what that one sets and this one does not holds here as well. */
struct ctl_env {
    uint64_t key;    /* drawn from all that follows, so the same environment has the same key; not 0 */
    uint64_t parent; /* key; 0: none */
    uint32_t flags;
    uint32_t strings_size; /* of env_vars after this struct: "NAME=value", each with NUL */
    uint64_t archive_size; /* 0: no files of its own */
    uint8_t  sha256[32];   /* of the archive (core/sys/archive.h) */
    char     code[128];    /* path inside the files of the .so that its workers load; "": none */
};
enum { CTL_ENV_CHDIR = 1 /* its files are the working directory */ };

struct ctl_demand {
    uint32_t class_id;
    uint32_t wanted; /* leases, those held included */
    uint64_t version;
};
#define CTL_DEMAND_LAST UINT64_MAX /* version: nothing of this class will ever be wanted again */

struct ctl_grant {
    uint64_t lease;
    uint32_t class_id;  /* the owner's; 0 for a lane of CTL_LANE_WANT */
    uint32_t flags;     /* CTL_CLASS_ACTOR, CTL_CLASS_STRICT; CTL_GRANT_REMOTE */
    uint64_t peer;      /* process at the other end: the owner's is the worker (0 while remote), and the reverse */
    uint32_t peer_node; /* where it is */
    int32_t  peer_pid;
    uint32_t incarnation;
    uint32_t gpu_count; /* devices of the lease, for CUDA_VISIBLE_DEVICES */
    uint16_t gpus[16];
    int64_t  cpu_milli;              /* of the lease */
    uint64_t cpus[MT_CPUS_MAX / 64]; /* that its threads are to be bound to, a bit each; none: wherever they like */
    mt_id    group;                  /* placement group that the lease is in; zero: none. CTL_CLASS_CAPTURE stands in `flags` */
};
enum { CTL_GRANT_REMOTE = 0x100 }; /* the claims are taken by the switch: revoke by LANE_REVOKE */

struct ctl_lease {
    uint64_t lease;
};

struct ctl_ended {
    uint64_t lease;
    int32_t  code;   /* MT_OK: drained; MT_EWORKER_DIED; MT_ENODE_DIED */
    int32_t  status; /* as waitpid gives it, when the worker died */
    int32_t  pid;
    uint32_t node;
    char     text[CTL_TEXT_SIZE * 4]; /* what happened, and the backtrace the worker left */
};

struct ctl_unschedulable {
    uint32_t class_id;
    int32_t  code;
    char     text[CTL_TEXT_SIZE]; /* which resource, how much, what the largest node has */
};

struct ctl_lane_want {
    uint64_t process; /* of the worker */
    uint32_t node;
    uint32_t incarnation;
};

struct ctl_segment {
    uint32_t segment; /* number on this node */
    uint32_t flags;
    uint64_t size;
};
struct ctl_space {
    uint32_t segment;
    uint32_t generation; /* of the next object at that place */
    uint64_t offset;
};

struct ctl_message {
    uint64_t process; /* up: to; down: from */
    uint32_t node;
    uint32_t subject; /* the library's own (clients/lib/owner/state/message.h) */
};
struct ctl_bounce {
    int32_t  code; /* MT_EOWNER_DIED, MT_ENODE_DIED, MT_EAGAIN (a bound) */
    uint32_t subject;
    uint64_t process;
};

struct ctl_monitor {
    uint64_t process; /* 0: the node itself */
    uint32_t node;
    uint32_t reserved;
};
struct ctl_death {
    uint64_t process;
    uint32_t node;
    int32_t  code; /* MT_EWORKER_DIED, MT_ENODE_DIED */
    int32_t  status;
    int32_t  pid;
    char     text[CTL_TEXT_SIZE * 4]; /* which, where, why */
};

enum ctl_op {
    CTL_OP_NAME_PUT = 1, /* ctl_name; EEXIST where another holds it */
    CTL_OP_NAME_GET = 2, /* ctl_name in and out; ENOENT */
    CTL_OP_NAME_DELETE = 3,
    CTL_OP_NODES = 4,     /* reply: an array of ctl_node, this node first, then by number; a full one may not be all */
    CTL_OP_ACTOR_NEW = 8, /* ctl_detached, then `size` bytes for its warden: a detached actor; EEXIST */
    CTL_OP_ACTOR = 9,     /* ctl_actor, of a detached one; to WHERE the reply brings a ctl_name */
    CTL_OP_GROUP = 10,    /* ctl_group, then its bundles (NEW); to FIND the reply brings the same */
};
struct ctl_request {
    uint32_t op;    /* enum ctl_op */
    uint32_t after; /* CTL_OP_NODES: the last node of the answer before; 0: from the beginning */
};
struct ctl_reply {
    int32_t  code;
    uint32_t size; /* of the bytes after this struct */
    char     text[CTL_TEXT_SIZE];
};
struct ctl_name {
    char     space[CTL_NAME_SIZE]; /* namespace; "default" unless the job says otherwise */
    char     name[CTL_NAME_SIZE];
    char     type[CTL_NAME_SIZE]; /* of the actor */
    mt_id    actor;
    uint64_t owner; /* the process that answers for the actor; 0: of a detached one, the head is starting it */
    uint32_t owner_node;
    uint32_t flags; /* CTL_NAME_DETACHED, in answers; CTL_NAME_FOR_ALL, of who puts or deletes it */
};
enum { CTL_NAME_DETACHED = 1, CTL_NAME_FOR_ALL = 2 /* jobs that are apart find it too */ };

/* In the folder of a detached actor's job: large values, and the archive of its runtime environment. */
#define CTL_VALUES_FILE "manta-values"
#define CTL_ENV_FILE    "manta-env"
struct ctl_detached {
    struct ctl_name name;     /* owner: none */
    int32_t         restarts; /* < 0: without limit */
    uint32_t        size;
    uint32_t        is_strict;
    uint32_t        reserved;
    uint64_t        env;         /* key of a runtime environment; 0: that of the creator itself */
    uint64_t        values_size; /* of CTL_DETACH's file; 0: there is none */
    uint8_t         values_sha256[32];
};
enum ctl_actor_verb {
    CTL_ACTOR_NEW = 1,       /* between raylet and head only */
    CTL_ACTOR_WHERE = 2,     /* EACTOR_DIED with the reason when it has ended for good */
    CTL_ACTOR_END = 3,       /* its name is free when this is answered */
    CTL_ACTOR_RESTARTED = 4, /* its warden has started it again */
    CTL_ACTOR_VOID = 5,      /* any strict one: that lease is given up for good; MT_STRICT_WAIT_MS later the next may begin */
};
struct ctl_actor {
    mt_id    actor;
    uint32_t verb;     /* enum ctl_actor_verb */
    uint32_t restarts; /* RESTARTED: so often, in all */
    uint64_t lease;    /* VOID */
    uint32_t node;     /* VOID: where it was */
    uint32_t reserved;
    char     text[CTL_TEXT_SIZE]; /* END: why */
};
/* Placement groups. Each bundle is a ctl_bundle and its resources behind it. */
enum ctl_group_verb {
    CTL_GROUP_NEW = 1,    /* EEXIST: the name is another's. OK: it will be placed; said twice, it is the same one */
    CTL_GROUP_WAIT = 2,   /* OK: it stands; ETIMEDOUT, EUNSCHEDULABLE, EPG_REMOVED */
    CTL_GROUP_FIND = 3,   /* by name, or without one by its id; ENOENT, EPG_REMOVED */
    CTL_GROUP_REMOVE = 4, /* OK also where it is gone already */
};
enum ctl_strategy { CTL_PACK = 0, CTL_SPREAD_OUT = 1, CTL_STRICT_PACK = 2, CTL_STRICT_SPREAD = 3 };
enum { CTL_GROUP_DETACHED = 1, CTL_GROUP_READY = 2 /* in answers */ };
struct ctl_group {
    mt_id    id;
    uint32_t verb;     /* enum ctl_group_verb */
    uint32_t strategy; /* enum ctl_strategy */
    uint32_t flags;    /* CTL_GROUP_... */
    uint32_t bundle_count;
    uint32_t wait_ms; /* WAIT */
    uint32_t reserved;
    char     space[CTL_NAME_SIZE];
    char     name[CTL_NAME_SIZE]; /* "": none */
};
struct ctl_bundle {
    uint32_t node; /* in answers: where it stands; 0: nowhere */
    uint32_t resource_count;
};
struct ctl_node {
    uint32_t            node, epoch;
    uint32_t            state; /* 1 alive, 2 suspect, 3 dead */
    uint32_t            resource_count;
    char                name[CTL_NAME_SIZE];
    char                address[CTL_NAME_SIZE];
    struct ctl_resource total[CTL_RESOURCES];
    struct ctl_resource free[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX];
};

#endif
