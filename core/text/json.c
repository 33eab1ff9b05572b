/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - the reader and the writer of json.h. Owns nothing. Thread: any.
 */
#include "core/text/json.h"

#include "core/base/real.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 64, LEVELS_MAX = 64 };

static mt_status corrupt(const char *what)
{
    return mt_error(MT_ECORRUPT, 0, what);
}

static void skip_blanks(struct mt_json *json)
{
    while (json->next < json->end && memchr(" \t\r\n", *json->next, 4))
        json->next++;
}

bool mt_json_try(struct mt_json *json, char symbol)
{
    skip_blanks(json);
    if (json->next == json->end || *json->next != symbol)
        return false;
    json->next++;
    return true;
}

mt_status mt_json_take(struct mt_json *json, char symbol)
{
    return mt_json_try(json, symbol) ? mt_ok() : corrupt("JSON: another symbol was expected");
}

bool mt_json_more(struct mt_json *json, char close, bool *first, mt_status *out_status)
{
    bool was_first = *first;
    *first = false;
    *out_status = mt_ok();
    if (mt_json_try(json, close))
        return false;
    if (was_first || mt_json_try(json, ','))
        return true;
    *out_status = corrupt("JSON: a comma or a closing bracket was expected");
    return false;
}

mt_status mt_json_end(struct mt_json *json)
{
    skip_blanks(json);
    return json->next == json->end ? mt_ok() : corrupt("JSON: something follows behind the end");
}

/* ---- strings ---- */

/* Where a string's bytes go: a buffer, or memory of a fixed size, or nowhere. */
struct sink {
    mt_buf *buf;
    char   *out;
    size_t  size, used;
};

static mt_status sink_put(struct sink *sink, const char *bytes, size_t size)
{
    if (sink->buf)
        return mt_buf_append(sink->buf, bytes, size);
    if (!sink->out)
        return mt_ok();
    if (size >= sink->size - sink->used)
        return corrupt("JSON: a string is too long");
    memcpy(sink->out + sink->used, bytes, size);
    sink->used += size;
    return mt_ok();
}

static mt_status take_hex4(struct mt_json *json, uint32_t *out)
{
    uint32_t value = 0;
    if (json->end - json->next < 4)
        return corrupt("JSON: a string does not end");
    for (int i = 0; i < 4; i++) {
        char        c = *json->next++;
        const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!at)
            return corrupt("JSON: a bad \\u in a string");
        value = value * 16 + (uint32_t)(at - digits);
    }
    *out = value;
    return mt_ok();
}

static size_t utf8_put(uint32_t code, char out[4])
{
    if (code < 0x80)
        return out[0] = (char)code, 1;
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> size & 0xff) | code); /* 110, 1110 or 11110 in front */
    return size;
}

static mt_status take_unicode(struct mt_json *json, struct sink *out)
{
    uint32_t code, low;
    char     bytes[4];
    MT_TRY(take_hex4(json, &code));
    if (code >= 0xd800 && code < 0xdc00) {
        if (json->end - json->next < 6 || json->next[0] != '\\' || json->next[1] != 'u')
            return corrupt("JSON: half a surrogate pair in a string");
        json->next += 2;
        MT_TRY(take_hex4(json, &low));
        if (low < 0xdc00 || low > 0xdfff)
            return corrupt("JSON: half a surrogate pair in a string");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code == 0 || (code >= 0xdc00 && code < 0xe000)) {
        return corrupt("JSON: a bad \\u in a string");
    }
    return sink_put(out, bytes, utf8_put(code, bytes));
}

static mt_status take_escape(struct mt_json *json, struct sink *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (json->next == json->end)
        return corrupt("JSON: a string does not end");
    char c = *json->next++;
    if (c == 'u')
        return take_unicode(json, out);
    const char *at = c ? strchr(from, c) : NULL;
    return at ? sink_put(out, &to[at - from], 1) : corrupt("JSON: a bad escape in a string");
}

static mt_status take_string(struct mt_json *json, struct sink *out)
{
    if (!mt_json_try(json, '"'))
        return corrupt("JSON: a string was expected");
    for (;;) {
        const char *start = json->next;
        while (json->next < json->end && (unsigned char)*json->next >= 0x20 && *json->next != '"' && *json->next != '\\')
            json->next++;
        MT_TRY(sink_put(out, start, (size_t)(json->next - start)));
        if (json->next == json->end || (unsigned char)*json->next < 0x20)
            return corrupt("JSON: a string does not end");
        if (*json->next++ == '"')
            return mt_ok();
        MT_TRY(take_escape(json, out));
    }
}

