/* SPDX-License-Identifier: Apache-2.0
 *
 * sign.c - what the cluster's authority signs, and how it is asked (issue.h).
 *
 * Keys are on the curve P-256, signatures ECDSA with SHA-256. Owns nothing beyond the call. Any thread.
 */
#include "core/io/private.h"
#include "core/io/tls/private.h"

#include "core/base/rng.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const titles[] = {[IO_TLS_HEAD] = "Manta head", [IO_TLS_NODE] = "Manta node", [IO_TLS_TICKET] = "Manta ticket"};

static bool add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, &context, kind, value);
    bool            is_added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_added;
}

/* ---- serial numbers: 01, for whom, and chance; the first byte keeps the length ---- */

static bool set_serial(X509 *certificate, uint64_t id)
{
    uint8_t bytes[1 + IO_TLS_SERIAL_BYTES] = {1};
    if (mt_random_bytes(bytes + 9, 8).code)
        return false;
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(id >> (56 - 8 * i));
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool    is_set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return is_set;
}

/* ---- certificates ---- */

/* All that certificates have in common. */
static bool begin(X509 *certificate, EVP_PKEY *key, const char *name, const struct io_tls_grant *grant)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    return X509_set_version(certificate, 2) == 1 && set_serial(certificate, grant->id) &&
           ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)grant->from_s) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)grant->until_s) && X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1;
}

bool io_tls_authority_make(struct io_tls_authority *a)
{
    char                name[IO_TLS_NAME_SIZE];
    int64_t             now = (int64_t)time(NULL), day_s = INT64_C(24) * 60 * 60;
    struct io_tls_grant grant = {.from_s = now - day_s, .until_s = now + MT_TLS_AUTHORITY_DAYS * day_s};
    snprintf(name, sizeof name, "Manta cluster %.40s", a->cluster);
    X509 *c = a->certificate = X509_new();
    a->key = EVP_EC_gen("P-256");
    return c && a->key && begin(c, a->key, name, &grant) && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
           add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(c, c, NID_key_usage, "critical,keyCertSign") && add_extension(c, c, NID_subject_key_identifier, "hash") &&
           X509_sign(c, a->key, EVP_sha256()) > 0;
}

/* NULL: no memory. */
static X509 *make_leaf(const struct io_tls_authority *a, const struct io_tls_grant *grant, EVP_PKEY *key)
{
    char name[IO_TLS_NAME_SIZE], dns[IO_TLS_NAME_SIZE + 8];
    io_tls_name(a->cluster, grant->role, name);
    snprintf(dns, sizeof dns, "DNS:%s", name);
    X509 *c = X509_new();
    if (c && key && begin(c, key, titles[grant->role], grant) &&
        X509_set_issuer_name(c, X509_get_subject_name(a->certificate)) == 1 &&
        add_extension(c, a->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(c, a->certificate, NID_key_usage, "critical,digitalSignature") &&
        add_extension(c, a->certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
        add_extension(c, a->certificate, NID_authority_key_identifier, "keyid") &&
        add_extension(c, a->certificate, NID_subject_alt_name, dns) && X509_sign(c, a->key, EVP_sha256()) > 0)
        return c;
    X509_free(c);
    return NULL;
}

mt_status io_tls_write_pem(X509 *certificate, EVP_PKEY *key, X509 *authority, mt_buf *out)
{
    char     *text = NULL;
    BIO      *bio = BIO_new(BIO_s_secmem());
    mt_status st = mt_error(MT_ENOMEM, 0, "write a certificate");
    if (bio && (!certificate || PEM_write_bio_X509(bio, certificate) == 1) &&
        (!key || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1) &&
        (!authority || PEM_write_bio_X509(bio, authority) == 1)) {
        long size = BIO_get_mem_data(bio, &text);
        st = mt_buf_append(out, text, (size_t)size);
    }
    BIO_free(bio); /* wipes it */
    return st;
}

mt_status io_tls_issue(const struct io_tls_authority *a, const struct io_tls_grant *grant, mt_buf *out)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509     *leaf = make_leaf(a, grant, key);
    mt_status st = leaf ? io_tls_write_pem(leaf, key, a->certificate, out) : mt_error(MT_ENOMEM, 0, "make a certificate");
    X509_free(leaf);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return st;
}

/* ---- requests ---- */

/* Only the key counts: who asks is known by his connection. */
static mt_status request_read(mt_view bytes, X509_REQ **out)
{
    char                 group[32] = "";
    const unsigned char *at = bytes.data;
    X509_REQ *request = bytes.size && bytes.size <= MT_TLS_REQUEST_BYTES_MAX ? d2i_X509_REQ(NULL, &at, (long)bytes.size) : NULL;
    EVP_PKEY *key = request && at == bytes.data + bytes.size ? X509_REQ_get0_pubkey(request) : NULL;
    bool      is_fine = key && EVP_PKEY_get_group_name(key, group, sizeof group, NULL) == 1 && !strcmp(group, "prime256v1") &&
                   X509_REQ_verify(request, key) == 1;
    ERR_clear_error();
    if (is_fine) {
        *out = request;
        return mt_ok();
    }
    X509_REQ_free(request);
    return mt_error(MT_EPROTO, 0, "it is no request for a certificate, signed with its own key of P-256");
}

mt_status io_tls_request_check(mt_view bytes)
{
    X509_REQ *request;
    MT_TRY(request_read(bytes, &request));
    X509_REQ_free(request);
    return mt_ok();
}

mt_status io_tls_sign(const struct io_tls_authority *a, const struct io_tls_grant *grant, mt_view bytes, mt_buf *out)
{
    X509_REQ *request;
    MT_TRY(request_read(bytes, &request));
    X509     *leaf = make_leaf(a, grant, X509_REQ_get0_pubkey(request));
    mt_status st = leaf ? io_tls_write_pem(leaf, NULL, a->certificate, out) : mt_error(MT_ENOMEM, 0, "make a certificate");
    X509_free(leaf);
    X509_REQ_free(request);
    ERR_clear_error();
    return st;
}

mt_status io_tls_ask(mt_buf *out_request, mt_buf *out_key)
{
    unsigned char *bytes = NULL;
    EVP_PKEY      *key = EVP_EC_gen("P-256");
    X509_REQ      *request = X509_REQ_new();
    mt_status      st = mt_error(MT_ENOMEM, 0, "make a key");
    bool is_made = key && request && X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, EVP_sha256()) > 0;
    int  size = is_made ? i2d_X509_REQ(request, &bytes) : 0;
    if (size > 0)
        st = mt_buf_append(out_request, bytes, (size_t)size);
    if (!st.code)
        st = io_tls_write_pem(NULL, key, NULL, out_key);
    OPENSSL_free(bytes);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return st;
}
