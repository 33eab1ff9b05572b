/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.c - see rendezvous.h. Owns: the values.
 */
#include "clients/gang/horovod/rendezvous.h"

#include "core/base/hash.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

void gng_rendezvous_init(struct gng_rendezvous *v, int size, mt_view secret, int port)
{
    *v = (struct gng_rendezvous){.size = size};
    snprintf(v->prefix, sizeof v->prefix, "/%.*s:%d/", (int)secret.size, (const char *)secret.data, port);
}

/* ---- values ---- */

static struct gng_value **bucket_of(struct gng_rendezvous *v, const char *name)
{
    uint64_t hash = mt_hash_text(MT_HASH_START, name);
    return &v->buckets[(hash ^ hash >> 32) % GNG_RENDEZVOUS_BUCKETS];
}

/* Where the value of that name hangs; *it is NULL where there is none. */
static struct gng_value **value_at(struct gng_rendezvous *v, const char *name)
{
    struct gng_value **at = bucket_of(v, name);
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static void value_drop(struct gng_rendezvous *v, struct gng_value **at)
{
    struct gng_value *value = *at;
    if (!value)
        return;
    *at = value->next;
    v->count--;
    v->bytes -= value->bytes.size;
    mt_buf_fini(&value->bytes);
    free(value);
}

void gng_rendezvous_fini(struct gng_rendezvous *v)
{
    for (size_t i = 0; i < GNG_RENDEZVOUS_BUCKETS; i++)
        while (v->buckets[i])
            value_drop(v, &v->buckets[i]);
    *v = (struct gng_rendezvous){0};
}

static mt_status value_set(struct gng_rendezvous *v, const char *name, mt_view bytes)
{
    size_t             size = strlen(name) + 1;
    struct gng_value **at = value_at(v, name);
    value_drop(v, at);
    struct gng_value *value = calloc(1, sizeof *value + size);
    if (!value)
        return mt_error(MT_ENOMEM, 0, "keep a value");
    memcpy(value->name, name, size);
    mt_status st = mt_buf_append(&value->bytes, bytes.data, bytes.size);
    if (st.code) {
        free(value);
        return st;
    }
    value->next = *at;
    *at = value;
    v->count++;
    v->bytes += bytes.size;
    return st;
}

/* ---- names of this gang ---- */

/* A number below `most`, in plain digits; *at moves behind it. */
static bool number_take(const char **at, int most)
{
    char *end;
    if (!isdigit((unsigned char)**at) || ((*at)[0] == '0' && isdigit((unsigned char)(*at)[1])))
        return false;
    long number = strtol(*at, &end, 10);
    *at = end;
    return number < most;
}

static bool word_take(const char **at, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(*at, word, size) != 0)
        return false;
    *at += size;
    return true;
}

/* "SCOPE/KEY" that a rank of so many may ask for. */
static bool name_is_ours(const char *at, int size)
{
    if (word_take(&at, "worker_addresses/node-"))
        return number_take(&at, size) && word_take(&at, ":") && number_take(&at, size) && !*at;
    if (!word_take(&at, "global") && !(word_take(&at, "local_node-") && number_take(&at, size)) &&
        !(word_take(&at, "cross_") && number_take(&at, size)))
        return false;
    if (word_take(&at, "_process_set_hash_")) {
        size_t digits = strspn(at, "0123456789abcdef");
        if (digits < 1 || digits > 16)
            return false;
        at += digits;
    }
    if (!word_take(&at, "/"))
        return false;
    (void)word_take(&at, "rank_");
    return number_take(&at, size) && !*at;
}

/* ---- answers ---- */

static mt_status answer(struct gng_request *r, int status, const char *reason, mt_view body)
{
    r->is_done = true;
    r->out.size = 0;
    MT_TRY(mt_buf_printf(&r->out, "HTTP/1.0 %d %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status, reason, body.size));
    return body.size ? mt_buf_append(&r->out, body.data, body.size) : mt_ok();
}

/* An answer of words alone, for people who look. */
static mt_status refuse(struct gng_request *r, int status, const char *why)
{
    return answer(r, status, why, (mt_view){0});
}

static mt_status get(struct gng_rendezvous *v, struct gng_request *r, const char *name)
{
    struct gng_value *value = *value_at(v, name);
    return value ? answer(r, 200, "OK", mt_buf_view(&value->bytes)) : refuse(r, 404, "not there yet");
}

static mt_status put(struct gng_rendezvous *v, struct gng_request *r, const char *name, mt_view body)
{
    struct gng_value *before = *value_at(v, name);
    size_t            freed = before ? before->bytes.size : 0;
    if (!before && v->count >= MT_GANG_HTTP_KEYS_MAX)
        return refuse(r, 507, "too many keys");
    if (v->bytes - freed + body.size > MT_GANG_HTTP_SPACE_BYTES)
        return refuse(r, 507, "too much is kept");
    MT_TRY(value_set(v, name, body));
    return answer(r, 200, "OK", (mt_view){0});
}

/* A rank that has met the others of a scope says so by deleting its number: what it has put there, and beside it as rank_N, goes.
   All of them have read it: they have passed a barrier. */
static mt_status take_away(struct gng_rendezvous *v, struct gng_request *r, const char *name)
{
    char        beside[MT_GANG_HTTP_HEAD_BYTES];
    const char *key = strrchr(name, '/') + 1;
    value_drop(v, value_at(v, name));
    if (isdigit((unsigned char)*key)) {
        snprintf(beside, sizeof beside, "%.*srank_%s", (int)(key - name), name, key);
        value_drop(v, value_at(v, beside));
    }
    return answer(r, 200, "OK", (mt_view){0});
}

/* ---- requests ---- */

/* The size of the body by the lines of the head, which ends with 0; -1: none is said; -2: it is said in another way. */
static int64_t body_size(const char *head)
{
    int64_t size = -1;
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, "Transfer-Encoding:", 18) == 0)
            return -2;
        if (strncasecmp(line, "Content-Length:", 15) != 0)
            continue;
        const char *digits = line + 15 + strspn(line + 15, " ");
        size_t      count = strspn(digits, "0123456789");
        if (size >= 0 || count < 1 || count > 15 || digits[count] != '\r')
            return -2;
        size = strtoll(digits, NULL, 10);
    }
    return size;
}

