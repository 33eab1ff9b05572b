/* SPDX-License-Identifier: Apache-2.0
 *
 * said.c - see said.h and README.md. Owns: the pipe's end for reading, and a copy of the descriptor that it is passed on to.
 */
#include "raylet/shell/said/said.h"

#include "core/io/io.h"
#include "raylet/shell/ground/ground.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sh_said {
    int             fd, to;
    struct io_watch watch;
    char            line[SH_SAID_SIZE]; /* the one that is being said, or, behind its end, the last */
    size_t          size;
    bool            is_ended; /* the next byte begins another */
};

static void keep(struct sh_said *s, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            s->is_ended = true;
            continue;
        }
        if (s->is_ended)
            s->size = 0;
        s->is_ended = false;
        if (s->size < sizeof s->line - 1)
            s->line[s->size++] = bytes[i];
    }
}

/* Where it goes may be a pipe that this very thread empties: never more than fits. */
static void pass_on(const struct sh_said *s, const char *bytes, size_t size)
{
    struct pollfd to = {.fd = s->to, .events = POLLOUT};
    if (poll(&to, 1, 0) == 1 && (to.revents & POLLOUT))
        (void)!write(s->to, bytes, size);
}

/* Bytes that were there; 0: the other end is closed, < 0: nothing is there now. */
static ssize_t read_some(struct sh_said *s)
{
    char    bytes[PIPE_BUF];
    ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n <= 0)
        return n;
    keep(s, bytes, (size_t)n);
    pass_on(s, bytes, (size_t)n);
    return n;
}

/* A closed pipe is readable for ever, and not always told as a hang-up: its end is what read says. */
static void ready(struct io_watch *watch, unsigned events)
{
    struct sh_said *s = mt_container_of(watch, struct sh_said, watch);
    ssize_t         n = read_some(s);
    if (n == 0 || (n < 0 && (events & IO_HANGUP)))
        io_watch_stop(&s->watch); /* what was said is kept until the process has ended */
}

struct sh_said *sh_said_new(struct sh *sh, int to, int *out_end)
{
    int             ends[2];
    struct sh_said *s = calloc(1, sizeof *s);
    if (!s || pipe2(ends, O_CLOEXEC) < 0) {
        free(s);
        return NULL;
    }
    s->fd = ends[0];
    s->to = fcntl(to, F_DUPFD_CLOEXEC, 3);
    s->watch.ready = ready;
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    *out_end = fcntl(ends[1], F_DUPFD_CLOEXEC, SH_STDERR_FD + 1); /* none of those that the child is given before it */
    close(ends[1]);
    if (s->to >= 0 && *out_end >= 0 && io_watch_start(sh->loop, &s->watch, s->fd, IO_READABLE).code == 0)
        return s;
    if (*out_end >= 0)
        close(*out_end);
    *out_end = -1;
    sh_said_free(s);
    return NULL;
}

bool sh_said_by_loader(char *line)
{
    static const char *const words[] = {": error while loading", ": symbol lookup error"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(line, words[i]); /* behind the program's path, which the reader knows */
        if (at) {
            memmove(line, at + 2, strlen(at + 2) + 1);
            return true;
        }
    }
    return strstr(line, ": version `") && strstr(line, "' not found (required by ");
}

void sh_said_last(struct sh_said *s, char out[SH_SAID_SIZE])
{
    for (int i = 0; i < 16 && read_some(s) > 0; i++)
        ;
    memcpy(out, s->line, s->size);
    out[s->size] = 0;
    (void)sh_said_by_loader(out);
}

void sh_said_free(struct sh_said *s)
{
    if (!s)
        return;
    io_watch_stop(&s->watch);
    close(s->fd);
    if (s->to >= 0)
        close(s->to);
    free(s);
}
