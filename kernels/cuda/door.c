/* SPDX-License-Identifier: Apache-2.0
 *
 * door.c - finds and opens the CUDA plugin, and says what is missing where it can't.
 *
 * Owns:   one record per process: the opened table and the last text. The plugin stays until the process ends, since its
 *         table and its texts must.
 * Thread: any; opening is under a lock.
 */
#include "kernels/cuda/door.h"
#include "kernels/cuda/plugin.h"
#include "kernels/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

static struct {
    pthread_mutex_t     lock;
    const struct k_ops *ops; /* of the device that this process has; NULL: none yet */
    int                 device;
    bool                tf32;
    char                text[K_CUDA_TEXT];
} door = {.lock = PTHREAD_MUTEX_INITIALIZER, .text = "CUDA was not asked for"};

static mt_status missing(const char *what, const char *detail)
{
    snprintf(door.text, sizeof door.text, "no GPU: %.300s%s%.60s", what, detail ? ": " : "", detail ? detail : "");
    return mt_error(MT_EUNSUPPORTED, 0, door.text);
}

#define PLUGIN_NAME "libmanta_cuda.so"
#ifdef MANTA_CUDA_BUILT
#define NOT_BUILT NULL
#else
#define NOT_BUILT "this build has no CUDA part"
#endif

/* The driver's library, and how many GPUs it shows. Neither makes a context. */
static mt_status driver_look(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return missing("the NVIDIA driver's library libcuda.so.1 is not there", NULL);
    int (*begin)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(driver, "cuInit");
    int (*count)(int *) = (int (*)(int *))(uintptr_t)dlsym(driver, "cuDeviceGetCount");
    int devices = 0, code = begin && count ? begin(0) : -1;
    if (code == 0)
        code = count(&devices);
    char number[32];
    snprintf(number, sizeof number, "CUresult %d", code);
    if (code != 0)
        return missing("the NVIDIA driver does not start", number);
    if (devices == 0)
        return missing("the NVIDIA driver shows no device (is CUDA_VISIBLE_DEVICES empty?)", NULL);
    return mt_ok();
}

static mt_status probe(char path[PATH_MAX])
{
    char      why[K_PLUGIN_TEXT];
    mt_status st = k_plugin_find(PLUGIN_NAME, "MANTA_CUDA_PLUGIN", path, why);
    return st.code == 0 ? driver_look() : missing(why, NOT_BUILT);
}

static mt_status open_plugin(const struct k_config *config)
{
    char path[PATH_MAX];
    MT_TRY(probe(path));
    char        why[K_PLUGIN_TEXT];
    const void *symbol;
    if (k_plugin_open(path, K_CUDA_SYMBOL, &symbol, why).code != 0)
        return missing(why, NULL);
    const struct k_cuda_plugin *plugin = symbol;
    if (plugin->abi != K_CUDA_ABI || plugin->ops_size != sizeof(struct k_ops))
        return missing("the CUDA plugin is of another build", path);
    MT_TRY(plugin->open(config->device, config->tf32, &door.ops, door.text));
    door.device = config->device;
    door.tf32 = config->tf32;
    return mt_ok();
}

static mt_status choose(const struct k_config *config)
{
    if (!door.ops)
        return open_plugin(config);
    if (door.device != config->device || door.tf32 != config->tf32)
        return mt_error(MT_EINVAL, 0, "choose kernels: this process has another device or precision already");
    return mt_ok();
}

mt_status k_cuda_probe(void)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&door.lock);
    mt_status st = probe(path);
    if (st.code == 0 && !door.ops)
        snprintf(door.text, sizeof door.text, "an NVIDIA driver with a GPU, and the CUDA plugin");
    pthread_mutex_unlock(&door.lock);
    return st;
}

mt_status k_cuda_choose(const struct k_config *config, const struct k_ops **out_ops)
{
    if (config->device < 0)
        return mt_error(MT_EINVAL, 0, "choose kernels: negative number of a device");
    pthread_mutex_lock(&door.lock);
    mt_status st = choose(config);
    *out_ops = st.code == 0 ? door.ops : *out_ops;
    pthread_mutex_unlock(&door.lock);
    return st;
}

const char *k_cuda_text(void)
{
    return door.text;
}
