/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.c - a libcuda.so.1 of one device, for tests: what the door to the plugin asks the driver before it opens it.
 */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *out);

__attribute__((visibility("default"))) int cuInit(unsigned flags)
{
    return flags == 0 ? 0 : 1;
}

__attribute__((visibility("default"))) int cuDeviceGetCount(int *out)
{
    *out = 1;
    return 0;
}
