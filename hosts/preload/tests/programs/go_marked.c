/* A program with the mark of Go's linker, which does what Go does: it maps memory by the C library's function, and gives it
   up by system calls of its own. It runs unpaged. */
#include "memory.h"
#include "go.h"

__asm__(GO_MARK ".previous");

enum { PAGES = 12000, PART = 2000 };

int main(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    give_time_to_page(memory, PAGES);
    discard_by_itself(memory, PART);
    for (uint64_t page = PART; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
