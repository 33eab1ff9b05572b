/* SPDX-License-Identifier: Apache-2.0
 *
 * stand_in.c - see stand_in.h. Owns nothing. Thread: any.
 */
#include "tests/bench/cluster/crowd/stand_in.h"

#include "core/base/release.h"

#include <stdio.h>

static void message_begin(struct stand_in_says *s)
{
    manta__v1__node_to_head__init(&s->message);
    for (int i = 0; i < 2; i++) {
        manta__v1__resource__init(&s->items[i]);
        s->list[i] = &s->items[i];
    }
    s->items[0].name = "CPU";
    s->items[0].milli = 64000;
    s->items[1].name = "memory";
    s->items[1].milli = INT64_C(256) << 30;
}

void stand_in_comes(struct stand_in_says *s, uint32_t number, uint64_t boot)
{
    Manta__V1__Register *r = &s->coming;
    message_begin(s);
    snprintf(s->name, sizeof s->name, "worker-%05u", number);
    snprintf(s->address, sizeof s->address, "10.0.%u.%u:40001", number / 256, number % 256);
    snprintf(s->data, sizeof s->data, "10.0.%u.%u:40002", number / 256, number % 256);
    manta__v1__register__init(r);
    r->version_min = r->version_max = mt_release.wire.max;
    r->boot = boot;
    r->name = s->name;
    r->address = s->address;
    r->data_address = s->data;
    r->total = s->list;
    r->n_total = 2;
    s->message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    s->message.register_ = r;
}

void stand_in_reports(struct stand_in_says *s, uint64_t version)
{
    Manta__V1__Report *r = &s->report;
    message_begin(s);
    manta__v1__report__init(r);
    r->version = version;
    r->free = s->list;
    r->n_free = 2;
    s->message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    s->message.report = r;
}
