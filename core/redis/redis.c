/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h. hiredis writes requests and reads replies; its own sockets have a limit for each read, not for a call.
 */
#include "core/base/clock.h"
#include "core/redis/lookup.h"
#include "core/redis/redis.h"
#include "core/sys/file.h"

#include <hiredis/hiredis.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { AUTH_SIZE = 512, READ_SIZE = 65536, REPLY_BYTES_MAX = 1 << 30 };

/* ---- failures ---- */

void rds_hang_up(struct rds *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->reader)
        redisReaderFree(r->reader);
    r->fd = -1;
    r->reader = NULL;
}

static mt_status failed(struct rds *r, int32_t code, int sys, const char *said)
{
    snprintf(r->text, sizeof r->text, "%s%s%s", said, sys ? ": " : "", sys ? strerror(sys) : "");
    return mt_error(code, sys, "speak with Redis");
}

/* Nobody knows what has become of the call. */
static mt_status cut(struct rds *r, int32_t code, int sys, const char *said)
{
    rds_hang_up(r);
    return failed(r, code, sys, said);
}

/* Words of error replies, and what they mean. Within a script older servers put them behind other words. */
static const struct {
    const char *word;
    int32_t     code;
} words[] = {
    {"LOADING", MT_EAGAIN},         {"READONLY", MT_EAGAIN},
    {"MISCONF", MT_EAGAIN},         {"BUSY ", MT_EAGAIN},
    {"MASTERDOWN", MT_EAGAIN},      {"NOREPLICAS", MT_EAGAIN},
    {"TRYAGAIN", MT_EAGAIN},        {"max number of clients", MT_EAGAIN},
    {"OOM command", MT_EDISK_FULL}, {"NOAUTH", MT_EAUTH},
    {"WRONGPASS", MT_EAUTH},        {"NOPERM", MT_EAUTH},
    {"invalid password", MT_EAUTH}, {"without any password", MT_EAUTH},
    {"NOSCRIPT", MT_ENOENT},        {"unknown command", MT_EUNSUPPORTED},
    {"MOVED", MT_EUNSUPPORTED},     {"CLUSTERDOWN", MT_EUNSUPPORTED},
    {"CROSSSLOT", MT_EUNSUPPORTED}, {"cluster mode", MT_EUNSUPPORTED},
};

static mt_status refused(struct rds *r, const char *said)
{
    int32_t code = MT_EINVAL;
    for (size_t i = 0; i < sizeof words / sizeof *words && code == MT_EINVAL; i++)
        if (strstr(said, words[i].word))
            code = words[i].code;
    if (strstr(said, "READONLY"))
        rds_hang_up(r); /* the name may lead to the new primary by now */
    return failed(r, code, 0, said);
}

/* ---- bytes, until a limit ---- */

static bool wait_for(struct rds *r, short events, int64_t end)
{
    for (;;) {
        int64_t       left = end - mt_now_ms();
        struct pollfd p = {r->fd, events, 0};
        int           rc = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (rc >= 0 || errno != EINTR)
            return rc > 0;
    }
}

static mt_status write_all(struct rds *r, const char *bytes, size_t size, int64_t end)
{
    while (size > 0) {
        ssize_t n = send(r->fd, bytes, size, MSG_NOSIGNAL);
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return cut(r, MT_ECONN, errno, "the connection to Redis broke");
        } else if (!wait_for(r, POLLOUT, end)) {
            return cut(r, MT_ETIMEDOUT, 0, "Redis did not take the request in time");
        }
    }
    return mt_ok();
}

static mt_status read_reply(struct rds *r, int64_t end, redisReply **out)
{
    static _Thread_local char bytes[READ_SIZE];
    size_t                    sum = 0;
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(r->reader, &reply) != REDIS_OK)
            return cut(r, MT_EPROTO, 0, "what answers there is no Redis server, or its reply is damaged");
        if (reply) {
            *out = reply;
            return mt_ok();
        }
        ssize_t n = recv(r->fd, bytes, sizeof bytes, 0);
        if (n == 0)
            return cut(r, MT_ECONN, 0, "Redis closed the connection");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return cut(r, MT_ECONN, errno, "the connection to Redis broke");
        if (n < 0 && !wait_for(r, POLLIN, end))
            return cut(r, MT_ETIMEDOUT, 0, "Redis did not answer in time");
        if (n > 0 && ((sum += (size_t)n) > REPLY_BYTES_MAX || redisReaderFeed(r->reader, bytes, (size_t)n) != REDIS_OK))
            return cut(r, MT_ENOMEM, 0, "no memory for the reply of Redis");
    }
}

/* ---- calls ---- */

static mt_status format(struct rds *r, const mt_view *args, size_t count, char **out, int *out_size)
{
    const char **texts = calloc(count, sizeof *texts);
    size_t      *sizes = calloc(count, sizeof *sizes);
    *out_size = -1;
    for (size_t i = 0; texts && sizes && i < count; i++) {
        texts[i] = args[i].size ? (const char *)args[i].data : "";
        sizes[i] = args[i].size;
    }
    if (texts && sizes)
        *out_size = redisFormatCommandArgv(out, (int)count, texts, sizes);
    free(texts);
    free(sizes);
    return *out_size < 0 ? failed(r, MT_ENOMEM, 0, "no memory for a request to Redis") : mt_ok();
}

