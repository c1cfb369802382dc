/* The unpacked tree: whether it is whole, and how it becomes so. */
#ifndef KVEDGE_TREE_H
#define KVEDGE_TREE_H

#include "bundle.h"

/* Mark what is missing or changed in the tree behind a descriptor; how many files that are. Sizes, times, modes and
 * owners are compared; with `thorough` also every byte. */
size_t tree_check(struct bundle *bundle, int tree, bool thorough);

/* Make a whole tree at `place`/id, a directory that exists; one that is there and damaged is repaired, file by file,
 * so that programs that run from it go on. Only one process at a time does this. How many files it wrote. */
size_t tree_make(struct bundle *bundle, const char *place, bool thorough);

#endif
