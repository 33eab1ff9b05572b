/* SPDX-License-Identifier: Apache-2.0
 *
 * net.h - limits of nodes, connections, TLS, loops, listeners, calls and streams.
 */
#ifndef MT_LIMITS_NET_H
#define MT_LIMITS_NET_H

enum {
    /* Nodes and connections. */
    MT_NODE_SUSPECT_MS = 2 * 1000,      /* silent this long: nothing new is placed there */
    MT_NODE_DEAD_MS = 10 * 1000,        /* silent this long: dead */
    MT_DRAIN_MS = 30 * 1000,            /* a node that is told to leave (SIGTERM, manta drain) has so long, if nobody says other */
    MT_DRAIN_MS_MAX = 24 * 3600 * 1000, /* ... and never longer */
    MT_DRAIN_LEAVE_MS = 5 * 1000,       /* after that: for what it ends, and for the head to answer */
    MT_STRICT_LEASE_MS = 4 * 1000,      /* a strict actor runs so long after its raylet spoke to the head, then it freezes */
    MT_STRICT_WAIT_MS = 5 * 1000,       /* its next incarnation begins so long after the head has given the old one up */
    MT_NODES_MAX = 10000,               /* raylets in one cluster */
    MT_DIAL_MS = 5 * 1000,              /* from connect to a connection */
    MT_HANDSHAKE_MS = 5 * 1000,         /* from accept to an authenticated peer, and to its first request */
    MT_CONN_IDLE_MS = 10 * 60 * 1000,   /* a control connection without a call is closed */
    MT_CONNS_STRANGER_MAX = 32,         /* connections that have sent a greeting and not shown the token, all together */
    MT_CONN_STREAMS_MAX = 128,          /* calls at a time on one connection */
    MT_CALL_MS = 10 * 1000,             /* a control call that does not say otherwise */
    MT_CONTROL_BYTES_MAX = 4 * 1024 * 1024, /* a larger control message is refused unread */
    MT_METADATA_BYTES_MAX = 8 * 1024,       /* of one call */
    MT_TOKEN_BYTES = 32,                    /* the cluster token: 256 bits */

    /* TLS. */
    MT_TLS_AUTHORITY_DAYS = 3650,            /* that the cluster's authority is valid */
    MT_TLS_VALID_S = 7 * 24 * 60 * 60,       /* ... and a certificate that it signs */
    MT_TLS_RENEW_S = 24 * 60 * 60,           /* when it is so old there is another: so the head may be away for days */
    MT_TLS_LOOK_MS = 10 * 60 * 1000,         /* between two looks at its age */
    MT_TLS_AGAIN_MS = 1000,                  /* between two tries to get another */
    MT_TLS_SLACK_S = 24 * 60 * 60,           /* a certificate begins so much before now: clocks differ */
    MT_TLS_REQUEST_BYTES_MAX = 4 * 1024,     /* of a request for a certificate */
    MT_REVOKED_MAX = 16384,                  /* nodes whose certificates are refused, until these have ended */
    MT_REVOKED_CUT_MS = 200,                 /* from a revocation until the connections to the head end: the node may hear why */
    MT_TICKET_MS = 10 * 60 * 1000,           /* a ticket to join with, unless it is said otherwise */
    MT_TICKET_MS_MAX = 2000000000,           /* 23 days: it fits an int */
    MT_TOKENS_MAX = 1024,                    /* named ones; those that are revoked or have ended give way to new ones */
    MT_TICKET_USES_MAX = 1000,               /* of one ticket */
    MT_TICKETS_MAX = 256,                    /* that people have made; those that have ended give way ... */
    MT_TICKET_KEPT_MS = 24 * 60 * 60 * 1000, /* ... or go so long after their end: until then it tells their bearers why not */
    MT_JOIN_USES = 1000,                     /* the ticket in the head's join file lets so many join, ... */
    MT_JOIN_MS = 2000000000,                 /* ... for 23 days */
    MT_TLS_FILE_BYTES_MAX = 64 * 1024,       /* of a file with certificates, or for joining a cluster */
    MT_TLS_PIECE_BYTES = 64 * 1024,          /* decrypted or encrypted before other connections get their turn */
    MT_TLS_AHEAD_BYTES = 128 * 1024,         /* read by one system call; held only while some of it is there */
    MT_TLS_FLUSH_MS = 200,                   /* from the end of one side until what it sent last has reached the other */
    MT_TLS_STRANGER_MS_MIN = 300,            /* as MT_CONN_STRANGER_MS_MIN: a handshake takes round trips over a real network */

