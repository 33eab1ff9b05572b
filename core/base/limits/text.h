/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - limits of how long names, labels, paths and messages may be.
 */
#ifndef MT_LIMITS_TEXT_H
#define MT_LIMITS_TEXT_H

enum {
    MT_NAME_BYTES_MAX = 128,   /* of a function, actor, resource, name space, label, tensor; its end included */
    MT_LABELS_BYTES_MAX = 256, /* of all labels of a node, or of a selector; its end included */
    MT_ERROR_BYTES_MAX = 512,  /* message of an error; its end included */
    MT_LOG_LINE_BYTES = 1024,  /* a longer line is cut */
    MT_PATH_BYTES_MAX = 4096,
};

#endif
