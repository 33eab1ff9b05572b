/* SPDX-License-Identifier: Apache-2.0
 *
 * token.c - see token.h. Owns nothing; any thread.
 */
#include "core/io/token.h"

#include "core/base/rng.h"
#include "core/io/listener.h" /* io_check_private_dir */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mt_status parent_dir(const char *path, char *out, size_t size);
static mt_status write_token(int fd, const struct io_token *token);

mt_status io_token_make(const char *path, struct io_token *out_token)
{
    char dir[PATH_MAX];
    unsigned char bits[IO_TOKEN_HEX / 2];
    struct io_token token;

    MT_TRY(parent_dir(path, dir, sizeof dir));
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return mt_error(MT_ESYS, errno, "make the token's folder");
    MT_TRY(io_check_private_dir(dir));
    MT_TRY(mt_random_bytes(bits, sizeof bits));
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(token.hex + 2 * i, 3, "%02x", bits[i]);
    explicit_bzero(bits, sizeof bits);

    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return mt_error(errno == EEXIST ? MT_EEXIST : MT_ESYS, errno, "make the token file");
    mt_status st = write_token(fd, &token);
    close(fd);
    if (st.code)
        unlink(path);
    else
        *out_token = token;
    io_token_wipe(&token);
    return st;
}

mt_status io_token_read(const char *path, struct io_token *out_token)
{
    char text[IO_TOKEN_HEX + 3]; /* one byte more than a good file has */
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int code = errno == ENOENT ? MT_ENOENT : errno == ELOOP || errno == EACCES ? MT_EAUTH : MT_ESYS;
        return mt_error(code, errno, "open the token file");
    }
    ssize_t size = -1;
    bool is_private =
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
    if (is_private)
        size = read(fd, text, sizeof text - 1);
    close(fd);
    if (!is_private)
        return mt_error(MT_EAUTH, EPERM, "the token file must be a file of this user with mode 0600");
    if (size < 0)
        return mt_error(MT_ESYS, errno, "read the token file");
    text[size] = '\0';
    if (size && text[size - 1] == '\n')
        text[size - 1] = '\0';
    mt_status parsed = io_token_parse(text, out_token);
    explicit_bzero(text, sizeof text);
    return parsed.code ? mt_error(MT_ECORRUPT, 0, "the token file does not hold 64 hexadecimal digits")
                       : parsed;
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

static mt_status parent_dir(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash || length == 0 || length >= size)
        return mt_error(MT_EINVAL, 0, "the token's path must name a folder and a file");
    memcpy(out, path, length);
    out[length] = '\0';
    return mt_ok();
}

static mt_status write_token(int fd, const struct io_token *token)
{
    char line[IO_TOKEN_HEX + 1];
    memcpy(line, token->hex, IO_TOKEN_HEX);
    line[IO_TOKEN_HEX] = '\n';
    ssize_t n = write(fd, line, sizeof line);
    mt_status st = mt_ok();
    if (n != (ssize_t)sizeof line || fsync(fd) < 0) {
        int err = n >= 0 && n < (ssize_t)sizeof line ? ENOSPC : errno;
        st = mt_error(err == ENOSPC || err == EDQUOT ? MT_EDISK_FULL : MT_ESYS, err, "write the token file");
    }
    explicit_bzero(line, sizeof line);
    return st;
}
