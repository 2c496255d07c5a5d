/* A program that cannot become another one, and ends by quick_exit: its own functions are called before its report. */
#include "memory.h"

static void at_the_end(void) { puts("ends"); fflush(stdout); }

int main(void) {
    CHECK(unsetenv("LD_PRELOAD") == 0);
    CHECK(execl("/there/is/no/such/file", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(at_quick_exit(at_the_end) == 0);
    quick_exit(0);
}
