/* The same with an allocator that is locked in every fork: the program is not paged. */
#define LOCKS_IN_FORKS
#include "allocator.c"
