/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - see load.h. Owns nothing.
 */
#include "sgd/watch/load.h"

#define SECOND_NS 1000000000ll

bool sgd_load_works(struct sgd_load *load, int64_t now_ns, const struct sgd_pulse_seen *seen)
{
    bool    is_first = load->second_ns == 0, is_busy = seen->on_disk || seen->ready > 0, was_busy = load->was_busy;
    int64_t passed_ns = now_ns - load->second_ns, had_ms = (int64_t)seen->process_ms - (int64_t)load->process_ms;
    load->was_busy = is_busy;
    if (!is_first && passed_ns < SECOND_NS)
        return was_busy && is_busy;
    load->second_ns = now_ns;
    load->process_ms = seen->process_ms;
    return is_first || (was_busy && is_busy) || had_ms * SGD_WATCH_BACK * 1000000ll >= passed_ns;
}
