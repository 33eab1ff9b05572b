/* SPDX-License-Identifier: Apache-2.0
 *
 * issue.c - the cluster's certificate authority, and the certificates that it signs (tls.h).
 *
 * Keys are on the curve P-256, signatures ECDSA with SHA-256. Owns nothing beyond the call. Blocks (disk). Any thread.
 */
#include "core/io/private.h"
#include "core/io/tls/private.h"

#include "core/base/rng.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A certificate and its key. */
struct issued {
    X509     *certificate;
    EVP_PKEY *key;
};

static void issued_fini(struct issued *i)
{
    X509_free(i->certificate);
    EVP_PKEY_free(i->key);
    *i = (struct issued){0};
}

static bool add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, &context, kind, value);
    bool            is_added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_added;
}

static bool set_serial(X509 *certificate)
{
    uint64_t serial;
    return !mt_random_bytes(&serial, sizeof serial).code &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1) == 1;
}

/* All that certificates have in common. */
static bool begin(X509 *certificate, EVP_PKEY *key, const char *name)
{
    const long day_s = 24L * 60 * 60;
    X509_NAME *subject = X509_get_subject_name(certificate);
    return X509_set_version(certificate, 2) == 1 && set_serial(certificate) &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -day_s) && /* clocks differ */
           X509_gmtime_adj(X509_getm_notAfter(certificate), MT_TLS_DAYS * day_s) && X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool make_authority(struct issued *a, const char *cluster)
{
    char name[IO_TLS_NAME_SIZE];
    snprintf(name, sizeof name, "Manta cluster %.40s", cluster);
    X509 *c = a->certificate = X509_new();
    a->key = EVP_EC_gen("P-256");
    return c && a->key && begin(c, a->key, name) && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
           add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(c, c, NID_key_usage, "critical,keyCertSign") && add_extension(c, c, NID_subject_key_identifier, "hash") &&
           X509_sign(c, a->key, EVP_sha256()) > 0;
}

static bool make_leaf(struct issued *leaf, const struct issued *a, const char *cluster, enum io_tls_role role)
{
    char name[IO_TLS_NAME_SIZE], dns[IO_TLS_NAME_SIZE + 8];
    io_tls_name(cluster, role, name);
    snprintf(dns, sizeof dns, "DNS:%s", name);
    X509 *c = leaf->certificate = X509_new();
    leaf->key = EVP_EC_gen("P-256");
    return c && leaf->key && begin(c, leaf->key, role == IO_TLS_HEAD ? "Manta head" : "Manta node") &&
           X509_set_issuer_name(c, X509_get_subject_name(a->certificate)) == 1 &&
           add_extension(c, a->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(c, a->certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(c, a->certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
           add_extension(c, a->certificate, NID_authority_key_identifier, "keyid") &&
           add_extension(c, a->certificate, NID_subject_alt_name, dns) && X509_sign(c, a->key, EVP_sha256()) > 0;
}

/* Certificate, key, and the authority's certificate where it is another. */
static mt_status write_file(const char *path, const struct issued *i, X509 *authority)
{
    char     *text = NULL;
    BIO      *bio = BIO_new(BIO_s_secmem());
    mt_status st = mt_error(MT_ENOMEM, 0, "write a certificate");
    if (bio && PEM_write_bio_X509(bio, i->certificate) == 1 &&
        PEM_write_bio_PrivateKey(bio, i->key, NULL, NULL, 0, NULL, NULL) == 1 &&
        (!authority || PEM_write_bio_X509(bio, authority) == 1)) {
        long size = BIO_get_mem_data(bio, &text);
        st = io_private_write(path, mt_view_of(text, (size_t)size), true);
    }
    BIO_free(bio); /* wipes it */
    return st;
}

static mt_status read_authority(const char *path, struct issued *a)
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
    return a->certificate && a->key ? mt_ok() : mt_error(MT_ECORRUPT, 0, "ca.pem does not hold a certificate and its key");
}

static mt_status find_authority(const char *path, const char *cluster, bool has_leaf, struct issued *a)
{
    mt_status st = read_authority(path, a);
    if (st.code != MT_ENOENT)
        return st;
    if (has_leaf)
        return mt_error(MT_ENOENT, 0, "head.pem or node.pem is there, but neither the other one nor ca.pem to make it");
    return make_authority(a, cluster) ? write_file(path, a, NULL) : mt_error(MT_ENOMEM, 0, "make a certificate authority");
}

static mt_status make_missing(const char *path, const struct issued *a, const char *cluster, enum io_tls_role role)
{
    struct issued leaf = {0};
    if (access(path, F_OK) == 0)
        return mt_ok();
    mt_status st = make_leaf(&leaf, a, cluster, role) ? write_file(path, &leaf, a->certificate)
                                                      : mt_error(MT_ENOMEM, 0, "make a certificate");
    issued_fini(&leaf);
    return st;
}

mt_status io_tls_make(const char *dir, const char *cluster)
{
    char          ca[PATH_MAX], head[PATH_MAX], node[PATH_MAX];
    struct issued a = {0};
    size_t        size = strlen(cluster);
    if (size == 0 || size >= IO_TLS_CLUSTER_SIZE ||
        strspn(cluster, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != size)
        return mt_error(MT_EINVAL, 0, "a cluster with certificates is named by letters, digits and -, at most 63");
    if (snprintf(ca, sizeof ca, "%s/ca.pem", dir) >= (int)sizeof ca ||
        snprintf(head, sizeof head, "%s/head.pem", dir) >= (int)sizeof head ||
        snprintf(node, sizeof node, "%s/node.pem", dir) >= (int)sizeof node)
        return mt_error(MT_EINVAL, 0, "the path of the certificates is too long");
    MT_TRY(io_make_private_parent(ca));
    bool has_head = access(head, F_OK) == 0, has_node = access(node, F_OK) == 0;
    if (has_head && has_node)
        return mt_ok();
    mt_status st = find_authority(ca, cluster, has_head || has_node, &a);
    if (!st.code)
        st = make_missing(head, &a, cluster, IO_TLS_HEAD);
    if (!st.code)
        st = make_missing(node, &a, cluster, IO_TLS_NODE);
    issued_fini(&a);
    ERR_clear_error();
    return st;
}
