/* Reads the one file:
 *
 *     this program | manifest | payload | trailer
 *
 * manifest  a line for each file of the tree, sorted: mode (octal), size, SHA-256, path
 * payload   the content of all files, one after the other, compressed with zstd
 * trailer   80 bytes: the mark, four little-endian numbers of 64 bits (size of manifest, of payload, of the unpacked
 *           files; their time stamp) and the SHA-256 of manifest and payload, which names the tree
 *
 * A warm start believes the trailer and the manifest; whoever unpacks checks the digest first.
 */
#define _GNU_SOURCE
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "\nkvedge bundle 1"
enum { MARK_SIZE = 16, TRAILER_SIZE = MARK_SIZE + 4 * 8 + SHA256_SIZE };

void fail(int code, const char *format, ...)
{
    va_list arguments;

    fputs("error: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(code);
}

static _Noreturn void broken(const struct bundle *bundle, const char *why)
{
    fail(EXIT_BROKEN, "%s is not as it was built: %s; copy or download it again, and compare it with SHA256SUMS",
         bundle->path, why);
}

void hex(const uint8_t *digest, char *text)
{
    for (int i = 0; i < SHA256_SIZE; i++)
        sprintf(text + 2 * i, "%02x", digest[i]);
}

static uint64_t number(const uint8_t *from)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

static bool is_beneath(const char *path)
{
    return path[0] && path[0] != '/' && strcmp(path, "..") && strncmp(path, "../", 3) && !strstr(path, "/../") &&
           strlen(path) < PATH_MAX / 2;
}

static void read_manifest(struct bundle *bundle)
{
    size_t lines = 0;
    char *text = malloc(bundle->manifest_size + 1);

    if (!text)
        fail(EXIT_OF_HOST, "out of memory");
    memcpy(text, bundle->manifest, bundle->manifest_size);
    text[bundle->manifest_size] = 0;
    for (size_t i = 0; i < bundle->manifest_size; i++)
        lines += text[i] == '\n';
    bundle->entries = calloc(lines + 1, sizeof *bundle->entries);
    if (!bundle->entries)
        fail(EXIT_OF_HOST, "out of memory");
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        struct entry *entry = &bundle->entries[bundle->count++];
        char *rest;
        *end = 0;
        entry->mode = (mode_t)strtoul(line, &rest, 8) & 0755;
        entry->size = strtoull(rest, &rest, 10);
        entry->digest = rest + 1;
        if (strlen(rest) < 2 * SHA256_SIZE + 3 || rest[2 * SHA256_SIZE + 1] != ' ')
            broken(bundle, "its list of files cannot be read");
        rest[2 * SHA256_SIZE + 1] = 0;
        entry->path = rest + 2 * SHA256_SIZE + 2;
        if (!is_beneath(entry->path))
            broken(bundle, "its list of files leads out of the tree");
    }
}

void bundle_open(struct bundle *bundle)
{
    struct stat status;
    ssize_t length = readlink("/proc/self/exe", bundle->path, sizeof bundle->path - 1);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (length <= 0 || file < 0 || fstat(file, &status))
        fail(EXIT_OF_HOST, "kvedge cannot read its own file: %s (is /proc mounted?)", strerror(errno));
    bundle->path[length] = 0;
    size_t size = (size_t)status.st_size;
    const uint8_t *all = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (all == MAP_FAILED)
        fail(EXIT_OF_HOST, "kvedge cannot read its own file: %s", strerror(errno));
    close(file);

    const uint8_t *trailer = all + size - TRAILER_SIZE;
    if (size < TRAILER_SIZE || memcmp(trailer, MARK, MARK_SIZE))
        broken(bundle, "its end is missing");
    uint64_t manifest_size = number(trailer + MARK_SIZE), payload_size = number(trailer + MARK_SIZE + 8);
    size_t before = size - TRAILER_SIZE;
    if (manifest_size > before || payload_size > before - manifest_size)
        broken(bundle, "a part of it is missing");
    bundle->manifest_size = (size_t)manifest_size;
    bundle->payload_size = (size_t)payload_size;
    bundle->tree_size = number(trailer + MARK_SIZE + 16);
    bundle->stamp = (int64_t)number(trailer + MARK_SIZE + 24);
    bundle->payload = trailer - payload_size;
    bundle->manifest = bundle->payload - manifest_size;
    hex(trailer + MARK_SIZE + 32, bundle->id);
    read_manifest(bundle);
}

void bundle_verify(const struct bundle *bundle)
{
    struct sha256 hash;
    uint8_t digest[SHA256_SIZE];
    char found[2 * SHA256_SIZE + 1];

    sha256_init(&hash);
    /* Side by side in the file. */
    sha256_update(&hash, bundle->manifest, bundle->manifest_size + bundle->payload_size);
    sha256_final(&hash, digest);
    hex(digest, found);
    if (strcmp(found, bundle->id))
        broken(bundle, "its digest is another");
}
