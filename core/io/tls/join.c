/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - see join.h. Owns nothing.
 */
#include "core/io/tls/join.h"

#include "core/base/hash.h"
#include "core/base/id.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "manta-join ";

enum { CHECK_HEX = 16 };

static char *check_text(const char *address, mt_view certificates, char out[CHECK_HEX + 1])
{
    uint64_t hash = mt_hash_bytes(MT_HASH_START, address, strlen(address) + 1);
    return mt_hex_text(mt_hash_bytes(hash, certificates.data, certificates.size), CHECK_HEX, out);
}

mt_status io_join_write(const struct io_join *join, mt_buf *out)
{
    char check[CHECK_HEX + 1];
    if (join->is_ticket)
        MT_TRY(mt_buf_printf(out, "%s2\naddress=%s\ncheck=%s\n", magic, join->address,
                             check_text(join->address, join->certificates, check)));
    else
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

static mt_status read_first_line(mt_view *text, bool *out_is_ticket)
{
    mt_view line;
    if (!take_line(text, &line) || line.size < sizeof magic - 1 || memcmp(line.data, magic, sizeof magic - 1))
        return mt_error(MT_EPROTO, 0, "its first line is not \"manta-join 1\" or 2: it is no file to join a cluster with");
    char version = line.size == sizeof magic ? (char)line.data[sizeof magic - 1] : '?';
    *out_is_ticket = version == '2';
    return version == '1' || version == '2' ? mt_ok() : mt_error(MT_EVERSION, 0, "it is of another version of Manta");
}

static mt_status read_token(mt_view *text, struct io_join *join)
{
    char token[IO_TOKEN_HEX + 1];
    bool is_fine = take_value(text, "token=", token, sizeof token) && !io_token_parse(token, &join->token).code;
    explicit_bzero(token, sizeof token);
    return is_fine ? mt_ok() : mt_error(MT_EPROTO, 0, "its third line is not token= and 64 hexadecimal digits");
}

mt_status io_join_read(mt_view text, struct io_join *out)
{
    static const char begin[] = "-----BEGIN ";
    struct io_join    join = {0};
    char              check[CHECK_HEX + 1] = "", wanted[CHECK_HEX + 1];
    MT_TRY(read_first_line(&text, &join.is_ticket));
    if (!take_value(&text, "address=", join.address, sizeof join.address) || !strchr(join.address, ':'))
        return mt_error(MT_EPROTO, 0, "its second line is not address=HOST:PORT");
    if (!join.is_ticket)
        MT_TRY(read_token(&text, &join));
    else if (!take_value(&text, "check=", check, sizeof check))
        return mt_error(MT_EPROTO, 0, "its third line is not check= and 16 hexadecimal digits");
    join.certificates = text;
    mt_status st = mt_ok();
    if (join.is_ticket && strcmp(check, check_text(join.address, text, wanted)) != 0)
        st = mt_error(MT_ECORRUPT, 0, "it was altered on the way: copy it again, or make another ticket (manta token create)");
    else if (text.size < sizeof begin || memcmp(text.data, begin, sizeof begin - 1))
        st = mt_error(MT_EPROTO, 0, "the certificates are not in it");
    else
        *out = join;
    io_token_wipe(&join.token);
    return st;
}
