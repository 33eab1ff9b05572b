/* SPDX-License-Identifier: Apache-2.0
 *
 * issue.c - the folder with the cluster's authority, and the certificates that lie beside it (issue.h, tls.h).
 *
 * Owns nothing beyond the call. Blocks (disk). Any thread.
 */
#include "core/io/private.h"
#include "core/io/tls/private.h"

#include "core/base/rng.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static mt_status cluster_set(struct io_tls_authority *a, const char *cluster)
{
    size_t size = strlen(cluster);
    if (size == 0 || size >= IO_TLS_CLUSTER_SIZE ||
        strspn(cluster, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != size)
        return mt_error(MT_EINVAL, 0, "a cluster with certificates is named by letters, digits and -, at most 63");
    memcpy(a->cluster, cluster, size + 1);
    return mt_ok();
}

static void authority_fini(struct io_tls_authority *a)
{
    X509_free(a->certificate);
    EVP_PKEY_free(a->key);
}

static mt_status path_set(char out[PATH_MAX], const char *dir, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
               ? mt_ok()
               : mt_error(MT_EINVAL, 0, "the path of the certificates is too long");
}

static mt_status read_authority(const char *path, struct io_tls_authority *a)
{
    mt_buf text = {0};
    MT_TRY(io_private_read(path, MT_TLS_FILE_BYTES_MAX, &text));
    BIO *bio = BIO_new_mem_buf(text.data, (int)text.size);
    if (bio) {
        a->certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        a->key = BIO_reset(bio) == 1 ? PEM_read_bio_PrivateKey(bio, NULL, NULL, "") : NULL;
    }
    BIO_free(bio);
    io_private_wipe(&text);
    ERR_clear_error();
    return a->certificate && a->key ? mt_ok() : mt_error(MT_ECORRUPT, 0, "ca.pem does not hold a certificate and its key");
}

mt_status io_tls_authority_load(const char *dir, const char *cluster, struct io_tls_authority **out)
{
    char path[PATH_MAX];
    MT_TRY(path_set(path, dir, "ca.pem"));
    struct io_tls_authority *a = calloc(1, sizeof *a);
    mt_status                st = a ? cluster_set(a, cluster) : mt_error(MT_ENOMEM, 0, "certificate authority");
    if (!st.code)
        st = read_authority(path, a);
    if (st.code)
        io_tls_authority_free(a);
    else
        *out = a;
    return st;
}

void io_tls_authority_free(struct io_tls_authority *a)
{
    if (a)
        authority_fini(a);
    free(a);
}

/* ---- the folder of a cluster ---- */

static mt_status write_file(const char *path, mt_status st, mt_buf *take_text)
{
    if (!st.code)
        st = io_private_write(path, mt_buf_view(take_text), true);
    io_private_wipe(take_text);
    return st;
}

static mt_status find_authority(const char *path, bool has_leaf, struct io_tls_authority *a)
{
    mt_buf    text = {0};
    mt_status st = read_authority(path, a);
    if (st.code != MT_ENOENT)
        return st;
    if (has_leaf)
        return mt_error(MT_ENOENT, 0, "head.pem or node.pem is there, but neither the other one nor ca.pem to make it");
    if (!io_tls_authority_make(a))
        return mt_error(MT_ENOMEM, 0, "make a certificate authority");
    return write_file(path, io_tls_write_pem(a->certificate, a->key, NULL, &text), &text);
}

/* Of the first certificate in a file; zeroes: it is none of ours. */
static mt_status look(const char *path, uint64_t *out_id, int64_t *out_end_s)
{
    mt_buf text = {0};
    *out_id = 0;
    *out_end_s = 0;
    MT_TRY(io_private_read(path, MT_TLS_FILE_BYTES_MAX, &text));
    BIO  *bio = BIO_new_mem_buf(text.data, (int)text.size);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    if (certificate) {
        *out_id = io_tls_id_of(certificate);
        *out_end_s = io_tls_end_of(certificate);
    }
    X509_free(certificate);
    BIO_free(bio);
    io_private_wipe(&text);
    ERR_clear_error();
    return mt_ok();
}

/* What is missing gets a number of its own; what is old keeps its. The user's own stays as it is. */
static mt_status make_new(const char *path, const struct io_tls_authority *a, enum io_tls_role role)
{
    int64_t             now = (int64_t)time(NULL), end_s = 0;
    struct io_tls_grant grant = {.role = role, .from_s = now - MT_TLS_SLACK_S, .until_s = now + MT_TLS_VALID_S};
    mt_buf              text = {0};
    mt_status           st = look(path, &grant.id, &end_s);
    if (st.code && st.code != MT_ENOENT)
        return st;
    if (!st.code && (grant.id == 0 || end_s - now >= MT_TLS_VALID_S - MT_TLS_RENEW_S))
        return mt_ok();
    if (grant.id == 0) {
        MT_TRY(mt_random_bytes(&grant.id, sizeof grant.id));
        grant.id |= 1; /* not 0 */
    }
    return write_file(path, io_tls_issue(a, &grant, &text), &text);
}

mt_status io_tls_make(const char *dir, const char *cluster)
{
    char                    ca[PATH_MAX], head[PATH_MAX], node[PATH_MAX];
    struct io_tls_authority a = {0};
    MT_TRY(cluster_set(&a, cluster));
    MT_TRY(path_set(ca, dir, "ca.pem"));
    MT_TRY(path_set(head, dir, "head.pem"));
    MT_TRY(path_set(node, dir, "node.pem"));
    MT_TRY(io_make_private_parent(ca));
    bool has_head = access(head, F_OK) == 0, has_node = access(node, F_OK) == 0;
    if (has_head && has_node && access(ca, F_OK) != 0)
        return mt_ok(); /* the user's own */
    mt_status st = find_authority(ca, has_head || has_node, &a);
    if (!st.code)
        st = make_new(head, &a, IO_TLS_HEAD);
    if (!st.code)
        st = make_new(node, &a, IO_TLS_NODE);
    authority_fini(&a);
    ERR_clear_error();
    return st;
}
