/* A program that comes to need more than its budget by mremap, and ends with its last thread, which is not the first. */
#include "memory.h"

#include <pthread.h>

enum { FEW = 1500, PAGES = 12000 };

static uint64_t *memory;

static void *check(void *first) {
    CHECK(pthread_join(*(pthread_t *)first, NULL) == 0);
    wait_until_paged(memory, PAGES);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 5));
    return NULL;
}

int main(void) {
    static pthread_t first, last;
    memory = map_pages(FEW);
    for (uint64_t page = 0; page < FEW; page++) fill(memory, page, 5);
    memory = mremap(memory, FEW * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED);
    for (uint64_t page = FEW; page < PAGES; page++) fill(memory, page, 5);
    first = pthread_self();
    CHECK(pthread_create(&last, NULL, check, &first) == 0);
    pthread_exit(NULL);
}
