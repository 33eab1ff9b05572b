/* SPDX-License-Identifier: Apache-2.0
 *
 * port_test.c - ports of gangs: none twice, none that the kernel gives out, and none on which somebody listens. In a network of its
 * own, where three ports are left.
 */
#include "clients/gang/rank/port.h"

#include "core/base/limits/gang.h"

#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int listen_at(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void taken(void **state)
{
    (void)state;
    struct gng_port a, b, c;
    int             fd = listen_at(MT_GANG_PORT_MIN + 1);
    assert_int_equal(gng_port_take(&a).code, 0);
    assert_int_equal(gng_port_take(&b).code, 0);
    assert_int_equal(a.number + b.number, 2 * MT_GANG_PORT_MIN + 2); /* the first and the third, in either order */
    assert_int_equal(gng_port_take(&c).code, MT_EAGAIN);
    gng_port_drop(&a);
    close(fd);
    assert_int_equal(gng_port_take(&a).code, 0);
    assert_int_equal(gng_port_take(&c).code, 0);
    assert_int_not_equal(a.number, c.number);
    gng_port_drop(&a), gng_port_drop(&b), gng_port_drop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(taken)};
    FILE                   *f = unshare(CLONE_NEWNET) == 0 ? fopen("/proc/sys/net/ipv4/ip_local_port_range", "we") : NULL;
    if (!f) {
        printf("no network of its own can be had here\n");
        return 77;
    }
    fprintf(f, "%d 60999\n", MT_GANG_PORT_MIN + 3);
    if (fclose(f) != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
