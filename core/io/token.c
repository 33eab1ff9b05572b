/* SPDX-License-Identifier: Apache-2.0
 *
 * token.c - see token.h. Owns nothing; any thread.
 */
#include "core/io/token.h"

#include "core/base/rng.h"
#include "core/io/private.h"

#include <stdio.h>
#include <string.h>

mt_status io_token_make(const char *path, struct io_token *out_token)
{
    unsigned char   bits[IO_TOKEN_HEX / 2];
    struct io_token token;
    char            line[IO_TOKEN_HEX + 2];

    MT_TRY(io_make_private_parent(path));
    MT_TRY(mt_random_bytes(bits, sizeof bits));
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(token.hex + 2 * i, 3, "%02x", bits[i]);
    explicit_bzero(bits, sizeof bits);

    snprintf(line, sizeof line, "%s\n", token.hex);
    mt_status st = io_private_write(path, mt_view_of(line, IO_TOKEN_HEX + 1), false);
    explicit_bzero(line, sizeof line);
    if (!st.code)
        *out_token = token;
    io_token_wipe(&token);
    return st;
}

mt_status io_token_read(const char *path, struct io_token *out_token)
{
    mt_buf    text = {0};
    mt_status st = io_private_read(path, IO_TOKEN_HEX + 1, &text);
    if (!st.code) {
        if (text.size && text.data[text.size - 1] == '\n')
            text.data[text.size - 1] = '\0';
        st = io_token_parse((const char *)text.data, out_token);
        if (st.code)
            st = mt_error(MT_ECORRUPT, 0, "it does not hold 64 hexadecimal digits");
    }
    io_private_wipe(&text);
    return st;
}

mt_status io_token_parse(const char *text, struct io_token *out_token)
{
    if (strnlen(text, IO_TOKEN_HEX + 1) != IO_TOKEN_HEX || strspn(text, "0123456789abcdef") != IO_TOKEN_HEX)
        return mt_error(MT_EAUTH, 0, "a token is 64 hexadecimal digits");
    memcpy(out_token->hex, text, sizeof out_token->hex);
    return mt_ok();
}

bool io_token_equal(const struct io_token *token, const char *text, size_t size)
{
    unsigned differs = 0;
    if (size != IO_TOKEN_HEX)
        return false;
    for (size_t i = 0; i < IO_TOKEN_HEX; i++)
        differs |= (unsigned)(unsigned char)token->hex[i] ^ (unsigned)(unsigned char)text[i];
    __asm__ volatile("" : "+r"(differs)); /* no early way out of the loop for the compiler to find */
    return differs == 0;
}

void io_token_wipe(struct io_token *token)
{
    explicit_bzero(token, sizeof *token);
}
