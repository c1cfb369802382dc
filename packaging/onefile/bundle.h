/* What the one file carries behind its own program: see bundle.c for the layout. */
#ifndef KVEDGE_BUNDLE_H
#define KVEDGE_BUNDLE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sha256.h"

/* kvedge/cli/exits.py. */
enum { EXIT_BROKEN = 1, EXIT_OF_HOST = 5 };

struct entry {
    const char *path;   /* relative to the tree */
    const char *digest; /* 64 hexadecimal digits */
    uint64_t size;
    mode_t mode;
    bool damaged;
};

struct bundle {
    char path[PATH_MAX]; /* of the one file */
    char id[2 * SHA256_SIZE + 1];
    const uint8_t *manifest, *payload;
    size_t manifest_size, payload_size;
    uint64_t tree_size; /* bytes of all files */
    int64_t stamp;      /* the time that every file of the tree carries, in seconds since 1970 */
    struct entry *entries;
    size_t count;
};

/* Ends the program with a text for the user: `error: …`. */
_Noreturn void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Read this program's own file; fails when it was cut or changed so that it makes no sense. */
void bundle_open(struct bundle *bundle);

/* Fails unless all of the content is what was built. */
void bundle_verify(const struct bundle *bundle);

void hex(const uint8_t *digest, char *text);

#endif
