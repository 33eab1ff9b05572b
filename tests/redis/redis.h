/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - a real redis-server as a child of a test, in a folder of its own, and a proxy before it that fails on purpose.
 * Failures of the rig itself fail the test.
 */
#ifndef TESTS_REDIS_REDIS_H
#define TESTS_REDIS_REDIS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
    char  dir[64];    /* its own, with everything in it */
    char  socket[96]; /* <dir>/redis.sock */
    char  url[160];   /* with cluster=test */
    bool  is_on_disk; /* set before: its folder is on the disk of /tmp, not in memory, where nothing takes time */
    pid_t pid;        /* 0: it does not run */
    int   port;       /* 0: none but the socket */
    pid_t keeper;     /* removes the folder when keeper_fd closes */
    int   keeper_fd;
};

/* Makes the folder and starts it with `appendonly yes`, `appendfsync always`, and these further arguments ("--name",
 * "value", ..., NULL). */
void redis_server_new(struct redis_server *r, const char *const *more);
/* A port that nobody else is given as long as this process lives: a server may listen there, and again. */
int redis_port(void);
/* Starts it again on what is there. */
void redis_server_start(struct redis_server *r, const char *const *more);
void redis_server_kill(struct redis_server *r, int signal);
/* Kills it and removes the folder. */
void redis_server_free(struct redis_server *r);
/* What redis-cli says to one command, its words apart; at most `size` bytes of it. */
void redis_say(const struct redis_server *r, char *out, size_t size, const char *const *words);
#define REDIS_SAY(r, out, ...) redis_say((r), (out), sizeof(out), (const char *const[]){__VA_ARGS__, NULL})
#define REDIS_DO(r, ...) \
    do { \
        char said_[256]; \
        redis_say((r), said_, sizeof said_, (const char *const[]){__VA_ARGS__, NULL}); \
    } while (0)

/* The keys of one head's store become a copy of those of another: all that stands behind `to` afterwards stood behind `from`. */
void redis_keys_copy(const struct redis_server *r, const char *from, const char *to);

enum redis_fault {
    REDIS_PASS,
    REDIS_LOSE_REPLY, /* the server does it, and nobody hears of it: the connection closes */
    REDIS_LOSE_CALL,  /* the connection closes before */
    REDIS_HALF_REPLY, /* the first half of the reply, then the connection closes */
    REDIS_STALL,      /* nothing comes any more, and nothing closes */
    REDIS_SAY,        /* `said` comes instead of the reply, and the server hears nothing */
};

struct redis_proxy {
    struct redis_server *server;
    char                 socket[96], url[160];
    int                  fd;
    pthread_t            thread;
    _Atomic int          fault;   /* enum redis_fault: of the next scripts ... */
    _Atomic int          count;   /* ... so many */
    _Atomic int          scripts; /* that came */
    const char          *said;
    _Atomic bool         is_over;
};
void redis_proxy_new(struct redis_proxy *p, struct redis_server *server);
void redis_proxy_free(struct redis_proxy *p);
void redis_proxy_fail(struct redis_proxy *p, enum redis_fault fault, int count, const char *said);

#endif
