/* Uses memory as it is told on its standard input, a socket: `u` uses some pages, `o` all others. Says so when it has. */
#include "memory.h"

enum { PAGES = 5000, USED = 256 };

int main(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    char word;
    while (read(STDIN_FILENO, &word, 1) == 1) {
        uint64_t page = word == 'u' ? 0 : USED, end = word == 'u' ? USED : PAGES;
        for (; page < end; page++) CHECK(holds(memory, page, 1));
        CHECK(write(STDIN_FILENO, &word, 1) == 1);
    }
    return 0;
}
