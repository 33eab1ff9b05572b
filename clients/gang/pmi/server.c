/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - see server.h. Owns: the listening socket, and a connection for each rank of the node.
 */
#include "clients/gang/pmi/server.h"

#include "core/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct hello { /* before the rank's own words */
    uint32_t attempt, rank;
};

static socklen_t address_of(struct sockaddr_un *a, const char *name, size_t size)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size = size < sizeof a->sun_path - 1 ? size : sizeof a->sun_path - 1;
    memcpy(a->sun_path + 1, name, size);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

mt_status gng_server_open(struct gng_server *s)
{
    struct sockaddr_un a;
    uint64_t           number[2];
    *s = (struct gng_server){.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    MT_TRY(mt_random_bytes(number, sizeof number));
    snprintf(s->name, sizeof s->name, "manta-gang-%016llx%016llx", (unsigned long long)number[0], (unsigned long long)number[1]);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, address_of(&a, s->name, strlen(s->name))) != 0 ||
        listen(s->listener, MT_GANG_RANKS_MAX) != 0)
        return mt_error(MT_ESYS, errno, "listen for ranks");
    return mt_ok();
}

static void conns_close(struct gng_server *s)
{
    for (int i = 0; s->conns && i < s->pmi.local; i++)
        if (s->conns[i] >= 0)
            close(s->conns[i]);
    free(s->conns);
    s->conns = NULL;
    gng_pmi_fini(&s->pmi);
    s->is_on = false;
}

void gng_server_close(struct gng_server *s)
{
    conns_close(s);
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
}

mt_status gng_server_begin(struct gng_server *s, uint32_t attempt, const struct gng_start *start)
{
    char mapping[sizeof s->pmi.mapping], space[sizeof s->pmi.space];
    conns_close(s);
    snprintf(mapping, sizeof mapping, "%.*s", (int)start->mapping.size, (const char *)start->mapping.data);
    snprintf(space, sizeof space, "%.*s-%u", (int)start->space.size, (const char *)start->space.data, (unsigned)attempt);
    s->conns = malloc(start->local * sizeof *s->conns);
    if (!s->conns)
        return mt_error(MT_ENOMEM, 0, "serve PMI");
    for (uint32_t i = 0; i < start->local; i++)
        s->conns[i] = -1;
    s->attempt = attempt;
    s->is_on = true;
    return gng_pmi_init(&s->pmi, (int)start->first, (int)start->local, (int)start->size, mapping, space);
}

int gng_server_fds(const struct gng_server *s, struct pollfd *fds)
{
    int n = 0;
    if (!s->is_on)
        return 0;
    fds[n++] = (struct pollfd){s->listener, POLLIN, 0};
    for (int i = 0; i < s->pmi.local; i++)
        fds[n++] = (struct pollfd){s->conns[i], POLLIN, 0};
    return n;
}

/* ---- connections ---- */

static bool is_ours(int fd)
{
    struct ucred who;
    socklen_t    size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == getuid();
}

/* Who connects is of this user, and says hello at once. */
static void strangers_take(struct gng_server *s)
{
    struct timeval limit = {1, 0};
    int            fd;
    while ((fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct hello hello = {0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ssize_t n = is_ours(fd) ? recv(fd, &hello, sizeof hello, MSG_WAITALL) : -1;
        int     local = (int)hello.rank - s->pmi.first;
        if (n != sizeof hello || hello.attempt != s->attempt || local < 0 || local >= s->pmi.local || s->conns[local] >= 0)
            close(fd);
        else
            s->conns[local] = fd;
    }
}

/* A rank reads each answer before it says more, so what does not fit is a rank that is none. */
static void out_write(struct gng_server *s, int local)
{
    mt_buf *out = &s->pmi.ranks[local].out;
    if (out->size && s->conns[local] >= 0)
        (void)!send(s->conns[local], out->data, out->size, MSG_NOSIGNAL | MSG_DONTWAIT);
    out->size = 0;
}

static mt_status conn_read(struct gng_server *s, int local)
{
    char    bytes[MT_GANG_PMI_LINE_BYTES];
    int     rank = s->pmi.first + local;
    ssize_t n = recv(s->conns[local], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
        return gng_pmi_take(&s->pmi, rank, mt_view_of(bytes, (size_t)n));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return mt_ok();
    close(s->conns[local]);
    s->conns[local] = -1;
    return gng_pmi_end(&s->pmi, rank);
}

/* What has come of it is for the driver, and for those who wait. */
static mt_status tell(struct gng_server *s, mt_buf *news)
{
    struct gng_pmi *p = &s->pmi;
    for (int i = 0; i < p->local; i++)
        out_write(s, i);
    if (p->wants_fence) {
        MT_TRY(
            gng_wire_put(news, &(struct gng_wire){.kind = GNG_WIRE_FENCE, .attempt = s->attempt, .bytes = mt_buf_view(&p->fence)}));
        p->wants_fence = false;
        p->fence.size = 0;
    }
    if (p->fault_rank < 0)
        return mt_ok();
    struct gng_fault f = {p->fault_rank, p->fault_code, p->is_end};
    s->is_on = false; /* the gang ends; nothing more is served */
    return gng_wire_put(
        news, &(struct gng_wire){
                  .kind = GNG_WIRE_FAULT, .attempt = s->attempt, .number = gng_fault_number(f), .bytes = mt_view_text(p->fault)});
}

mt_status gng_server_serve(struct gng_server *s, const struct pollfd *fds, int count, mt_buf *news)
{
    if (!s->is_on || count == 0)
        return mt_ok();
    for (int i = 1; i < count; i++)
        if (fds[i].revents && s->conns[i - 1] >= 0)
            MT_TRY(conn_read(s, i - 1));
    if (fds[0].revents)
        strangers_take(s);
    return tell(s, news);
}

mt_status gng_server_fenced(struct gng_server *s, mt_view puts, mt_buf *news)
{
    if (!s->is_on)
        return mt_ok();
    MT_TRY(gng_pmi_fenced(&s->pmi, puts));
    return tell(s, news);
}

int gng_server_connect(mt_view name, uint32_t attempt, uint32_t rank)
{
    struct sockaddr_un a;
    struct hello       hello = {attempt, rank};
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&a, address_of(&a, (const char *)name.data, name.size)) == 0 &&
        send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello)
        return fd;
    int failed = errno;
    close(fd);
    return -failed;
}
