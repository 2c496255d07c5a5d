/* Sizes that overflow. */
#include "memory.h"

#include <malloc.h>

/* What no allocation can have; unknown to the compiler. */
static volatile size_t most = SIZE_MAX, half = (size_t)PTRDIFF_MAX + 1;

#define CHECK_REFUSED(allocation)                   \
    do {                                            \
        errno = 0;                                  \
        void *volatile given = (allocation);        \
        CHECK(given == NULL && errno == ENOMEM);    \
    } while (0)

static void check_sizes_that_overflow(void) {
    for (size_t below = 0; below < 3 * PAGE; below += 100) {
        CHECK_REFUSED(malloc(most - below));
        CHECK_REFUSED(valloc(most - below));
        CHECK_REFUSED(pvalloc(most - below));
        CHECK_REFUSED(memalign(64, most - below));
        CHECK_REFUSED(aligned_alloc(1 << 16, most - below));
        CHECK_REFUSED(calloc(1, most - below));
        CHECK_REFUSED(realloc(NULL, most - below));
        void *none = NULL;
        CHECK(posix_memalign(&none, PAGE, most - below) == ENOMEM && none == NULL);
    }
    CHECK_REFUSED(malloc(half));
    CHECK_REFUSED(calloc(half, 2));
    CHECK_REFUSED(calloc(most / 16 + 2, 16));
    CHECK_REFUSED(reallocarray(NULL, half, 2));
    char *volatile kept = malloc(100);
    CHECK(kept);
    memset(kept, 1, 100);
    CHECK_REFUSED(realloc(kept, half));
    CHECK_REFUSED(reallocarray(kept, half, 2));
    CHECK(kept[0] == 1 && kept[99] == 1);
    free(kept);
}

int main(void) {
    check_sizes_that_overflow();
    return 0;
}
