/* SPDX-License-Identifier: Apache-2.0
 *
 * address.cpp - C++ that takes the calls' addresses: they are those of the library, and the layout is the header's.
 */
#include <manta.hpp>

#include <dlfcn.h>

static double scale(double x, std::int64_t n)
{
    return x * double(n);
}
MANTA_FUNCTION(scale);

int main(int argc, char **argv)
{
    manta::session  session(argc, argv);
    auto           *call = &manta_call;
    manta_task_opts opts{};
    opts.num_cpus = 1;
    manta_arg args[] = {manta_f64(2.0), manta_i64(21)};
    if (reinterpret_cast<void *>(call) != dlsym(RTLD_DEFAULT, "manta_call"))
        return 1;
    return manta::ref<double>(call("scale", &opts, 2, args)).get() == 42.0 && manta::submit_with<scale>(opts, 2.0, 21).get() == 42.0
               ? 0
               : 2;
}
