/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - see place.h.
 */
#include "core/redis/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_SIZE = 512, DATABASE_MAX = 65535 };

#define FORM \
    "redis://HOST:PORT/0?cluster=NAME, redis+unix:///PATH?cluster=NAME, or " \
    "redis+sentinel://HOST:PORT,HOST:PORT/MASTER?cluster=NAME"

static mt_status refuse(char *text, int32_t code, const char *said)
{
    snprintf(text, RDS_TEXT_SIZE, "%s", said);
    return mt_error(code, 0, "read the address of a Redis server");
}

static bool number(const char *text, unsigned max, unsigned *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long n = strtoul(text, &end, 10);
    *out = (unsigned)n;
    return *end == '\0' && n <= max;
}

static bool is_name(const char *text)
{
    size_t size = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
    return size > 0 && text[size] == '\0' && size < RDS_NAME_SIZE;
}

/* cluster=NAME&db=N; cuts them out of `query`. */
static mt_status read_query(char *query, struct rds_place *out, char *text)
{
    for (char *next; query && *query; query = next) {
        next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        if (strncmp(query, "cluster=", 8) == 0 && is_name(query + 8))
            snprintf(out->cluster, sizeof out->cluster, "%s", query + 8);
        else if (strncmp(query, "db=", 3) != 0 || !number(query + 3, DATABASE_MAX, &out->database))
            return refuse(text, MT_EINVAL,
                          "behind the \"?\" stands cluster=NAME (letters, digits, \"_\", \".\", \"-\"; at most 63), or db=N");
    }
    if (out->cluster[0] == '\0')
        return refuse(text, MT_EINVAL, "the address lacks the cluster's name: write " FORM);
    return mt_ok();
}

/* Cuts the user off. */
static mt_status read_user(char **at, struct rds_place *out, char *text)
{
    char *end = strrchr(*at, '@');
    if (!end)
        return mt_ok();
    *end = '\0';
    if (strchr(*at, ':'))
        return refuse(
            text, MT_EINVAL,
            "a password in an address is seen by everybody who lists processes: write it into a file of mode 0600, and name "
            "that by --store-auth");
    if (!is_name(*at))
        return refuse(text, MT_EINVAL, "what stands before the \"@\" is no user's name");
    snprintf(out->user, sizeof out->user, "%s", *at);
    *at = end + 1;
    return mt_ok();
}

/* HOST[:PORT]; a host with colons stands in brackets. */
static bool read_server(char *at, unsigned port, char host[RDS_HOST_SIZE], char out_port[8])
{
    char *colon, *close = at[0] == '[' ? strchr(at, ']') : NULL;
    if (close) { /* an address of IPv6 */
        *close++ = '\0';
        at++;
        colon = *close == ':' ? close : NULL;
    } else if ((colon = strrchr(at, ':'))) {
        *colon = '\0';
    }
    if (at[0] == '\0' || strlen(at) >= RDS_HOST_SIZE || (colon && !number(colon + 1, 65535, &port)) || port == 0)
        return false;
    snprintf(host, RDS_HOST_SIZE, "%s", at);
    snprintf(out_port, 8, "%hu", (unsigned short)port);
    return true;
}

static mt_status read_host(char *at, struct rds_place *out, char *text)
{
    char *slash = strchr(at, '/');
    if (slash)
        *slash++ = '\0';
    if (slash && *slash && !number(slash, DATABASE_MAX, &out->database))
        return refuse(text, MT_EINVAL, "behind the \"/\" stands the number of a database: write " FORM);
    if (!read_server(at, 6379, out->host, out->port))
        return refuse(text, MT_EINVAL, "that is no host and port: write " FORM);
    bool is_v6 = strchr(out->host, ':') != NULL;
    snprintf(out->shown, sizeof out->shown, "redis://%s%.160s%s:%s/%u", is_v6 ? "[" : "", out->host, is_v6 ? "]" : "", out->port,
             out->database);
    return mt_ok();
}

static mt_status read_sentinels(char *at, struct rds_place *out, char *text)
{
    char *slash = strchr(at, '/');
    snprintf(out->shown, sizeof out->shown, "redis+sentinel://%.200s", at);
    if (slash)
        *slash++ = '\0';
    if (!slash || !is_name(slash))
        return refuse(text, MT_EINVAL, "behind the \"/\" stands the name that the Sentinels call the master by: write " FORM);
    snprintf(out->master, sizeof out->master, "%s", slash);
    for (char *next; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (out->sentinel_count == RDS_SENTINELS_MAX)
            return refuse(text, MT_EINVAL, "at most 9 Sentinels can be named");
        struct rds_sentinel *s = &out->sentinels[out->sentinel_count++];
        if (!read_server(at, 26379, s->host, s->port))
            return refuse(text, MT_EINVAL, "between the commas stands the host and port of a Sentinel: write " FORM);
    }
    return mt_ok();
}

static mt_status read_path(char *at, struct rds_place *out, char *text)
{
    if (at[0] != '/' || strlen(at) >= sizeof out->path)
        return refuse(text, MT_EINVAL, "the socket's path begins with \"/\" and has at most 103 bytes: write " FORM);
    out->is_unix = true;
    snprintf(out->path, sizeof out->path, "%s", at);
    snprintf(out->shown, sizeof out->shown, "redis+unix://%s", at);
    return mt_ok();
}

mt_status rds_place_read(const char *url, struct rds_place *out, char *text)
{
    char copy[URL_SIZE], *at;
    memset(out, 0, sizeof *out);
    if (strncmp(url, "rediss://", 9) == 0)
        return refuse(
            text, MT_EUNSUPPORTED,
            "TLS to Redis goes through stunnel on this machine: let it listen on a socket, and name that by redis+unix://");
    if (snprintf(copy, sizeof copy, "%s", url) >= (int)sizeof copy)
        return refuse(text, MT_EINVAL, "the address is too long");
    static const struct {
        const char *scheme;
        mt_status (*read)(char *at, struct rds_place *out, char *text);
    } kinds[] = {{"redis://", read_host}, {"redis+unix://", read_path}, {"redis+sentinel://", read_sentinels}};
    size_t kind = 0, count = sizeof kinds / sizeof *kinds;
    while (kind < count && strncmp(copy, kinds[kind].scheme, strlen(kinds[kind].scheme)) != 0)
        kind++;
    if (kind == count)
        return refuse(text, MT_EINVAL, "that is no address of a Redis server: write " FORM);
    at = copy + strlen(kinds[kind].scheme);
    MT_TRY(read_user(&at, out, text)); /* first: a password may hold anything */
    char *query = strchr(at, '?');
    if (query)
        *query++ = '\0';
    MT_TRY(read_query(query, out, text));
    return kinds[kind].read(at, out, text);
}
