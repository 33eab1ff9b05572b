/* SPDX-License-Identifier: Apache-2.0
 *
 * name.c - what stands in a certificate: role and cluster, as a name; for whom, as the beginning of its serial number; its end.
 *
 * Pure. Any thread.
 */
#include "core/io/tls/private.h"

#include <openssl/x509v3.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const role_names[] = {[IO_TLS_HEAD] = "head", [IO_TLS_NODE] = "node", [IO_TLS_TICKET] = "ticket"};
enum { ROLES = sizeof role_names / sizeof role_names[0] };

void io_tls_name(const char *cluster, enum io_tls_role role, char out[IO_TLS_NAME_SIZE])
{
    snprintf(out, IO_TLS_NAME_SIZE, "%s.%s.manta", role_names[role], cluster);
}

bool io_tls_name_of(const X509 *certificate, enum io_tls_role *out_role, char cluster[IO_TLS_CLUSTER_SIZE])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool           is_found = false;
    for (int i = 0; !is_found && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char                role[8], end[8], text[IO_TLS_NAME_SIZE];
        if (name->type != GEN_DNS || ASN1_STRING_length(name->d.dNSName) >= (int)sizeof text)
            continue;
        snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(name->d.dNSName),
                 (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        if (sscanf(text, "%7[a-z].%63[a-zA-Z0-9-].%7s", role, cluster, end) != 3 || strcmp(end, "manta"))
            continue;
        for (int r = 0; r < ROLES && !is_found; r++) {
            is_found = !strcmp(role, role_names[r]);
            *out_role = (enum io_tls_role)r;
        }
    }
    GENERAL_NAMES_free(names);
    return is_found;
}

uint64_t io_tls_id_of(const X509 *certificate)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    const uint8_t      *bytes = ASN1_STRING_get0_data(serial);
    uint64_t            id = 0;
    if (ASN1_STRING_type(serial) != V_ASN1_INTEGER || ASN1_STRING_length(serial) != 1 + IO_TLS_SERIAL_BYTES || bytes[0] != 1)
        return 0;
    for (int i = 0; i < 8; i++)
        id = id << 8 | bytes[1 + i];
    return id;
}

int64_t io_tls_end_of(const X509 *certificate)
{
    struct tm end;
    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 ? (int64_t)timegm(&end) : 0;
}
