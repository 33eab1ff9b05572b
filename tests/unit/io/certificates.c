/* SPDX-License-Identifier: Apache-2.0
 *
 * certificates.c - see certificates.h.
 */
#include "tests/unit/io/certificates.h"

#include "tests/unit/io/io_test.h"

struct io_tls *node_tls, *rogue_tls;

static char folder[80];

static void tls_load(const char *name, struct io_tls **out)
{
    char dir[120], path[160];
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    snprintf(path, sizeof path, "%s/node.pem", dir);
    assert_ok(io_tls_make(dir, "c1"));
    assert_ok(io_tls_load(path, out));
}

int certificates_begin(void **state)
{
    (void)state;
    temp_dir(folder, sizeof folder);
    tls_load("ours", &node_tls);
    tls_load("rogue", &rogue_tls);
    return 0;
}

int certificates_end(void **state)
{
    static const char *const files[] = {
        "ours/ca.pem", "ours/head.pem", "ours/node.pem", "rogue/ca.pem", "rogue/head.pem", "rogue/node.pem", "ours", "rogue", ""};
    char path[160];
    (void)state;
    io_tls_free(node_tls);
    io_tls_free(rogue_tls);
    node_tls = rogue_tls = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal(remove(path), 0);
    }
    return 0;
}