mt_status rds_call(struct rds *r, const mt_view *args, size_t count, int limit_ms, struct rds_reply **out)
{
    int64_t     end = mt_now_ms() + limit_ms;
    redisReply *reply = NULL;
    char       *bytes = NULL;
    int         size;
    r->text[0] = '\0';
    if (r->fd < 0)
        return failed(r, MT_ECONN, 0, "there is no connection to Redis");
    MT_TRY(format(r, args, count, &bytes, &size));
    mt_status st = write_all(r, bytes, (size_t)size, end);
    explicit_bzero(bytes, (size_t)size); /* it may be a password */
    free(bytes);
    if (st.code == 0)
        st = read_reply(r, end, &reply);
    if (st.code == 0 && reply->type == REDIS_REPLY_ERROR) {
        st = refused(r, reply->str);
        freeReplyObject(reply);
    }
    if (st.code == 0)
        *out = (struct rds_reply *)(void *)reply;
    return st;
}

void rds_reply_free(struct rds_reply *reply)
{
    if (reply)
        freeReplyObject(reply);
}

static const redisReply *of(const struct rds_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

size_t rds_count(const struct rds_reply *reply)
{
    return reply && of(reply)->type == REDIS_REPLY_ARRAY ? of(reply)->elements : 0;
}

const struct rds_reply *rds_item(const struct rds_reply *reply, size_t index)
{
    return index < rds_count(reply) ? (const struct rds_reply *)(const void *)of(reply)->element[index] : NULL;
}

mt_view rds_text(const struct rds_reply *reply)
{
    bool is_text = reply && (of(reply)->type == REDIS_REPLY_STRING || of(reply)->type == REDIS_REPLY_STATUS);
    return is_text ? mt_view_of(of(reply)->str, (size_t)of(reply)->len) : mt_view_text("");
}

/* ---- dialling ---- */

static bool connects(struct rds *r, const struct sockaddr *address, socklen_t size, int64_t end)
{
    int       on = 1, err = 0;
    socklen_t err_size = sizeof err;
    r->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (r->fd < 0)
        return false;
    if (address->sa_family != AF_UNIX)
        setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int rc = connect(r->fd, address, size);
    if (rc != 0 && errno != EINPROGRESS) {
        err = errno;
    } else if (rc != 0) {
        if (!wait_for(r, POLLOUT, end))
            err = ETIMEDOUT;
        else
            getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &err, &err_size);
    }
    if (err != 0)
        rds_hang_up(r);
    errno = err;
    return err == 0;
}

static mt_status connect_unix(struct rds *r, const struct rds_place *place, int64_t end)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", place->path);
    return connects(r, (const struct sockaddr *)(const void *)&address, sizeof address, end)
               ? mt_ok()
               : failed(r, MT_ECONN, errno, "nobody answers at the socket of Redis");
}

/* The name is looked up each time: it may lead elsewhere by now. */
static mt_status connect_tcp(struct rds *r, const struct rds_place *place, int64_t end)
{
    struct addrinfo *found, *at;
    mt_status        st = rds_lookup(place->host, place->port, (int)(end - mt_now_ms()), &found);
    if (st.code != 0)
        return failed(r, st.code == MT_ETIMEDOUT ? st.code : MT_ECONN, st.sys, st.what);
    for (at = found; at && !connects(r, at->ai_addr, at->ai_addrlen, end); at = at->ai_next) {
    }
    int sys = errno;
    freeaddrinfo(found);
    return r->fd >= 0 ? mt_ok() : failed(r, MT_ECONN, sys, "nobody answers at the address of Redis");
}

/* One line, the user's own and nobody else's to read. */
static mt_status read_password(struct rds *r, const char *path, char out[AUTH_SIZE])
{
    int fd = mt_private_open(path);
    if (fd < 0 && errno == EPERM)
        return failed(r, MT_EAUTH, 0, "the file with the password of Redis must be this user's own, mode 0600");
    ssize_t size = fd < 0 ? -1 : mt_read_all(fd, out, AUTH_SIZE - 1);
    int     sys = errno;
    if (fd >= 0)
        close(fd);
    if (size < 0)
        return failed(r, MT_EAUTH, sys, "the file with the password of Redis can't be read");
    out[size] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return out[0] ? mt_ok() : failed(r, MT_EAUTH, 0, "the file with the password of Redis is empty");
}

static mt_status say(struct rds *r, const mt_view *args, size_t count, int64_t end)
{
    struct rds_reply *reply = NULL;
    mt_status         st = rds_call(r, args, count, (int)(end - mt_now_ms()), &reply);
    rds_reply_free(reply);
    return st;
}

static mt_status greet(struct rds *r, const struct rds_place *place, const char *auth_file, int64_t end)
{
    char password[AUTH_SIZE], database[16];
    if (auth_file) {
        MT_TRY(read_password(r, auth_file, password));
        mt_view   args[] = {mt_view_text("AUTH"), mt_view_text(place->user), mt_view_text(password)};
        mt_view   plain[] = {args[0], args[2]};
        mt_status st = place->user[0] ? say(r, args, 3, end) : say(r, plain, 2, end);
        explicit_bzero(password, sizeof password);
        MT_TRY(st);
    }
    if (place->database == 0)
        return mt_ok();
    snprintf(database, sizeof database, "%u", place->database);
    return say(r, (mt_view[]){mt_view_text("SELECT"), mt_view_text(database)}, 2, end);
}

mt_status rds_dial_server(struct rds *r, const struct rds_place *place, const char *auth_file, int limit_ms)
{
    int64_t end = mt_now_ms() + limit_ms;
    rds_hang_up(r);
    r->text[0] = '\0';
    MT_TRY(place->is_unix ? connect_unix(r, place, end) : connect_tcp(r, place, end));
    r->reader = redisReaderCreate();
    if (!r->reader)
        return cut(r, MT_ENOMEM, 0, "no memory for a connection to Redis");
    mt_status st = greet(r, place, auth_file, end);
    if (st.code != 0)
        rds_hang_up(r);
    return st;
}
