/* The one file's own program: finds its unpacked tree, makes or repairs it when it must, and becomes the program there.
 *
 * Static, so that it runs on every host and can say what is missing there. Environment and arguments go on unchanged.
 * It never touches /tmp. `kvedge --verify` compares every byte of the tree and of this file.
 */
#define _GNU_SOURCE
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define DATA_DIRECTORY "/var/lib/kvedge"
/* For starter.c. */
#define FILE_VARIABLE "_KVEDGE_FILE"
/* Whoever removes old trees holds all for as long as it takes to see that nobody uses one. */
enum { PATIENCE_MS = 3000, PAUSE_MS = 10, ATTEMPTS = 3 };

/* As kvedge/runtime/settings.py has it, but for the configuration file: --data-dir, then $KVEDGE_DATA_DIR. */
static const char *data_directory(int argc, char **argv)
{
    const char *found = getenv("KVEDGE_DATA_DIR");

    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strncmp(argv[i], "--data-dir=", 11))
            found = argv[i] + 11;
        else if (!strcmp(argv[i], "--data-dir") && i + 1 < argc)
            found = argv[i + 1];
    }
    return found && found[0] == '/' ? found : DATA_DIRECTORY;
}

static bool cache_directory(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && cache[0] == '/')
        return snprintf(path, size, "%s/kvedge", cache) < (int)size;
    return home && home[0] == '/' && snprintf(path, size, "%s/.cache/kvedge", home) < (int)size;
}

/* mkdir -p; whether it is there afterwards and we may make files in it. */
static bool make_place(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    bool made = true;
    mode_t mask = umask(022);

    for (const char *slash = path + 1; slash; slash = strchr(slash, '/')) {
        slash += *slash == '/';
        const char *end = strchrnul(slash, '/');
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = 0;
        made = !mkdir(part, mode) || errno == EEXIST;
        if (!made)
            break;
    }
    umask(mask);
    return made && !faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS);
}

/* Keep those who remove old trees from it until this has become a program of the tree, which they see. A file of the
 * owner's: others cannot hold it to delay a start. Whoever may not open it has another try when the tree goes. */
static int hold(const char *place)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/.starts", place) >= (int)sizeof path)
        return -1;
    int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    for (int waited = 0; lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) && waited < PATIENCE_MS; waited += PAUSE_MS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    return lock;
}

/* The tree, or -1; fails when somebody else could have put it there. */
static int open_tree(const char *path)
{
    struct stat status;
    int tree = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (tree >= 0 && (fstat(tree, &status) || (status.st_uid && status.st_uid != geteuid()) || status.st_mode & 022))
        fail(EXIT_OF_HOST, "%s belongs to another user, or others may write there: remove it", path);
    return tree;
}

static size_t make_undisturbed(struct bundle *bundle, const char *place, bool thorough)
{
    sigset_t kept, held;

    /* A Ctrl-C waits for half a second, and leaves nothing behind. */
    sigemptyset(&held);
    sigaddset(&held, SIGINT), sigaddset(&held, SIGTERM), sigaddset(&held, SIGHUP), sigaddset(&held, SIGQUIT);
    sigprocmask(SIG_BLOCK, &held, &kept);
    mode_t mask = umask(022);
    size_t damaged = tree_make(bundle, place, thorough);
    umask(mask);
    sigprocmask(SIG_SETMASK, &kept, NULL);
    return damaged;
}

static void need_execution(const char *place)
{
    struct statvfs mounted;

    if (!statvfs(place, &mounted) && mounted.f_flag & ST_NOEXEC)
        fail(EXIT_OF_HOST, "%s is on a file system that is mounted noexec, and kvedge runs from there: mount it without, "
             "or name another directory with --data-dir%s", place, geteuid() ? " or XDG_CACHE_HOME" : "");
}

static void run(const struct bundle *bundle, const char *tree, char **argv)
{
    char program[PATH_MAX];

    snprintf(program, sizeof program, "%s/kvedge", tree);
    setenv(FILE_VARIABLE, bundle->path, 1);
    execv(program, argv);
    unsetenv(FILE_VARIABLE);
    if (errno == ENOENT && !access(program, F_OK))
        fail(EXIT_OF_HOST, "%s cannot run on this host: it needs the GNU C library of Debian 12 or newer", program);
    if (errno != ENOENT)
        fail(EXIT_OF_HOST, "%s cannot be run: %s", program, strerror(errno));
}

/* Run from `place`, in which the tree may be and else is made; returns when that cannot be for want of rights. */
static void run_from(struct bundle *bundle, const char *place, mode_t mode, char **argv)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", place, bundle->id) >= (int)sizeof path)
        fail(EXIT_OF_HOST, "%s is too long a path", place);
    int held = hold(place);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int tree = open_tree(path);
        if (tree < 0 || tree_check(bundle, tree, false)) {
            if (tree >= 0)
                close(tree);
            if (!make_place(place, mode)) {
                int why = errno;
                close(held);
                errno = why;
                return;
            }
            held = held < 0 ? hold(place) : held;
            need_execution(place);
            make_undisturbed(bundle, place, false);
            continue;
        }
        need_execution(place);
        run(bundle, path, argv);
        close(tree);
    }
    fail(EXIT_OF_HOST, "%s vanishes or changes again and again; look who removes it", path);
}

static int verify(struct bundle *bundle, const char *place)
{
    if (!make_place(place, 0755))
        fail(EXIT_OF_HOST, "%s cannot be written: %s", place, strerror(errno));
    bundle_verify(bundle);
    size_t damaged = make_undisturbed(bundle, place, true);
    printf("%s/%s: %zu files, ", place, bundle->id, bundle->count);
    printf(damaged ? "%zu of them written anew\n" : "all as they were built\n", damaged);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bundle bundle;
    char place[PATH_MAX], cache[PATH_MAX];
    bool verifying = argc == 2 && !strcmp(argv[1], "--verify");

    bundle_open(&bundle);
    const char *data = data_directory(argc, argv);
    if (snprintf(place, sizeof place, "%s/data", data) >= (int)sizeof place)
        fail(EXIT_OF_HOST, "%s is too long a path", data);
    bool own = geteuid() && cache_directory(cache, sizeof cache);
    if (verifying)
        return verify(&bundle, own && !make_place(place, 0755) ? cache : place);
    run_from(&bundle, place, 0755, argv);
    int why = errno;
    if (own)
        run_from(&bundle, cache, 0700, argv), why = errno;
    fail(EXIT_OF_HOST, "kvedge unpacks itself to %s, which cannot be made or written: %s; name another directory with %s",
         own ? cache : place, strerror(why), geteuid() ? "XDG_CACHE_HOME, or set HOME" : "--data-dir");
}
