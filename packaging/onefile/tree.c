/* Unpacks, checks and repairs the tree. Nothing is ever seen half done: a new tree gets its name when all of it is on
 * the disk, a repaired file replaces the damaged one in one step. What a killed predecessor left is swept away.
 */
#define _GNU_SOURCE
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#define STAGED ".part-"
#define REPLACEMENT ".new"
/* What a file takes beyond its bytes: half a block on average, and its name. */
enum { OVERHEAD = 4096 };

static const char *removed_on_failure;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static _Noreturn void give_up(const char *place, const char *doing)
{
    int why = errno;

    if (removed_on_failure)
        remove_tree(removed_on_failure);
    if (why == ENOSPC || why == EDQUOT)
        fail(EXIT_OF_HOST, "the disk is full: kvedge cannot unpack itself to %s; make room there, or name another "
             "directory with --data-dir", place);
    fail(EXIT_OF_HOST, "kvedge cannot unpack itself to %s: %s: %s", place, doing, strerror(why));
}

static bool same_bytes(int tree, const struct entry *entry)
{
    static uint8_t buffer[1 << 16];
    uint8_t digest[SHA256_SIZE];
    char found[2 * SHA256_SIZE + 1];
    struct sha256 hash;
    ssize_t got;
    int file = openat(tree, entry->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (file < 0)
        return false;
    sha256_init(&hash);
    while ((got = read(file, buffer, sizeof buffer)) > 0)
        sha256_update(&hash, buffer, (size_t)got);
    close(file);
    sha256_final(&hash, digest);
    hex(digest, found);
    return got == 0 && !strcmp(found, entry->digest);
}

static bool is_whole(const struct bundle *bundle, int tree, const struct entry *entry, bool thorough)
{
    struct stat status;

    return !fstatat(tree, entry->path, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode) &&
           (uint64_t)status.st_size == entry->size && status.st_mtime == bundle->stamp &&
           (status.st_mode & 07777) == entry->mode && (status.st_uid == 0 || status.st_uid == geteuid()) &&
           (!thorough || same_bytes(tree, entry));
}

size_t tree_check(struct bundle *bundle, int tree, bool thorough)
{
    size_t damaged = 0;

    for (size_t i = 0; i < bundle->count; i++) {
        struct entry *entry = &bundle->entries[i];
        entry->damaged = !is_whole(bundle, tree, entry, thorough);
        damaged += entry->damaged;
    }
    return damaged;
}

static int make_parents(int tree, const char *path)
{
    char part[PATH_MAX];

    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = 0;
        if (mkdirat(tree, part, 0755) && errno != EEXIST)
            return -1;
    }
    return 0;
}

/* Where the decompressed bytes go: from file to file, those that are whole are passed over. */
struct sink {
    const struct bundle *bundle;
    const char *place;
    size_t index;
    uint64_t written;
    int tree, file;
};

static void begin_file(struct sink *sink, const struct entry *entry)
{
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s" REPLACEMENT, entry->path);
    unlinkat(sink->tree, name, 0);
    if (make_parents(sink->tree, entry->path))
        give_up(sink->place, entry->path);
    sink->file = openat(sink->tree, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, entry->mode);
    if (sink->file < 0)
        give_up(sink->place, entry->path);
}

static void end_file(struct sink *sink, const struct entry *entry)
{
    struct timespec times[2] = {{.tv_sec = sink->bundle->stamp}, {.tv_sec = sink->bundle->stamp}};
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s" REPLACEMENT, entry->path);
    if (fchmod(sink->file, entry->mode) || futimens(sink->file, times) ||
        /* A tree that is new as a whole is synced as a whole. */
        (!removed_on_failure && fsync(sink->file)) || close(sink->file) ||
        renameat(sink->tree, name, sink->tree, entry->path))
        give_up(sink->place, entry->path);
    sink->file = -1;
}

static void take(struct sink *sink, const uint8_t *data, size_t size)
{
    while (sink->index < sink->bundle->count) {
        const struct entry *entry = &sink->bundle->entries[sink->index];
        uint64_t left = entry->size - sink->written;
        size_t part = size < left ? size : (size_t)left;
        if (entry->damaged && sink->file < 0)
            begin_file(sink, entry);
        for (size_t done = 0; entry->damaged && done < part;) {
            ssize_t wrote = write(sink->file, data + done, part - done);
            if (wrote < 0)
                give_up(sink->place, entry->path);
            done += (size_t)wrote;
        }
        sink->written += part, data += part, size -= part;
        if (sink->written < entry->size)
            return;
        if (entry->damaged)
            end_file(sink, entry);
        sink->index++;
        sink->written = 0;
    }
    errno = EFBIG;
    if (size)
        give_up(sink->place, "more than the list of files says");
}

