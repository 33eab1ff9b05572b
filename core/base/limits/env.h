/* SPDX-License-Identifier: Apache-2.0
 *
 * env.h - limits of runtime environments and programs that travel.
 */
#ifndef MT_LIMITS_ENV_H
#define MT_LIMITS_ENV_H

enum {
    MT_RLT_USERS_MAX = 1 << 20,        /* of --job-users */
    MT_ENV_MIB_MAX = 500,              /* of files in one (working_dir, files and code); Ray's limit too */
    MT_ENV_FILES_MAX = 100 * 1000,     /* entries of one archive */
    MT_ENV_VARS_BYTES_MAX = 32 * 1024, /* of env_vars, those of the environments that it builds on included */
    MT_ENV_FOLDERS_DEEP_MAX = 64,
    MT_ENVS_MAX = 64,                    /* of one job on one node */
    MT_ENV_CACHE_MIB_MAX = 8 * 1024,     /* of unpacked files on one node; what nobody uses is removed at once */
    MT_ENV_JOBS_MAX = 4096,              /* archives that wait to be unpacked or removed on one node */
    MT_ENV_READ_BYTES = 256 * 1024,      /* read or written at a time */
    MT_PROGRAM_LIBRARIES_MAX = 128,      /* shared libraries that travel with a job's program */
    MT_PROGRAM_MIB_MAX = 4 * 1024,       /* a program and its libraries */
    MT_PROGRAM_CACHE_MIB_MAX = 8 * 1024, /* of other nodes' programs on one node; those that nobody runs go first */
    MT_PROGRAM_REFUSED_MAX = 1024,       /* sums of files that a node's installation only seemed to have, which it keeps in mind */
    MT_PROGRAM_CHECKS_MAX = 4096,        /* checks of program files that wait for the thread of the disk */
    MT_ENV_TEXT_BYTES_MAX = 400,         /* of what went wrong; its end included */
};

#endif