    /* Loops and listeners. */
    MT_LOOP_BATCH_MAX = 1024,   /* messages run before descriptors and timers get their turn again */
    MT_JOBS_QUEUED_MAX = 65536, /* largest bound of a disk thread's queue */
    MT_FDS_MAX = 65536,         /* descriptors that a daemon asks for at start */
    MT_FDS_MIN = 128,           /* with fewer a daemon does not start: gRPC ends a process that it finds without one */
    MT_FDS_SHARE_PERCENT = 80,  /* of the descriptor limit: for connections and memory of processes; what lies above is refused */
    MT_LISTEN_BACKLOG = 4096,   /* connections that the kernel keeps for us: beyond it even a node's own dial waits a second */
    MT_LISTEN_BATCH_MAX = 32,   /* accepted before others on the loop get their turn */
    MT_LISTEN_REST_MS = 10,     /* when strangers crowd, accept is called so often, and not for each of them: ... */
    MT_LISTEN_CROWD_MIN = 8,    /* ... if so many came meanwhile, ... */
    MT_LISTEN_CROWD_MAX = 256,  /* ... for so many at a time */
    MT_LISTEN_RETRY_MS = 50,    /* pause after an accept that failed for want of memory or descriptors */
    MT_LISTEN_TELL_MS = 10 * 1000,        /* between two lines of the log about refused connections */
    MT_CONNS_MAX = 16384,                 /* of one listener: all nodes and their clients. Over TLS each has three descriptors */
    MT_SILENT_MAX = 128,                  /* connections of one listener that have not sent their greeting */
    MT_GREETING_BYTES_MAX = 128,          /* what has to be there of it before anybody is bothered */
    MT_BOUND_BURST = 64,                  /* connections without the token that an address may open at a time, ... */
    MT_BOUND_PER_S = 16,                  /* ... and so many a second */
    MT_BOUND_KNOWN_MS = 24 * 3600 * 1000, /* an address from which one has shown the token has no bound for so long */
    MT_BOUND_ADDRESSES = 32768,           /* that are told apart; more than nodes */

    /* Calls and streams. */
    MT_CONN_STRANGER_MS_MIN = 100, /* what a stranger's connection has, even when others wait for its place */
    MT_CONN_SWEEP_MS = 50,         /* how often strangers' time is looked at, and who has ended while no more are taken */
    MT_CONN_REAP_MS = 5 * 1000,    /* ... and otherwise */
    MT_REDIAL_MS_MIN = 100,        /* between attempts to connect (gRPC has no lower) */
    MT_REDIAL_MS_MAX = 1000,
    MT_KEEPALIVE_MS = 10 * 1000,             /* a silent connection with calls is asked, ... */
    MT_KEEPALIVE_ANSWER_MS = 5 * 1000,       /* ... and has this long to answer */
    MT_KEEPALIVE_SERVER_MS = 60 * 1000,      /* by the server, and by a node whose signs of life go another way */
    MT_CALLS_OPEN_MAX = 16384,               /* calls and streams that one server has open */
    MT_RPC_WINDOW_BYTES = 256 * 1024,        /* of a stream, sent before its reader has asked for more */
    MT_RPC_BYTES_MAX = 512 * 1024 * 1024,    /* that gRPC may hold for the connections of one server */
    MT_STREAM_QUEUE_BYTES = 4 * 1024 * 1024, /* bound of a stream's send queue, unless set */
    MT_STREAM_AHEAD_BYTES = 1024 * 1024,     /* received on a stream and not delivered: then no more is read */
    MT_STREAM_AHEAD_MAX = 256,               /* the same in messages */
    MT_BUNDLE_BYTES = 64 * 1024,             /* of messages between head and raylet that travel as one */
    MT_STREAM_BATCH_MAX = 256,               /* callbacks of one stream before others on the loop get their turn */
    MT_READER_AHEAD_MAX = 64,                /* messages kept for a caller that reads a stream without a loop */
    MT_SERVER_GRACE_MS = 200,                /* a closing server waits this long for replies to be sent */
    MT_CLOSE_MS_MAX = 10 * 1000,             /* closing that takes longer is a bug of ours: a check fails */
};

#endif