mt_status mt_json_text(struct mt_json *json, mt_buf *out)
{
    struct sink sink = {.buf = out};
    out->size = 0;
    MT_TRY(take_string(json, &sink));
    return mt_buf_terminate(out);
}

mt_status mt_json_string(struct mt_json *json, char *out, size_t size)
{
    struct sink sink = {.out = out, .size = size};
    MT_TRY(take_string(json, &sink));
    out[sink.used] = '\0';
    return mt_ok();
}

mt_status mt_json_string_skip(struct mt_json *json)
{
    struct sink nowhere = {.size = 0};
    return take_string(json, &nowhere);
}

mt_status mt_json_name(struct mt_json *json, mt_buf *out)
{
    MT_TRY(mt_json_text(json, out));
    return mt_json_take(json, ':');
}

/* ---- numbers and words ---- */

/* Copies the word that is next, with an end mark; its length, 0 where there is none or where it is too long. */
static size_t peek_word(struct mt_json *json, char out[NUMBER_BYTES_MAX])
{
    skip_blanks(json);
    size_t size = 0, left = (size_t)(json->end - json->next);
    while (size < left && size < NUMBER_BYTES_MAX - 1 && !memchr(" \t\r\n,:[]{}\"", json->next[size], 11))
        size++;
    if (size == NUMBER_BYTES_MAX - 1)
        size = 0;
    memcpy(out, json->next, size);
    out[size] = '\0';
    return size;
}

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_number(const char *s, bool *out_integer)
{
    s += *s == '-';
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || (*s == '0' && digits > 1))
        return false;
    s += digits;
    *out_integer = *s == '\0';
    if (*s == '.') {
        digits = strspn(++s, "0123456789");
        if (digits == 0)
            return false;
        s += digits;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        digits = strspn(s, "0123456789");
        if (digits == 0)
            return false;
        s += digits;
    }
    return *s == '\0';
}

static bool parse_word(const char *word, struct mt_literal *out)
{
    bool              is_integer;
    struct mt_literal literal = {.kind = MT_LITERAL_REAL};
    if (is_number(word, &is_integer)) {
        literal.real = mt_real_read(word, NULL);
        errno = 0;
        literal.integer = is_integer ? strtoll(word, NULL, 10) : 0;
        literal.kind = is_integer && errno == 0 ? MT_LITERAL_INT : MT_LITERAL_REAL;
    } else if (strcmp(word, "NaN") == 0) {
        literal.real = NAN;
    } else if (strcmp(word, "Infinity") == 0 || strcmp(word, "-Infinity") == 0) {
        literal.real = *word == '-' ? -INFINITY : INFINITY;
    } else if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        literal.kind = MT_LITERAL_BOOL;
        literal.integer = *word == 't';
    } else if (strcmp(word, "null") == 0) {
        literal.kind = MT_LITERAL_NULL;
    } else {
        return false;
    }
    *out = literal;
    return true;
}

mt_status mt_json_u64(struct mt_json *json, uint64_t *out)
{
    char   word[NUMBER_BYTES_MAX];
    size_t size = peek_word(json, word);
    bool   is_integer = false;
    if (size == 0 || *word == '-' || !is_number(word, &is_integer) || !is_integer)
        return corrupt("JSON: an unsigned whole number was expected");
    errno = 0;
    *out = strtoull(word, NULL, 10);
    if (errno)
        return corrupt("JSON: a number is too large");
    json->next += size;
    return mt_ok();
}

mt_status mt_json_bool(struct mt_json *json, mt_buf *text, bool *out)
{
    struct mt_literal literal;
    MT_TRY(mt_json_literal(json, text, &literal));
    *out = literal.kind == MT_LITERAL_BOOL && literal.integer;
    return mt_ok();
}

mt_status mt_json_literal(struct mt_json *json, mt_buf *text, struct mt_literal *out)
{
    char word[NUMBER_BYTES_MAX];
    skip_blanks(json);
    if (json->next < json->end && *json->next == '"') {
        struct mt_literal literal = {.kind = MT_LITERAL_TEXT};
        MT_TRY(mt_json_text(json, text));
        literal.text = (const char *)text->data;
        *out = literal;
        return mt_ok();
    }
    size_t size = peek_word(json, word);
    if (size == 0 || !parse_word(word, out))
        return corrupt("JSON: a string, number, true, false or null was expected");
    json->next += size;
    return mt_ok();
}