/* The name in "METHOD /SECRET:PORT/SCOPE/KEY HTTP/1.x"; NULL: it is refused, by *st. `head` is a text, and is cut up. */
static const char *name_of(struct gng_rendezvous *v, struct gng_request *r, char *head, mt_status *st)
{
    char  *path = strchr(head, ' '), *line_end = strstr(head, "\r\n");
    char  *end = path ? strchr(path + 1, ' ') : NULL;
    size_t size = strlen(v->prefix);
    if (!end || end > line_end || strncmp(end, " HTTP/1.", 8) != 0) {
        *st = refuse(r, 400, "no request of HTTP/1");
        return NULL;
    }
    *path++ = 0;
    *end = 0;
    if (strncmp(path, v->prefix, size) != 0) {
        *st = refuse(r, 403, "another secret than this gang's");
        return NULL;
    }
    r->is_known = true;
    if (!name_is_ours(path + size, v->size)) {
        *st = refuse(r, 400, "no scope and key of this gang");
        return NULL;
    }
    return path + size;
}

/* Its head is there: what is wrong with it is said at once, before the body comes. */
static mt_status head_take(struct gng_rendezvous *v, struct gng_request *r)
{
    char head[MT_GANG_HTTP_HEAD_BYTES + 1];
    memcpy(head, r->in.data, r->head);
    head[r->head] = 0;
    if (memchr(head, 0, r->head))
        return refuse(r, 400, "a zero byte");
    mt_status st = mt_ok();
    int64_t   size = body_size(head);
    if (!name_of(v, r, head, &st))
        return st;
    if (strcmp(head, "GET") != 0 && strcmp(head, "PUT") != 0 && strcmp(head, "DELETE") != 0)
        return refuse(r, 405, "GET, PUT and DELETE are understood");
    bool is_put = head[0] == 'P';
    if (size == -2 || (is_put && size < 0))
        return refuse(r, 411, "one Content-Length is wanted");
    if (size > (is_put ? MT_GANG_HTTP_VALUE_BYTES : 0))
        return refuse(r, 413, "the value is too long");
    r->body = size > 0 ? (size_t)size : 0;
    return st;
}

static mt_status request_do(struct gng_rendezvous *v, struct gng_request *r)
{
    char      head[MT_GANG_HTTP_HEAD_BYTES + 1];
    mt_status st = mt_ok();
    memcpy(head, r->in.data, r->head);
    head[r->head] = 0;
    const char *name = name_of(v, r, head, &st);
    switch (name ? head[0] : 0) {
    case 'G': return get(v, r, name);
    case 'P': return put(v, r, name, mt_view_of(r->in.data + r->head, r->body));
    case 'D': return take_away(v, r, name);
    default: return st;
    }
}

mt_status gng_request_take(struct gng_rendezvous *v, struct gng_request *r, mt_view bytes)
{
    if (r->is_done)
        return mt_ok();
    MT_TRY(mt_buf_append(&r->in, bytes.data, bytes.size));
    if (!r->head) {
        size_t         seen = r->in.size < MT_GANG_HTTP_HEAD_BYTES ? r->in.size : MT_GANG_HTTP_HEAD_BYTES;
        const uint8_t *end = seen ? memmem(r->in.data, seen, "\r\n\r\n", 4) : NULL;
        if (!end)
            return seen == MT_GANG_HTTP_HEAD_BYTES ? refuse(r, 431, "the head is too long") : mt_ok();
        r->head = (size_t)(end + 4 - r->in.data);
        MT_TRY(head_take(v, r));
    }
    if (r->is_done || r->in.size - r->head < r->body)
        return mt_ok();
    return request_do(v, r);
}

void gng_request_fini(struct gng_request *r)
{
    mt_buf_fini(&r->in);
    mt_buf_fini(&r->out);
    *r = (struct gng_request){0};
}
