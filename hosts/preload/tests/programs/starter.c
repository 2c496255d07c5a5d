/* Starts a program in every way of the C library, which is to print which. */
#include "memory.h"

#include <spawn.h>

extern char **environ;

enum { WAYS = 10 };

static int start(const char *program, int way) {
    char name[16], *file = strrchr(program, '/') + 1;
    snprintf(name, sizeof name, "way %d", way);
    char *words[] = {file, "a", "b", "c", "d", "e", "f", "g", "h", name, NULL};
    switch (way) {
    case 0: return execve(program, words, environ);
    case 1: return execv(program, words);
    case 2: return execvp(file, words);
    case 3: return execvpe(file, words, environ);
    case 4: return execl(program, file, "a", "b", "c", "d", "e", "f", "g", "h", name, (char *)NULL);
    case 5: return execlp(file, file, name, (char *)NULL);
    case 6: return execle(program, file, "a", "b", "c", "d", "e", "f", name, (char *)NULL, environ);
    case 7: return fexecve(open(program, O_RDONLY | O_CLOEXEC), words, environ);
    case 8:
    case 9: {
        pid_t child;
        int failed = way == 8 ? posix_spawn(&child, program, NULL, NULL, words, environ)
                              : posix_spawnp(&child, file, NULL, NULL, words, environ);
        CHECK(failed == 0);
        join_child(child);
        _exit(0);
    }
    }
    return -1;
}

int main(int count, char **words) {
    CHECK(count == 2);
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(words[1], '/') - words[1]), words[1]);
    CHECK(setenv("PATH", folder, 1) == 0);
    CHECK(execl("/there/is/no/such/file", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(execlp("no-such-program", "x", "y", (char *)NULL) == -1 && errno == ENOENT);
    for (int way = 0; way < WAYS; way++) {
        pid_t child = way % 2 ? vfork() : fork();
        CHECK(child >= 0);
        if (child == 0) {
            start(words[1], way);
            _exit(1);
        }
        join_child(child);
    }
    return 0;
}