static void write_files(const struct bundle *bundle, const char *place, int tree)
{
    static uint8_t buffer[1 << 18];
    struct sink sink = {.bundle = bundle, .place = place, .tree = tree, .file = -1};
    ZSTD_inBuffer in = {.src = bundle->payload, .size = bundle->payload_size};
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_outBuffer out = {.dst = buffer, .size = sizeof buffer};
    size_t state;

    errno = ENOMEM;
    if (!stream)
        give_up(place, "decompressing");
    do {
        out.pos = 0;
        state = ZSTD_decompressStream(stream, &out, &in);
        errno = EBADMSG;
        if (ZSTD_isError(state))
            give_up(place, ZSTD_getErrorName(state));
        take(&sink, buffer, out.pos);
        /* A full buffer may have more behind it, also after the last input. */
    } while (state && (in.pos < in.size || out.pos == out.size));
    ZSTD_freeDStream(stream);
    errno = EBADMSG;
    if (sink.index < bundle->count)
        give_up(place, "less than the list of files says");
}

static void sweep(const char *place)
{
    DIR *directory = opendir(place);
    struct dirent *found;
    char path[PATH_MAX];

    while (directory && (found = readdir(directory)))
        if (!strncmp(found->d_name, STAGED, strlen(STAGED)) &&
            snprintf(path, sizeof path, "%s/%s", place, found->d_name) < (int)sizeof path)
            remove_tree(path);
    if (directory)
        closedir(directory);
}

static void need_room(const struct bundle *bundle, const char *place)
{
    struct statvfs space;
    uint64_t needed = 0;

    for (size_t i = 0; i < bundle->count; i++)
        needed += bundle->entries[i].damaged ? bundle->entries[i].size + OVERHEAD : 0;
    if (statvfs(place, &space))
        give_up(place, "statvfs");
    uint64_t blocks = geteuid() ? space.f_bavail : space.f_bfree;
    uint64_t room = blocks * space.f_frsize;
    if (room < needed)
        fail(EXIT_OF_HOST, "the disk is full: kvedge unpacks itself to %s, which takes %llu MB, and %llu MB are free; "
             "make room there, or name another directory with --data-dir", place,
             (unsigned long long)(needed >> 20) + 1, (unsigned long long)room >> 20);
}

static void make_new(struct bundle *bundle, const char *place, const char *target)
{
    static char staged[PATH_MAX];
    int directory = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    snprintf(staged, sizeof staged, "%s/" STAGED "XXXXXX", place);
    if (directory < 0 || !mkdtemp(staged))
        give_up(place, "making a directory");
    removed_on_failure = staged;
    int tree = open(staged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0 || fchmod(tree, 0755))
        give_up(place, staged);
    write_files(bundle, place, tree);
    close(tree);
    if (syncfs(directory) || rename(staged, target) || fsync(directory))
        give_up(place, "writing it to the disk");
    removed_on_failure = NULL;
    close(directory);
}

size_t tree_make(struct bundle *bundle, const char *place, bool thorough)
{
    char path[PATH_MAX];
    size_t damaged = bundle->count;

    snprintf(path, sizeof path, "%s/.lock", place);
    int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX))
        give_up(place, path);
    sweep(place);
    snprintf(path, sizeof path, "%s/%s", place, bundle->id);
    int tree = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0 && errno != ENOENT)
        give_up(place, path);
    /* Somebody may have made it while this waited. */
    if (tree >= 0)
        damaged = tree_check(bundle, tree, thorough);
    else
        for (size_t i = 0; i < bundle->count; i++)
            bundle->entries[i].damaged = true;
    if (damaged) {
        bundle_verify(bundle);
        need_room(bundle, place);
        if (tree >= 0)
            write_files(bundle, place, tree);
        else
            make_new(bundle, place, path);
    }
    if (tree >= 0)
        close(tree);
    close(lock);
    return damaged;
}
