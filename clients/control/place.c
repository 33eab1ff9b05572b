/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - where the cluster is: its head's address, and the files of its token and certificates.
 *
 * head.addr, which the head writes into its runtime folder:
 *     127.0.0.1:6380
 *     token_file=/run/manta/token
 *     tls_file=/run/manta/tls/node.pem     where it speaks TLS; insecure=1 where it speaks in clear beyond loopback
 *     heads=127.0.0.1:6380,127.0.0.1:6381   all that are there, where there are several
 *     pid=123
 */
#include "clients/control/control.h"

#include "core/sys/file.h"
#include "core/sys/folder.h"
#include "core/text/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 64 * 1024 };

static bool is_folder_name(const char *text)
{
    return strchr(text, '/') != NULL;
}

static bool copy(char *out, size_t size, const char *text)
{
    return snprintf(out, size, "%s", text) < (int)size;
}

/* A short text file as one string; NULL: errno says why. */
static char *read_file(const char *path)
{
    char *text = malloc(FILE_MAX + 1);
    if (!text || mt_file_read(path, text, FILE_MAX + 1) >= 0)
        return text;
    int sys = errno;
    free(text);
    errno = sys;
    return NULL;
}

/* Takes the first line with "key=" and copies what follows; true where there is one and it fits. */
static bool find_line(const char *text, const char *key, char *out, size_t size)
{
    size_t key_size = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t length = strcspn(line, "\r\n");
        if (strncmp(line, key, key_size) == 0 && length - key_size < size && length > key_size) {
            memcpy(out, line + key_size, length - key_size);
            out[length - key_size] = '\0';
            return true;
        }
    }
    return false;
}

/* What is not known yet. */
static void find_secrets(const char *text, struct ctl_place *place)
{
    char insecure[8];
    if (!place->token_file[0])
        (void)find_line(text, "token_file=", place->token_file, sizeof place->token_file);
    if (!place->tls_file[0])
        (void)find_line(text, "tls_file=", place->tls_file, sizeof place->tls_file);
    if (find_line(text, "insecure=", insecure, sizeof insecure) && strcmp(insecure, "1") == 0)
        place->is_insecure = true;
}

static bool read_address_file(struct ctl_place *place)
{
    char *text = read_file(place->address_file);
    if (!text)
        return false;
    size_t length = strcspn(text, "\r\n");
    bool   is_fine = length > 0 && length < sizeof place->address && text[length] != '\0';
    if (is_fine) {
        memcpy(place->address, text, length);
        place->address[length] = '\0';
        place->heads[0] = '\0';
        (void)find_line(text, "heads=", place->heads, sizeof place->heads);
        find_secrets(text, place);
    }
    free(text);
    return is_fine;
}

bool ctl_place_refresh(struct ctl_place *place)
{
    struct ctl_place now = *place;
    if (!place->address_file[0] || !read_address_file(&now))
        return false;
    bool has_moved = strcmp(now.address, place->file_address) != 0;
    memcpy(place->heads, now.heads, sizeof place->heads);
    memcpy(place->file_address, now.address, sizeof place->file_address);
    if (has_moved)
        memcpy(place->address, now.address, sizeof place->address);
    return has_moved;
}

/* A head that stands by may have sent us on to one that its list does not have (any more). */
bool ctl_place_has_others(const struct ctl_place *place)
{
    size_t count = mt_address_count(place->heads);
    return count > 1 || (count == 1 && mt_address_find(place->heads, place->address) == SIZE_MAX);
}

bool ctl_place_turn(struct ctl_place *place, int32_t code, const char *detail)
{
    static const char key[] = "leader=";
    char              next[CTL_ADDRESS_SIZE] = "";
    size_t            count = mt_address_count(place->heads);
    if (code == MT_ENOTLEADER && strncmp(detail, key, sizeof key - 1) == 0)
        (void)copy(next, sizeof next, detail + sizeof key - 1);
    if (!next[0] && ctl_place_has_others(place)) {
        size_t at = mt_address_find(place->heads, place->address);
        (void)mt_address_at(place->heads, at == SIZE_MAX ? 0 : (at + 1) % count, next, sizeof next);
    }
    if (!next[0] || strcmp(next, place->address) == 0)
        return false;
    memcpy(place->address, next, sizeof next);
    return true;
}

