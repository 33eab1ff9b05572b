/* SPDX-License-Identifier: Apache-2.0
 *
 * port.h - a TCP port for a gang, on this machine: below those that the kernel gives out by itself, free now, and no other gang's.
 */
#ifndef GNG_PORT_H
#define GNG_PORT_H

#include "core/base/status.h"

/* A port is kept by an abstract unix socket that bears its number: one network namespace has one of each, it goes with its process
 * however that ends, and no file is left. */
struct gng_port {
    int number; /* 0: none */
    int held;   /* the socket; -1: none */
};

/* EAGAIN: none of those tried is free. ESYS. */
MT_MUST_USE mt_status gng_port_take(struct gng_port *port);
void                  gng_port_drop(struct gng_port *port);

#endif
