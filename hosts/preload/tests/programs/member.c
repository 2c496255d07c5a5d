/* Has as much memory as it is told on its standard input, a socket: a number of pages is written anew, 0 has all of them
   checked. Answers each with a byte when it is done. */
#include "memory.h"

enum { MOST = 1 << 20 };

int main(void) {
    uint64_t *memory = map_pages(MOST), pages = 0, more;
    while (read(STDIN_FILENO, &more, sizeof more) == sizeof more) {
        CHECK(pages + more <= MOST);
        for (uint64_t page = pages; page < pages + more; page++) fill(memory, page, 1);
        pages += more;
        for (uint64_t page = 0; more == 0 && page < pages; page++) CHECK(holds(memory, page, 1));
        CHECK(write(STDIN_FILENO, "", 1) == 1);
    }
    return 0;
}