/* `text` is host:port or a runtime folder. */
static manta_status use(struct ctl_place *place, const char *text, const char *from, manta_error *e)
{
    if (!is_folder_name(text)) {
        if (!strchr(text, ':') || !copy(place->heads, sizeof place->heads, text) ||
            !mt_address_at(text, 0, place->address, sizeof place->address))
            return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE,
                            "address \"%.200s\" (%s): give host:port (of several heads: with commas), or the head's runtime "
                            "folder",
                            text, from);
        return MANTA_OK;
    }
    if (snprintf(place->address_file, sizeof place->address_file, "%s/head.addr", text) >= CTL_PATH_SIZE)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "address (%s): the path is too long", from);
    errno = 0;
    if (read_address_file(place)) {
        memcpy(place->file_address, place->address, sizeof place->file_address);
        return MANTA_OK;
    }
    if (errno && errno != ENOENT) /* EACCES, ENOTDIR, ...: one may run there all the same */
        return ctl_fail(e, errno == EACCES ? MT_EAUTH : MT_ECONN, MANTA_NOT_DONE, "%.200s/head.addr (%s) can't be read: %s", text,
                        from, strerror(errno));
    return ctl_fail(e, MT_ECONN, MANTA_NOT_DONE,
                    "no head runs in %.200s (%s): its file head.addr %s; start one by: manta start "
                    "--head",
                    text, from, errno ? "is not there" : "names no address");
}

/* The settings file: MANTA_CONFIG, else ~/.manta/config, which need not exist. */
static manta_status use_config(struct ctl_place *place, manta_error *e)
{
    const char *named = getenv("MANTA_CONFIG"), *home = getenv("HOME");
    char        path[CTL_PATH_SIZE] = "", address[CTL_PATH_SIZE] = "";
    bool        fits = named && named[0] ? copy(path, sizeof path, named)
                                         : home && snprintf(path, sizeof path, "%s/.manta/config", home) < CTL_PATH_SIZE;
    char       *text = fits ? read_file(path) : NULL;
    if (!text && named && named[0])
        return ctl_fail(e, MT_ENOENT, MANTA_NOT_DONE, "MANTA_CONFIG names %.300s: %s", named, strerror(errno));
    if (!text)
        return MANTA_OK;
    find_secrets(text, place);
    (void)find_line(text, "address=", address, sizeof address);
    free(text);
    return address[0] ? use(place, address, path, e) : MANTA_OK;
}

static manta_status use_this_machine(struct ctl_place *place, manta_error *e)
{
    char      folder[CTL_PATH_SIZE];
    mt_status usual = mt_folder_usual(folder, sizeof folder);
    if (usual.code)
        return ctl_fail(e, usual.code, MANTA_NOT_DONE, "no cluster is named, and one of this machine would be in %.200s: %s",
                        folder, usual.what);
    manta_status st = use(place, folder, "the runtime folder of this user", e);
    if (st == MANTA_OK || st == MT_EAUTH)
        return st;
    return ctl_fail(e, MT_ENOENT, MANTA_NOT_DONE,
                    "no cluster is named (option, MANTA_ADDRESS, settings file) and none runs "
                    "in %.200s: start one by manta start --head, or set MANTA_ADDRESS=host:port",
                    folder);
}

static manta_status find_address(const manta_client_opts *opts, struct ctl_place *out, manta_error *e)
{
    const char *named = getenv("MANTA_ADDRESS");
    if (opts->address)
        return use(out, opts->address, "option address", e);
    if (named && named[0])
        return use(out, named, "MANTA_ADDRESS", e);
    manta_status st = use_config(out, e);
    if (st == MANTA_OK && !out->address[0])
        st = use_this_machine(out, e);
    return st;
}

manta_status ctl_place_find(const manta_client_opts *opts, struct ctl_place *out, manta_error *e)
{
    const char *token = opts->token_file ? opts->token_file : getenv("MANTA_TOKEN_FILE");
    const char *tls = opts->tls_file ? opts->tls_file : getenv("MANTA_TLS_FILE");
    memset(out, 0, sizeof *out);
    out->is_insecure = opts->insecure;
    if (token && !copy(out->token_file, sizeof out->token_file, token))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the token file's path is too long");
    if (tls && !copy(out->tls_file, sizeof out->tls_file, tls))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the TLS file's path is too long");
    manta_status st = find_address(opts, out, e);
    if (st != MANTA_OK)
        return st;
    if (!out->token_file[0]) { /* an address alone: the settings file may name the token */
        struct ctl_place other = {0};
        (void)use_config(&other, NULL);
        memcpy(out->token_file, other.token_file, sizeof out->token_file);
        if (!out->tls_file[0])
            memcpy(out->tls_file, other.tls_file, sizeof out->tls_file);
    }
    if (!out->token_file[0])
        return ctl_fail(e, MT_EAUTH, MANTA_NOT_DONE,
                        "the cluster at %s needs its token: set MANTA_TOKEN_FILE to a copy of "
                        "the head's token file (mode 0600)",
                        out->address);
    return MANTA_OK;
}
