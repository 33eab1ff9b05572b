/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel.c - see sentinel.h.
 */
#include "tests/redis/sentinel.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, STEP_MS = 20 };

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* Until what the server says to the words has `wanted` in it. */
static void await(const struct redis_server *r, const char *wanted, const char *const *words)
{
    static char said[1 << 16];
    for (int waited = 0; waited < PATIENCE_MS; waited += STEP_MS) {
        redis_say(r, said, sizeof said, words);
        if (strstr(said, wanted))
            return;
        nap(STEP_MS);
    }
    fail_msg("%s %s: \"%s\" without \"%s\"", words[0], words[1], said, wanted);
}
#define AWAIT(r, wanted, ...) await((r), (wanted), (const char *const[]){__VA_ARGS__, NULL})

void redis_sentinels_replica(struct redis_sentinels *s, int which)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->servers[!which].port);
    const char *const more[] = {"--replicaof", "127.0.0.1", port, NULL};
    if (s->servers[which].dir[0])
        redis_server_start(&s->servers[which], more);
    else
        redis_server_new(&s->servers[which], more);
}

void redis_sentinels_in_step(struct redis_sentinels *s)
{
    AWAIT(&s->servers[!s->master], "master_link_status:up", "INFO", "replication");
    REDIS_DO(&s->servers[s->master], "SET", "in-step", "yes"); /* what was written before comes before */
    AWAIT(&s->servers[!s->master], "yes", "GET", "in-step");
    REDIS_DO(&s->servers[s->master], "DEL", "in-step");
}

static void sentinel_start(struct redis_sentinels *s, int which)
{
    struct redis_server *one = &s->each[which];
    char                 conf[128], text[512], dir[sizeof s->servers[0].dir];
    memcpy(dir, s->servers[0].dir, sizeof dir);
    snprintf(one->socket, sizeof one->socket, "%s/s%d.sock", dir, which);
    snprintf(conf, sizeof conf, "%s/s%d.conf", dir, which);
    int size = snprintf(text, sizeof text,
                        "port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\nlogfile s%d.log\nsentinel monitor main 127.0.0.1 %d 2\n"
                        "sentinel down-after-milliseconds main %d\nsentinel failover-timeout main 3000\n",
                        one->port, one->socket, dir, which, s->servers[s->master].port, s->down_ms);
    int fd = open(conf, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, (size_t)size), size);
    close(fd);
    one->pid = fork();
    assert_true(one->pid >= 0);
    if (one->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", conf, "--sentinel", (char *)NULL); /* Debian packs redis-sentinel by itself */
        _exit(127);
    }
    for (int waited = 0; access(one->socket, F_OK) != 0; waited += STEP_MS, nap(STEP_MS))
        assert_true(waited < PATIENCE_MS);
}

void redis_sentinels_new(struct redis_sentinels *s, int down_ms)
{
    int size = snprintf(s->url, sizeof s->url, "redis+sentinel://");
    memset(s->servers, 0, sizeof s->servers);
    memset(s->each, 0, sizeof s->each);
    s->master = 0;
    s->down_ms = down_ms;
    for (int i = 0; i < 2; i++)
        s->servers[i].port = redis_port();
    redis_server_new(&s->servers[0], NULL);
    redis_sentinels_replica(s, 1);
    redis_sentinels_in_step(s);
    for (int i = 0; i < SENTINELS; i++) {
        s->each[i].port = redis_port();
        sentinel_start(s, i);
        size += snprintf(s->url + size, sizeof s->url - (size_t)size, "%s127.0.0.1:%d", i ? "," : "", s->each[i].port);
    }
    snprintf(s->url + size, sizeof s->url - (size_t)size, "/main?cluster=test");
    for (int i = 0; i < SENTINELS; i++) {
        AWAIT(&s->each[i], "OK 3 usable", "SENTINEL", "CKQUORUM", "main");
        AWAIT(&s->each[i], "master-link-status\r\n$2\r\nok", "SENTINEL", "REPLICAS", "main");
    }
}

void redis_sentinels_failover(struct redis_sentinels *s)
{
    AWAIT(&s->each[0], "+OK", "SENTINEL", "FAILOVER", "main"); /* as soon as it has seen the replica */
}

void redis_sentinels_switch(struct redis_sentinels *s)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->servers[!s->master].port);
    for (int i = 0; i < SENTINELS; i++)
        AWAIT(&s->each[i], port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main");
    AWAIT(&s->servers[!s->master], "role:master", "INFO", "replication");
    s->master = !s->master;
}

void redis_sentinels_free(struct redis_sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++)
        redis_server_kill(&s->each[i], SIGKILL);
    for (int i = 0; i < 2; i++)
        redis_server_free(&s->servers[i]);
}
