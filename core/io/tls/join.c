/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - see join.h. Owns nothing.
 */
#include "core/io/tls/join.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "manta-join ";

mt_status io_join_write(const struct io_join *join, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, "%s1\naddress=%s\ntoken=%s\n", magic, join->address, join->token.hex));
    return mt_buf_append(out, join->certificates.data, join->certificates.size);
}

/* The next line without its end; false: there is none, or it has no end. */
static bool take_line(mt_view *text, mt_view *out)
{
    const uint8_t *end = text->size ? memchr(text->data, '\n', text->size) : NULL;
    if (!end)
        return false;
    *out = mt_view_of(text->data, (size_t)(end - text->data));
    *text = mt_view_of(end + 1, text->size - out->size - 1);
    return true;
}

/* "key=value" as a string; false: it is another line, too long, or holds what no value does. */
static bool take_value(mt_view *text, const char *key, char *out, size_t size)
{
    mt_view line;
    size_t  length = strlen(key);
    if (!take_line(text, &line) || line.size <= length || line.size - length >= size || memcmp(line.data, key, length))
        return false;
    for (size_t i = length; i < line.size; i++)
        if (line.data[i] <= ' ' || line.data[i] >= 127)
            return false;
    memcpy(out, line.data + length, line.size - length);
    out[line.size - length] = '\0';
    return true;
}

mt_status io_join_read(mt_view text, struct io_join *out)
{
    static const char begin[] = "-----BEGIN ";
    struct io_join    join;
    char              token[IO_TOKEN_HEX + 1];
    mt_view           line;
    if (!take_line(&text, &line) || line.size < sizeof magic - 1 || memcmp(line.data, magic, sizeof magic - 1))
        return mt_error(MT_EPROTO, 0, "its first line is not \"manta-join 1\": it is no file to join a cluster with");
    if (line.size != sizeof magic || line.data[sizeof magic - 1] != '1')
        return mt_error(MT_EVERSION, 0, "it is of another version of Manta");
    if (!take_value(&text, "address=", join.address, sizeof join.address) || !strchr(join.address, ':'))
        return mt_error(MT_EPROTO, 0, "its second line is not address=HOST:PORT");
    if (!take_value(&text, "token=", token, sizeof token) || io_token_parse(token, &join.token).code)
        return mt_error(MT_EPROTO, 0, "its third line is not token= and 64 hexadecimal digits");
    explicit_bzero(token, sizeof token);
    if (text.size < sizeof begin || memcmp(text.data, begin, sizeof begin - 1))
        return mt_error(MT_EPROTO, 0, "the certificates are not in it");
    join.certificates = text;
    *out = join;
    io_token_wipe(&join.token);
    return mt_ok();
}
