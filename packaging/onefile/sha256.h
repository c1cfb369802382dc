/* SHA-256 (FIPS 180-4), for unpack.c: a static program has no other library than libc and the decompressor. */
#ifndef KVEDGE_SHA256_H
#define KVEDGE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *data, size_t size);
void sha256_final(struct sha256 *hash, uint8_t digest[SHA256_SIZE]);

#endif