mt_status mt_json_real(struct mt_json *json, double *out)
{
    char              word[NUMBER_BYTES_MAX];
    struct mt_literal literal;
    size_t            size = peek_word(json, word);
    if (size == 0 || !parse_word(word, &literal) || literal.kind == MT_LITERAL_BOOL || literal.kind == MT_LITERAL_NULL)
        return corrupt("JSON: a number was expected");
    json->next += size;
    *out = literal.kind == MT_LITERAL_INT ? mt_real_read(word, NULL) : literal.real;
    return mt_ok();
}

/* One step of a skip: a bracket, a name, or a plain value. */
static mt_status skip_one(struct mt_json *json, mt_buf *text, char closes[LEVELS_MAX], int *levels)
{
    struct mt_literal ignored;
    bool              is_object = mt_json_try(json, '{');
    if (!is_object && !mt_json_try(json, '['))
        return mt_json_literal(json, text, &ignored);
    if (*levels == LEVELS_MAX)
        return corrupt("JSON: nested too deeply");
    closes[(*levels)++] = is_object ? '}' : ']';
    return mt_ok();
}

mt_status mt_json_skip(struct mt_json *json)
{
    char      closes[LEVELS_MAX];
    int       levels = 0;
    bool      first = true;
    mt_buf    text = {0};
    mt_status st;
    do {
        int before = levels;
        MT_TRY_GOTO(st, skip_one(json, &text, closes, &levels), done);
        first = levels > before;
        while (levels && !mt_json_more(json, closes[levels - 1], &first, &st)) {
            if (st.code != 0)
                goto done;
            levels--;
            first = false;
        }
        if (levels && closes[levels - 1] == '}')
            MT_TRY_GOTO(st, mt_json_name(json, &text), done);
    } while (levels);
    st = mt_ok();
done:
    mt_buf_fini(&text);
    return st;
}

/* ---- writing ---- */

/* Bytes of the UTF-8 character at `s`; 0: it is none. */
static int utf8_length(const unsigned char *s)
{
    int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : *s >= 0xe0 && *s < 0xf0 ? 3 : *s >= 0xf0 && *s < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool is_surrogate = *s == 0xed && s[1] > 0x9f, is_long = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xf0 && s[1] < 0x90);
    return is_surrogate || is_long || (*s == 0xf4 && s[1] > 0x8f) ? 0 : n;
}

/* Takes one character that is not plain. */
static mt_status put_other(mt_buf *out, const unsigned char **s)
{
    const unsigned char *at = *s;
    int                  n = utf8_length(at);
    *s += n ? n : 1;
    if (*at < ' ')
        return mt_buf_printf(out, "\\u%04x", *at);
    if (*at < 0x80)
        return mt_buf_printf(out, "\\%c", *at);
    return n ? mt_buf_append(out, at, (size_t)n) : mt_buf_append(out, "?", 1);
}

mt_status mt_json_put_text(mt_buf *out, const char *text)
{
    MT_TRY(mt_buf_append(out, "\"", 1));
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t plain = 0; /* a run at a time: texts of journals have hardly any others */
        while (s[plain] >= ' ' && s[plain] < 0x80 && s[plain] != '"' && s[plain] != '\\')
            plain++;
        MT_TRY(mt_buf_append(out, s, plain));
        s += plain;
        if (*s)
            MT_TRY(put_other(out, &s));
    }
    return mt_buf_append(out, "\"", 1);
}

mt_status mt_json_put_real(mt_buf *out, double value)
{
    char text[NUMBER_BYTES_MAX];
    if (!isfinite(value))
        return mt_buf_printf(out, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    mt_real_print(value, text, sizeof text);
    MT_TRY(mt_buf_append(out, text, strlen(text)));
    return strpbrk(text, ".e") ? mt_ok() : mt_buf_append(out, ".0", 2);
}

mt_status mt_json_put_literal(mt_buf *out, const struct mt_literal *literal)
{
    switch (literal->kind) {
    case MT_LITERAL_TEXT: return mt_json_put_text(out, literal->text);
    case MT_LITERAL_INT: return mt_buf_printf(out, "%lld", (long long)literal->integer);
    case MT_LITERAL_REAL: return mt_json_put_real(out, literal->real);
    case MT_LITERAL_BOOL: return mt_buf_printf(out, literal->integer ? "true" : "false");
    case MT_LITERAL_NULL: break;
    }
    return mt_buf_printf(out, "null");
}
