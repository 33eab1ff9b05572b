/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - a strict pull reader. Owns nothing. Thread: any.
 */
#include "sgd/json.h"

#include <string.h>

static mt_status bad(const char *what)
{
    return mt_error(MT_ECORRUPT, 0, what);
}

static void blanks_skip(struct sgd_json *json)
{
    while (json->next < json->end && memchr(" \t\r\n", *json->next, 4))
        json->next++;
}

bool sgd_json_try(struct sgd_json *json, char symbol)
{
    blanks_skip(json);
    if (json->next == json->end || *json->next != symbol)
        return false;
    json->next++;
    return true;
}

mt_status sgd_json_take(struct sgd_json *json, char symbol)
{
    return sgd_json_try(json, symbol) ? mt_ok() : bad("JSON: another symbol was expected");
}

mt_status sgd_json_end(struct sgd_json *json)
{
    blanks_skip(json);
    return json->next == json->end ? mt_ok() : bad("JSON: something follows its end");
}

mt_status sgd_json_u64(struct sgd_json *json, uint64_t *out)
{
    uint64_t value = 0;

    blanks_skip(json);
    const char *first = json->next;
    for (; json->next < json->end && *json->next >= '0' && *json->next <= '9'; json->next++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*json->next - '0'), &value))
            return bad("JSON: number too large");
    if (json->next == first || (*first == '0' && json->next - first > 1))
        return bad("JSON: an unsigned number was expected");
    if (json->next < json->end && strchr(".eE", *json->next) && *json->next)
        return bad("JSON: a whole number was expected");
    *out = value;
    return mt_ok();
}

/* Where a string's bytes go; out == NULL counts them only. */
struct sink {
    char *out;
    size_t size, used;
};

static mt_status sink_put(struct sink *sink, unsigned byte)
{
    if (sink->out) {
        if (byte == 0 || sink->used + 1 >= sink->size)
            return bad("JSON: string too long or holds NUL");
        sink->out[sink->used] = (char)byte;
    }
    sink->used++;
    return mt_ok();
}

static mt_status sink_put_utf8(struct sink *sink, uint32_t c)
{
    if (c < 0x80)
        return sink_put(sink, c);
    if (c < 0x800) {
        MT_TRY(sink_put(sink, 0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            MT_TRY(sink_put(sink, 0xe0 | c >> 12));
        } else {
            MT_TRY(sink_put(sink, 0xf0 | c >> 18));
            MT_TRY(sink_put(sink, 0x80 | (c >> 12 & 0x3f)));
        }
        MT_TRY(sink_put(sink, 0x80 | (c >> 6 & 0x3f)));
    }
    return sink_put(sink, 0x80 | (c & 0x3f));
}

/* The four digits of \uXXXX. */
static mt_status hex4(struct sgd_json *json, uint32_t *out)
{
    uint32_t value = 0;
    if (json->end - json->next < 4)
        return bad("JSON: string without end");
    for (int i = 0; i < 4; i++) {
        char c = *json->next++;
        unsigned digit = c >= '0' && c <= '9'                 ? (unsigned)(c - '0')
                         : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)((c | 32) - 'a' + 10)
                                                              : 16;
        if (digit == 16)
            return bad("JSON: bad escape");
        value = value << 4 | digit;
    }
    *out = value;
    return mt_ok();
}

static mt_status unicode_escape(struct sgd_json *json, struct sink *sink)
{
    uint32_t c, low;
    MT_TRY(hex4(json, &c));
    if (c >= 0xd800 && c < 0xdc00) {
        if (json->end - json->next < 2 || json->next[0] != '\\' || json->next[1] != 'u')
            return bad("JSON: half a surrogate pair");
        json->next += 2;
        MT_TRY(hex4(json, &low));
        if (low < 0xdc00 || low > 0xdfff)
            return bad("JSON: half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return bad("JSON: half a surrogate pair");
    }
    return sink_put_utf8(sink, c);
}

static mt_status escape(struct sgd_json *json, struct sink *sink)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (json->next == json->end)
        return bad("JSON: string without end");
    char c = *json->next++;
    if (c == 'u')
        return unicode_escape(json, sink);
    const char *found = c ? strchr(names, c) : NULL;
    return found ? sink_put(sink, (unsigned char)values[found - names]) : bad("JSON: bad escape");
}

static mt_status string_read(struct sgd_json *json, struct sink *sink)
{
    MT_TRY(sgd_json_take(json, '"'));
    while (json->next < json->end) {
        unsigned char c = (unsigned char)*json->next++;
        if (c == '"')
            return mt_ok();
        if (c < 0x20)
            return bad("JSON: control character in a string");
        MT_TRY(c == '\\' ? escape(json, sink) : sink_put(sink, c));
    }
    return bad("JSON: string without end");
}

mt_status sgd_json_string(struct sgd_json *json, char *out, size_t size)
{
    struct sink sink = {out, size, 0};
    MT_TRY(string_read(json, &sink));
    out[sink.used] = '\0';
    return mt_ok();
}

mt_status sgd_json_string_skip(struct sgd_json *json)
{
    struct sink sink = {0};
    return string_read(json, &sink);
}
