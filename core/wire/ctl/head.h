/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - what goes on to the head: names, detached actors, nodes; and the answer to any request.
 */
#ifndef CTL_HEAD_H
#define CTL_HEAD_H

#include "core/base/limits/text.h"
#include "core/wire/ctl/lease.h"

enum ctl_op {
    CTL_OP_NAME_PUT = 1, /* ctl_name; EEXIST where another holds it */
    CTL_OP_NAME_GET = 2, /* ctl_name in and out; ENOENT */
    CTL_OP_NAME_DELETE = 3,
    CTL_OP_NODES = 4,       /* reply: an array of ctl_node, this node first, then by number; a full one may not be all */
    CTL_OP_ACTOR_NEW = 8,   /* ctl_detached, then `size` bytes for its warden: a detached actor; EEXIST */
    CTL_OP_ACTOR = 9,       /* ctl_actor, of a detached one; to WHERE the reply brings a ctl_name */
    CTL_OP_GROUP = 10,      /* ctl_group, then its bundles (NEW); to FIND the reply brings the same */
    CTL_OP_WISH = 11,       /* ctl_wish; the raylet answers, and tells the head with its next report */
    CTL_OP_WISH_LOOK = 12,  /* ctl_wish, its name; reply: a ctl_wish_news */
    CTL_OP_NODES_NEWS = 13, /* answered once CTL_OP_NODES would be answered otherwise; one for each enum ctl_news */
};
enum ctl_news { CTL_NEWS_NODES, CTL_NEWS_FREE, CTL_NEWS }; /* who there is, and how that one is; or also what is free there */
struct ctl_request {
    uint32_t op;    /* enum ctl_op */
    uint32_t after; /* CTL_OP_NODES: the last node of the answer before; 0: from the beginning. _NODES_NEWS: enum ctl_news */
};
struct ctl_wish { /* what a process would use beyond what it has. One of the same name takes its place; count 0: it is taken back */
    char                name[CTL_NAME_SIZE];
    uint32_t            count;
    uint32_t            worth_milli; /* by how many thousandths what it does gets quicker with one more */
    uint32_t            resource_count;
    uint32_t            reserved;
    struct ctl_resource resources[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX]; /* selector; "": any node */
};
struct ctl_wish_news { /* how one stands */
    uint32_t stands;   /* enum scl_wish_state; 0: nothing was said */
    uint32_t reserved;
    char     text[CTL_TEXT_SIZE]; /* why */
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
struct ctl_node {
    uint32_t            node, epoch;
    uint32_t            state; /* 1 alive, 2 suspect, 3 dead, 4 draining */
    uint32_t            resource_count;
    char                name[CTL_NAME_SIZE];
    char                address[CTL_NAME_SIZE];
    struct ctl_resource total[CTL_RESOURCES];
    struct ctl_resource free[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX];
};

#endif
